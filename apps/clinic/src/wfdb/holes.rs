//! Holes of a record: frames that never came, listed in comments of its header.

use std::{fmt::Write as _, ops::Range};

use serde::{Deserialize, Serialize};

/// Most holes that are listed; further ones extend the last.
const HOLES_MAX: usize = 2_000;
/// Word that begins a comment with a hole.
const WORD: &str = "hole";

/// Frames that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// Number of the first one, from 0.
    pub first: u64,
    /// Number of them; at least 1.
    pub frames: u64,
}

impl Hole {
    /// Number of the frame after the last.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.frames)
    }
}

/// All holes of a record, in their order, without two that touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes(Vec<Hole>);

impl Holes {
    /// The holes that the comments of a header list; those that are not in order are left out.
    pub fn of_comments(comments: &[String]) -> Self {
        let mut holes = Self::default();
        for comment in comments.iter().filter(|comment| Self::is_of(comment)) {
            let mut words = comment.split_whitespace().skip(1);
            let mut number = || words.next()?.parse().ok();
            if let (Some(first), Some(frames)) = (number(), number()) {
                holes.add(Hole { first, frames });
            }
        }
        holes
    }

    /// True if a comment lists a hole.
    pub(super) fn is_of(comment: &str) -> bool {
        comment.split_whitespace().next() == Some(WORD)
    }

    /// Adds a hole after all others. One that touches the last extends it, and so does one beyond 2,000 holes.
    pub fn add(&mut self, hole: Hole) {
        let is_full = self.0.len() >= HOLES_MAX;
        let Some(end) = hole.first.checked_add(hole.frames) else {
            return;
        };
        match self.0.last_mut() {
            _ if hole.frames == 0 => {}
            Some(last) if hole.first < last.first + last.frames => {}
            Some(last) if is_full || hole.first == last.first + last.frames => {
                last.frames = end - last.first;
            }
            _ => self.0.push(hole),
        }
    }

    /// The holes.
    pub fn list(&self) -> &[Hole] {
        &self.0
    }

    /// Frames in all holes.
    pub fn frames(&self) -> u64 {
        self.0.iter().map(|hole| hole.frames).sum()
    }

    /// True if a frame is in a hole.
    pub(super) fn has(&self, frame: u64) -> bool {
        let after = self.0.partition_point(|hole| hole.first <= frame);
        after > 0 && frame < self.0[after - 1].end()
    }

    /// The parts of holes within these frames.
    pub fn within(&self, frames: Range<u64>) -> Vec<Hole> {
        let from = self.0.partition_point(|hole| hole.end() <= frames.start);
        let inside = self.0[from..]
            .iter()
            .take_while(|hole| hole.first < frames.end);
        let cut = |hole: &Hole| {
            let first = hole.first.max(frames.start);
            let frames = hole.end().min(frames.end) - first;
            Hole { first, frames }
        };
        inside.map(cut).collect()
    }

    /// Takes frames out of the hole that they are in, which may leave one on either side; not if the list is too long for that.
    pub(super) fn remove(&mut self, frames: Range<u64>) {
        let at = self.0.partition_point(|hole| hole.end() <= frames.start);
        let Some(hole) = self.0.get(at).copied() else {
            return;
        };
        let left = hole.first..frames.start.max(hole.first);
        let right = frames.end.min(hole.end())..hole.end();
        let rest: Vec<Hole> = [left, right]
            .into_iter()
            .filter(|rest| !rest.is_empty())
            .map(|rest| Hole {
                first: rest.start,
                frames: rest.end - rest.start,
            })
            .collect();
        if self.0.len() + rest.len() <= HOLES_MAX + 1 {
            self.0.splice(at..=at, rest);
        }
    }

    /// Appends the comments of a header.
    pub(super) fn write(&self, text: &mut String) {
        for Hole { first, frames } in &self.0 {
            let _ = writeln!(text, "# {WORD} {first} {frames}");
        }
    }
}

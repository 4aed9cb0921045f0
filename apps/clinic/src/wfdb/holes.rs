//! Holes of a record: frames that never came, listed in comments of its header.

use std::fmt::Write as _;

/// Most holes that are listed; further ones extend the last.
const HOLES_MAX: usize = 2_000;
/// Word that begins a comment with a hole.
const WORD: &str = "hole";

/// Frames that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Number of the first one, from 0.
    pub first: u64,
    /// Number of them; at least 1.
    pub frames: u64,
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

    /// The holes before a frame.
    pub(super) fn before(&self, frame: u64) -> Self {
        let cut = |hole: &Hole| Hole {
            first: hole.first,
            frames: hole.frames.min(frame - hole.first),
        };
        let before = self.0.iter().take_while(|hole| hole.first < frame);
        Self(before.map(cut).collect())
    }

    /// Appends the comments of a header.
    pub(super) fn write(&self, text: &mut String) {
        for Hole { first, frames } in &self.0 {
            let _ = writeln!(text, "# {WORD} {first} {frames}");
        }
    }
}

//! Assembly of the frames of one endpoint from sections that arrive on several streams.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::imd::{Frame, Section, Sections};

/// A frame that can be served, or frames that cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// All sections of a frame have arrived.
    Whole(Frame),
    /// So many frames in a row lack a section.
    Skipped(u64),
}

/// Frames of which sections have arrived. Streams are ordered: a section of a later frame means that those before do not come any more.
#[derive(Debug)]
pub(super) struct Assembler {
    wanted: Sections,
    bytes_max: usize,
    /// The next frame to serve or to skip.
    next: u64,
    frames: BTreeMap<u64, Frame>,
    bytes: usize,
    /// The frame after the last one of each section.
    after: [u64; Section::ALL.len()],
}

impl Assembler {
    /// `wanted`: sections of the endpoint; `next`: the first frame of which all are sent; `bytes_max`: memory for frames that are not
    /// whole, beyond which the oldest is given up.
    pub(super) fn new(wanted: Sections, next: u64, bytes_max: usize) -> Self {
        Self {
            wanted,
            bytes_max,
            next,
            frames: BTreeMap::new(),
            bytes: 0,
            after: [next; Section::ALL.len()],
        }
    }

    /// A section has arrived; returns what is decided by it, in order.
    pub(super) fn arrived(&mut self, section: Section, frame: u64, body: &Bytes) -> Vec<Assembled> {
        if !self.wanted.has(section) {
            return Vec::new();
        }
        let after = &mut self.after[section.index()];
        *after = (*after).max(frame.saturating_add(1));
        if frame >= self.next {
            self.bytes += body.len();
            let kept = self.frames.entry(frame).or_default();
            kept.set(section, body.clone());
        }
        let mut decided = self.decided();
        while self.bytes > self.bytes_max && self.frames.len() > 1 {
            let oldest = *self.frames.keys().next().expect("there are several");
            skip(&mut decided, oldest + 1 - self.next);
            self.forget_to(oldest + 1);
            decided.extend(self.decided());
        }
        decided
    }

    /// Frames that are whole, or never will be.
    fn decided(&mut self) -> Vec<Assembled> {
        let mut decided = Vec::new();
        loop {
            // All sections of earlier frames have arrived, or do not come.
            let settled = (self.wanted.iter()).map(|section| self.after[section.index()]);
            let settled = settled.min().unwrap_or(self.next);
            let first = self.frames.first_key_value();
            match first {
                Some((&number, frame)) if frame.sections() == self.wanted => {
                    skip(&mut decided, number - self.next);
                    decided.push(Assembled::Whole(frame.clone()));
                    self.forget_to(number + 1);
                }
                Some((&number, _)) if number < settled => {
                    skip(&mut decided, number + 1 - self.next);
                    self.forget_to(number + 1);
                }
                _ => {
                    // A later frame can be whole already, although one before lacks a section that may still come.
                    if settled > self.next && self.frames.is_empty() {
                        skip(&mut decided, settled - self.next);
                        self.forget_to(settled);
                    }
                    return decided;
                }
            }
        }
    }

    fn forget_to(&mut self, next: u64) {
        let kept = self.frames.split_off(&next);
        let gone = std::mem::replace(&mut self.frames, kept);
        self.bytes -= gone.values().map(Frame::bytes).sum::<usize>();
        self.next = next;
    }
}

fn skip(decided: &mut Vec<Assembled>, frames: u64) {
    match decided.last_mut() {
        _ if frames == 0 => {}
        Some(Assembled::Skipped(before)) => *before += frames,
        _ => decided.push(Assembled::Skipped(frames)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const BOTH: [Section; 2] = [Section::Positions, Section::Velocities];

    fn body(section: Section, frame: u64) -> Bytes {
        vec![(frame * 2) as u8 + section.index() as u8; 12].into()
    }

    fn whole(sections: &[Section], number: u64) -> Assembled {
        let mut frame = Frame::default();
        for &section in sections {
            frame.set(section, body(section, number));
        }
        Assembled::Whole(frame)
    }

    fn assembler(bytes_max: usize) -> Assembler {
        Assembler::new(BOTH.into_iter().collect(), 0, bytes_max)
    }

    fn arrive(assembler: &mut Assembler, section: Section, frame: u64) -> Vec<Assembled> {
        assembler.arrived(section, frame, &body(section, frame))
    }

    #[test]
    fn a_frame_is_whole_when_its_last_section_is_there() {
        let mut one = assembler(1_000);
        assert_eq!(arrive(&mut one, BOTH[0], 0), []);
        assert_eq!(arrive(&mut one, BOTH[0], 1), []);
        assert_eq!(arrive(&mut one, Section::Forces, 0), []);
        assert_eq!(arrive(&mut one, BOTH[1], 0), [whole(&BOTH, 0)]);
        assert_eq!(arrive(&mut one, BOTH[1], 1), [whole(&BOTH, 1)]);
    }

    #[test]
    fn a_section_that_does_not_come_skips_its_frame() {
        let mut one = assembler(1_000);
        for frame in 0..4 {
            assert_eq!(arrive(&mut one, BOTH[0], frame), []);
        }
        let expected = [Assembled::Skipped(3), whole(&BOTH, 3)];
        assert_eq!(arrive(&mut one, BOTH[1], 3), expected);
        // The other section, too.
        assert_eq!(arrive(&mut one, BOTH[1], 4), []);
        assert_eq!(arrive(&mut one, BOTH[0], 5), [Assembled::Skipped(1)]);
        assert_eq!(arrive(&mut one, BOTH[1], 5), [whole(&BOTH, 5)]);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_given_up() {
        let mut one = assembler(36);
        for frame in 0..3 {
            assert_eq!(arrive(&mut one, BOTH[0], frame), []);
        }
        assert_eq!(arrive(&mut one, BOTH[0], 3), [Assembled::Skipped(1)]);
        assert_eq!(arrive(&mut one, BOTH[1], 0), []);
        assert_eq!(arrive(&mut one, BOTH[1], 1), [whole(&BOTH, 1)]);
    }

    proptest! {
        /// Sections of each stream arrive in order, with gaps: frames of which all have arrived are served, in order, and no other.
        #[test]
        fn whole_frames_are_served_once_and_in_order(sent in vec((any::<bool>(), any::<bool>()), 1..30), picks in vec(any::<bool>(), 0..80)) {
            let mut one = assembler(usize::MAX);
            let of = |pick: fn(&(bool, bool)) -> bool| {
                let numbers = sent.iter().enumerate().filter(move |(_, of)| pick(of));
                numbers.map(|(number, _)| number as u64)
            };
            let (mut first, mut second) = (of(|of| of.0).peekable(), of(|of| of.1).peekable());
            let mut decided = Vec::new();
            for pick in picks.into_iter().chain([true; 30]).chain([false; 30]) {
                let (section, frame) = match pick {
                    true => (BOTH[0], first.next()),
                    false => (BOTH[1], second.next()),
                };
                if let Some(frame) = frame {
                    decided.extend(arrive(&mut one, section, frame));
                }
            }
            let served: Vec<_> = decided.iter().filter(|one| matches!(one, Assembled::Whole(_))).cloned().collect();
            let expected: Vec<_> = (0..sent.len()).filter(|at| sent[*at] == (true, true)).map(|at| whole(&BOTH, at as u64)).collect();
            prop_assert_eq!(served, expected);
            // Each is counted once.
            let counted: u64 = decided.iter().map(|one| match one { Assembled::Whole(_) => 1, Assembled::Skipped(count) => *count }).sum();
            prop_assert!(counted <= sent.len() as u64);
        }
    }
}

//! The last 30 s of a record: what can be sent again, or is still to be sent.

use std::collections::VecDeque;

/// Time for which frames are kept, in seconds: the lifetime of the stream.
const KEPT: f64 = 30.0;

/// Frames of the last 30 s, by number. The memory is that of 30 s of the record.
#[derive(Debug)]
pub(super) struct Buffer {
    leads: usize,
    frames_max: usize,
    /// Number of the first frame.
    first: u64,
    samples: VecDeque<i16>,
    has_ended: bool,
}

impl Buffer {
    pub(super) fn new(leads: usize, frequency: f64) -> Self {
        Self {
            leads,
            frames_max: ((KEPT * frequency) as usize).max(1),
            first: 0,
            samples: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Appends frames, and drops those that are too old.
    pub(super) fn push(&mut self, samples: &[i16]) {
        self.samples.extend(samples);
        let surplus = (self.samples.len() / self.leads).saturating_sub(self.frames_max);
        self.samples.drain(..surplus * self.leads);
        self.first += surplus as u64;
    }

    /// No frame follows.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Number of the first frame that is there.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the frame after the last.
    pub(super) fn next(&self) -> u64 {
        self.first + (self.samples.len() / self.leads) as u64
    }

    /// True if no frame follows.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// So many frames from `from` on, or from the first that is there, with the number of the first; fewer at the end of the record only.
    /// `None`: they are not there yet.
    pub(super) fn take(&self, from: u64, frames: usize) -> Option<(u64, Vec<i16>)> {
        let first = from.max(self.first);
        let there = usize::try_from(self.next().checked_sub(first)?).ok()?;
        if there < frames && (there == 0 || !self.has_ended) {
            return None;
        }
        let skipped = (first - self.first) as usize * self.leads;
        let samples = self.samples.iter().skip(skipped);
        let samples = samples
            .take(there.min(frames) * self.leads)
            .copied()
            .collect();
        Some((first, samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thirty_seconds_are_there() {
        let mut buffer = Buffer::new(2, 1.0);
        assert_eq!(buffer.take(0, 1), None);
        for frame in 0..40 {
            buffer.push(&[frame, -frame]);
        }
        assert_eq!((buffer.first(), buffer.next()), (10, 40));
        let taken = buffer.take(0, 2).unwrap();
        assert_eq!((taken.0, &taken.1[..]), (10, &[10, -10, 11, -11][..]));
        assert_eq!(buffer.take(38, 2).unwrap().1, [38, -38, 39, -39]);
        assert_eq!(buffer.take(39, 2), None, "the second is not there yet");
        assert_eq!(buffer.take(41, 2), None);
        buffer.end();
        assert_eq!(buffer.take(39, 2).unwrap().1, [39, -39]);
        assert_eq!(buffer.take(40, 2), None);
        assert_eq!(buffer.samples.len(), 60);
    }
}

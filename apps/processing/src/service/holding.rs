//! Bytes that a reliable subscriber holds of what was sent to it.

use std::collections::VecDeque;

/// Marks that are kept; beyond, the last one moves on, so that its bytes count once all of them are held.
const MARKS_MAX: usize = 1_024;

/// Bytes that were sent to a subscriber, and those of them that it holds.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// After an ADU was sent: the number after that of the source's ADU that it is derived from, and all bytes until then.
    marks: VecDeque<(u64, u64)>,
    sent_bytes: u64,
    /// Bytes that are held.
    pub(super) held_bytes: u64,
}

impl Holding {
    /// So many bytes were sent; with them, all that is derived from the source's ADUs before `next`.
    pub(super) fn sent(&mut self, next: u64, bytes: u64) {
        self.sent_bytes += bytes;
        let mark = (next, self.sent_bytes);
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut() {
            Some(last) if is_full || last.0 == next => *last = mark,
            _ => self.marks.push_back(mark),
        }
    }

    /// The subscriber holds all that is derived from the source's ADUs before `next`.
    pub(super) fn held(&mut self, next: u64) {
        while let Some(&(until, bytes)) = self.marks.front()
            && until <= next
        {
            self.held_bytes = bytes;
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_by_the_numbers_of_their_source() {
        let mut holding = Holding::default();
        for next in [1, 3, 3, 4] {
            holding.sent(next, 10);
        }
        holding.held(2);
        assert_eq!(holding.held_bytes, 10);
        holding.held(3);
        assert_eq!(holding.held_bytes, 30);
        // Repeated, and beyond all that was sent.
        holding.held(3);
        holding.held(9);
        assert_eq!(holding.held_bytes, 40);
        for next in 10..5_000 {
            holding.sent(next, 1);
        }
        assert_eq!(holding.marks.len(), MARKS_MAX);
        holding.held(100);
        assert_eq!(holding.held_bytes, 40 + 91);
        holding.held(4_999);
        assert_eq!(holding.held_bytes, 40 + 4_990);
    }
}

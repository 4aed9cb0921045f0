//! Sides of a connection that is split, as their segments show them: whether each has ended, and the numbers with which it can be reset
//! (RFC 9293 §3.4, §3.10.7.4).

use crate::packet::Progress;

/// One side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    /// The number after the last one that it has sent.
    next: Option<u32>,
    /// The number that it expects, as it last said.
    expected: Option<u32>,
    has_ended: bool,
}

impl Side {
    /// Notes a segment that it has sent.
    pub(crate) fn note(&mut self, progress: &Progress) {
        let is_later = |next: u32| progress.next.wrapping_sub(next) < 1 << 31;
        if self.next.is_none_or(is_later) {
            self.next = Some(progress.next);
        }
        self.expected = progress.acknowledged.or(self.expected);
        self.has_ended |= progress.is_last;
    }

    /// True if it sends nothing more.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Numbers of resets to this side from the other one, of which at least one is accepted: what this one said last that it expects,
    /// and what it expects if everything has arrived that the other one has sent.
    pub(crate) fn resets(&self, other: &Self) -> impl Iterator<Item = u32> + use<> {
        let second = other.next.filter(|_| other.next != self.expected);
        self.expected.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(next: u32, acknowledged: Option<u32>) -> Progress {
        Progress {
            next,
            acknowledged,
            is_last: false,
            is_reset: false,
        }
    }

    #[test]
    fn a_reset_has_the_number_that_its_receiver_expects() {
        let (mut program, mut listener) = (Side::default(), Side::default());
        assert_eq!(program.resets(&listener).count(), 0, "nothing was sent");
        program.note(&progress(u32::MAX, None));
        listener.note(&progress(500, Some(u32::MAX)));
        program.note(&progress(u32::MAX, Some(500)));
        assert_eq!(program.resets(&listener).collect::<Vec<_>>(), [500]);
        // Its numbers begin at 0 again; the segment before is sent once more.
        program.note(&progress(9, Some(500)));
        program.note(&progress(u32::MAX, Some(500)));
        assert_eq!(
            listener.resets(&program).collect::<Vec<_>>(),
            [u32::MAX, 9],
            "not acknowledged yet"
        );
    }

    #[test]
    fn an_end_is_kept() {
        let mut side = Side::default();
        side.note(&Progress {
            is_last: true,
            ..progress(7, None)
        });
        side.note(&progress(7, Some(3)));
        assert!(side.has_ended());
    }
}

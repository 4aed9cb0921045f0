//! Pictures of a film that are left out. A film is not encoded at the rate that the paths have; where it does not fit, ends of its groups
//! are left out, because a picture between two key pictures is of no use without all before it in its group.

use std::time::Duration;

/// Least probabilities with which a picture, and the key picture after it, have to be in time (docs/results/clinic.md).
const LEAST: [f64; 2] = [0.9, 0.8];
/// Part of the lifetime within which a picture has to arrive: one that is likely to need more fills a queue.
const PART: f64 = 0.5;

/// A question about the paths: is it likely that so many bytes, handed over now, arrive within this time?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Bytes.
    pub bytes: usize,
    /// Time.
    pub within: Duration,
}

/// Chooses the pictures of one stream that are sent.
///
/// Key pictures are. One between them is if it is likely to arrive in half of the lifetime, and if the next key picture, as large and as
/// far away as the last one, would be in time behind it. If not, it and the rest of its group are left out.
///
/// A question that has no answer, because too little is known of the paths, leaves out nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thinner {
    /// Time and bytes of the last key picture, and time from the one before it.
    key_at: Option<Duration>,
    key_bytes: usize,
    group: Duration,
    /// The rest of the group is left out.
    is_cut: bool,
}

impl Thinner {
    /// Questions that decide about a picture of `bytes` that is made at this time, with a stream of this lifetime: it and the next key
    /// picture. `None`: it needs none. Then [`Thinner::takes`] wants its answers. O(1).
    pub fn asks(
        &mut self,
        at: Duration,
        is_key: bool,
        bytes: usize,
        lifetime: Duration,
    ) -> Option<[Question; 2]> {
        if is_key {
            let before = self.key_at.replace(at).unwrap_or(at);
            self.group = at.saturating_sub(before);
            (self.key_bytes, self.is_cut) = (bytes, false);
            return None;
        }
        if self.is_cut {
            return None;
        }
        let own = Question {
            bytes,
            within: lifetime.mul_f64(PART),
        };
        let key_at = self.key_at.unwrap_or(at);
        let next = (key_at + self.group).saturating_sub(at);
        let key = Question {
            bytes: bytes.saturating_add(self.key_bytes),
            within: lifetime.saturating_add(next),
        };
        Some([own, key])
    }

    /// True if the picture is sent, by the answers to what it asked, in this order. Of none, it is as decided before.
    pub fn takes(&mut self, chances: impl IntoIterator<Item = Option<f64>>) -> bool {
        let mut both = chances.into_iter().zip(LEAST);
        self.is_cut |= both.any(|(chance, least)| chance.is_some_and(|chance| chance < least));
        !self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_millis(800);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_end_of_a_group_is_left_out() {
        let mut thinner = Thinner::default();
        assert_eq!(thinner.asks(ms(7_000), true, 20_000, LIFETIME), None);
        assert!(thinner.takes([]));
        // The length of a group is not known yet.
        let asked = thinner.asks(ms(7_040), false, 1_000, LIFETIME).unwrap();
        let question = |bytes, within| Question {
            bytes,
            within: ms(within),
        };
        assert_eq!(asked, [question(1_000, 400), question(21_000, 800)]);
        assert!(thinner.takes([None, None]), "nothing is known");
        assert_eq!(thinner.asks(ms(7_480), true, 30_000, LIFETIME), None);
        assert!(thinner.takes([]));
        let asked = thinner.asks(ms(7_520), false, 2_000, LIFETIME).unwrap();
        assert_eq!(asked, [question(2_000, 400), question(32_000, 1_240)]);
        assert!(thinner.takes([Some(0.9), Some(0.8)]));
        assert!(thinner.asks(ms(7_560), false, 2_000, LIFETIME).is_some());
        assert!(
            !thinner.takes([Some(0.95), Some(0.79)]),
            "the key picture would be late"
        );
        assert_eq!(thinner.asks(ms(7_600), false, 1, LIFETIME), None);
        assert!(!thinner.takes([]), "what follows needs the one before");
        assert_eq!(thinner.asks(ms(7_960), true, 90_000, LIFETIME), None);
        assert!(thinner.takes([]), "a key picture is always sent");
        assert!(thinner.asks(ms(8_000), false, 2_000, LIFETIME).is_some());
        assert!(!thinner.takes([Some(0.89), None]));
    }
}

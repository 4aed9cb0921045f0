//! Pictures of a film that are left out. A film is not encoded at the rate that the paths have; where it does not fit, ends of its groups
//! are left out, because a picture between two key pictures is of no use without all before it in its group, or groups as a whole.

use std::time::Duration;

/// Least probabilities with which a picture, and the key picture after it, have to be in time unless a packet is lost
/// (docs/results/clinic.md).
const LEAST: [f64; 2] = [0.95, 0.8];
/// Part of the lifetime within which a picture has to arrive: one that is likely to need more fills a queue.
const PART: f64 = 0.5;
/// The same of a key picture, which is of use for as long as its group lasts.
const LEAST_KEY: f64 = 0.9;
const PART_KEY: f64 = 0.8;
/// Most key pictures in a row that are left out: a prediction may be wrong, and is not corrected where nothing is sent.
const KEYS_MAX: u32 = 4;

/// A question about the paths: is it likely that so many bytes, handed over now, arrive within this time unless a packet is lost?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Bytes.
    pub bytes: usize,
    /// Time.
    pub within: Duration,
}

/// Chooses the pictures of one stream that are sent.
///
/// A key picture is if it is likely to arrive in time; one that is not would take the time of the next one, and of streams that matter
/// more. Of five in a row, one is sent in any case. A picture between two of them is sent if it is likely to arrive in half of the
/// lifetime, and if the next key picture, as large and as far away as the last one, would be in time behind it. If not, it and the rest
/// of its group are left out.
///
/// A picture that is likely to lose a packet is sent all the same: to leave it out loses it for certain, and gains no time for others.
///
/// A question that has no answer, because too little is known of the paths, leaves out nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thinner {
    /// Time and bytes of the last key picture, and time from the one before it.
    key_at: Option<Duration>,
    key_bytes: usize,
    group: Duration,
    /// The last picture asked about is a key picture.
    is_key: bool,
    /// Key pictures that were left out since one was sent.
    keys_left_out: u32,
    /// The rest of the group is left out.
    is_cut: bool,
}

impl Thinner {
    /// Questions that decide about a picture of `bytes` that is made at this time, with a stream of this lifetime: it and, unless it is
    /// one, the next key picture. `None`: it needs none. Then [`Thinner::takes`] wants its answers. O(1).
    pub fn asks(
        &mut self,
        at: Duration,
        is_key: bool,
        bytes: usize,
        lifetime: Duration,
    ) -> Option<[Option<Question>; 2]> {
        self.is_key = is_key;
        if is_key {
            let before = self.key_at.replace(at).unwrap_or(at);
            self.group = at.saturating_sub(before);
            (self.key_bytes, self.is_cut) = (bytes, false);
            let own = Question {
                bytes,
                within: lifetime.mul_f64(PART_KEY),
            };
            return (self.keys_left_out < KEYS_MAX).then_some([Some(own), None]);
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
        Some([Some(own), Some(key)])
    }

    /// True if the picture is sent, by the answers to what it asked ([`anabranch::Chances::unless_lost`]), in this order. Of none, it is as decided before.
    pub fn takes(&mut self, chances: impl IntoIterator<Item = Option<f64>>) -> bool {
        let least = match self.is_key {
            true => [LEAST_KEY; 2],
            false => LEAST,
        };
        let mut both = chances.into_iter().zip(least);
        self.is_cut |= both.any(|(chance, least)| chance.is_some_and(|chance| chance < least));
        if self.is_key {
            self.keys_left_out = match self.is_cut {
                true => self.keys_left_out + 1,
                false => 0,
            };
        }
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

    fn question(bytes: usize, within: u64) -> Option<Question> {
        let within = ms(within);
        Some(Question { bytes, within })
    }

    #[test]
    fn the_end_of_a_group_is_left_out() {
        let mut thinner = Thinner::default();
        let asked = thinner.asks(ms(7_000), true, 20_000, LIFETIME).unwrap();
        assert_eq!(asked, [question(20_000, 640), None]);
        assert!(thinner.takes([None]), "nothing is known");
        // The length of a group is not known yet.
        let asked = thinner.asks(ms(7_040), false, 1_000, LIFETIME).unwrap();
        assert_eq!(asked, [question(1_000, 400), question(21_000, 800)]);
        assert!(thinner.takes([None, None]), "nothing is known");
        assert!(thinner.asks(ms(7_480), true, 30_000, LIFETIME).is_some());
        assert!(thinner.takes([Some(0.9)]));
        let asked = thinner.asks(ms(7_520), false, 2_000, LIFETIME).unwrap();
        assert_eq!(asked, [question(2_000, 400), question(32_000, 1_240)]);
        assert!(thinner.takes([Some(0.95), Some(0.8)]));
        assert!(thinner.asks(ms(7_560), false, 2_000, LIFETIME).is_some());
        assert!(
            !thinner.takes([Some(0.96), Some(0.79)]),
            "the key picture would be late"
        );
        assert_eq!(thinner.asks(ms(7_600), false, 1, LIFETIME), None);
        assert!(!thinner.takes([]), "what follows needs the one before");
        assert!(thinner.asks(ms(7_960), true, 90_000, LIFETIME).is_some());
        assert!(thinner.takes([Some(0.99)]), "the next group begins");
        assert!(thinner.asks(ms(8_000), false, 2_000, LIFETIME).is_some());
        assert!(!thinner.takes([Some(0.94), None]));
    }

    /// A key picture that would be late is left out with its group; of five in a row, one is sent whatever is predicted.
    #[test]
    fn a_key_picture_that_would_be_late_is_left_out_but_not_for_ever() {
        let mut thinner = Thinner::default();
        let sent = (0..12).map(|group| {
            let asked = thinner.asks(ms(500 * group), true, 20_000, LIFETIME);
            let answers = asked.into_iter().flatten().flatten().map(|_| Some(0.89));
            let is_sent = thinner.takes(answers);
            let rest = thinner.asks(ms(500 * group + 40), false, 1_000, LIFETIME);
            assert_eq!(rest.is_some(), is_sent, "the rest of its group needs it");
            is_sent
        });
        let sent: Vec<bool> = sent.collect();
        let every_fifth: Vec<bool> = (0..12).map(|group| group % 5 == 4).collect();
        assert_eq!(sent, every_fifth);
        assert!(thinner.asks(ms(6_000), true, 20_000, LIFETIME).is_some());
        assert!(thinner.takes([Some(0.9)]));
    }
}

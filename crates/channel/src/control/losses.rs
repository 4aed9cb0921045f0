//! Losses of a path, judged by samples: few are noise of the path (radio), many are congestion.

/// Loss that is taken for noise, as a fraction of packets.
const LOSS_TOLERATED: f64 = 0.06;
/// Packets over which loss is judged.
const LOSS_SAMPLE: u32 = 200;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Packets of the running sample, and those of them that were lost.
    packets: u32,
    lost: u32,
    /// The last complete sample showed more loss than is tolerated.
    are_many: bool,
}

impl Losses {
    /// Notes a packet that was acknowledged or lost, and closes the sample when it is large enough.
    pub(super) fn note(&mut self, is_lost: bool) {
        self.packets += 1;
        self.lost += u32::from(is_lost);
        if self.packets >= LOSS_SAMPLE {
            self.are_many = f64::from(self.lost) > f64::from(self.packets) * LOSS_TOLERATED;
            (self.packets, self.lost) = (0, 0);
        }
    }

    /// True if the last sample showed more than noise.
    pub(super) fn are_many(self) -> bool {
        self.are_many
    }

    /// Forgets the last sample: it has been responded to.
    pub(super) fn forgive(&mut self) {
        self.are_many = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_with_more_than_noise_counts_until_it_is_responded_to() {
        let mut losses = Losses::default();
        let mut sample = |lost: u32| {
            (0..LOSS_SAMPLE).for_each(|packet| losses.note(packet < lost));
            let were_many = losses.are_many();
            losses.forgive();
            were_many && !losses.are_many()
        };
        assert_eq!(
            [0, 12, 13, 12].map(&mut sample),
            [false, false, true, false]
        );
    }
}

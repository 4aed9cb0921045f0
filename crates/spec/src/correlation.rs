//! Correlation of losses of two slots.

use crate::Slot;

/// P(both are lost | either is lost) for any two slots, by how far they are apart on one channel, and between
/// channels [Horde §4.1 "Correlated Loss"].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correlation {
    channels: usize,
    /// For each channel, packets 1, 2, … apart; beyond the last, [`Correlation::across`] of a channel with itself.
    apart: Vec<Vec<f64>>,
    /// For each pair of channels.
    across: Vec<f64>,
}

impl Correlation {
    /// Of channels whose losses are independent of each other, and come alone.
    pub fn independent(channels: usize) -> Self {
        Self {
            channels,
            apart: vec![Vec::new(); channels],
            across: vec![0.0; channels * channels],
        }
    }

    /// Sets what is known of packets 1, 2, … apart on one channel; in [0, 1].
    pub fn set_apart(&mut self, channel: usize, apart: Vec<f64>) {
        self.apart[channel] = apart;
    }

    /// As [`Correlation::set_apart`], into the memory that is there.
    pub fn write_apart(&mut self, channel: usize, apart: impl IntoIterator<Item = f64>) {
        self.apart[channel].clear();
        self.apart[channel].extend(apart);
    }

    /// Sets what is known of two channels, or of packets far apart on one; in [0, 1].
    pub fn set_across(&mut self, one: usize, other: usize, both: f64) {
        self.across[one * self.channels + other] = both;
        self.across[other * self.channels + one] = both;
    }

    /// P(both are lost | either is lost); 1 for a slot and itself.
    pub fn both(&self, one: &Slot, other: &Slot) -> f64 {
        let (a, b) = (one.channel as usize, other.channel as usize);
        let far = || self.across.get(a * self.channels + b);
        if a != b {
            return far().copied().unwrap_or(0.0);
        }
        match one.sequence.abs_diff(other.sequence) {
            0 => 1.0,
            distance => {
                let near = self.apart.get(a).and_then(|k| k.get(distance as usize - 1));
                near.or_else(far).copied().unwrap_or(0.0)
            }
        }
    }
}

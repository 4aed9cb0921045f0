//! Whether channels lose packets at the same time.

use anabranch_base::Instant;
use anabranch_stats::loss::{CrossLoss, cross::Slice};

use super::ChannelModel;
use crate::objective::Correlation;

/// Channels of which pairs are kept; others are taken to be independent.
pub const CHANNELS_MAX: usize = 16;
/// Time is cut into slices of this length, about the spacing of packets in a burst.
const SLICE_NS: u64 = 50_000_000;
/// Slices until the fates of one are known: 5 s.
const SETTLED: u64 = 100;
/// Slices after which the weight of one has fallen to 1/e: ten minutes.
const MEMORY: f64 = 12_000.0;
/// Pairs of slices with a loss that an answer must rest on.
const EVIDENCE: usize = 20;
/// Distances on one channel that are written into a [`Correlation`].
const APART: u64 = 16;

/// Loss of packets of different channels, from what was lost at the same times.
///
/// Told when each packet was sent, and when each lost one had been. O(1) for a packet, O(channels²) for each slice of
/// 50 ms; no allocation.
#[derive(Clone, Debug)]
pub struct Joint {
    channels: usize,
    /// Slices that are not settled, by number modulo [`SETTLED`], then by channel.
    open: Box<[Slice]>,
    /// The first that is open.
    first: u64,
    pairs: Vec<CrossLoss>,
    /// Sent and lost of each channel, for what is expected of independent ones.
    totals: Vec<(f64, f64)>,
}

impl Joint {
    /// Of so many channels; of more than [`CHANNELS_MAX`] only the first are watched.
    pub fn new(channels: usize) -> Self {
        let channels = channels.min(CHANNELS_MAX);
        let pairs = channels * channels.saturating_sub(1) / 2;
        let pair = || CrossLoss::new(0, MEMORY).expect("a memory of at least 10 slices");
        Self {
            channels,
            open: vec![Slice::default(); channels * SETTLED as usize].into(),
            first: 0,
            pairs: (0..pairs).map(|_| pair()).collect(),
            totals: vec![(0.0, 0.0); channels],
        }
    }

    /// A packet was sent.
    pub fn sent(&mut self, channel: usize, at: Instant) {
        self.advance(at);
        if let Some(slice) = self.slice(channel, at) {
            slice.sent += 1;
        }
    }

    /// A packet that was sent at `sent_at` is lost. One of more than 5 s ago is not counted.
    pub fn lost(&mut self, channel: usize, sent_at: Instant) {
        if let Some(slice) = self.slice(channel, sent_at) {
            slice.lost = (slice.lost + 1).min(slice.sent);
        }
    }

    /// P(both are lost | either is) of two packets sent on two channels at the same time: as measured, else as for
    /// independent losses.
    pub fn both(&self, one: usize, other: usize) -> f64 {
        let Some(pair) = self.pair(one, other) else {
            return 0.0;
        };
        if let Ok(measured) = self.pairs[pair].both_given_either(0, EVIDENCE) {
            return measured.clamp(0.0, 1.0);
        }
        let rate = |channel: usize| {
            let (sent, lost) = self.totals[channel];
            if sent > 0.0 { lost / sent } else { 0.0 }
        };
        let (a, b) = (rate(one), rate(other));
        let either = a + b - a * b;
        if either > 0.0 { a * b / either } else { 0.0 }
    }

    /// Writes what is known of all pairs of slots into a cycle's [`Correlation`]: of each channel from its model,
    /// of two channels from here.
    pub fn write<'m>(
        &self,
        models: impl IntoIterator<Item = &'m dyn ChannelModel>,
        correlation: &mut Correlation,
    ) {
        for (channel, model) in models.into_iter().enumerate() {
            let apart = (1..=APART).map(|apart| model.lost_together(apart));
            correlation.write_apart(channel, apart);
            correlation.set_across(channel, channel, model.lost_together(APART + 1));
            for other in 0..channel {
                correlation.set_across(other, channel, self.both(other, channel));
            }
        }
    }

    fn pair(&self, one: usize, other: usize) -> Option<usize> {
        let (low, high) = (one.min(other), one.max(other));
        (low < high && high < self.channels).then(|| high * (high - 1) / 2 + low)
    }

    fn slice(&mut self, channel: usize, at: Instant) -> Option<&mut Slice> {
        let number = at.as_nanos() / SLICE_NS;
        let is_open = (self.first..self.first + SETTLED).contains(&number);
        let place = (number % SETTLED) as usize * self.channels + channel;
        (is_open && channel < self.channels).then(|| &mut self.open[place])
    }

    /// Closes what is older than 5 s.
    fn advance(&mut self, now: Instant) {
        let number = now.as_nanos() / SLICE_NS;
        let first = (number + 1).saturating_sub(SETTLED);
        // After a pause, slices before the open ones hold nothing.
        for closing in self.first..first.min(self.first + SETTLED) {
            self.close((closing % SETTLED) as usize);
        }
        self.first = self.first.max(first);
    }

    fn close(&mut self, place: usize) {
        let slices = &mut self.open[place * self.channels..(place + 1) * self.channels];
        for (slice, total) in slices.iter().zip(&mut self.totals) {
            let keep = 1.0 - 1.0 / MEMORY;
            total.0 = total.0 * keep + f64::from(slice.sent);
            total.1 = total.1 * keep + f64::from(slice.lost);
        }
        for high in 1..slices.len() {
            for low in 0..high {
                let pair = &mut self.pairs[high * (high - 1) / 2 + low];
                // No slice has lost more than it sent.
                pair.observe(slices[low], slices[high]).ok();
            }
        }
        slices.fill(Slice::default());
    }
}

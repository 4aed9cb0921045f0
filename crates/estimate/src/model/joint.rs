//! Joint losses of channels.

use anabranch_base::Instant;
use anabranch_stats::loss::{CrossLoss, cross::Slice};

use super::ChannelModel;
use anabranch_spec::Correlation;

/// Channels of which pairs are kept; others are taken to be independent.
pub const CHANNELS_MAX: usize = 16;
/// Time is cut into slices of this length, about the spacing of packets in a burst.
const SLICE_NS: u64 = 50_000_000;
/// Slices until the outcomes of one are known: 5 s.
const SETTLED: u64 = 100;
/// Slices after which the weight of one has fallen to 1/e: ten minutes.
const MEMORY: f64 = 12_000.0;
/// Pairs of slices with a loss that an answer needs.
const EVIDENCE: usize = 20;
/// Distances on one channel that are written into a [`Correlation`].
const APART: u64 = 16;

/// Loss of packets of different channels, from what was lost at the same times.
///
/// Receives the time at which each packet was sent, and each lost one had been. O(1) for a packet, O(channels²) for each slice of
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
        let mut joint = Self {
            channels: 0,
            open: Box::default(),
            first: 0,
            pairs: Vec::new(),
            totals: Vec::new(),
        };
        joint.lay_out(channels.min(CHANNELS_MAX), |_| None);
        joint
    }

    /// Number of channels that are watched.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// One more channel, behind the others, of which nothing is known; false: there are [`CHANNELS_MAX`]. Allocates.
    pub fn add(&mut self) -> bool {
        let before = self.channels;
        if before == CHANNELS_MAX {
            return false;
        }
        self.lay_out(before + 1, |channel| (channel < before).then_some(channel));
        true
    }

    /// Forgets a channel; those behind it move up. Allocates.
    pub fn remove(&mut self, gone: usize) {
        if gone < self.channels {
            self.lay_out(self.channels - 1, |channel| {
                Some(channel + usize::from(channel >= gone))
            });
        }
    }

    /// Extends the state to so many channels; `from` maps each to its index before.
    fn lay_out(&mut self, channels: usize, from: impl Fn(usize) -> Option<usize>) {
        let open = (0..SETTLED as usize).flat_map(|place| (0..channels).map(move |at| (place, at)));
        let open = open.map(|(place, channel)| {
            from(channel).map_or_else(Slice::default, |before| {
                self.open[place * self.channels + before]
            })
        });
        let fresh = || CrossLoss::new(0, MEMORY).expect("a memory of at least 10 slices");
        let pairs = (1..channels).flat_map(|high| (0..high).map(move |low| (low, high)));
        let pairs = pairs.map(|(low, high)| {
            let known = from(low).zip(from(high));
            let pair = known.and_then(|(low, high)| self.pair(low, high));
            pair.map_or_else(fresh, |pair| self.pairs[pair].clone())
        });
        let totals =
            (0..channels).map(|channel| from(channel).map_or((0.0, 0.0), |at| self.totals[at]));
        let (open, pairs, totals) = (open.collect(), pairs.collect(), totals.collect());
        (self.open, self.pairs, self.totals) = (open, pairs, totals);
        self.channels = channels;
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
    /// of two channels from here. `channels` are those of the cycle, in its order, each with its index here. Without
    /// allocation when it was done before.
    pub fn write(&self, channels: &[(usize, &dyn ChannelModel)], correlation: &mut Correlation) {
        for (at, (index, model)) in channels.iter().enumerate() {
            correlation.write_apart(at, (1..=APART).map(|apart| model.lost_together(apart)));
            correlation.set_across(at, at, model.lost_together(APART + 1));
            for (other, (other_index, _)) in channels[..at].iter().enumerate() {
                correlation.set_across(other, at, self.both(*other_index, *index));
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

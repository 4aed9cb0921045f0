//! Cellular channels: the last round trip tells of the next, queues drain in a rhythm, losses come in bursts.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_stats::rtt::{ConditionalRtt, conditional::Config};

use super::{
    ChannelModel, Expectation, Packet, Technology, average::Average, base::Base, drain::Drain,
    spread::Guess,
};

/// Lags at which p_k(x|z) is kept: at most a quarter off any lag up to [`LAG_BEYOND`].
const LAGS: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Round trips this many packets ahead are guessed without the last one.
const LAG_BEYOND: u64 = 160;
/// Samples before the long average is a guess.
const SAMPLES_MIN: u32 = 16;

/// Three more ways to guess a round trip than [`Generic`](super::Generic), the best of late being asked:
///
/// - p_k(x|z), the distribution of the round trip k packets after one of z [Horde §7.4.2], k being the distance to the
///   last packet whose round trip is known;
/// - the mean of round trips a whole number of periods before, if a queue drains periodically [Horde Figure 7-25];
/// - a long average.
///
/// A loss is the likelier when a packet was lost or is overdue, the more so the sooner (Gilbert–Elliott). About 570 kB.
#[derive(Clone, Debug)]
pub struct Cellular {
    base: Base<4, 1>,
    conditional: ConditionalRtt,
    drain: Drain,
    average: Average,
    /// Distance of the periodic guess from truths, its scale.
    drain_off_ms: f64,
    /// The packet sent last of those that arrived, by index.
    last: Option<(u64, Duration)>,
}

impl Cellular {
    /// Knows nothing yet.
    pub fn new() -> Self {
        let config = Config {
            lags: LAGS.to_vec(),
            ratio: 1.15,
            memory_packets: 3000.0,
            ..Config::default()
        };
        Self {
            base: Base::new(),
            conditional: ConditionalRtt::new(&config).expect("parameters within their ranges"),
            drain: Drain::new(),
            average: Average::default(),
            drain_off_ms: 0.0,
            last: None,
        }
    }

    /// The period in packets in which a queue drains, if it does.
    pub fn period_packets(&self) -> Option<usize> {
        self.drain.period()
    }

    fn guesses(&self, index: u64) -> [Guess; 4] {
        let smoothed = self.base.smoothed();
        let periodic =
            (self.drain.guess(index)).map_or(Guess::NONE, |ms| Guess::new(ms, self.drain_off_ms));
        [
            smoothed,
            self.given_last(index).unwrap_or(Guess::NONE),
            periodic,
            self.average.guess(SAMPLES_MIN),
        ]
    }

    /// The median and the quartiles' distance of p_k(x|z).
    fn given_last(&self, index: u64) -> Option<Guess> {
        let (last, rtt) = self.last?;
        let apart = index.saturating_sub(last).max(1);
        if apart > LAG_BEYOND {
            return None;
        }
        let lag = LAGS
            .into_iter()
            .min_by_key(|&lag| u64::from(lag).abs_diff(apart))?;
        let forecast = self.conditional.given(rtt, lag).ok()?;
        let quantile = |p| Some(forecast.quantile(p).ok()?.as_secs_f64() * 1e3);
        let (low, high) = (quantile(0.25)?, quantile(0.75)?);
        Some(Guess::new(quantile(0.5)?, (high - low) / 1.35))
    }

    fn settle(&mut self) {
        while let Some(settled) = self.base.next_settled() {
            if let (Some(rtt_ms), Some(guess)) = (settled.rtt_ms, self.drain.guess(settled.index)) {
                self.drain_off_ms += 0.02 * ((rtt_ms - guess).abs() - self.drain_off_ms);
            }
            self.drain.observe(settled.index, settled.rtt_ms);
        }
    }
}

impl Default for Cellular {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelModel for Cellular {
    fn technology(&self) -> Technology {
        Technology::Cellular
    }

    fn sent(&mut self, packet: Packet) {
        let guesses = self.guesses(self.base.index(0));
        self.base.sent(packet.number, packet.at, guesses, 0);
    }

    fn acked(&mut self, number: u64, at: Instant, rtt: Duration) {
        if let Some(acked) = self.base.acked(number, at, rtt) {
            self.conditional.observe(acked.index, rtt);
            self.average.observe(acked.rtt_ms);
            if self.last.is_none_or(|(index, _)| index < acked.index) {
                self.last = Some((acked.index, rtt));
            }
        }
        self.settle();
    }

    fn lost(&mut self, number: u64, at: Instant) {
        self.base.lost(number, at);
        self.settle();
    }

    fn expect(&mut self, ahead: u32, _: Instant) -> Expectation {
        let index = self.base.index(ahead);
        let loss = self.base.losses.of(self.base.mood(), ahead);
        self.base.expectation(&self.guesses(index), 0, loss)
    }

    fn lost_together(&self, apart: u64) -> f64 {
        self.base.losses.together(apart)
    }
}

//! Estimators of one path.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, Rate};
use anabranch_stats::{
    bandwidth::{Sampler, Survival},
    forecast::{Config, Forecaster},
    joint::Cell,
    loss::{Bursts, LossRate},
    rtt::{ConditionalRtt, conditional},
};

use super::table::Ends;
use crate::on_time::loss_free;
use crate::order::Settled;
use crate::report::{PathReport, Promise};

/// Bandwidth samples in the distribution [IQ-Paths §VI-A: 500 to 1000].
const SAMPLES: usize = 500;
/// Packets over which loss is judged.
const PACKETS: usize = 2000;
/// Probabilities with which rates are promised.
const LEVELS: [f64; 3] = [0.9, 0.95, 0.99];
/// Sampling period of round-trip times: one in this time is enough to know their distribution.
const RTT_PERIOD: Duration = Duration::from_millis(5);

/// The round trip of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundTrip {
    pub(super) sent_at: Instant,
    pub(super) rtt: Duration,
}

/// Key: session, local socket, remote address.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) ends: Ends,
    channel: Option<ChannelId>,
    /// Rank among the channels that left, while it has none.
    pub(super) left: u64,
    /// Sampler that runs while anything is sent on any path of the session.
    sampler: Option<Sampler>,
    /// True if a packet was sent or acknowledged in the current window, or should have been.
    is_used: bool,
    /// The packet sent last of those that the newest acknowledgement covers.
    youngest: Option<RoundTrip>,
    /// Created with the first window, so that paths that carry nothing cost nothing.
    estimators: Option<Box<Estimators>>,
}

#[derive(Debug)]
struct Estimators {
    distribution: Survival,
    is_fresh: bool,
    fastest: Rate,
    censored: u64,
    samples: u64,
    forecaster: Forecaster,
    rtt: ConditionalRtt,
    rtt_last: Duration,
    rtt_index: u64,
    rtt_at: Instant,
    loss: LossRate,
    bursts: Bursts,
}

impl Estimators {
    fn new() -> Option<Box<Self>> {
        let forecaster = Forecaster::new(&Config {
            levels: LEVELS.to_vec(),
            hold: 1,
            ..Config::default()
        });
        let rtt = ConditionalRtt::new(&conditional::Config {
            lags: vec![1, 4],
            ratio: 1.2,
            ..conditional::Config::default()
        });
        Some(Box::new(Self {
            distribution: Survival::new(SAMPLES),
            is_fresh: false,
            fastest: Rate::default(),
            censored: 0,
            samples: 0,
            forecaster: forecaster.ok()?,
            rtt: rtt.ok()?,
            rtt_last: Duration::ZERO,
            rtt_index: 0,
            rtt_at: Instant::EPOCH,
            loss: LossRate::new(PACKETS),
            bursts: Bursts::new(PACKETS as u64),
        }))
    }
}

impl Path {
    pub(super) fn new(channel: ChannelId, ends: Ends) -> Self {
        Self {
            ends,
            channel: Some(channel),
            left: 0,
            sampler: None,
            is_used: false,
            youngest: None,
            estimators: None,
        }
    }

    pub(super) fn channel(&self) -> Option<ChannelId> {
        self.channel
    }

    /// Windows measured.
    pub(super) fn samples(&self) -> u64 {
        let estimators = self.estimators.as_ref();
        estimators.map_or(0, |estimators| estimators.samples)
    }

    pub(super) fn is_measured(&self) -> bool {
        self.samples() > 0
    }

    /// The path has a channel again, perhaps from another address.
    pub(super) fn join(&mut self, channel: ChannelId, ends: Ends) {
        self.ends = ends;
        self.channel = Some(channel);
        // Part of the current window was not measured.
        self.ran_dry();
    }

    /// Another path of the same interface takes over: round trips and losses are not those of this one.
    pub(super) fn continue_at(&mut self, channel: ChannelId, ends: Ends) {
        if let Some(before) = self.estimators.take() {
            let before = *before;
            self.estimators = Estimators::new().map(|fresh| {
                Box::new(Estimators {
                    distribution: before.distribution,
                    is_fresh: before.is_fresh,
                    fastest: before.fastest,
                    censored: before.censored,
                    samples: before.samples,
                    forecaster: before.forecaster,
                    ..*fresh
                })
            });
        }
        self.youngest = None;
        self.join(channel, ends);
    }

    pub(super) fn leave(&mut self, rank: u64) {
        self.channel = None;
        self.left = rank;
        self.ran_dry();
    }

    /// Forgets everything but the ends, which no channel uses any more.
    pub(super) fn clear(&mut self) {
        self.channel = None;
        self.left = 0;
        self.youngest = None;
        self.estimators = None;
        self.ran_dry();
    }

    /// Begins the first window of `window` after idle time.
    pub(super) fn begin(&mut self, now: Instant, window: Duration) {
        // The engine's configuration keeps the window within the sampler's range.
        self.sampler = Sampler::new(window, now).ok();
        self.is_used = self.channel.is_some();
    }

    /// Takes an acknowledged packet; returns the youngest of the previous acknowledgement when this one belongs to
    /// a new acknowledgement.
    ///
    /// The others waited at the receiver until there were enough to acknowledge. Where queues are short,
    /// that wait causes most of the variation of their round-trip times, and it is correlated between channels that an
    /// application fills in turn.
    pub(super) fn youngest(&mut self, this: RoundTrip) -> Option<RoundTrip> {
        match &mut self.youngest {
            Some(known) if known.sent_at + known.rtt == this.sent_at + this.rtt => {
                if this.rtt < known.rtt {
                    *known = this;
                }
                None
            }
            known => known.replace(this),
        }
    }

    pub(super) fn acked(&mut self, bytes: u64, sent_at: Instant, rtt: Duration) {
        if let Some(sampler) = &mut self.sampler {
            sampler.delivered(bytes);
        }
        self.is_used = true;
        if self.estimators.is_none() {
            self.estimators = Estimators::new();
        }
        let Some(estimators) = &mut self.estimators else {
            return;
        };
        if sent_at.since(estimators.rtt_at) < RTT_PERIOD {
            return;
        }
        estimators.rtt_at = sent_at;
        estimators.rtt.observe(estimators.rtt_index, rtt);
        estimators.rtt_index += 1;
        estimators.rtt_last = rtt;
    }

    pub(super) fn lost(&mut self) {
        self.is_used = true;
    }

    /// Takes packets in the order of sending into the loss statistics, once anything was acknowledged.
    pub(super) fn settle(&mut self, settled: &[Settled]) {
        let Some(estimators) = &mut self.estimators else {
            return;
        };
        for lost in settled.iter().map(Settled::is_lost) {
            estimators.loss.observe(lost);
            estimators.bursts.observe(lost);
        }
    }

    pub(super) fn ran_dry(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.ran_dry();
        }
    }

    /// Ends the current window at `now`; returns its cell in the row of all paths.
    pub(super) fn end_window(&mut self, now: Instant) -> Cell {
        let sample = self.sampler.as_mut().and_then(|sampler| sampler.poll(now));
        let was_used = std::mem::replace(&mut self.is_used, self.channel.is_some());
        if self.channel.is_none() {
            self.ran_dry();
        }
        // That an unused path carries at least nothing is no information.
        let informative =
            sample.filter(|sample| was_used && (sample.bps() > 0.0 || !sample.is_censored()));
        let (Some(estimators), Some(sample)) = (self.estimators.as_mut(), informative) else {
            return Cell::Missing;
        };
        estimators.distribution.push(sample);
        estimators.is_fresh = false;
        estimators.fastest = estimators.fastest.max(sample.rate);
        estimators.samples += 1;
        estimators.censored += u64::from(sample.is_censored());
        estimators.forecaster.observe(sample);
        if sample.is_censored() {
            Cell::AtLeast(sample.bps())
        } else {
            Cell::Exact(sample.bps())
        }
    }

    /// Probability that so many packets are sent without a loss; 1 before anything is known.
    pub(super) fn loss_free(&self, packets: usize) -> f64 {
        let estimators = self.estimators.as_ref();
        estimators.map_or(1.0, |known| loss_free(known.loss.outcomes(), packets))
    }

    pub(super) fn report(&mut self, window: Duration) -> Option<PathReport> {
        let estimators = self.estimators.as_mut()?;
        if !estimators.is_fresh {
            estimators.distribution.refresh();
            estimators.is_fresh = true;
        }
        let known = &estimators.distribution;
        let top = estimators.fastest;
        let mean = known.partial_mean(top).zip(known.cdf(top));
        let forecast = estimators.rtt.given(estimators.rtt_last, 1).ok();
        Some(PathReport {
            window,
            samples: estimators.samples,
            censored_fraction: estimators.censored as f64 / estimators.samples.max(1) as f64,
            // Rates above everything measured count as the highest measured.
            bandwidth_mean: mean.map(|(partial, below)| {
                Rate::from_bps((partial + (1.0 - below) * top.as_bps() as f64) as u64)
            }),
            bandwidth_p5: known.quantile(0.05),
            bandwidth_p10: known.quantile(0.10),
            bandwidth_p50: known.quantile(0.50),
            bandwidth_p90: known.quantile(0.90),
            promises: LEVELS.map(|probability| Promise {
                probability,
                rate: estimators.forecaster.promise(probability),
                kept_fraction: estimators
                    .forecaster
                    .account(probability)
                    .and_then(|account| account.kept_share()),
            }),
            rtt_next_p95: forecast.and_then(|forecast| forecast.quantile(0.95).ok()),
            loss_fraction: estimators.loss.rate().ok(),
            burst_mean_packets: estimators.bursts.mean().ok(),
            shares_with: Vec::new(),
        })
    }
}

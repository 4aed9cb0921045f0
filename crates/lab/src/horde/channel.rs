//! A channel as the published simulations had it: slots at a constant rate, a Gaussian round trip, bursts of
//! losses; and its manager's expectations.

use anabranch_base::{Random, Seed};
use anabranch_link::loss::Doubling;
use anabranch_sched::objective::Slot;
use anabranch_sim::topology::{Channel as Published, HORDE_CHANNELS};

/// Every ADU, and every packet [Horde §7.1].
pub(super) const ADU_BYTES: u32 = 768;
/// The weight of a new round trip in the moving average, as TCP's. Assumed: the thesis does not say.
const WEIGHT: f64 = 0.125;

/// What a simulated channel is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub name: &'static str,
    pub rate_bps: f64,
    pub round_trip_ms: f64,
    pub deviation_ms: f64,
    pub loss: f64,
    pub burst_max: u32,
}

impl Kind {
    /// The channels of Figure 7-5.
    pub(super) fn published() -> Vec<Self> {
        let kind = |channel: &Published| Self {
            name: channel.name,
            rate_bps: channel.rate.as_bps() as f64,
            round_trip_ms: channel.rtt_mean.as_secs_f64() * 1e3,
            deviation_ms: channel.rtt_deviation.as_secs_f64() * 1e3,
            loss: channel.loss,
            burst_max: channel.burst_max,
        };
        HORDE_CHANNELS.iter().map(kind).collect()
    }

    /// Time between two slots.
    pub(super) fn gap_ms(&self) -> f64 {
        f64::from(ADU_BYTES) * 8e3 / self.rate_bps
    }
}

/// A channel at work, with its manager.
#[derive(Debug)]
pub(super) struct Channel {
    pub kind: Kind,
    index: u32,
    loss: Doubling,
    random: Random,
    state: u32,
    sent: u64,
    /// When the next slot comes.
    next_ms: f64,
    /// Slots that wait to be used.
    ready: u64,
    /// The manager's averages.
    round_trip_ms: f64,
    deviation_ms: f64,
    lost: f64,
    known: f64,
}

impl Channel {
    pub(super) fn new(index: usize, kind: Kind, seed: Seed) -> Self {
        let loss = Doubling::horde(kind.loss, kind.burst_max).expect("figures that are possible");
        let mut random = seed.stream(kind.name);
        let state = loss.any_state(&mut random);
        let next_ms = random.uniform(0.0, kind.gap_ms());
        Self {
            kind,
            index: index as u32,
            loss,
            random,
            state,
            sent: 0,
            next_ms,
            ready: 0,
            round_trip_ms: kind.round_trip_ms,
            deviation_ms: kind.deviation_ms,
            lost: 0.0,
            known: 0.0,
        }
    }

    /// Slots that exist at `now_ms`, and the phantoms of the next `ahead_ms` by the rate at which slots come, as
    /// published.
    pub(super) fn slots(&mut self, now_ms: f64, ahead_ms: f64, slots: &mut Vec<Slot>) {
        while self.next_ms <= now_ms {
            self.next_ms += self.kind.gap_ms();
            self.ready += 1;
        }
        let slot = Slot {
            channel: self.index,
            sequence: self.sent,
            wait_ms: 0.0,
            confidence: 1.0,
            loss: if self.known > 0.0 {
                self.lost / self.known
            } else {
                0.0
            },
            round_trip_ms: self.round_trip_ms,
            deviation_ms: self.deviation_ms,
            cost_per_byte: 0.0,
            bytes_max: ADU_BYTES,
        };
        let phantoms = (ahead_ms / self.kind.gap_ms()) as u64;
        slots.extend((0..self.ready + phantoms).map(|n| Slot {
            sequence: self.sent + n,
            wait_ms: match n.checked_sub(self.ready) {
                None => 0.0,
                Some(later) => self.next_ms - now_ms + later as f64 * self.kind.gap_ms(),
            },
            ..slot
        }));
    }

    /// Uses a slot: the round trip of the packet; `None`: it is lost.
    pub(super) fn send(&mut self) -> Option<f64> {
        self.ready -= 1;
        self.sent += 1;
        self.state = self.loss.step(self.state, &mut self.random);
        let trip = (self.random).normal(self.kind.round_trip_ms, self.kind.deviation_ms);
        (self.state == 0).then_some(trip.max(1.0))
    }

    /// The manager learns of a packet's fate.
    pub(super) fn learn(&mut self, round_trip_ms: Option<f64>) {
        self.known += 1.0;
        match round_trip_ms {
            None => self.lost += 1.0,
            Some(trip) => {
                let error = trip - self.round_trip_ms;
                self.round_trip_ms += WEIGHT * error;
                self.deviation_ms += WEIGHT * (error.abs() - self.deviation_ms);
            }
        }
    }
}

//! A channel as in the published simulations, with slots at a constant rate, a Gaussian round trip and bursts of losses, or as
//! recorded, packet by packet; and its manager's expectations.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Random, Seed};
use anabranch_estimate::{
    PacketOrder,
    model::{ChannelModel, Choice, Packet},
};
use anabranch_link::loss::Doubling;
use anabranch_sim::topology::{Channel as Published, HORDE_CHANNELS};
use anabranch_spec::Slot;

use super::cdma::Probe;

/// Bytes of every ADU, and of every packet [Horde §7.1].
pub(super) const ADU_BYTES: u32 = 768;
/// Weight of a new round trip in the moving average, as in TCP. Assumed: the thesis does not specify it.
const WEIGHT: f64 = 0.125;

/// Parameters of a simulated channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    pub name: String,
    pub rate_bps: f64,
    pub round_trip_ms: f64,
    pub deviation_ms: f64,
    pub loss: f64,
    pub burst_max: u32,
    /// Its packets as recorded, in the order of time, each a slot; then nothing is drawn at random.
    pub recorded: Option<Arc<[Probe]>>,
    /// Model behind the expectations of its slots; `None`: the published averages.
    pub model: Option<Choice>,
}

impl Kind {
    /// The channels of Figure 7-5.
    pub(super) fn published() -> Vec<Self> {
        let kind = |channel: &Published| Self {
            name: channel.name.to_owned(),
            rate_bps: channel.rate.as_bps() as f64,
            round_trip_ms: channel.rtt_mean.as_secs_f64() * 1e3,
            deviation_ms: channel.rtt_deviation.as_secs_f64() * 1e3,
            loss: channel.loss,
            burst_max: channel.burst_max,
            recorded: None,
            model: None,
        };
        HORDE_CHANNELS.iter().map(kind).collect()
    }

    /// A channel all of whose packets are known.
    pub(super) fn recorded(name: String, probes: Vec<Probe>, model: Option<Choice>) -> Self {
        let seconds = probes.last().map_or(0.0, |last| last.0 / 1e3).max(1e-3);
        let rate_bps = probes.len() as f64 * f64::from(ADU_BYTES) * 8.0 / seconds;
        let first = probes.iter().find_map(|probe| probe.1).unwrap_or(1.0);
        Self {
            name,
            rate_bps,
            round_trip_ms: first,
            deviation_ms: first / 2.0,
            loss: 0.0,
            burst_max: 1,
            recorded: Some(probes.into()),
            model,
        }
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
    /// Time of the next slot.
    next_ms: f64,
    /// Slots that wait to be used.
    ready: u64,
    /// In a recorded channel, the packet of the cycle's first slot.
    row: usize,
    model: Option<(PacketOrder, Box<dyn ChannelModel>)>,
    /// The manager's averages.
    round_trip_ms: f64,
    deviation_ms: f64,
    lost: f64,
    known: f64,
}

impl Channel {
    pub(super) fn new(index: usize, kind: Kind, seed: Seed) -> Self {
        let loss = Doubling::horde(kind.loss, kind.burst_max).expect("figures that are possible");
        let mut random = seed.stream(&kind.name);
        let state = loss.any_state(&mut random);
        let next_ms = random.uniform(0.0, kind.gap_ms());
        Self {
            model: (kind.model).map(|choice| (PacketOrder::new(), choice.model())),
            index: index as u32,
            loss,
            random,
            state,
            sent: 0,
            next_ms,
            ready: 0,
            row: 0,
            round_trip_ms: kind.round_trip_ms,
            deviation_ms: kind.deviation_ms,
            kind,
            lost: 0.0,
            known: 0.0,
        }
    }

    /// Slots that exist at `now_ms`, and the phantoms of the next `ahead_ms` at the rate of slots, as published.
    pub(super) fn slots(&mut self, now_ms: f64, ahead_ms: f64, slots: &mut Vec<Slot>) {
        let first = slots.len();
        self.arrive(now_ms);
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
            predicted_ms: self.round_trip_ms,
            cost_per_byte: 0.0,
            bytes_max: ADU_BYTES,
        };
        let phantoms = match self.kind.recorded {
            Some(_) => 0,
            None => (ahead_ms / self.kind.gap_ms()) as u64,
        };
        slots.extend((0..self.ready + phantoms).map(|n| Slot {
            sequence: self.sent + n,
            wait_ms: match n.checked_sub(self.ready) {
                None => 0.0,
                Some(later) => self.next_ms - now_ms + later as f64 * self.kind.gap_ms(),
            },
            ..slot
        }));
        if let Some((_, model)) = &mut self.model {
            for (ahead, slot) in (0..).zip(&mut slots[first..]) {
                let at = moment(now_ms + slot.wait_ms);
                let expected = model.expect(ahead, at);
                slot.loss = expected.loss;
                if let Some(trip) = expected.round_trip {
                    slot.round_trip_ms = trip.mean_ms();
                    slot.predicted_ms = slot.round_trip_ms;
                    slot.deviation_ms = trip.deviation_ms();
                }
            }
        }
    }

    /// Adds the slots that have come by now. A recorded packet that was not sent in its cycle is past.
    fn arrive(&mut self, now_ms: f64) {
        if let Some(recorded) = &self.kind.recorded {
            let past = self.row + self.ready as usize;
            self.row = past + recorded[past..].partition_point(|probe| probe.0 <= now_ms);
            self.ready = (self.row - past) as u64;
            self.row = past;
            return;
        }
        while self.next_ms <= now_ms {
            self.next_ms += self.kind.gap_ms();
            self.ready += 1;
        }
    }

    /// Uses a slot, the n-th of its cycle. Returns the packet's number and its round trip; `None`: it is lost.
    pub(super) fn send(&mut self, nth: u64, now_ms: f64) -> (u64, Option<f64>) {
        let number = self.sent;
        self.sent += 1;
        let at = moment(now_ms);
        if let Some((order, model)) = &mut self.model
            && let Some(index) = order.sent(number, at)
        {
            let bytes = ADU_BYTES;
            model.sent(Packet { index, at, bytes });
        }
        (number, self.carry(nth))
    }

    fn carry(&mut self, nth: u64) -> Option<f64> {
        if let Some(recorded) = &self.kind.recorded {
            return recorded[self.row + nth as usize].1;
        }
        self.ready -= 1;
        self.state = self.loss.step(self.state, &mut self.random);
        let trip = (self.random).normal(self.kind.round_trip_ms, self.kind.deviation_ms);
        (self.state == 0).then_some(trip.max(1.0))
    }

    /// Updates the manager with the outcome of a packet.
    pub(super) fn learn(&mut self, number: u64, at_ms: f64, round_trip_ms: Option<f64>) {
        if let Some((order, model)) = &mut self.model {
            let at = moment(at_ms);
            let outcome = match round_trip_ms {
                None => order.lost(number, at),
                Some(ms) => order.acked(number, at, Duration::from_secs_f64(ms / 1e3)),
            };
            if let Some(outcome) = outcome {
                model.observe(&outcome);
            }
        }
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

fn moment(ms: f64) -> Instant {
    Instant::from_micros((ms * 1e3) as u64)
}

//! Slots of a channel: those that exist, and those that its rate lets one expect.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, Rate};

use super::{ChannelModel, Distribution};
use anabranch_spec::Slot;

/// Most slots of one channel that are listed at a time, unless limited by [`Slots::limited`].
pub const SLOTS_MAX: usize = 1024;
/// Predictions that are being watched at a time.
const WATCHED_MAX: usize = 16;
/// Bins over the logarithm of how much longer slots took than predicted, and the ends of that.
const BINS: usize = 64;
const STRETCH_MAX: f64 = 8.0;
/// Predictions after which the weight of one has fallen to 1/e.
const MEMORY: f64 = 200.0;
/// The share of slots that shall exist when their wait is over.
const CONFIDENCE: f64 = 0.8;
/// By how much a wait is longer still: rounding must not decide.
const SLACK: f64 = 1.02;
/// Deviation of the time that a queue takes, as a share of it.
const QUEUE_DEVIATION: f64 = 1.0 / 3.0;

/// Supply of slots, known by the owner of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Now.
    pub now: Instant,
    /// The number that the next packet will have, of the channel's packets that carry data.
    pub next: u64,
    /// Number of packets that may be sent now.
    pub ready: u32,
    /// The rate at which its congestion control and pacer grant more.
    pub rate: Rate,
    /// Until the next one is granted, if the pacer knows.
    pub wait: Option<Duration>,
    /// The round trip to assume until packets were acknowledged, such as that of the handshake.
    pub round_trip: Duration,
    /// The shortest round trip, and the time that what is in flight takes beyond it at the rate at which the channel delivers: how the queue
    /// of a path that has slowed down shows, before a round trip does.
    pub round_trip_min: Duration,
    /// See [`Supply::round_trip_min`].
    pub queue: Duration,
    /// Bytes that fit a packet, and the cost of one.
    pub bytes_max: u32,
    /// See [`Supply::bytes_max`].
    pub cost_per_byte: f64,
    /// Most slots that are of use: no more are listed.
    pub slots_max: usize,
}

/// A prediction that is being watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    since: Instant,
    /// Packets granted in all when it is over, and how long that was predicted to take.
    target: u64,
    wait_s: f64,
}

/// Makes the slots of one channel, and learns how long phantoms really take.
///
/// A slot's round trip is the median of what its model expects, and its deviation that of the middle two thirds; or, if that is longer, what
/// is in flight lets one expect, and a share of its queue: rates are of a moment, and a queue that is too long is worth avoiding even if it
/// may be shorter.
/// A phantom's wait is the one that follows from the rate, times how much longer such slots took of late in four of five
/// cases; its confidence is the share of predictions that this would have kept. Predictions count
/// only while all slots were used: a channel that nobody sends on grants nothing new.
#[derive(Clone, Debug)]
pub struct Slots {
    channel: u32,
    ready_max: usize,
    phantoms_max: usize,
    watched: VecDeque<Watched>,
    /// The last supply: when, and granted in all.
    last: Option<(Instant, u64)>,
    /// Weights over ln(stretch), in units of which a new one counts `gain`.
    stretches: [f64; BINS],
    total: f64,
    gain: f64,
}

impl Slots {
    /// Of the channel with this index in its cycle.
    pub fn new(channel: u32) -> Self {
        let mut slots = Self {
            channel,
            ready_max: SLOTS_MAX,
            phantoms_max: SLOTS_MAX,
            watched: VecDeque::with_capacity(WATCHED_MAX),
            last: None,
            stretches: [0.0; BINS],
            total: 0.0,
            gain: 1.0,
        };
        // As if a few had been watched already.
        for stretch in [0.8, 0.9, 1.0, 1.1, 1.25] {
            slots.learn(stretch);
        }
        slots
    }

    /// The same, which lists at most so many slots that exist, and so many phantoms. Where more exist, there are no phantoms.
    pub fn limited(self, ready_max: usize, phantoms_max: usize) -> Self {
        Self {
            ready_max: ready_max.min(SLOTS_MAX),
            phantoms_max: phantoms_max.min(SLOTS_MAX),
            ..self
        }
    }

    /// The channel has this index in its cycle from now on.
    pub fn set_channel(&mut self, channel: u32) {
        self.channel = channel;
    }

    /// Adds the channel's slots of now and of the coming `ahead` to `slots`, at most [`SLOTS_MAX`]. Call it in every
    /// cycle; O(slots × an expectation).
    pub fn offer(
        &mut self,
        supply: &Supply,
        ahead: Duration,
        model: &mut dyn ChannelModel,
        slots: &mut Vec<Slot>,
    ) {
        self.watch(supply, ahead);
        let ready = (supply.ready as usize).min(self.ready_max);
        for n in 0..ready.min(supply.slots_max) as u32 {
            slots.push(self.slot(supply, n, 0.0, 1.0, model));
        }
        let gap_s = gap_s(supply);
        if !gap_s.is_finite() || supply.ready as usize > ready {
            return;
        }
        let (stretch, confidence) = self.stretch();
        let first_s = supply.wait.map_or(gap_s / 2.0, |wait| wait.as_secs_f64());
        let mut plain_s = first_s;
        let end = (ready + self.phantoms_max).min(SLOTS_MAX);
        for n in ready..end.min(supply.slots_max) {
            let wait_s = plain_s * stretch;
            if wait_s > ahead.as_secs_f64() {
                return;
            }
            slots.push(self.slot(supply, n as u32, wait_s * 1e3, confidence, model));
            plain_s += gap_s;
        }
    }

    fn slot(
        &self,
        supply: &Supply,
        n: u32,
        wait_ms: f64,
        confidence: f64,
        model: &mut dyn ChannelModel,
    ) -> Slot {
        let at = supply.now + Duration::from_secs_f64(wait_ms / 1e3);
        let expected = model.expect(n, at);
        let known = expected.round_trip;
        let in_ms = |time: Duration| time.as_secs_f64() * 1e3;
        let assumed_ms = in_ms(supply.round_trip);
        let predicted_ms = known.map_or(assumed_ms, |known| known.quantile(0.5));
        // Half of it, as of the first sample [RFC 6298 §2.2].
        let deviation_ms = known.map_or(assumed_ms / 2.0, |known| bulk_ms(&known));
        Slot {
            channel: self.channel,
            sequence: supply.next + u64::from(n),
            wait_ms,
            confidence,
            loss: expected.loss,
            round_trip_ms: predicted_ms.max(in_ms(supply.round_trip_min + supply.queue)),
            deviation_ms: deviation_ms.max(QUEUE_DEVIATION * in_ms(supply.queue)),
            predicted_ms,
            cost_per_byte: supply.cost_per_byte,
            bytes_max: supply.bytes_max,
        }
    }

    /// Factor by which a slot takes longer than its rate suggests, and the probability that it exists by then.
    fn stretch(&self) -> (f64, f64) {
        let target = CONFIDENCE * self.total;
        let (mut bin, mut below) = (0, 0.0);
        while bin < BINS - 1 && below + self.stretches[bin] < target {
            below += self.stretches[bin];
            bin += 1;
        }
        // To the end of the bin: then all of it has been kept.
        let confidence = (below + self.stretches[bin]) / self.total;
        (edge(bin + 1) * SLACK, confidence.clamp(0.0, 1.0))
    }

    fn watch(&mut self, supply: &Supply, ahead: Duration) {
        if self.last.is_some_and(|(then, _)| then == supply.now) {
            // A second look at one moment, in which slots may be left that the first one will use.
            return;
        }
        let granted = supply.next + u64::from(supply.ready);
        if let Some((then, before)) = self.last {
            if supply.next >= before {
                self.check((then, before), (supply.now, granted));
            } else {
                self.watched.clear();
            }
        }
        self.last = Some((supply.now, granted));
        let gap_s = gap_s(supply);
        let most = ahead.as_secs_f64() / gap_s;
        if self.watched.len() < WATCHED_MAX && gap_s.is_finite() && most >= 1.0 {
            // The whole look-ahead, a half, a quarter of it, in turn.
            let share = 0.5_f64.powi((self.watched.len() % 3) as i32);
            let slots = (most * share).max(1.0) as u64;
            let first_s = supply.wait.map_or(gap_s / 2.0, |wait| wait.as_secs_f64());
            self.watched.push_back(Watched {
                since: supply.now,
                target: granted + slots,
                wait_s: first_s + (slots - 1) as f64 * gap_s,
            });
        }
    }

    /// Outcome of the predictions between two supplies.
    fn check(&mut self, before: (Instant, u64), now: (Instant, u64)) {
        let mut at = 0;
        while at < self.watched.len() {
            let one = self.watched[at];
            let stretch = if now.1 >= one.target {
                // It came somewhere between the two.
                let share =
                    (one.target.saturating_sub(before.1)) as f64 / (now.1 - before.1).max(1) as f64;
                let came_s =
                    before.0.as_secs_f64() + share * (now.0.as_secs_f64() - before.0.as_secs_f64());
                (came_s - one.since.as_secs_f64()) / one.wait_s
            } else if now.0.since(one.since).as_secs_f64() > STRETCH_MAX * one.wait_s {
                STRETCH_MAX
            } else {
                at += 1;
                continue;
            };
            self.learn(stretch);
            self.watched.swap_remove_back(at);
        }
    }

    fn learn(&mut self, stretch: f64) {
        if !stretch.is_finite() {
            return;
        }
        let position = (stretch.max(1e-9).ln() / STRETCH_MAX.ln() + 1.0) / 2.0 * BINS as f64;
        self.gain *= 1.0 + 1.0 / MEMORY;
        if self.gain > 1e12 {
            self.stretches
                .iter_mut()
                .for_each(|weight| *weight /= self.gain);
            self.total /= self.gain;
            self.gain = 1.0;
        }
        self.stretches[(position.max(0.0) as usize).min(BINS - 1)] += self.gain;
        self.total += self.gain;
    }
}

/// The deviation of the normal distribution whose middle two thirds are as wide. Means and deviations proper hang on
/// the outermost percents, which are scaled up after a jump: far too much for planning by them.
fn bulk_ms(known: &Distribution) -> f64 {
    (known.quantile(0.84) - known.quantile(0.16)) / 2.0
}

/// The stretch at an edge of a bin.
fn edge(bin: usize) -> f64 {
    ((bin as f64 / BINS as f64 * 2.0 - 1.0) * STRETCH_MAX.ln()).exp()
}

/// Seconds between two slots; infinite when there is no rate.
fn gap_s(supply: &Supply) -> f64 {
    let bits = f64::from(supply.bytes_max.max(1)) * 8.0;
    bits / supply.rate.as_bps() as f64
}

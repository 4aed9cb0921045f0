//! Cost of channel models: `cargo bench -p anabranch-estimate --bench model`.
//!
//! One packet and its outcome; the slots of a cycle, asked for after each outcome; and a channel's memory of pairs
//! with others. Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of several
//! runs with the smallest and the largest; quote ratios, and never across machines.

#[path = "../../sched/benches/common/mod.rs"]
mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Instant, Random, Rate, Seed};
use anabranch_estimate::{
    PacketOrder,
    model::{ChannelModel, Choice, Joint, Packet, Recogniser, Slots, Supply},
};
use anabranch_spec::Slot;
use serde_json::{Value, json};

/// Packets in flight, and the time between two.
const FLIGHT: u64 = 16;
const GAP: Duration = Duration::from_millis(5);
const PACKETS: u64 = 20_000;

/// A channel that sends on and on.
struct Run {
    order: PacketOrder,
    model: Box<dyn ChannelModel>,
    slots: Slots,
    joint: Joint,
    recogniser: Recogniser,
    random: Random,
    next: u64,
    cycle: Vec<Slot>,
}

impl Run {
    fn new(choice: &str) -> Self {
        let choice: Choice = choice.parse().expect("a name");
        let mut run = Self {
            order: PacketOrder::new(),
            model: choice.model(),
            slots: Slots::new(0).limited(64, 32),
            joint: Joint::new(6),
            recogniser: Recogniser::new(),
            random: Seed(1).stream("trips"),
            next: 0,
            cycle: Vec::new(),
        };
        // Enough for a technology to be recognised, and for a period to be looked for.
        run.send(PACKETS);
        run
    }

    fn at(number: u64) -> Instant {
        Instant::EPOCH + GAP * number as u32
    }

    /// Sends so many packets, and takes as many outcomes.
    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.one();
        }
    }

    fn one(&mut self) {
        let (number, now) = (self.next, Self::at(self.next));
        self.next += 1;
        if let Some(index) = self.order.sent(number, now) {
            let (at, bytes) = (now, 1_200);
            self.model.sent(Packet { index, at, bytes });
        }
        let Some(old) = number.checked_sub(FLIGHT) else {
            return;
        };
        let outcome = if self.random.chance(0.01) {
            self.order.lost(old, now)
        } else {
            // A queue that drains periodically, and jitter.
            let trip = 80.0 + (old % 40) as f64 + self.random.exponential(10.0);
            self.order
                .acked(old, now, Duration::from_secs_f64(trip / 1e3))
        };
        if let Some(outcome) = outcome {
            self.model.observe(&outcome);
        }
    }

    /// The joint losses of six channels that send in turn.
    fn pair(&mut self) {
        let (number, now) = (self.next, Self::at(self.next));
        self.next += 1;
        let channel = (number % 6) as usize;
        self.joint.sent(channel, now);
        if self.random.chance(0.01) {
            self.joint.lost(channel, now);
        }
    }

    /// A packet in each slice of time in which a period is looked for.
    fn slice(&mut self) {
        let number = self.next;
        self.next += 1;
        let at = Instant::EPOCH + Duration::from_millis(250) * number as u32;
        self.order.sent(number, at);
        let trip = 80.0 + self.random.exponential(10.0);
        let outcome = (self.order).acked(number, at, Duration::from_secs_f64(trip / 1e3));
        if let Some(outcome) = outcome {
            self.recogniser.observe(&outcome);
        }
    }

    /// 64 slots that exist and 32 phantoms.
    fn offer(&mut self) {
        let supply = Supply {
            now: Self::at(self.next),
            next: self.next,
            ready: 64,
            rate: Rate::from_mbps(10),
            wait: None,
            round_trip: Duration::from_millis(80),
            round_trip_min: Duration::ZERO,
            queue: Duration::ZERO,
            bytes_max: 1_200,
            cost_per_byte: 0.0,
            slots_max: usize::MAX,
        };
        self.cycle.clear();
        let ahead = Duration::from_millis(300);
        self.slots
            .offer(&supply, ahead, self.model.as_mut(), &mut self.cycle);
        black_box(&self.cycle);
    }
}

#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn row(name: &str, model: &str, count: u64, mut call: impl FnMut(&mut Run)) -> Value {
    let mut run = Run::new(model);
    let [median, least, most] = common::times(1.0, || {
        let start = Clock::now();
        (0..count).for_each(|_| call(&mut run));
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    });
    json!({
        "bench": name,
        "model": model,
        "ns_median": median,
        "ns_min": least,
        "ns_max": most,
        "runs": common::RUNS,
    })
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut rows = Vec::new();
    for model in ["generic", "cellular", "satellite", "auto"] {
        rows.push(row("packet_and_outcome", model, PACKETS, Run::one));
        rows.push(row("cycle_of_96_slots", model, 1_000, |run| {
            run.one();
            run.offer();
        }));
    }
    rows.push(row("joint_of_six_channels", "generic", PACKETS, Run::pair));
    rows.push(row("slice_with_period", "generic", PACKETS, Run::slice));
    common::print("model", &rows);
}

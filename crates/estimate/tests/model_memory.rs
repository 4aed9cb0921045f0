//! Channel models allocate nothing once they have warmed up.
//!
//! Without the test harness, whose threads would be counted, too.
#![allow(clippy::print_stdout, reason = "it says itself what the harness would")]

use std::{alloc::System, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_estimate::{
    PacketOrder,
    model::{ChannelModel, Choice, Joint, Packet, Slots, Supply},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    for name in ["generic", "cellular", "satellite"] {
        let mut model = name.parse::<Choice>().expect("a name").model();
        let (mut maker, mut joint) = (Slots::new(0), Joint::new(2));
        let mut random = Seed(1).stream("trips");
        let mut order = PacketOrder::new();
        let mut slots = Vec::new();
        let mut run = |model: &mut dyn ChannelModel, from: u64, to: u64| {
            for number in from..to {
                let at = Instant::from_millis(number * 10);
                let index = order.sent(number, at).expect("numbers ascend");
                let bytes = 1200;
                model.sent(Packet { index, at, bytes });
                joint.sent((number % 2) as usize, at);
                // Eight in flight.
                if let Some(old) = number.checked_sub(8) {
                    let outcome = if random.chance(0.02) {
                        joint.lost((old % 2) as usize, Instant::from_millis(old * 10));
                        order.lost(old, at)
                    } else {
                        let trip = 80.0 + random.exponential(10.0);
                        order.acked(old, at, Duration::from_secs_f64(trip / 1e3))
                    };
                    model.observe(&outcome.expect("it was sent"));
                }
                let supply = Supply {
                    now: at,
                    next: number + 1,
                    ready: 2,
                    rate: Rate::from_bps(960_000),
                    wait: None,
                    round_trip: Duration::from_millis(80),
                    round_trip_min: Duration::ZERO,
                    queue: Duration::ZERO,
                    bytes_max: 1200,
                    cost_per_byte: 0.0,
                    slots_max: usize::MAX,
                };
                slots.clear();
                maker.offer(&supply, Duration::from_millis(100), model, &mut slots);
            }
        };
        run(model.as_mut(), 0, 2_000);
        let region = Region::new(ALLOCATOR);
        run(model.as_mut(), 2_000, 6_000);
        assert_eq!(region.change().allocations, 0, "{name}");
        println!("test packets_and_cycles_do_not_allocate::{name} ... ok");
    }
}

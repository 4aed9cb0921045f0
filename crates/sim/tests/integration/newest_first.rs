//! A stream whose newest ADU is sent first, over an outage of all paths.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_session::{Order, StreamSpec};
use anabranch_sim::apps::{Load, Receiver, StreamRecord};

use crate::common::{link, world};

const EVERY: Duration = Duration::from_millis(40);
const START: Instant = Instant::from_millis(500);
const ADUS: u64 = 700;

/// Samples of 600 kbit/s over paths of 2 Mbit/s together, of which both are away from the fifth to the thirteenth second.
fn samples(order: Order) -> StreamRecord {
    let load = Load {
        spec: StreamSpec {
            order,
            lifetime: Some(Duration::from_secs(30)),
            label: "samples".to_owned(),
            ..StreamSpec::default()
        },
        adu_bytes: 3_000,
        every: Some(EVERY),
        adus: ADUS,
        start: START,
    };
    let mut world = world(3, [link(1, 40), link(1, 80)], vec![load]);
    for wire in 0..2 {
        world.schedule(Duration::from_secs(5), move |w| w.set_wire_up(wire, false));
        world.schedule(Duration::from_secs(13), move |w| w.set_wire_up(wire, true));
    }
    world.run_until(Instant::from_secs(45));
    world.app::<Receiver>(1).record("samples")
}

/// Longest delay of the ADUs that were handed over from one second to another.
fn longest(record: &StreamRecord, seconds: std::ops::Range<u64>) -> Duration {
    let at = |second| Instant::from_secs(second).since(START).as_millis() / EVERY.as_millis();
    let numbers = at(seconds.start)..at(seconds.end);
    let delays = record.numbers.iter().zip(&record.delays);
    let of = delays.filter(|(number, _)| numbers.contains(&u128::from(**number)));
    of.map(|(_, delay)| *delay).max().expect("some")
}

/// The present is there as soon as a path is, and what the receiver missed comes beside it.
#[test]
fn the_present_comes_before_what_was_missed() {
    let [newest, oldest] = [Order::NewestFirst, Order::Unordered].map(samples);
    for record in [&newest, &oldest] {
        let mut numbers = record.numbers.clone();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..ADUS), "each of them once");
    }
    // The paths are used again one second after they are back.
    let [newest_ms, oldest_ms] =
        [&newest, &oldest].map(|record| longest(record, 14..16).as_millis());
    assert!(newest_ms < 150, "{newest_ms} ms");
    assert!(oldest_ms > 2_000, "{oldest_ms} ms");
}

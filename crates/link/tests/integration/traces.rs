//! Links driven by the recorded traces in `data/`: they carry the recorded rates.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_link::{Config, Link, Queue, RateSource, Trace, Verdict, trace::Shape};

const HSDPA: &str = include_str!("../../../../data/hsdpa-bus.csv");
const STARLINK_UP: &str = include_str!("../../../../data/starlink-up.csv");
const STARLINK_DOWN: &str = include_str!("../../../../data/starlink-down.csv");
const FIXED: &str = include_str!("../../../../data/fixed.csv");

fn trace(name: &str, text: &str) -> Trace {
    Trace::parse(name, text.as_bytes()).expect("a trace")
}

/// Keeps the queue full until `end`; returns the bits that left by then.
fn saturate(trace: Trace, end: Instant) -> f64 {
    let config = Config {
        rate: RateSource::trace(trace),
        queue: Queue::bytes(3_000),
        ..Config::default()
    };
    let mut link = Link::new(config, Seed(1)).expect("a valid config");
    let (mut now, mut bits) = (Instant::EPOCH, 0.0);
    loop {
        match link.offer(now, 1500, false) {
            Verdict::Deliver { ticket, .. } if ticket.departs() > end => return bits,
            Verdict::Deliver { .. } => bits += 12_000.0,
            // Two packets wait; there is space for the next when the first of them has left.
            Verdict::Drop(_) => now += link.queue_delay(now),
        }
    }
}

#[test]
fn a_saturated_link_carries_the_traces_integral() {
    for (name, text, length_s) in [
        ("hsdpa-bus", HSDPA, 1_000),
        ("fixed", FIXED, 4_000),
        ("starlink-up", STARLINK_UP, 600),
    ] {
        let trace = trace(name, text);
        let length = Duration::from_secs(length_s);
        let expected = trace.bits(length);
        let carried = saturate(trace, Instant::EPOCH + length);
        // All but the part of the next packet that had already been sent.
        assert!(
            carried <= expected && carried > expected - 12_001.0,
            "{name}: {carried}, {expected}"
        );
    }
}

#[test]
fn saturated_opportunities_are_all_used() {
    let text: String = (1..500u64)
        .map(|n| format!("{}\n", n * n % 977 + 3 * n))
        .collect();
    let mut times: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    times.sort_unstable();
    let text: String = times.iter().map(|time| format!("{time}\n")).collect();
    let trace = trace("opportunities", &text);
    let laps = trace.duration() * 3;
    let expected = trace.bits(laps);
    assert_eq!(expected, 3.0 * 499.0 * 12_000.0);
    assert_eq!(saturate(trace, Instant::EPOCH + laps), expected);
}

#[test]
fn the_recordings_match_the_readme() {
    let about = |name, text| trace(name, text).to_string();
    assert_eq!(
        about("h", HSDPA),
        "h: 1414.5 s, mean 3.58 Mbit/s, 109 kbit/s to 5.84 Mbit/s"
    );
    assert_eq!(
        about("u", STARLINK_UP),
        "u: 248.0 s, mean 20.2 Mbit/s, 0 bit/s to 57.1 Mbit/s"
    );
    assert_eq!(
        about("d", STARLINK_DOWN),
        "d: 248.0 s, mean 221 Mbit/s, 2.10 Mbit/s to 447 Mbit/s"
    );
    assert_eq!(
        about("f", FIXED),
        "f: 1865.0 s, mean 2.05 Mbit/s, 120 kbit/s to 2.45 Mbit/s"
    );
}

#[test]
fn the_demo_sees_no_standstill_in_its_first_20_seconds() {
    for text in [HSDPA, STARLINK_UP, STARLINK_DOWN, FIXED] {
        let trace = trace("demo", text);
        let Shape::Steps(steps) = trace.shape() else {
            panic!("not a bandwidth CSV");
        };
        let first = steps
            .iter()
            .take_while(|step| step.at < Duration::from_secs(20));
        assert!(first.clone().count() >= 4);
        for step in first {
            assert!(step.rate.as_bps() > 1_000_000, "{step:?}");
        }
    }
}

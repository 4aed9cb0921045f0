use super::*;
use crate::Trace;
use std::sync::Arc;

const S: Duration = Duration::from_secs(1);

fn playing(trace: Trace, scale: f64, start: Duration) -> Transmitter {
    let source = RateSource::Trace(Playback {
        trace: Arc::new(trace),
        scale,
        start,
    });
    Transmitter::new(&source, Instant::EPOCH, Seed(1))
}

fn steps(kbps: &[u64]) -> Trace {
    let rates: Vec<Rate> = kbps.iter().copied().map(Rate::from_kbps).collect();
    Trace::from_rates("steps", S, &rates)
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

#[test]
fn a_packet_may_span_steps() {
    // 8 kbit/s, then 16 kbit/s: 1500 bytes are 12,000 bits, 8,000 in the first second and the other
    // 4,000 in a quarter of the second one.
    let mut transmitter = playing(steps(&[8, 16]), 1.0, Duration::ZERO);
    assert_eq!(transmitter.send(ms(0), 1500), ms(1_250));
    // 12,000 more bits fill the rest of that second.
    assert_eq!(transmitter.send(ms(0), 1500), ms(2_000));
    // The trace begins again.
    assert_eq!(transmitter.send(ms(0), 1000), ms(3_000));
    assert_eq!(transmitter.rate_at(ms(3_000)), Some(Rate::from_kbps(16)));
}

#[test]
fn nothing_leaves_while_the_rate_is_zero() {
    let mut transmitter = playing(steps(&[8, 0, 0, 8]), 1.0, Duration::ZERO);
    // 1,000 bytes take the first second; what follows waits until 3 s.
    assert_eq!(transmitter.send(ms(0), 1000), ms(1_000));
    assert_eq!(transmitter.send(ms(0), 500), ms(3_500));
    // Offered in the next lap's gap, which begins at 5 s.
    assert_eq!(transmitter.send(ms(5_200), 500), ms(7_500));
}

#[test]
fn whole_laps_are_skipped() {
    // 8,000 bits a lap of 2 s: 65,000 bytes take 65 laps, the last of which ends after its first half.
    let mut transmitter = playing(steps(&[8, 0]), 1.0, Duration::ZERO);
    assert_eq!(transmitter.send(ms(0), 65_000), ms(64 * 2_000 + 1_000));
    // A trace of one bit in a thousand hours costs no more.
    let text = "t_s,bandwidth_bps\n0,1\n1,0\n1800000,0\n";
    let mut transmitter = playing(Trace::from_csv("slow", text).unwrap(), 1.0, Duration::ZERO);
    assert!(transmitter.send(ms(0), 1500) > Instant::from_secs(3_600_000));
}

#[test]
fn scale_and_start_are_applied() {
    // Starts in the middle of the second step, at double rate.
    let mut transmitter = playing(steps(&[8, 16]), 2.0, Duration::from_millis(1_500));
    assert_eq!(transmitter.rate_at(ms(0)), Some(Rate::from_kbps(32)));
    // 16,000 bits in the half second left, 8,000 of the next second's 16,000.
    assert_eq!(transmitter.send(ms(0), 3000), ms(1_000));
}

#[test]
fn a_long_idle_time_is_no_work() {
    let mut transmitter = playing(steps(&[8, 16, 24]), 1.0, Duration::ZERO);
    // 3 s · 10⁹ laps later, in the second step.
    let late = Instant::from_secs(3_000_000_001);
    assert_eq!(transmitter.send(late, 1000), late + S / 2);
}

#[test]
fn an_opportunity_carries_1500_bytes() {
    let trace = Trace::from_mahimahi("m", "0\n2\n2\n5\n10\n").unwrap();
    let mut transmitter = playing(trace, 1.0, Duration::ZERO);
    // Two packets of 750 bytes share the one at 0, the next waits for 2.
    assert_eq!(transmitter.send(ms(0), 750), ms(0));
    assert_eq!(transmitter.send(ms(0), 750), ms(0));
    assert_eq!(transmitter.send(ms(0), 1500), ms(2));
    assert_eq!(transmitter.send(ms(0), 1000), ms(2));
    // 500 bytes of the second one at 2 are left; the rest goes at 5.
    assert_eq!(transmitter.send(ms(0), 1000), ms(5));
    // The rest of the one at 5 is gone when nothing waits; 10 is also the next lap's 0.
    assert_eq!(transmitter.send(ms(6), 1500), ms(10));
    assert_eq!(transmitter.send(ms(10), 1500), ms(10));
    assert_eq!(transmitter.send(ms(10), 4500), ms(15));
}

#[test]
fn opportunities_scale_by_bytes_and_start_anywhere() {
    let trace = || Trace::from_mahimahi("m", "1\n4\n").unwrap();
    let mut transmitter = playing(trace(), 2.0, Duration::from_millis(2));
    // The one at 4 is 2 ms away and carries 3000 bytes; the next lap's first is at 5.
    assert_eq!(transmitter.send(ms(0), 3000), ms(2));
    assert_eq!(transmitter.send(ms(0), 1), ms(3));
    let mut transmitter = playing(trace(), 1.0, Duration::from_millis(5));
    assert_eq!(transmitter.send(ms(0), 1500), ms(0));
}

#[test]
fn a_walk_stays_in_its_spread_and_ignores_the_traffic() {
    let walk = RateSource::Walk(Walk {
        base: Rate::from_mbps(10),
        spread: 0.5,
        every: S / 2,
    });
    let mut busy = Transmitter::new(&walk, Instant::EPOCH, Seed(3));
    let idle = busy.clone();
    let mut sum = 0.0;
    for step in 0..2_000 {
        let now = ms(500 * step);
        busy.send(now, 1500);
        let rate = busy.rate_at(now).unwrap();
        assert_eq!(idle.rate_at(now), Some(rate));
        assert_eq!(idle.rate_at(now + Duration::from_millis(499)), Some(rate));
        assert!(rate >= Rate::from_mbps(5) && rate <= Rate::from_mbps(15));
        sum += rate.as_bps() as f64 / 2_000.0;
    }
    assert!((sum / 1e7 - 1.0).abs() < 0.03, "{sum}");
    let other = Transmitter::new(&walk, Instant::EPOCH, Seed(4));
    assert_ne!(other.rate_at(ms(0)), idle.rate_at(ms(0)));
}

#[test]
fn an_exchanged_source_begins_at_once_and_sends_after_waiting_packets() {
    let constant = RateSource::Constant(Rate::from_kbps(8));
    let mut transmitter = Transmitter::new(&constant, Instant::EPOCH, Seed(1));
    assert_eq!(transmitter.send(ms(0), 2000), ms(2_000));
    let trace = RateSource::trace(steps(&[8, 16, 24]));
    transmitter.exchange(&trace, ms(500), Seed(1));
    // The trace began at 500 ms, so 2 s lies in the middle of its second step.
    assert_eq!(transmitter.send(ms(600), 1000), ms(2_500));
    assert_eq!(transmitter.rate_at(ms(2_500)), Some(Rate::from_kbps(24)));
}

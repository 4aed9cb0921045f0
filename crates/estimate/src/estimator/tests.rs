use anabranch_base::{Rate, Seed, SocketId};

use super::*;

const WINDOW: Duration = Duration::from_millis(200);
const ONE: ChannelId = ChannelId(1);
const TWO: ChannelId = ChannelId(2);

fn ends(port: u16) -> Ends {
    Ends {
        socket: SocketId(0),
        interface: None,
        remote: ([192, 0, 2, 1], port).into(),
    }
}

/// Sends a container of 1000 bytes every 10 ms on each channel for `seconds`; it arrives as `rate_of` specifies.
fn run(
    estimator: &mut Estimator,
    from_s: u64,
    seconds: u64,
    mut delivers: impl FnMut(ChannelId, u64) -> bool,
) {
    for tick in 0..seconds * 100 {
        let now = Instant::from_secs(from_s) + Duration::from_millis(tick * 10);
        for channel in [ONE, TWO] {
            let number = from_s * 100 + tick;
            estimator.sent(now, channel, number, 1000);
            if delivers(channel, tick) {
                estimator.acked(now, channel, acked(number, now, Duration::from_millis(30)));
            } else {
                estimator.lost(now, channel, number, now);
            }
        }
        estimator.advance(now, |_| ());
    }
}

fn acked(number: u64, sent_at: Instant, rtt: Duration) -> Acked {
    Acked {
        number,
        bytes: 1000,
        sent_at,
        rtt,
    }
}

fn estimator() -> Estimator {
    let mut estimator = Estimator::new(WINDOW);
    estimator.join(ONE, ends(1));
    estimator.join(TWO, ends(2));
    estimator
}

#[test]
fn windows_become_samples_and_promises() {
    let mut estimator = estimator();
    run(&mut estimator, 1, 30, |channel, _| channel == ONE);
    let report = estimator.report(ONE).unwrap();
    assert_eq!(report.window, WINDOW);
    assert!((148..=150).contains(&report.samples), "{}", report.samples);
    assert_eq!(report.censored_fraction, 0.0);
    let near = |rate: Option<Rate>| {
        let bps = rate.unwrap().as_bps();
        assert!((780_000..=840_000).contains(&bps), "{bps}");
    };
    near(report.bandwidth_mean);
    near(report.bandwidth_p5);
    near(report.promises[0].rate);
    assert_eq!(report.loss_fraction, Some(0.0));
    // All packets on the other are lost: nothing was ever acknowledged there, so nothing is known.
    assert!(estimator.report(TWO).is_none());
}

#[test]
fn a_path_that_ran_dry_is_known_from_below_only() {
    let mut estimator = estimator();
    run(&mut estimator, 1, 1, |_, _| true);
    for second in 2..20 {
        estimator.ran_dry(ONE);
        run(&mut estimator, second, 1, |_, _| true);
        estimator.ran_dry(ONE);
    }
    let one = estimator.report(ONE).unwrap();
    let two = estimator.report(TWO).unwrap();
    assert!(one.censored_fraction > 0.15, "{one:?}");
    assert_eq!(two.censored_fraction, 0.0);
}

#[test]
fn idle_time_is_not_measured() {
    let mut estimator = estimator();
    run(&mut estimator, 1, 10, |_, _| true);
    estimator.advance(Instant::from_secs(12), |_| ());
    assert_eq!(estimator.due(), None, "nothing is sent");
    let before = estimator.report(ONE).unwrap().samples;
    estimator.advance(Instant::from_secs(500), |_| ());
    run(&mut estimator, 500, 10, |_, _| true);
    let after = estimator.report(ONE).unwrap();
    assert!(after.samples - before <= 52, "{} {before}", after.samples);
    assert!(after.bandwidth_p5.unwrap().as_bps() > 700_000);
}

#[test]
fn a_silent_path_holds_nothing() {
    let mut estimator = estimator();
    run(&mut estimator, 1, 10, |_, _| true);
    run(&mut estimator, 11, 10, |channel, _| channel == TWO);
    let one = estimator.report(ONE).unwrap();
    assert_eq!(one.bandwidth_p10, Some(Rate::from_bps(0)));
    assert!(one.loss_fraction.unwrap() > 0.4 && one.burst_mean_packets.is_none());
}

#[test]
fn a_channel_that_returns_finds_what_its_path_learned() {
    let mut estimator = estimator();
    run(&mut estimator, 1, 10, |_, _| true);
    estimator.leave(ONE);
    assert!(estimator.report(ONE).is_none());
    estimator.join(ChannelId(7), ends(1));
    assert!(estimator.report(ChannelId(7)).unwrap().samples > 40);
}

#[test]
fn a_path_that_joins_while_windows_run_is_measured() {
    let mut estimator = Estimator::new(WINDOW);
    estimator.join(ONE, ends(1));
    run(&mut estimator, 1, 2, |_, _| true);
    estimator.join(TWO, ends(2));
    run(&mut estimator, 3, 10, |_, _| true);
    let report = estimator.report(TWO).unwrap();
    assert!((49..=51).contains(&report.samples), "{}", report.samples);
    assert!(report.bandwidth_p10.unwrap().as_bps() > 700_000);
}

/// Sends a container every 10 ms on each of `channels`, delayed by one queue.
fn run_together(estimator: &mut Estimator, channels: &[ChannelId], ticks: std::ops::Range<u64>) {
    let mut random = Seed(ticks.start).stream("queue");
    let mut wait_ms = 20.0;
    for tick in ticks {
        wait_ms = (wait_ms + random.normal(0.0, 4.0)).clamp(0.0, 50.0);
        let now = Instant::from_millis(tick * 10);
        for &channel in channels {
            estimator.sent(now, channel, tick, 1000);
            let rtt = Duration::from_secs_f64(0.03 + wait_ms / 1000.0);
            estimator.acked(now, channel, acked(tick, now, rtt));
        }
        estimator.advance(now, |_| ());
    }
}

#[test]
fn a_path_that_joins_leaves_what_is_known_of_the_others() {
    const THREE: ChannelId = ChannelId(3);
    let mut estimator = estimator();
    run_together(&mut estimator, &[ONE, TWO], 0..4_000);
    assert_eq!(estimator.report(ONE).unwrap().shares_with, [TWO]);
    estimator.join(THREE, ends(3));
    assert_eq!(estimator.report(ONE).unwrap().shares_with, [TWO]);
    // Less than any response takes.
    run_together(&mut estimator, &[ONE, TWO, THREE], 4_000..5_000);
    assert_eq!(estimator.report(ONE).unwrap().shares_with, [TWO]);
    assert_eq!(estimator.report(THREE).unwrap().shares_with, []);
    run_together(&mut estimator, &[ONE, TWO, THREE], 5_000..8_000);
    assert_eq!(estimator.report(ONE).unwrap().shares_with, [TWO, THREE]);
}

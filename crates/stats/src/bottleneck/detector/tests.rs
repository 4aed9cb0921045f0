use anabranch_base::{Random, Seed};

use super::*;

fn at(ms: u64) -> Instant {
    Instant::EPOCH + Duration::from_millis(ms)
}

/// A queue's delay, sampled every 10 ms: a noisy walk between empty and full.
struct Queue(f64, Random);

impl Queue {
    fn new(name: &str) -> Self {
        Self(0.02, Seed(9).stream(name))
    }

    fn step(&mut self) -> f64 {
        self.0 = (self.0 + self.1.normal(0.0, 0.004)).clamp(0.0, 0.05);
        self.0
    }
}

/// Runs four channels of which the first two share a queue (the second meets it 100 ms later) until
/// `end_ms`, and the last two have their own.
fn run(detector: &mut Detector, from_ms: u64, end_ms: u64, shared: bool) {
    let mut queues = ["a", "b", "c", "d"].map(Queue::new);
    let mut behind = [0.0; 10];
    for (step, ms) in (from_ms..end_ms).step_by(10).enumerate() {
        let waits = [0, 1, 2, 3].map(|i| queues[i].step());
        let earlier = std::mem::replace(&mut behind[step % 10], waits[0]);
        let second = if shared { earlier } else { waits[1] };
        for (channel, wait) in [waits[0], second, waits[2], waits[3]]
            .into_iter()
            .enumerate()
        {
            let offset = 1000.0 * channel as f64;
            detector
                .observe_delay(channel, at(ms), offset + wait)
                .unwrap();
        }
        detector.advance(at(ms.saturating_sub(200)));
    }
}

#[test]
fn finds_the_pair_and_its_lag() {
    let mut detector = Detector::new(Config::new(4)).unwrap();
    run(&mut detector, 0, 60_000, true);
    let mut groups = [9; 4];
    detector.groups(&mut groups);
    assert_eq!(groups, [0, 0, 2, 3]);
    assert_eq!(detector.verdict(1, 0).unwrap(), Verdict::Shared);
    assert_eq!(detector.verdict(2, 3).unwrap(), Verdict::Separate);
    let coherence = detector.coherence(0, 1).unwrap();
    assert_eq!(coherence.lag, 2, "100 ms are two bins");
    assert!(
        coherence.coefficient > 0.9 && coherence.score() > 5.0,
        "{coherence:?}"
    );
    assert!(detector.coherence(2, 3).unwrap().coefficient < 0.3);
    assert_eq!(detector.late(), 0);
}

#[test]
fn follows_a_change_of_route() {
    let mut detector = Detector::new(Config::new(4)).unwrap();
    run(&mut detector, 0, 60_000, true);
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Shared);
    run(&mut detector, 60_000, 61_000, false);
    assert_eq!(
        detector.verdict(0, 1).unwrap(),
        Verdict::Shared,
        "one second is no evidence"
    );
    run(&mut detector, 61_000, 300_000, false);
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Separate);
    run(&mut detector, 300_000, 400_000, true);
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Shared);
}

#[test]
fn one_more_channel_changes_nothing_for_the_others() {
    let mut narrow = Detector::new(Config::new(4)).unwrap();
    let mut wide = narrow.clone();
    // Open bins, closed ones and verdicts are all taken along.
    run(&mut narrow, 0, 29_990, true);
    run(&mut wide, 0, 29_990, true);
    wide.add_channel().unwrap();
    assert_eq!(wide.verdict(0, 1).unwrap(), narrow.verdict(0, 1).unwrap());
    assert_eq!(wide.verdict(0, 1).unwrap(), Verdict::Shared);
    assert_eq!(wide.verdict(0, 4).unwrap(), Verdict::Unknown);
    run(&mut narrow, 29_990, 60_000, true);
    run(&mut wide, 29_990, 60_000, true);
    for (first, second) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        assert_eq!(
            wide.coherence(first, second).unwrap(),
            narrow.coherence(first, second).unwrap()
        );
        assert_eq!(
            wide.verdict(first, second).unwrap(),
            narrow.verdict(first, second).unwrap()
        );
    }
    for channel in 0..4 {
        assert_eq!(
            wide.summary(channel).unwrap(),
            narrow.summary(channel).unwrap()
        );
    }
    assert!(wide.coherence(0, 4).is_err(), "nothing was measured");
    // The new one meets the first queue.
    let mut queue = Queue::new("a");
    for ms in (60_000..120_000).step_by(10) {
        let wait = queue.step();
        for channel in [0, 4] {
            wide.observe_delay(channel, at(ms), wait).unwrap();
        }
        wide.advance(at(ms - 200));
    }
    assert_eq!(wide.verdict(0, 4).unwrap(), Verdict::Shared);

    for _ in 5..64 {
        wide.add_channel().unwrap();
    }
    assert!(wide.add_channel().is_err());
    assert_eq!(wide.verdict(0, 4).unwrap(), Verdict::Shared);
}

#[test]
fn a_forgotten_channel_starts_anew_and_the_others_do_not() {
    let mut detector = Detector::new(Config::new(4)).unwrap();
    run(&mut detector, 0, 60_000, true);
    let mut forgetful = detector.clone();
    forgetful.forget(1).unwrap();
    assert!(forgetful.forget(4).is_err());
    for other in [0, 2, 3] {
        assert_eq!(forgetful.verdict(1, other).unwrap(), Verdict::Unknown);
        assert!(
            forgetful.coherence(1, other).is_err(),
            "nothing was measured"
        );
    }
    assert!(forgetful.summary(1).is_err());
    run(&mut detector, 60_000, 61_000, true);
    run(&mut forgetful, 60_000, 61_000, true);
    assert_eq!(forgetful.verdict(0, 1).unwrap(), Verdict::Unknown);
    for (first, second) in [(0, 2), (0, 3), (2, 3)] {
        assert_eq!(
            forgetful.coherence(first, second).unwrap(),
            detector.coherence(first, second).unwrap()
        );
    }
    run(&mut forgetful, 61_000, 120_000, true);
    assert_eq!(forgetful.verdict(0, 1).unwrap(), Verdict::Shared);
}

/// Two separate queues that were filled once at the same time, as by a session that starts.
#[test]
fn one_moment_does_not_make_the_answer() {
    let mut detector = Detector::new(Config::new(2)).unwrap();
    let mut queues = ["start a", "start b"].map(Queue::new);
    for ms in (0..60_000u64).step_by(10) {
        let start = (2.0 - ms as f64 / 1000.0).max(0.0).powi(3);
        for (channel, queue) in queues.iter_mut().enumerate() {
            let wait = queue.step() + start * (ms as f64 / 80.0).sin().max(0.0);
            detector.observe_delay(channel, at(ms), wait).unwrap();
        }
        detector.advance(at(ms.saturating_sub(200)));
        assert_ne!(detector.verdict(0, 1).unwrap(), Verdict::Shared, "at {ms}");
    }
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Separate);
}

#[test]
fn says_when_it_knows_too_little() {
    let mut detector = Detector::new(Config::new(4)).unwrap();
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Unknown);
    assert!(matches!(
        detector.coherence(0, 1),
        Err(EstimateError::TooFew { .. })
    ));
    run(&mut detector, 0, 1_000, true);
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Unknown);
    assert!(detector.summary(0).is_err());

    let mut constant = Detector::new(Config::new(2)).unwrap();
    for ms in (0..60_000).step_by(10) {
        constant.observe_delay(0, at(ms), 0.02).unwrap();
        constant.observe_delay(1, at(ms), 0.03).unwrap();
    }
    constant.advance(at(60_000));
    assert!(matches!(
        constant.coherence(0, 1),
        Err(EstimateError::Constant { .. })
    ));
    assert_eq!(constant.verdict(0, 1).unwrap(), Verdict::Unknown);

    let mut silent = Detector::new(Config::new(2)).unwrap();
    (0..60_000)
        .step_by(10)
        .for_each(|ms| silent.observe_delay(0, at(ms), ms as f64 % 7.0).unwrap());
    assert!(silent.coherence(0, 1).is_err());
    assert_eq!(silent.verdict(0, 1).unwrap(), Verdict::Unknown);
}

#[test]
fn bad_input_is_refused() {
    let mut detector = Detector::new(Config::new(2)).unwrap();
    assert!(detector.observe_delay(2, at(0), 0.1).is_err());
    assert!(detector.observe_delay(0, at(0), f64::NAN).is_err());
    assert!(detector.observe_loss(2).is_err());
    assert!(detector.verdict(0, 0).is_err() && detector.verdict(0, 2).is_err());
    let bad: [fn(&mut Config); 7] = [
        |c| c.channels = 1,
        |c| c.bin = Duration::ZERO,
        |c| c.horizon = Duration::ZERO,
        |c| c.interval = Duration::ZERO,
        |c| c.coefficient_enter = f64::NAN,
        |c| c.coefficient_leave = 0.9,
        |c| c.score = 0.0,
    ];
    for change in bad {
        let mut config = Config::new(2);
        change(&mut config);
        assert!(Detector::new(config).is_err(), "{config:?}");
    }
}

#[test]
fn late_early_and_after_a_gap() {
    let mut detector = Detector::new(Config::new(2)).unwrap();
    detector.observe_delay(0, at(10_000), 0.1).unwrap();
    detector.advance(at(11_000));
    detector.observe_delay(0, at(10_500), 0.1).unwrap();
    assert_eq!(detector.late(), 1);
    // Further ahead than the horizon: closes what is in the way.
    detector.observe_delay(0, at(20_000), 0.1).unwrap();
    detector.observe_delay(0, at(16_000), 0.1).unwrap();
    assert_eq!(detector.late(), 2);
    // A day later everything is new, at once.
    run_pair(&mut detector, 86_400_000);
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Shared);
    detector.advance(at(3 * 86_400_000));
    assert_eq!(detector.verdict(0, 1).unwrap(), Verdict::Unknown);
}

fn run_pair(detector: &mut Detector, from_ms: u64) {
    let mut queue = Queue::new("pair");
    for ms in (from_ms..from_ms + 60_000).step_by(10) {
        let wait = queue.step();
        detector.observe_delay(0, at(ms), wait).unwrap();
        detector.observe_delay(1, at(ms), wait).unwrap();
    }
}

//! The probability that an ADU arrives in time, against what became of it: over paths whose rates change.

use crate::common;

use std::{collections::BTreeSet, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, Loss, Queue, RateSource, duplex::Configs, source::Walk,
};
use anabranch_session::{Priority, SendError, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender, make_adu},
};

use common::world;

const SEED: u64 = 11;
/// Runs of which predictions are judged together: bins of a single one have few of them.
const RUNS: u64 = 4;
const BINS: usize = 10;

/// A link whose rate is drawn anew from `mbps` ± 80 % at these times.
fn varying(mbps: u64, rtt_ms: u64, every_ms: u64) -> Configs {
    let rate = Rate::from_mbps(mbps);
    let rtt = Duration::from_millis(rtt_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Walk(Walk {
            base: rate,
            spread: 0.8,
            every: Duration::from_millis(every_ms),
        }),
        delay: rtt / 2,
        queue: Queue::bdp(rate, 2 * rtt),
        ..LinkConfig::default()
    })
}

/// A prediction, and whether the ADU was in time.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    predicted: f64,
    is_on_time: bool,
}

fn frames(reliable: bool, lifetime: Duration) -> StreamSpec {
    StreamSpec {
        label: "frames".to_owned(),
        reliable,
        lifetime: Some(lifetime),
        priority: Priority::URGENT,
        ..StreamSpec::default()
    }
}

/// Sends so many ADUs of 1 to 250 kB at random times, each with a prediction; those without one are left out.
fn outcomes(world: &mut World, spec: StreamSpec, count: u64) -> Vec<Outcome> {
    let lifetime = spec.lifetime.expect("it has one");
    world.run_until(Instant::from_secs(30));
    let session = world.app::<Sender>(0).session().expect("connected");
    let stream = world.with_node(0, |context| context.open(session, spec).expect("a stream"));
    let mut random = Seed(SEED).stream("frames");
    let mut predicted = Vec::new();
    for number in 0..count {
        let pause = Duration::from_secs_f64(0.05 + 0.45 * random.unit());
        world.run_until(world.now() + pause);
        let bytes = (1e3 * 250_f64.powf(random.unit())) as usize;
        let probability = world.with_node(0, |context| {
            let now = context.now();
            let adu = make_adu(now, number, bytes);
            let of_session = context.engine().session(session).expect("it is open");
            let mut of_stream = of_session.stream(stream);
            let probability = of_stream.on_time(now, bytes, lifetime);
            of_stream.send(now, adu).is_ok().then_some(probability)
        });
        if let Some(Some(probability)) = probability {
            predicted.push((number, probability));
        }
    }
    world.run_until(world.now() + Duration::from_secs(10));
    let record = world.app::<Receiver>(1).record("frames");
    let on_time: BTreeSet<u64> = (record.numbers.iter().zip(&record.delays))
        .filter(|(_, delay)| **delay <= lifetime)
        .map(|(number, _)| *number)
        .collect();
    let outcome = |(number, predicted)| Outcome {
        predicted,
        is_on_time: on_time.contains(&number),
    };
    predicted.into_iter().map(outcome).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

fn observed(outcomes: &[Outcome]) -> f64 {
    mean(
        outcomes
            .iter()
            .map(|outcome| f64::from(u8::from(outcome.is_on_time))),
    )
}

/// Checks that predictions are calibrated in every bin with 100 of them, and better than the base rate.
fn check(outcomes: &[Outcome]) {
    let base = observed(outcomes);
    let brier =
        |predict: &dyn Fn(&Outcome) -> f64| {
            mean(outcomes.iter().map(|outcome| {
                (predict(outcome) - f64::from(u8::from(outcome.is_on_time))).powi(2)
            }))
        };
    let (own, of_base) = (brier(&|outcome| outcome.predicted), brier(&|_| base));
    let mut lines = format!(
        "{} predictions, base rate {base:.3}, Brier {own:.4} against {of_base:.4}\n",
        outcomes.len()
    );
    let mut worst = 0.0_f64;
    for bin in 0..BINS {
        let low = bin as f64 / BINS as f64;
        let of_bin: Vec<Outcome> = outcomes
            .iter()
            .filter(|outcome| ((outcome.predicted * BINS as f64) as usize).min(BINS - 1) == bin)
            .copied()
            .collect();
        let predicted = mean(of_bin.iter().map(|outcome| outcome.predicted));
        let share = observed(&of_bin);
        lines += &format!(
            "{low:.1}: {:5} predicted {predicted:.3} observed {share:.3}\n",
            of_bin.len()
        );
        if of_bin.len() >= 100 {
            worst = worst.max((predicted - share).abs());
        }
    }
    assert!(worst <= 0.1, "{lines}");
    assert!(own < of_base, "{lines}");
    assert!((0.1..0.9).contains(&base), "{lines}");
}

#[test]
fn predictions_are_calibrated_on_one_path() {
    let mut world = world(SEED, vec![varying(4, 40, 1_000)], vec![Load::bulk(1 << 40)]);
    let spec = frames(false, Duration::from_millis(250));
    check(&outcomes(&mut world, spec, 4_000));
}

/// Two paths with losses, from queues that overflow when a rate falls.
fn on_two_paths(reliable: bool) -> Vec<Outcome> {
    let mut all = Vec::new();
    for seed in SEED..SEED + RUNS {
        let links = vec![varying(2, 30, 700), varying(2, 80, 2_000)];
        let mut world = world(seed, links, vec![Load::bulk(1 << 40)]);
        let spec = frames(reliable, Duration::from_millis(400));
        all.extend(outcomes(&mut world, spec, 3_000));
    }
    all
}

#[test]
fn predictions_are_calibrated_on_two_paths() {
    check(&on_two_paths(false));
}

#[test]
fn predictions_are_calibrated_on_two_paths_with_repairs() {
    check(&on_two_paths(true));
}

/// Six paths that each lose 3 % of all packets: of ADUs of one packet, 3 % are lost, however many paths there are for it. That there is
/// the capacity for it is another matter, and as certain of twelve packets as of one.
#[test]
fn an_adu_is_exposed_to_the_losses_of_paths_that_carry_its_packets() {
    let lossy = || {
        Configs::symmetric(LinkConfig {
            loss: Loss::Random { probability: 0.03 },
            ..common::link(2, 40).forward
        })
    };
    let beside = Load::messages(4_000, Duration::from_millis(20), u64::MAX);
    let mut world = world(SEED, (0..6).map(|_| lossy()), vec![beside]);
    world.run_until(Instant::from_secs(90));
    let session = world.app::<Sender>(0).session().expect("connected");
    let chances = |world: &mut World, reliable, bytes| {
        let spec = frames(reliable, Duration::from_millis(400));
        world.with_node(0, |context| {
            let stream = context.open(session, spec).expect("a stream");
            let now = context.now();
            let of_session = context.engine().session(session).expect("it is open");
            let within = Duration::from_millis(400);
            of_session.stream(stream).chances(now, bytes, within)
        })
    };
    let mut chance = |reliable, bytes| {
        let chances = chances(&mut world, reliable, bytes).expect("it is known");
        assert!(chances.unless_lost > 0.99, "{bytes}: {chances:?}");
        chances.on_time
    };
    let small = chance(false, 500);
    assert!((0.955..0.98).contains(&small), "{small}");
    let large = chance(false, 12 * 1_100);
    assert!((0.6..0.8).contains(&large), "{large}");
    let repaired = chance(true, 500);
    assert!(repaired > 0.99, "{repaired}");
}

/// Over a steady path: nothing is known at first; then what fits is taken, what does not is refused, and nothing of it is queued.
#[test]
fn an_adu_that_will_be_late_is_refused_before_it_is_queued() {
    let load = |label: &str, priority, kbps: usize| Load {
        spec: StreamSpec {
            label: label.to_owned(),
            priority,
            ..StreamSpec::default()
        },
        ..Load::messages(kbps * 5, Duration::from_millis(40), u64::MAX)
    };
    let loads = vec![
        Load::bulk(1 << 40),
        Load {
            start: Instant::from_secs(40),
            ..load("first", Priority(250), 6_000)
        },
    ];
    let mut world = world(SEED, vec![common::link(8, 40)], loads);
    world.run_until(Instant::from_secs(3));
    let session = world.app::<Sender>(0).session().expect("connected");
    let spec = frames(true, Duration::from_millis(300));
    let stream = world.with_node(0, |context| context.open(session, spec).expect("a stream"));
    let on_time = |world: &mut World, bytes: usize| {
        world.with_node(0, |context| {
            let now = context.now();
            let of_session = context.engine().session(session).expect("it is open");
            let within = Duration::from_millis(300);
            of_session.stream(stream).on_time(now, bytes, within)
        })
    };
    assert_eq!(on_time(&mut world, 1_000), None);
    world.run_until(Instant::from_secs(35));
    // 1 MB/s for 280 ms.
    let small = on_time(&mut world, 180_000).expect("it is known");
    let large = on_time(&mut world, 400_000).expect("it is known");
    assert!(small > 0.9 && large < 0.1, "{small} {large}");
    world.with_node(0, |context| {
        let now = context.now();
        let of_session = context.engine().session(session).expect("it is open");
        let mut stream = of_session.stream(stream);
        let before = stream.send_capacity();
        let refused = stream.send_if_on_time(now, vec![0; 400_000].into(), 0.5);
        assert!(
            matches!(refused, Err(SendError::Unlikely { probability, .. }) if probability < 0.1),
            "{refused:?}"
        );
        assert_eq!(stream.send_capacity(), before);
        assert!(
            stream
                .send_if_on_time(now, vec![0; 1_000].into(), 0.5)
                .is_ok()
        );
    });
    // A stream that is served first takes three quarters.
    world.run_until(Instant::from_secs(45));
    let beside = on_time(&mut world, 180_000).expect("it is known");
    let left = on_time(&mut world, 15_000).expect("it is known");
    assert!(beside < 0.1 && left > 0.9, "{beside} {left}");
}

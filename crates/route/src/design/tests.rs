use anabranch_base::{Rate, Seed};
use proptest::prelude::*;

use super::*;

const PACKET: u64 = 1_400;

/// A link of `mbps`, with delay errors of `noise_ms` and almost no prior knowledge.
fn task(mbps: f64, noise_ms: f64) -> Task {
    let slope = 8e-6 / mbps;
    Task {
        belief: Belief::guess(1.0, 100.0 * slope),
        noise: Noise {
            fixed_s: noise_ms * 1e-3,
            per_byte_s: 0.0,
        },
        sizes: sizes(
            5,
            PACKET,
            Rate::from_bps((mbps * 1e6) as u64),
            Duration::from_millis(500),
        ),
        overhead_bytes: 0,
        interest: interest(&[10_000, 1_000_000], 0.02, slope),
    }
}

/// Costs that do not depend on the size: half of the probes at each end, none between [theory of the line].
#[test]
fn a_line_is_measured_at_its_ends() {
    let mut line = task(10.0, 5.0);
    line.overhead_bytes = 1_000_000_000_000;
    let plan = plan(
        &[line.clone()],
        Criterion::D,
        100 * line.overhead_bytes + 100_000_000,
    );
    let shown: Vec<_> = plan
        .probes
        .iter()
        .map(|probe| (probe.bytes, probe.count))
        .collect();
    assert_eq!(shown, [(PACKET, 50), (625_000, 50)]);
    assert!(plan.gap < 1e-3, "{plan:?}");
}

/// With bytes as the cost, D spends half of them at each end: many small probes, few large ones.
#[test]
fn bytes_count() {
    let line = task(10.0, 5.0);
    let plan = plan(std::slice::from_ref(&line), Criterion::D, 100_000_000);
    let [small, large] = plan.probes[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((small.bytes, large.bytes), (PACKET, 625_000));
    for end in [small, large] {
        let share = (end.bytes * end.count) as f64 / 1e8;
        assert!((share - 0.5).abs() < 0.01, "{plan:?}");
    }
}

#[test]
fn noisy_links_get_more_and_those_known_less() {
    let tasks = [task(10.0, 1.0), task(10.0, 10.0)];
    let by_link = |tasks: &[Task]| {
        let plan = plan(tasks, Criterion::A, 50_000_000);
        let cost = |task| -> u64 {
            let probes = plan.probes.iter().filter(|probe| probe.task == task);
            probes.map(|probe| probe.count * probe.bytes).sum()
        };
        [cost(0), cost(1)]
    };
    let [steady, noisy] = by_link(&tasks);
    // The sum of σ²/n is least with n in proportion to σ.
    let ratio = noisy as f64 / steady as f64;
    assert!((7.0..13.0).contains(&ratio), "{ratio}");
    // The noisy link has been measured; the steady one has changed in the meantime.
    let drift = Drift {
        intercept_per_s: 1e-4,
        slope_per_s: (1e-7f64).powi(2),
    };
    let done = plan(&tasks, Criterion::A, 50_000_000);
    let beliefs = beliefs_after(&tasks, &done.probes);
    let mut again = tasks;
    again[0].belief = beliefs[0].after(Duration::from_secs(60), &drift);
    again[1].belief = beliefs[1];
    let [steady, noisy] = by_link(&again);
    let changed = noisy as f64 / steady as f64;
    assert!(changed < ratio / 2.0, "{ratio} {changed}");
}

#[test]
fn little_or_nothing_to_spend_or_to_measure() {
    let tasks = [
        task(10.0, 1.0),
        Task {
            sizes: Vec::new(),
            ..task(1.0, 1.0)
        },
    ];
    for criterion in [Criterion::A, Criterion::D] {
        assert_eq!(plan(&[], criterion, 1_000).probes, []);
        assert_eq!(plan(&tasks, criterion, 0).probes, []);
        assert_eq!(plan(&tasks, criterion, PACKET - 1).probes, []);
        assert_eq!(plan(&tasks[1..], criterion, 1_000_000).probes, []);
        let one = plan(&tasks, criterion, PACKET);
        assert_eq!((one.probes.len(), one.cost_bytes), (1, PACKET));
    }
    assert_eq!(equal(&tasks, 0).probes, []);
    assert_eq!(random(&tasks, 10, &mut Seed(1).stream("x")).probes, []);
}

/// Beliefs agree with least squares: errors of fits of simulated delays.
#[test]
fn beliefs_are_kept() {
    let task = task(10.0, 5.0);
    let plan = plan(std::slice::from_ref(&task), Criterion::D, 5_000_000);
    let belief = beliefs_after(std::slice::from_ref(&task), &plan.probes)[0];
    let mut random = Seed(1).stream("delays");
    let mut squares = 0.0;
    let trials = 2_000;
    for _ in 0..trials {
        let mut fit = anabranch_stats::regression::LineFit::new(f64::INFINITY).unwrap();
        for probe in &plan.probes {
            for _ in 0..probe.count {
                let delay = 0.02 + probe.bytes as f64 * 8e-7;
                fit.observe(probe.bytes as f64, delay + random.normal(0.0, 0.005))
                    .unwrap();
            }
        }
        let line = fit.line().unwrap();
        squares += (line.at(300_000.0) - 0.26).powi(2);
        let guess = Belief::guess(1.0, 1e-4);
        let own = Belief::fitted(&fit.scatter().unwrap(), &guess);
        let ratio = own.error_s(300_000) / belief.error_s(300_000);
        assert!((0.5..1.6).contains(&ratio), "{ratio}");
    }
    let error = (squares / f64::from(trials)).sqrt();
    let ratio = error / belief.error_s(300_000);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Within the budget, and never worse than equal rates or random probes; near the optimum by exhaustive search.
    #[test]
    fn no_worse_than_others(
        links in prop::collection::vec((1.0..100f64, 0.5..20f64), 1..6),
        budget in 3_000_000u64..100_000_000,
        is_a in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let criterion = if is_a { Criterion::A } else { Criterion::D };
        let tasks: Vec<Task> = links.iter().map(|&(mbps, noise_ms)| task(mbps, noise_ms)).collect();
        let ours = plan(&tasks, criterion, budget);
        let mut lots = Seed(seed).stream("lots");
        let mut designs = vec![equal(&tasks, budget)];
        designs.extend((0..10).map(|_| random(&tasks, budget, &mut lots)));
        for design in designs.iter().chain([&ours]) {
            prop_assert!(design.cost_bytes <= budget);
            let cost: u64 = design.probes.iter().map(|probe| probe.bytes * probe.count).sum();
            prop_assert_eq!(cost, design.cost_bytes);
        }
        let best = value(&tasks, criterion, &ours.probes);
        for design in &designs {
            let other = value(&tasks, criterion, &design.probes);
            prop_assert!(best <= other + 1e-9 * other.abs(), "{} {} {:?}", best, other, ours);
        }
    }

    /// The exchange ends near the optimum: no single exchange of a tenth of the bytes spent anywhere gains anything.
    #[test]
    fn nothing_to_exchange(
        links in prop::collection::vec((1.0..100f64, 0.5..20f64), 1..8),
        is_a in any::<bool>(),
    ) {
        let criterion = if is_a { Criterion::A } else { Criterion::D };
        let tasks: Vec<Task> = links.iter().map(|&(mbps, noise_ms)| task(mbps, noise_ms)).collect();
        let mut design = exchange::Design::new(&tasks, criterion, 1e9);
        let gap = design.exchange();
        prop_assert!(gap <= 1e-3, "{}", gap);
        prop_assert!((design.spent.iter().sum::<f64>() - 1e9).abs() < 1.0);
    }
}

/// The exact optimum of a tiny problem, by trying every count.
#[test]
fn rounding_is_near_the_best_whole_plan() {
    let tasks = [
        Task {
            sizes: vec![1_000, 9_000],
            ..task(1.0, 3.0)
        },
        Task {
            sizes: vec![1_000, 20_000],
            ..task(2.0, 8.0)
        },
    ];
    let budget = 60_000;
    for criterion in [Criterion::A, Criterion::D] {
        let mut best = f64::INFINITY;
        for a in 0..=6 {
            for b in 0..=3 {
                let large = a * 9_000 + b * 20_000;
                for c in 0..=(budget - large.min(budget)) / 1_000 {
                    let d = (budget - large.min(budget)) / 1_000 - c;
                    if large + (c + d) * 1_000 > budget {
                        continue;
                    }
                    let counts = [(0, 9_000, a), (1, 20_000, b), (0, 1_000, c), (1, 1_000, d)];
                    let probes = counts.map(|(task, bytes, count)| Probe { task, bytes, count });
                    best = best.min(value(&tasks, criterion, &probes));
                }
            }
        }
        let ours = value(&tasks, criterion, &plan(&tasks, criterion, budget).probes);
        match criterion {
            Criterion::A => assert!(ours <= 1.03 * best, "{ours} {best}"),
            Criterion::D => assert!(ours <= best + 0.1, "{ours} {best}"),
        }
    }
}

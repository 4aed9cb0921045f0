//! Cost of the estimators of paths: `cargo bench -p anabranch-stats --bench paths`.
//!
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of
//! several runs with the smallest and the largest; quote ratios, and never across machines.

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Instant, Seed};
use anabranch_stats::{
    bottleneck::{Detector, detector},
    change::{DriftDetector, drift},
    joint::{Cell, Correlator, JointWindow, Kind},
    loss::{
        BaumWelch, Bursts, CrossLoss, GilbertElliott, LossRate, Moments, PairLoss, cross::Slice,
    },
    regression::{LineFit, TheilSen},
    rtt::{ConditionalRtt, SmoothedRtt, conditional},
};
use serde_json::{Map, Value, json};

const RUNS: usize = 5;
/// Draws made beforehand, so that they are not measured.
const DRAWS: usize = 1 << 16;

/// Times `count` calls of `step`, several runs, in nanoseconds a call.
#[allow(clippy::disallowed_methods)] // A bench measures time.
fn row(name: &str, count: usize, mut step: impl FnMut(usize)) -> Value {
    // Once for windows to fill and caches to warm.
    (0..count).for_each(&mut step);
    let mut nanos: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Clock::now();
            (0..count).for_each(&mut step);
            start.elapsed().as_secs_f64() * 1e9 / count as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    let mut row = Map::new();
    row.insert("bench".into(), json!(name));
    for (suffix, value) in [
        ("median", nanos[RUNS / 2]),
        ("min", nanos[0]),
        ("max", nanos[RUNS - 1]),
    ] {
        row.insert(format!("ns_{suffix}"), json!((value * 10.0).round() / 10.0));
    }
    row.insert("runs".into(), json!(RUNS));
    Value::Object(row)
}

fn outcomes() -> Vec<bool> {
    let mut random = Seed(1).stream("outcomes");
    let mut bad = false;
    (0..DRAWS)
        .map(|_| {
            bad = random.chance(if bad { 0.8 } else { 0.01 });
            bad && random.chance(0.7)
        })
        .collect()
}

fn packets() -> Vec<Value> {
    let mut random = Seed(2).stream("packets");
    let rtts: Vec<Duration> = (0..DRAWS)
        .map(|_| Duration::from_secs_f64(0.05 + random.exponential(0.02)))
        .collect();
    let outcomes = outcomes();
    let infallible = "accepted parameters";

    let mut smoothed = SmoothedRtt::new();
    let mut conditional = ConditionalRtt::new(&conditional::Config::default()).expect(infallible);
    let mut rate = LossRate::new(1000);
    let mut bursts = Bursts::new(10_000);
    let mut moments = Moments::new(10_000.0).expect(infallible);
    let mut pairs = PairLoss::new(16, 10_000.0).expect(infallible);
    let mut detector = Detector::new(detector::Config::new(4)).expect(infallible);
    let mut index = 0;
    vec![
        row("smoothed_rtt_observe", 1_000_000, |i| {
            smoothed.observe(rtts[i % DRAWS]);
        }),
        row("conditional_rtt_observe_4_lags", 1_000_000, |i| {
            index += 1;
            conditional.observe(index, rtts[i % DRAWS]);
        }),
        row("conditional_rtt_median", 20_000, |i| {
            let forecast = conditional.given(rtts[i % DRAWS], 1).ok();
            black_box(forecast.and_then(|forecast| forecast.quantile(0.5).ok()));
        }),
        row("loss_rate_observe", 1_000_000, |i| {
            rate.observe(outcomes[i % DRAWS]);
        }),
        row("bursts_observe", 1_000_000, |i| {
            bursts.observe(outcomes[i % DRAWS]);
        }),
        row("gilbert_moments_observe", 1_000_000, |i| {
            moments.observe(outcomes[i % DRAWS]);
        }),
        row("pair_loss_observe_16_distances", 1_000_000, |i| {
            pairs.observe(outcomes[i % DRAWS]);
        }),
        row("bottleneck_observe_delay", 1_000_000, |i| {
            // All in one bin: the cost of a packet without that of a bin.
            let taken =
                detector.observe_delay(i % 4, Instant::EPOCH, rtts[i % DRAWS].as_secs_f64());
            black_box(taken.is_ok());
        }),
    ]
}

fn windows() -> Vec<Value> {
    let mut random = Seed(3).stream("windows");
    let values: Vec<f64> = (0..DRAWS).map(|_| 1e7 + random.normal(0.0, 1e6)).collect();
    let outcomes = outcomes();
    let infallible = "accepted parameters";

    let mut joint = JointWindow::new(4, 500).expect(infallible);
    let mut correlator = Correlator::new(500);
    let mut drift = DriftDetector::new(drift::Config::default()).expect(infallible);
    let mut cross = CrossLoss::new(10, 10_000.0).expect(infallible);
    let mut line = LineFit::new(100.0).expect(infallible);
    let mut robust = TheilSen::new(100).expect(infallible);
    let mut fitter = BaumWelch::new(5_000, 100);
    let mut model: Option<GilbertElliott> = None;
    let mut detector = Detector::new(detector::Config::new(4)).expect(infallible);
    let mut bin = 0;
    let at = |i: usize| values[i % DRAWS];
    let mut rows = vec![
        row("joint_push_4_channels", 1_000_000, |i| {
            black_box(
                joint
                    .push(&[0, 1, 2, 3].map(|c| Cell::Exact(at(4 * i + c))))
                    .is_ok(),
            );
        }),
        row("drift_observe_500_against_100", 200_000, |i| {
            black_box(drift.observe(at(i)).is_ok());
        }),
        row("cross_loss_observe_21_lags", 200_000, |i| {
            let slice = |c: usize| Slice {
                sent: 4,
                lost: u32::from(outcomes[(2 * i + c) % DRAWS]),
            };
            black_box(cross.observe(slice(0), slice(1)).is_ok());
        }),
        row("line_observe", 1_000_000, |i| {
            black_box(line.observe((i % 1000) as f64, at(i)).is_ok());
        }),
        row("theil_sen_line_100_points", 200, |i| {
            black_box(robust.observe((i % 97) as f64, at(i)).is_ok());
            black_box(robust.line().ok());
        }),
        row("baum_welch_5000_packets_warm", 20, |i| {
            let start = i * 1000 % (DRAWS - 5000);
            let window = outcomes[start..start + 5000].iter().copied();
            model = fitter.fit(window, model).ok().map(|fit| fit.model);
        }),
        row("bottleneck_bin_of_50_ms_4_channels", 20_000, |i| {
            bin += 1;
            let sent = Instant::from_millis(50 * bin);
            for channel in 0..4 {
                black_box(
                    detector
                        .observe_delay(channel, sent, at(4 * i + channel))
                        .is_ok(),
                );
            }
            detector.advance(sent);
        }),
    ];
    rows.push(row("joint_sum_level_500_rows", 10_000, |_| {
        black_box(joint.sum_level(&[true; 4], 0.95).ok());
    }));
    rows.push(row("joint_all_at_least_500_rows", 10_000, |_| {
        black_box(joint.all_at_least(&[1e7; 4]).ok());
    }));
    rows.push(row("correlation_spearman_500_rows", 200, |_| {
        black_box(correlator.channels(&joint, 0, 1, Kind::Spearman).ok());
    }));
    rows
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let rows = [packets(), windows()].concat();
    let outcome = json!({
        "experiment": "stats_paths",
        "version": env!("CARGO_PKG_VERSION"),
        "seed": 1,
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}

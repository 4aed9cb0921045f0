//! Promises for a term, each of its samples judged on its own.

use anabranch_stats::forecast::Config;

use crate::common::{TermFigures, Trace, median, term_figures};

/// The figures of every trace when `is_long`, and those of all.
pub(crate) fn print(traces: &[Trace], config: &Config, from: usize, is_long: bool) {
    let rows: Vec<Vec<TermFigures>> = traces
        .iter()
        .map(|trace| term_figures(&trace.samples_bps, &config.levels, config.hold, from))
        .collect();
    if is_long {
        for (trace, figures) in traces.iter().zip(&rows) {
            println!(
                "{} ({} samples, {:.0} % zero)",
                trace.name,
                trace.samples_bps.len(),
                100.0 * trace.zero_share()
            );
            for f in figures {
                println!(
                    "    P {:.2}: rolling {:.4}, renewed {:.4} ({:.4} to {:.4}), worst block {:.3}, useful {:.3} Mbit/s, gain {:.2}, over whole {:.2}",
                    f.kept_promised,
                    f.rolling.kept(),
                    f.renewed[0].kept(),
                    f.renewed.iter().map(|s| s.kept()).fold(1.0, f64::min),
                    f.renewed.iter().map(|s| s.kept()).fold(0.0, f64::max),
                    f.renewed[0].block_kept_least,
                    f.rolling.useful / 1e6,
                    f.gain,
                    f.over_whole
                );
            }
        }
    }
    println!(
        "{} traces, terms of {} samples, each sample judged, from sample {from} on",
        traces.len(),
        config.hold
    );
    for level in 0..config.levels.len() {
        print_summary(&rows, level);
    }
}

fn print_summary(rows: &[Vec<TermFigures>], level: usize) {
    let all: Vec<&TermFigures> = rows.iter().map(|row| &row[level]).collect();
    let p = all[0].kept_promised;
    let near = |kept: f64, points: f64| (kept - p).abs() <= points / 100.0 + 1e-12;
    let rolling = |points| {
        all.iter()
            .filter(|f| near(f.rolling.kept(), points))
            .count()
    };
    let first = |points| {
        all.iter()
            .filter(|f| near(f.renewed[0].kept(), points))
            .count()
    };
    let phases: Vec<f64> = all
        .iter()
        .flat_map(|f| f.renewed.iter().map(|score| score.kept()))
        .collect();
    let any = |points| phases.iter().filter(|kept| near(**kept, points)).count();
    let pooled = |scores: &mut dyn Iterator<Item = (usize, usize)>| {
        let (broken, count) = scores.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        1.0 - broken as f64 / count as f64
    };
    let rolled = pooled(&mut all.iter().map(|f| (f.rolling.broken, f.rolling.count)));
    let renewed = pooled(
        &mut all
            .iter()
            .flat_map(|f| f.renewed.iter().map(|s| (s.broken, s.count))),
    );
    let blocks = all
        .iter()
        .filter(|f| f.renewed[0].block_kept_least >= p - 0.02 - 1e-9)
        .count();
    let low = all
        .iter()
        .filter(|f| f.renewed[0].kept() < p - 0.01 - 1e-12)
        .count();
    let values = |of: fn(&TermFigures) -> f64| all.iter().map(|f| of(f)).collect::<Vec<_>>();
    let gains = values(|f| f.gain);
    let tenth = {
        let mut sorted = gains.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 10]
    };
    println!(
        "P {p:.2}: within 0.5, 1 point: rolling {}, {}; renewed {}, {} (below by more {low}); all phases {:.1} %, {:.1} %; \
         pooled {rolled:.4}, {renewed:.4}; block {blocks}; gain {:.3} median, {tenth:.2} 10th percentile; over whole {:.2}; pinball {:.3}",
        rolling(0.5),
        rolling(1.0),
        first(0.5),
        first(1.0),
        100.0 * any(0.5) as f64 / phases.len() as f64,
        100.0 * any(1.0) as f64 / phases.len() as f64,
        median(gains),
        median(values(|f| f.over_whole)),
        median(values(|f| f.pinball_ratio)),
    );
}

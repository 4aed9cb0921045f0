//! The figures of `docs/results/statistics.md`: promises on every recorded path.
//!
//! ```text
//! cargo run --release -p anabranch-stats --example evaluate -- [--hold H] [--each] [--shuffle] [--traces]
//!     [--sums] [--durable] [--families A,B,…] [--least N] [--from N]
//! ```
//! The traces are looked for in `ANABRANCH_DATA`, then in `../shared/data`.
#![allow(clippy::print_stdout)] // The tables are its result.

#[path = "../../tests/integration/common/mod.rs"]
mod common;
mod durable;
mod sums;
mod term;

use common::{Figures, Trace, figures, median};

use anabranch_stats::forecast::Config;

/// Measurements of one trace.
struct Row {
    trace: Trace,
    figures: Vec<Figures>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::default();
    let (mut is_shuffled, mut is_long, mut is_each) = (false, false, false);
    let (mut is_sums, mut is_durable) = (false, false);
    let (mut least, mut from) = (700, common::FROM);
    let mut families: Option<Vec<String>> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--each" => is_each = true,
            "--sums" => is_sums = true,
            "--durable" => is_durable = true,
            "--hold" => config.hold = value()?.parse()?,
            "--shuffle" => is_shuffled = true,
            "--traces" => is_long = true,
            "--from" => from = value()?.parse()?,
            "--least" => least = value()?.parse()?,
            "--families" => families = Some(value()?.split(',').map(str::to_owned).collect()),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let folder = common::data_folder().ok_or("no traces; set ANABRANCH_DATA")?;
    if is_sums {
        return Ok(sums::print(&folder, &config, from)?);
    }
    let traces = common::traces(&folder, least)?
        .into_iter()
        .filter(|trace| match &families {
            Some(families) => families.iter().any(|name| name == trace.family()),
            None => true,
        })
        .map(|trace| if is_shuffled { trace.shuffled() } else { trace });
    if is_durable {
        let sets = common::path_sets(&folder, "satcell", least)?;
        let pairs = sets.iter().flat_map(|set| set.pairs());
        let sums: Vec<Trace> = pairs.map(|pair| pair.sum()).collect();
        durable::print("paths", &traces.collect::<Vec<_>>(), is_long);
        durable::print("satcell, sums of pairs", &sums, is_long);
        return Ok(());
    }
    if is_each {
        term::print(&traces.collect::<Vec<_>>(), &config, from, is_long);
        return Ok(());
    }
    let rows: Vec<Row> = traces
        .map(|trace| Row {
            figures: figures(&trace.samples_bps, &config, from),
            trace,
        })
        .collect();
    if is_long {
        rows.iter().for_each(print_row);
    }
    println!(
        "{} traces, {} samples, judged from sample {} on; hold {}",
        rows.len(),
        rows.iter()
            .map(|r| r.trace.samples_bps.len())
            .sum::<usize>(),
        from,
        config.hold
    );
    for level in 0..config.levels.len() {
        print_summary(&rows, level);
    }
    Ok(())
}

fn print_row(row: &Row) {
    println!(
        "{} ({} samples, {:.0} % zero)",
        row.trace.name,
        row.trace.samples_bps.len(),
        100.0 * row.trace.zero_share()
    );
    for figures in &row.figures {
        let score = &figures.score;
        println!(
            "    P {:.2}: kept {:.4}, worst block {:.3}, repeats {:.2}, useful {:.3} Mbit/s, gain {:.2}, \
             pinball {:.2}",
            figures.kept_promised,
            score.kept(),
            score.block_kept_least,
            score.repeat().unwrap_or(0.0),
            score.useful / 1e6,
            figures.gain,
            figures.pinball_ratio
        );
    }
}

fn print_summary(rows: &[Row], level: usize) {
    let all: Vec<(&Trace, &Figures)> = rows.iter().map(|r| (&r.trace, &r.figures[level])).collect();
    let promised = all[0].1.kept_promised;
    let is_calibrated = |f: &Figures| (f.score.kept() - promised).abs() <= 0.005 + 1e-12;
    let share = |held: usize, of: usize| format!("{held}/{of}");
    let long: Vec<_> = all
        .iter()
        .filter(|(trace, _)| trace.samples_bps.len() >= 2000)
        .collect();
    let worst = all
        .iter()
        .map(|(_, f)| (f.score.kept() - promised).abs())
        .fold(0.0, f64::max);
    let blocks = all
        .iter()
        .filter(|(_, f)| f.score.block_kept_least >= promised - 0.02 - 1e-9)
        .count();
    let (repeated, followed) = all.iter().fold((0, 0), |sum, (_, f)| {
        (sum.0 + f.score.repeated, sum.1 + f.score.followed)
    });
    let values = |of: fn(&Figures) -> f64| all.iter().map(|(_, f)| of(f)).collect::<Vec<_>>();
    let gains = values(|f| f.gain);
    let tenth = {
        let mut sorted = gains.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 10]
    };
    println!(
        "P {promised:.2}: |kept-P| <= 0.5: {} of all, {} of those with 2000 (worst {:.2} points); \
         block {}; repeats {:.1} % pooled, {:.1} % median; gain {:.2} median, {tenth:.2} 10th percentile; \
         pinball {:.3} median",
        share(
            all.iter().filter(|(_, f)| is_calibrated(f)).count(),
            all.len()
        ),
        share(
            long.iter().filter(|(_, f)| is_calibrated(f)).count(),
            long.len()
        ),
        100.0 * worst,
        share(blocks, all.len()),
        100.0 * f64::from(repeated as u32) / f64::from((followed as u32).max(1)),
        100.0 * median(values(|f| f.score.repeat().unwrap_or(0.0))),
        median(gains),
        median(values(|f| f.pinball_ratio)),
    );
}

//! Promises of the sum of paths that were recorded together.

use std::path::Path;

use anabranch_stats::forecast::Config;

use crate::common::{PathSet, SumFigures, median, path_sets, sum_figures};

/// Pairs and whole sessions of satellite and cellular, and pairs of Wi-Fi and cellular.
pub(crate) fn print(folder: &Path, config: &Config, from: usize) -> std::io::Result<()> {
    let sessions = path_sets(folder, "satcell", from + 400)?;
    let pairs: Vec<PathSet> = sessions.iter().flat_map(PathSet::pairs).collect();
    print_sets("satcell, sessions of all paths", &sessions, config, from);
    print_sets("satcell, pairs", &pairs, config, from);
    // A minute and a half each: judged as soon as anything is promised.
    let walks = path_sets(folder, "wifi_cell_pairs", 80)?;
    print_sets("wifi_cell_pairs", &walks, config, 30);
    Ok(())
}

fn print_sets(name: &str, sets: &[PathSet], config: &Config, from: usize) {
    let rows: Vec<Vec<SumFigures>> = sets
        .iter()
        .map(|set| sum_figures(set, config, from))
        .collect();
    println!("{name}: {} sets, from sample {from} on", sets.len());
    if sets.is_empty() {
        return;
    }
    for (level, p) in config.levels.iter().enumerate() {
        let all: Vec<&SumFigures> = rows.iter().map(|row| &row[level]).collect();
        let near = |points: f64| {
            all.iter()
                .filter(|f| (f.sum.kept() - p).abs() <= points / 100.0 + 1e-12)
                .count()
        };
        let pooled = |of: fn(&SumFigures) -> (usize, usize)| {
            let (broken, count) = all
                .iter()
                .map(|f| of(f))
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            1.0 - broken as f64 / count as f64
        };
        let block = all
            .iter()
            .filter(|f| f.sum.block_kept_least >= p - 0.02 - 1e-9)
            .count();
        let middle = |of: fn(&SumFigures) -> f64| median(all.iter().map(|f| of(f)).collect());
        println!(
            "P {p:.2}: kept {:.4} pooled, within 0.5, 1 point {}, {}, block {block}; sum of the paths' promises kept \
             {:.4}; promised over that sum {:.3}, over the best path {:.3} (medians)",
            pooled(|f| (f.sum.broken, f.sum.count)),
            near(0.5),
            near(1.0),
            pooled(|f| (f.parts.broken, f.parts.count)),
            middle(|f| f.over_parts),
            middle(|f| f.over_best),
        );
    }
}

//! Recorded traces, and the figures of a forecaster on one of them. Shared by the tests and by the example
//! `evaluate`.
#![allow(dead_code, unreachable_pub)] // Each user needs a part of it.

use std::path::{Path, PathBuf};

use anabranch_base::{Random, Rate, Seed};
use anabranch_stats::{
    bandwidth::Sample,
    forecast::{Config, Forecaster, Judged},
    score::{Hindsight, Score, held, renewed, rolling},
};

/// Promises are judged from this sample on: before, neither we nor the baseline know much.
pub const FROM: usize = 100;
/// The windows of the baseline.
pub const WINDOWS: [usize; 3] = [100, 500, 1000];

/// A recorded series of bandwidth samples.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Folder and file.
    pub name: String,
    pub samples_bps: Vec<f64>,
}

impl Trace {
    /// The set of measurements that it belongs to.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or("")
    }

    /// The share of samples that are zero.
    pub fn zero_share(&self) -> f64 {
        let zeros = self.samples_bps.iter().filter(|&&bps| bps <= 0.0).count();
        zeros as f64 / self.samples_bps.len() as f64
    }

    /// The same samples in a random order.
    pub fn shuffled(&self) -> Self {
        let mut samples_bps = self.samples_bps.clone();
        shuffle(
            &mut samples_bps,
            &mut Seed(1).stream(&format!("shuffle {}", self.name)),
        );
        Self {
            name: self.name.clone(),
            samples_bps,
        }
    }
}

/// Fisher and Yates.
pub fn shuffle(values: &mut [f64], random: &mut Random) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Place where the recorded traces are: `ANABRANCH_DATA`, or `shared/data` beside the repository. `None` when
/// they are not at hand.
pub fn data_folder() -> Option<PathBuf> {
    #[allow(clippy::disallowed_methods)] // A test may ask where its data is.
    let named = std::env::var("ANABRANCH_DATA").ok().map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    named
        .into_iter()
        .chain([beside])
        .find(|folder| folder.join("index.csv").is_file())
}

/// The column `bandwidth_bps` of a trace file, which is its second.
pub fn parse(text: &str) -> Vec<f64> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1)?.parse().ok())
        .collect()
}

/// All recorded paths with at least `least` samples, 0.1 to 1.15 s apart.
pub fn traces(folder: &Path, least: usize) -> std::io::Result<Vec<Trace>> {
    let index = std::fs::read_to_string(folder.join("index.csv"))?;
    let mut lines = index.lines();
    let header: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap_or(usize::MAX);
    let (file, quantity) = (column("file"), column("quantity"));
    let (step, count) = (column("dt_s"), column("n"));
    let mut traces = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |index: usize| cells.get(index).copied().unwrap_or("");
        let step_s: f64 = cell(step).parse().unwrap_or(0.0);
        if cell(quantity) != "bandwidth_bps"
            || cell(count).parse().unwrap_or(0usize) < least
            || !(0.09..=1.15).contains(&step_s)
        {
            continue;
        }
        let text = std::fs::read_to_string(folder.join(cell(file)))?;
        traces.push(Trace {
            name: cell(file).trim_start_matches("paths/").to_owned(),
            samples_bps: parse(&text),
        });
    }
    Ok(traces)
}

/// Paths that were recorded together: the rates of one moment stand at one index.
#[derive(Debug, Clone)]
pub struct PathSet {
    pub name: String,
    pub paths: Vec<Trace>,
}

impl PathSet {
    /// The sum of all paths, as one path.
    pub fn sum(&self) -> Trace {
        let count = self.paths[0].samples_bps.len();
        let sum = |t: usize| self.paths.iter().map(|p| p.samples_bps[t].floor()).sum();
        Trace {
            name: self.name.clone(),
            samples_bps: (0..count).map(sum).collect(),
        }
    }

    /// Every two of its paths.
    pub fn pairs(&self) -> Vec<Self> {
        let mut pairs = Vec::new();
        for (index, first) in self.paths.iter().enumerate() {
            for second in &self.paths[index + 1..] {
                let file = second.name.rsplit('/').next().unwrap_or("");
                pairs.push(Self {
                    name: format!("{} + {file}", first.name),
                    paths: vec![first.clone(), second.clone()],
                });
            }
        }
        pairs
    }
}

/// All sets of `family` with at least `least` moments at which each path was measured.
pub fn path_sets(folder: &Path, family: &str, least: usize) -> std::io::Result<Vec<PathSet>> {
    let mut sets = Vec::new();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder.join("paths").join(family))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    for set in folders {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&set)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
            .collect();
        files.sort();
        let name_of = |path: &Path| path.file_stem().unwrap_or_default().display().to_string();
        let name = format!("{family}/{}", name_of(&set));
        // By time in milliseconds.
        let mut columns = Vec::new();
        for file in &files {
            let text = std::fs::read_to_string(file)?;
            let rows: std::collections::BTreeMap<i64, f64> = text
                .lines()
                .skip(1)
                .filter_map(|line| {
                    let mut cells = line.split(',');
                    let seconds: f64 = cells.next()?.parse().ok()?;
                    Some(((seconds * 1e3).round() as i64, cells.next()?.parse().ok()?))
                })
                .collect();
            columns.push(rows);
        }
        let times: Vec<i64> = columns.first().map_or_else(Vec::new, |first| {
            let everywhere = |time: &&i64| columns.iter().all(|rows| rows.contains_key(*time));
            first.keys().filter(everywhere).copied().collect()
        });
        if columns.len() < 2 || times.len() < least {
            continue;
        }
        let paths = files.iter().zip(&columns).map(|(file, rows)| Trace {
            name: format!("{name}/{}", name_of(file)),
            samples_bps: times.iter().map(|time| rows[time]).collect(),
        });
        sets.push(PathSet {
            paths: paths.collect(),
            name,
        });
    }
    Ok(sets)
}

/// Comparison of promises of the sum of several paths with those of each.
#[derive(Debug, Clone)]
pub struct SumFigures {
    pub kept_promised: f64,
    /// Promises of a forecaster that sees the sums.
    pub sum: Score,
    /// The sums of what is promised of each path alone, against the sums that came.
    pub parts: Score,
    /// Mean promises, kept or not: of the sum, over the sum of the paths' promises.
    pub over_parts: f64,
    /// The same, over the largest promise of one path at each time.
    pub over_best: f64,
}

/// The figures of a set from moment `from` on, for each level of `config`, whose hold is 1.
pub fn sum_figures(set: &PathSet, config: &Config, from: usize) -> Vec<SumFigures> {
    let sums = set.sum().samples_bps;
    let ours = promises(&sums, config);
    let of_paths: Vec<Vec<Vec<f64>>> = set
        .paths
        .iter()
        .map(|path| {
            let whole: Vec<f64> = path.samples_bps.iter().map(|bps| bps.floor()).collect();
            promises(&whole, config)
        })
        .collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    config
        .levels
        .iter()
        .enumerate()
        .map(|(level, &p)| {
            let at = |t: usize| of_paths.iter().map(move |path| path[level][t]);
            let parts: Vec<f64> = (from..sums.len()).map(|t| at(t).sum()).collect();
            let best: Vec<f64> = (from..sums.len())
                .map(|t| at(t).fold(0.0, f64::max))
                .collect();
            let score = |promises: &[f64]| {
                Score::of(promises, &sums[from..], p).expect("a set long enough")
            };
            SumFigures {
                kept_promised: p,
                sum: score(&ours[level][from..]),
                parts: score(&parts),
                over_parts: ratio(mean(&ours[level][from..]), mean(&parts)),
                over_best: ratio(mean(&ours[level][from..]), mean(&best)),
            }
        })
        .collect()
}

/// The figures of one level on one trace.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub kept_promised: f64,
    pub score: Score,
    /// Useful rate over that of the best fixed quantile of a fixed window in hindsight.
    pub gain: f64,
    /// Pinball loss over that of the quantile of 500 samples at the promised level.
    pub pinball_ratio: f64,
}

/// Promises for every sample but the first, by level: `promises[level][t]`, 0 where none was made.
pub fn promises(samples_bps: &[f64], config: &Config) -> Vec<Vec<f64>> {
    let mut forecaster = Forecaster::new(config).expect("a valid configuration");
    let mut promises = vec![Vec::with_capacity(samples_bps.len()); config.levels.len()];
    for &bps in samples_bps {
        for (promises, &level) in promises.iter_mut().zip(&config.levels) {
            let promise = forecaster.promise(level).unwrap_or(Rate::ZERO);
            promises.push(promise.as_bps() as f64);
        }
        forecaster.observe(Sample::exact(Rate::from_bps(bps as u64)));
    }
    promises
}

/// The figures of `config` on `samples_bps` from sample `from` on, for each level.
pub fn figures(samples_bps: &[f64], config: &Config, from: usize) -> Vec<Figures> {
    // Samples are whole bits per second, as the forecaster sees them.
    let whole: Vec<f64> = samples_bps.iter().map(|bps| bps.floor()).collect();
    let outcomes = held(&whole, config.hold);
    let all = promises(&whole, config);
    config
        .levels
        .iter()
        .zip(all)
        .map(|(&kept_promised, promises)| {
            let hindsights = WINDOWS.map(|window| {
                Hindsight::of(&outcomes, window, config.hold, from, 1.0 - kept_promised)
                    .expect("a trace long enough")
            });
            let score = Score::of(
                &promises[from..outcomes.len()],
                &outcomes[from..],
                kept_promised,
            )
            .expect("a trace long enough");
            let best = hindsights
                .iter()
                .map(|hindsight| hindsight.useful_at(score.kept()))
                .fold(0.0, f64::max);
            Figures {
                kept_promised,
                score,
                gain: ratio(score.useful, best),
                pinball_ratio: ratio(score.pinball, hindsights[1].pinball()),
            }
        })
        .collect()
}

/// Statistics of promises for a term when each sample of it is judged on its own.
#[derive(Debug, Clone)]
pub struct TermFigures {
    pub kept_promised: f64,
    /// Promises made with each sample.
    pub rolling: Score,
    /// Promises renewed every H samples, from each of H first samples on.
    pub renewed: Vec<Score>,
    /// Useful rate over that of the best fixed quantile of a fixed window in hindsight.
    pub gain: f64,
    /// Useful rate over that of promises with the same probability that are judged as a whole, both sample by
    /// sample.
    pub over_whole: f64,
    pub pinball_ratio: f64,
}

/// The figures of promises for terms of `hold` samples on `samples_bps` from sample `from` on.
pub fn term_figures(
    samples_bps: &[f64],
    levels: &[f64],
    hold: usize,
    from: usize,
) -> Vec<TermFigures> {
    let whole: Vec<f64> = samples_bps.iter().map(|bps| bps.floor()).collect();
    let config = |judged| Config {
        levels: levels.to_vec(),
        hold,
        judged,
    };
    let each = promises(&whole, &config(Judged::Each));
    let as_whole = promises(&whole, &config(Judged::Whole));
    let score = |(promises, outcomes): (Vec<f64>, Vec<f64>), p| {
        Score::of(&promises, &outcomes, p).expect("a trace long enough")
    };
    levels
        .iter()
        .enumerate()
        .map(|(level, &p)| {
            let rolled = score(rolling(&each[level], &whole, hold, from), p);
            let rival = score(rolling(&as_whole[level], &whole, hold, from), p);
            let hindsights = WINDOWS.map(|window| {
                Hindsight::of_terms(&whole, window, hold, from, 1.0 - p)
                    .expect("a trace long enough")
            });
            let best = hindsights
                .iter()
                .map(|hindsight| hindsight.useful_at(rolled.kept()))
                .fold(0.0, f64::max);
            TermFigures {
                kept_promised: p,
                rolling: rolled,
                renewed: (from..from + hold)
                    .map(|first| score(renewed(&each[level], &whole, hold, first), p))
                    .collect(),
                gain: ratio(rolled.useful, best),
                over_whole: ratio(rolled.useful, rival.useful),
                pinball_ratio: ratio(rolled.pinball, hindsights[1].pinball()),
            }
        })
        .collect()
}

/// 1 when both are 0.
fn ratio(ours: f64, theirs: f64) -> f64 {
    if ours == theirs { 1.0 } else { ours / theirs }
}

/// The value in the middle; NaN of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

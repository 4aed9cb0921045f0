//! Forecasts of round trips, losses and technologies [Horde §7.4.2, Figures 7-29, 7-30].

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_estimate::{
    PacketOrder,
    model::{ChannelModel, Choice, Joint, LEVELS, Packet},
};
use anabranch_stats::rtt::{ConditionalRtt, conditional::Config};
use serde_json::json;

use super::{
    cdma::{self, Probe},
    e1,
};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        series::{insert, median},
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "horde-rtt",
    summary: "round trips given the last one, and their prediction by channel models [Horde Figures 7-29, 7-30]",
    plan: include_str!("rtt.md"),
    folders: &["rtt"],
    run,
    compare,
    plots,
};

const MODELS: [&str; 4] = ["generic", "cellular", "satellite", "auto"];
/// Packets at the start of a recording that are not judged; a recording must have that many more.
const LEARN: usize = 300;
const JUDGED_MIN: usize = 300;
/// Time after which a loss is detected.
const LOSS_KNOWN_MS: f64 = 2_000.0;
/// Packets of a piece of a recording in which its technology is to be recognised: 15 minutes, five a second.
const PIECE: usize = 4_500;
/// Last round trips for which Figure 7-30 shows the distribution of the next, as quantiles of all.
const GIVEN: [f64; 3] = [0.02, 0.5, 0.98];

/// Packets of one channel.
struct Path {
    name: String,
    network: String,
    group: String,
    /// Kind of network as which it should be recognised, if that is known.
    truth: Option<&'static str>,
    probes: Vec<Probe>,
}

fn paths(options: &Options<'_>) -> Vec<Path> {
    let recordings = options.corpus.recordings.iter();
    let recorded = recordings.filter(|recording| recording.rtt_ms.is_some());
    let mut paths: Vec<Path> = recorded
        .map(|recording| Path {
            name: recording.name.clone(),
            network: recording.network.clone(),
            group: recording.group.clone(),
            truth: technology(&recording.network),
            probes: e1::probes(recording),
        })
        .collect();
    let made = |name: &str, truth, probes| Path {
        name: format!("generated/{name}"),
        network: "generated".into(),
        group: String::new(),
        truth: Some(truth),
        probes,
    };
    let seed = options.seed;
    paths.push(made(
        "cdma2000",
        "cellular",
        cdma::probes(20_000, 0.0, seed),
    ));
    let elevated = cdma::probes(20_000, 1_500.0, seed);
    paths.push(made("cdma2000-elevated", "cellular", elevated));
    paths.push(made("wired", "generic", wired(seed)));
    paths.retain(|path| path.probes.len() >= LEARN + JUDGED_MIN && options.wants(&path.name));
    paths
}

/// Technology, by the words of the index.
fn technology(network: &str) -> Option<&'static str> {
    let words = network.to_lowercase();
    let has = |word: &str| words.contains(word);
    if has("satellite") || has("starlink") {
        Some("satellite")
    } else if has("4g") || has("5g") || has("lte") || has("3g") {
        Some("cellular")
    } else {
        None
    }
}

/// A line of 20 ms with a little jitter and an occasional loss.
fn wired(seed: Seed) -> Vec<Probe> {
    let mut random = seed.stream("wired");
    let one = |number: u32| {
        let lost = random.chance(0.001);
        let trip = 20.0 + random.exponential(0.4);
        (f64::from(number) * 100.0, (!lost).then_some(trip))
    };
    (0..20_000).map(one).collect()
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let paths = paths(options);
    let jobs: Vec<(&Path, &str)> = paths
        .iter()
        .flat_map(|path| MODELS.map(|model| (path, model)))
        .collect();
    let mut rows = parallel::map(&jobs, |&(path, model)| {
        let row = judged(path, model);
        (options.progress)(&format!("{}: {model}", path.name));
        row
    });
    rows.extend(parallel::map(&paths, pieces).into_iter().flatten());
    rows.extend(parallel::map(&paths, given).into_iter().flatten());
    rows.extend(together(&paths));
    rows
}

fn begin(kind: &str, path: &Path) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("path".into(), json!(path.name));
    row.insert("network".into(), json!(path.network));
    row
}

/// Sends every probe through `model`, with outcomes reported when they became known; `see` is called before each.
fn replay(
    model: &mut dyn ChannelModel,
    probes: &[Probe],
    mut see: impl FnMut(usize, &mut dyn ChannelModel, Instant),
) {
    let moment = |ms: f64| Instant::from_micros((ms * 1e3) as u64);
    let mut order = PacketOrder::new();
    let mut coming: BinaryHeap<Reverse<(Instant, u64)>> = BinaryHeap::new();
    for (number, &(at_ms, trip)) in probes.iter().enumerate() {
        let at = moment(at_ms);
        while let Some(&Reverse((when, other))) = coming.peek()
            && when <= at
        {
            coming.pop();
            let outcome = match probes[other as usize].1 {
                Some(ms) => order.acked(other, when, Duration::from_secs_f64(ms / 1e3)),
                None => order.lost(other, when),
            };
            if let Some(outcome) = outcome {
                model.observe(&outcome);
            }
        }
        see(number, model, at);
        let number = number as u64;
        if let Some(index) = order.sent(number, at) {
            let bytes = 768;
            model.sent(Packet { index, at, bytes });
        }
        coming.push(Reverse((
            moment(at_ms + trip.unwrap_or(LOSS_KNOWN_MS)),
            number,
        )));
    }
}

/// Errors of the expectations at the time of sending.
fn judged(path: &Path, name: &str) -> Row {
    let mut model = name.parse::<Choice>().expect("a name of a model").model();
    let mut sums = Sums::default();
    replay(model.as_mut(), &path.probes, |number, model, at| {
        if number < LEARN {
            return;
        }
        let expected = model.expect(0, at);
        let truth = path.probes[number].1;
        sums.loss(expected.loss, truth.is_none());
        if let (Some(trip), Some(truth)) = (expected.round_trip, truth) {
            let quantiles = LEVELS.map(|level| trip.quantile(level));
            sums.trip(&quantiles, trip.mean_ms(), truth);
        }
    });
    let mut row = begin("path", path);
    row.insert("model".into(), json!(name));
    row.insert("technology".into(), json!(model.technology().name()));
    sums.write(&mut row);
    row
}

#[derive(Default)]
struct Sums {
    packets: f64,
    lost: f64,
    expected_loss: f64,
    brier: f64,
    trips: f64,
    absolute_ms: f64,
    of_mean_ms: f64,
    pinball_ms: f64,
    covered: f64,
    width_ms: f64,
}

impl Sums {
    fn loss(&mut self, expected: f64, is_lost: bool) {
        let lost = f64::from(u8::from(is_lost));
        self.packets += 1.0;
        self.lost += lost;
        self.expected_loss += expected;
        self.brier += (expected - lost).powi(2);
    }

    fn trip(&mut self, quantiles: &[f64; LEVELS.len()], mean_ms: f64, truth_ms: f64) {
        self.trips += 1.0;
        self.absolute_ms += (truth_ms - quantiles[4]).abs();
        self.of_mean_ms += (truth_ms - mean_ms).abs();
        // Twice the mean pinball loss over all levels is the continuous ranked probability score, as far as nine levels
        // approximate it.
        let pinball = LEVELS.iter().zip(quantiles).map(|(level, quantile)| {
            let off = truth_ms - quantile;
            (level * off).max((level - 1.0) * off)
        });
        self.pinball_ms += pinball.sum::<f64>() / LEVELS.len() as f64;
        let (low, high) = (quantiles[1], quantiles[7]);
        self.covered += f64::from(u8::from((low..=high).contains(&truth_ms)));
        self.width_ms += high - low;
    }

    fn write(&self, row: &mut Row) {
        row.insert("packets".into(), json!(self.packets));
        insert(row, "error_ms", self.absolute_ms / self.trips);
        insert(row, "error_of_mean_ms", self.of_mean_ms / self.trips);
        insert(row, "crps_ms", 2.0 * self.pinball_ms / self.trips);
        insert(row, "covered_90_fraction", self.covered / self.trips);
        insert(row, "width_90_ms", self.width_ms / self.trips);
        insert(row, "loss_fraction", self.lost / self.packets);
        insert(
            row,
            "loss_expected_fraction",
            self.expected_loss / self.packets,
        );
        insert(row, "loss_brier", self.brier / self.packets);
    }
}

/// Kinds of network as which the pieces of a path are recognised.
fn pieces(path: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    for probes in path.probes.chunks_exact(PIECE) {
        let mut model = Choice::Auto.model();
        replay(model.as_mut(), probes, |_, _, _| {});
        let mut row = begin("piece", path);
        row.insert("begins_s".into(), json!((probes[0].0 / 1e3).round()));
        row.insert("technology".into(), json!(model.technology().name()));
        row.insert("truth".into(), json!(path.truth));
        rows.push(row);
    }
    rows
}

/// Distribution p₁(x|z) for low, usual and high z [Horde Figure 7-30].
fn given(path: &Path) -> Vec<Row> {
    let config = Config {
        lags: vec![1],
        memory_packets: 1e5,
        ..Config::default()
    };
    let Ok(mut conditional) = ConditionalRtt::new(&config) else {
        return Vec::new();
    };
    let mut all: Vec<f64> = Vec::new();
    for (number, &(_, trip)) in path.probes.iter().enumerate() {
        if let Some(ms) = trip {
            conditional.observe(number as u64, Duration::from_secs_f64(ms / 1e3));
            all.push(ms);
        }
    }
    all.sort_by(f64::total_cmp);
    let mut rows = Vec::new();
    for p in GIVEN {
        let z = all[(all.len() as f64 * p) as usize];
        let Ok(forecast) = conditional.given(Duration::from_secs_f64(z / 1e3), 1) else {
            continue;
        };
        let mut row = begin("given", path);
        row.insert("given_quantile".into(), json!(p));
        insert(&mut row, "given_ms", z);
        for (name, level) in [
            ("p5", 0.05),
            ("p25", 0.25),
            ("p50", 0.5),
            ("p75", 0.75),
            ("p95", 0.95),
        ] {
            if let Ok(ms) = forecast.quantile(level) {
                insert(&mut row, &format!("next_{name}_ms"), ms.as_secs_f64() * 1e3);
            }
        }
        let higher = 1.0 - forecast.at_most(Duration::from_secs_f64(z / 1e3));
        insert(&mut row, "next_is_higher_fraction", higher);
        rows.push(row);
    }
    rows
}

/// Loss correlation: packets of one channel 1, 4 and 16 apart, and of channels recorded together; expected halfway, and
/// observed afterwards.
fn together(paths: &[Path]) -> Vec<Row> {
    let mut rows = Vec::new();
    for path in paths {
        let (first, second) = path.probes.split_at(path.probes.len() / 2);
        let mut model = Choice::Auto.model();
        replay(model.as_mut(), first, |_, _, _| {});
        for apart in [1_usize, 4, 16] {
            let pairs = || second.iter().zip(second.iter().skip(apart));
            let either = pairs()
                .filter(|(a, b)| a.1.is_none() || b.1.is_none())
                .count();
            let both = pairs()
                .filter(|(a, b)| a.1.is_none() && b.1.is_none())
                .count();
            if either < 20 {
                continue;
            }
            let mut row = begin("together", path);
            row.insert("apart".into(), json!(apart));
            insert(
                &mut row,
                "expected_fraction",
                model.lost_together(apart as u64),
            );
            insert(&mut row, "came_fraction", both as f64 / either as f64);
            rows.push(row);
        }
    }
    for (index, first) in paths.iter().enumerate() {
        for second in &paths[index + 1..] {
            if !first.group.is_empty() && first.group == second.group {
                rows.extend(across(first, second));
            }
        }
    }
    rows
}

fn across(first: &Path, second: &Path) -> Option<Row> {
    let mut joint = Joint::new(2);
    let mut all: Vec<(f64, usize, bool)> = [first, second]
        .into_iter()
        .enumerate()
        .flat_map(|(channel, path)| {
            let probes = path.probes.iter();
            probes.map(move |probe| (probe.0, channel, probe.1.is_none()))
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for &(at_ms, channel, lost) in &all {
        let at = Instant::from_micros((at_ms * 1e3) as u64);
        joint.sent(channel, at);
        if lost {
            joint.lost(channel, at);
        }
    }
    let mut row = begin("across", first);
    row.insert("other".into(), json!(second.name));
    insert(&mut row, "both_fraction", joint.both(0, 1));
    Some(row)
}

fn of_model<'r>(rows: &'r [Row], model: &str) -> impl Iterator<Item = &'r Row> {
    let model = model.to_owned();
    rows.iter()
        .filter(move |row| row["kind"] == "path" && row["model"] == *model)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    let field = |row: &Row, name: &str| row.get(name).and_then(|v| v.as_f64()).unwrap_or(f64::NAN);
    for generic in of_model(rows, "generic") {
        let path = generic["path"].as_str().unwrap_or_default();
        let each = |name: &str, digits: usize| -> String {
            let values = MODELS.map(|model| {
                let row = of_model(rows, model).find(|row| row["path"] == path);
                format!("{:.digits$}", row.map_or(f64::NAN, |row| field(row, name)))
            });
            values.join(" / ")
        };
        lines.push(Published::new(
            format!("{path}: generic / cellular / satellite / auto: mean error, ms; CRPS, ms; within 90 % intervals, %"),
            "Horde Figure 7-29",
            "srtt often inaccurate by over 100 ms on CDMA2000",
            format!(
                "{}; {}; {}",
                each("error_ms", 1),
                each("crps_ms", 1),
                each("covered_90_fraction", 3)
            ),
        ));
    }
    for row in rows.iter().filter(|row| row["kind"] == "given") {
        let path = row["path"].as_str().unwrap_or_default();
        if !path.starts_with("generated/cdma") {
            continue;
        }
        lines.push(Published::new(
            format!(
                "{path}: after a round trip of {:.0} ms: the next one's quartiles, ms; P(higher)",
                field(row, "given_ms")
            ),
            "Horde Figure 7-30",
            "low: the next is higher; high: it falls",
            format!(
                "{:.0} to {:.0}; {:.2}",
                field(row, "next_p25_ms"),
                field(row, "next_p75_ms"),
                field(row, "next_is_higher_fraction")
            ),
        ));
    }
    for truth in ["satellite", "cellular", "generic"] {
        let pieces: Vec<&Row> = rows
            .iter()
            .filter(|row| row["kind"] == "piece" && row["truth"] == truth)
            .collect();
        if pieces.is_empty() {
            continue;
        }
        let count = |name: &str| {
            pieces
                .iter()
                .filter(|row| row["technology"] == name)
                .count()
        };
        lines.push(Published::new(
            format!(
                "{} pieces of {truth} channels: recognised as satellite / cellular / generic",
                pieces.len()
            ),
            "ours",
            "–",
            format!(
                "{} / {} / {}",
                count("satellite"),
                count("cellular"),
                count("generic")
            ),
        ));
    }
    let off = rows.iter().filter(|row| row["kind"] == "together");
    let off = median(
        off.map(|row| (field(row, "expected_fraction") - field(row, "came_fraction")).abs()),
    );
    if let Some(off) = off {
        lines.push(Published::new(
            "correlated loss on one channel, learnt on the first half, on the second: median distance",
            "Horde §4.1",
            "–",
            format!("{off:.3}"),
        ));
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |model: &str| Curve {
        name: model.to_owned(),
        mark: Mark::Points,
        points: of_model(rows, "generic")
            .zip(of_model(rows, model))
            .filter_map(|(generic, row)| {
                Some((
                    generic.get("error_ms")?.as_f64()?,
                    row.get("error_ms")?.as_f64()?,
                ))
            })
            .collect(),
    };
    let cdma = "generated/cdma2000";
    let next = rows
        .iter()
        .filter(|row| row["kind"] == "given" && row["path"] == cdma)
        .map(|row| {
            let quantiles = [
                ("p5", 0.05),
                ("p25", 0.25),
                ("p50", 0.5),
                ("p75", 0.75),
                ("p95", 0.95),
            ];
            Curve {
                name: format!(
                    "after {:.0} ms",
                    row["given_ms"].as_f64().unwrap_or(f64::NAN)
                ),
                mark: Mark::Line,
                points: quantiles
                    .iter()
                    .filter_map(|(name, p)| {
                        Some((row.get(&format!("next_{name}_ms"))?.as_f64()?, *p))
                    })
                    .collect(),
            }
        });
    vec![
        Plot {
            file: "errors".into(),
            title: "Mean error of expected round trips, against the smoothed round trip's".into(),
            x: Axis::log("error of the smoothed round trip, ms"),
            y: Axis::log("error, ms"),
            curves: MODELS[1..].iter().map(|model| curve(model)).collect(),
        },
        Plot {
            file: "given".into(),
            title: format!("{cdma}: distribution of the next round trip, given the last"),
            x: Axis::linear("next round trip, ms"),
            y: Axis::linear("share below"),
            curves: next.collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn the_last_round_trip_predicts_the_next_on_cdma2000() {
        let corpus = Corpus::default();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("cdma2000"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let error = |path: &str, model: &str| {
            let row = of_model(&rows, model).find(|row| row["path"] == path);
            row.and_then(|row| row["error_ms"].as_f64()).unwrap()
        };
        for (path, share) in [
            ("generated/cdma2000", 0.75),
            ("generated/cdma2000-elevated", 0.95),
        ] {
            assert!(error(path, "generic") > 100.0, "as published");
            let ours = error(path, "cellular") / error(path, "generic");
            assert!(ours < share, "{path}: {ours}");
        }
        let given: Vec<&Row> = rows
            .iter()
            .filter(|row| row["kind"] == "given" && row["path"] == "generated/cdma2000")
            .collect();
        let higher = |at: usize| given[at]["next_is_higher_fraction"].as_f64().unwrap();
        // After a low one it jumps; after a high one it falls.
        assert!(
            higher(0) > 0.5 && higher(2) < 0.1,
            "{} {}",
            higher(0),
            higher(2)
        );
        for row in rows.iter().filter(|row| row["kind"] == "path") {
            let covered = row["covered_90_fraction"].as_f64().unwrap();
            assert!((covered - 0.9).abs() < 0.03, "{row:?}");
        }
    }
}

#![doc = include_str!("plan.md")]

use std::{path::Path, time::Duration};

use anabranch_base::Rate;
use anabranch_link::{
    Traffic,
    traffic::{ParetoOnOff, Sizes},
};
use anabranch_sim::topology::figure8_with;
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        corpus::DATA_FOLDERS,
        experiment::WHEN_NAMED,
        output::{Plot, Published},
        parallel,
        sources::{LayeredVideo, frames::FrameSizes},
        streams::{
            Algorithm, Scene, Timing, measure,
            show::{
                STREAM, distinct, distribution_plot, find, path_rows, stream_rows, time_plot,
                window_rows,
            },
        },
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fgs",
    summary: "layered video over two paths, by scheduling algorithm [IQ-Paths Table V]",
    plan: include_str!("plan.md"),
    folders: WHEN_NAMED,
    run,
    compare,
    plots,
};

const LAYERS: [&str; 2] = ["base", "enhancement"];
/// One film, coded twice, below a folder of data.
const FILM: [&str; 2] = ["video/starwars_mpeg1.csv", "video/starwars_intraframe.csv"];
/// Frames of it that are used: the first one and the number, at 24 a second; longer than a run.
const PART: (usize, usize) = (24_000, 12_000);
/// Average capacity of the recorded paths together, relative to the film's rate, as in the paper.
const CARRIED: f64 = 14.0 / 12.77;

/// The testbed with the cross-traffic of Table V: 96 Mbit/s that hardly vary on path A, 90 on path B.
fn testbed() -> Scene {
    let users = |sources, bps| {
        Traffic::ParetoOnOff(ParetoOnOff {
            sources,
            peak: Rate::from_bps(bps),
            on_mean: Duration::from_millis(500),
            off_mean: Duration::from_millis(500),
            shape: 1.5,
            sizes: Sizes::Fixed(1_000),
        })
    };
    Scene::Network(figure8_with(
        [(); 3].map(|()| users(6_400, 10_000)),
        [(); 3].map(|()| users(59, 1_017_000)),
    ))
}

fn scene(options: &Options<'_>) -> Option<Scene> {
    if options.corpus.recordings.is_empty() {
        return Some(testbed());
    }
    let recordings: Vec<_> = options.corpus.recordings.iter().collect();
    let wanted = CARRIED * 12.772e6;
    Scene::of_recordings(&recordings, Rate::from_bps(wanted as u64))
}

/// The film in two layers, and its name: the recorded one if there is a folder of data, else a generated one.
fn film(options: &Options<'_>) -> (LayeredVideo, &'static str) {
    for root in DATA_FOLDERS {
        let read = |file: &str| {
            let path = Path::new(root).join(file);
            let text = std::fs::read_to_string(&path).ok()?;
            let sizes = FrameSizes::parse(&path.display().to_string(), &text).ok()?;
            Some(sizes.part(PART.0, PART.1))
        };
        if let (Some(base), Some(enhancement)) = (read(FILM[0]), read(FILM[1])) {
            return (LayeredVideo::published(&base, &enhancement), "starwars");
        }
    }
    (LayeredVideo::generated(options.seed), "generated")
}

/// Runs every algorithm.
fn run(options: &Options<'_>) -> Vec<Row> {
    let mut algorithms = Algorithm::all();
    algorithms.retain(|algorithm| options.wants(algorithm.name()));
    if algorithms.is_empty() {
        return Vec::new();
    }
    let Some(scene) = scene(options) else {
        (options.progress)("fgs: a recording has no bandwidth above 0");
        return Vec::new();
    };
    let (film, name) = film(options);
    let runs = parallel::map(&algorithms, |&algorithm| {
        let source = Box::new(film.clone());
        let measured = measure(options.seed, &scene, algorithm, Timing::USUAL, source);
        (options.progress)(&format!("fgs: {}", algorithm.name()));
        measured.ok()
    });
    let mut rows = path_rows(&scene, options.seed, Timing::USUAL);
    for (algorithm, measured) in algorithms.iter().zip(&runs) {
        let labels = [("algorithm", algorithm.name()), ("film", name)];
        rows.extend(
            measured
                .iter()
                .flat_map(|m| stream_rows(&labels, &scene, m)),
        );
    }
    for (algorithm, measured) in algorithms.iter().zip(&runs) {
        let Some(measured) = measured else { continue };
        let mut windows = window_rows(&[("algorithm", algorithm.name())], measured);
        for (row, made) in windows.iter_mut().zip(&measured.streams[0].due_bps) {
            row.insert("base_made_mbps".into(), json!(made / 1e6));
        }
        rows.extend(windows);
    }
    rows
}

/// Rows of Table V: layer, algorithm, rate in 95 % of the time, mean, in Mbit/s.
const TABLE_V: [(&str, &str, [f64; 2]); 4] = [
    ("base", "msfq", [0.81722, 1.3693]),
    ("base", "pgos", [1.2026, 1.4761]),
    ("enhancement", "msfq", [6.5250, 10.7690]),
    ("enhancement", "pgos", [6.2931, 10.3910]),
];
/// Share of the time in which the base layer got 1.22 Mbit/s [IQ-Paths §VI-D].
const MET: [(&str, f64); 2] = [("msfq", 0.78), ("pgos", 0.93)];

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for (layer, algorithm, [p95, mean]) in TABLE_V {
        let wanted = [
            ("kind", STREAM),
            ("algorithm", algorithm),
            ("stream", layer),
        ];
        let of = |field: &str| find(rows, &wanted, field);
        if let (Some(our_p95), Some(our_mean)) = (of("bytes_p95_mbps"), of("mean_mbps")) {
            lines.push(Published::new(
                format!("{layer}, {algorithm}: Mbit/s in 95 % of windows, mean"),
                "IQ-Paths Table V",
                format!("{p95:.3}, {mean:.3}"),
                format!("{our_p95:.3}, {our_mean:.3}"),
            ));
        }
    }
    for (algorithm, share) in MET {
        let wanted = [
            ("kind", STREAM),
            ("algorithm", algorithm),
            ("stream", "base"),
        ];
        if let Some(ours) = find(rows, &wanted, "bytes_met_fraction") {
            lines.push(Published::new(
                format!("base, {algorithm}: share of windows with 1.22 Mbit/s"),
                "IQ-Paths §VI-D",
                share.to_string(),
                ours.to_string(),
            ));
        }
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let algorithms = distinct(rows, "algorithm");
    let over_time = algorithms
        .iter()
        .map(|word| time_plot(rows, ("algorithm", word), &["base", "base_made"]));
    let distributions = LAYERS
        .iter()
        .map(|layer| distribution_plot(rows, ("algorithm", &algorithms), layer));
    over_time.chain(distributions).collect()
}

//! Table III of the paper, and the targets.

use super::find;
use crate::{
    Row,
    kit::{
        output::Published,
        streams::show::{STREAM, distinct},
    },
};

/// A row of Table III: our stream, our algorithm, then 95 %, 99 %, mean, deviation in Mbit/s, and jitter in
/// milliseconds.
type Line = (&'static str, &'static str, [f64; 5]);

const TABLE_III: [Line; 12] = [
    ("Atom", "wfq", [0.846, 0.672, 1.5524, 0.3863, 5.0]),
    ("Atom", "msfq", [2.789, 2.744, 3.2111, 0.3273, 2.0]),
    ("Atom", "pgos", [3.236, 3.216, 3.2487, 0.0150, 1.4]),
    ("Atom", "opt", [3.240, 3.239, 3.2489, 0.0058, 1.2]),
    ("Bond1", "wfq", [5.768, 4.569, 10.5843, 2.6348, 5.0]),
    ("Bond1", "msfq", [19.248, 18.946, 22.1300, 2.2321, 2.0]),
    ("Bond1", "pgos", [22.068, 21.959, 22.1476, 0.0790, 1.4]),
    ("Bond1", "opt", [22.138, 22.139, 22.1477, 0.0273, 1.3]),
    ("Bond2", "wfq", [18.297, 14.486, 33.7021, 8.3949, 5.0]),
    ("Bond2", "msfq", [52.446, 51.76, 59.0786, 8.0397, 2.0]),
    ("Bond2", "pgos", [45.782, 45.038, 59.0588, 9.5765, 1.5]),
    ("Bond2", "opt", [45.757, 45.019, 59.0583, 9.5587, 1.5]),
];
const FIELDS: [(&str, &str); 5] = [
    ("bytes_p95_mbps", "in 95 % of windows"),
    ("bytes_p99_mbps", "in 99 %"),
    ("mean_mbps", "mean"),
    ("bytes_std_mbps", "deviation"),
    ("jitter_ms", "jitter, ms"),
];

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for (stream, algorithm, figures) in TABLE_III {
        let wanted = [
            ("kind", STREAM),
            ("algorithm", algorithm),
            ("stream", stream),
        ];
        let ours: Option<Vec<f64>> = FIELDS
            .iter()
            .map(|(field, _)| find(rows, &wanted, field))
            .collect();
        let Some(ours) = ours else { continue };
        let words: Vec<&str> = FIELDS.iter().map(|(_, words)| *words).collect();
        lines.push(Published::new(
            format!("{stream}, {algorithm}: Mbit/s {}", words.join(", ")),
            "IQ-Paths Table III",
            join(&figures),
            join(&ours),
        ));
    }
    for algorithm in distinct(rows, "algorithm") {
        for stream in ["Atom", "Bond1"] {
            let wanted = [
                ("kind", STREAM),
                ("algorithm", algorithm),
                ("stream", stream),
            ];
            let of = |field: &str| find(rows, &wanted, field);
            if let (Some(p95), Some(p99), Some(std), Some(target)) = (
                of("p95_mbps"),
                of("p99_mbps"),
                of("std_mbps"),
                of("target_mbps"),
            ) {
                lines.push(Published::new(
                    format!("{stream}, {algorithm}, whole frames: % of target in 95 % and 99 % of windows, deviation in %"),
                    "target for pgos",
                    "99.9, 99.5, 1.0",
                    [p95, p99, std]
                        .map(|value| format!("{:.2}", 100.0 * value / target))
                        .join(", "),
                ));
            }
        }
    }
    lines
}

fn join(figures: &[f64]) -> String {
    let words: Vec<String> = figures
        .iter()
        .map(|figure| format!("{figure:.3}"))
        .collect();
    words.join(", ")
}

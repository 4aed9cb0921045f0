//! Table IV of the paper, and the targets.

use crate::{
    Row,
    kit::{
        output::Published,
        streams::show::{distinct, find},
    },
};

use super::{COMPONENT, LAYOUT};

/// A row of Table IV: component, our layout, then 95 %, mean, deviation in Mbit/s.
type Line = (&'static str, &'static str, [f64; 3]);

const TABLE_IV: [Line; 6] = [
    ("DT1", "blocked", [31.431, 33.9411, 1.4297]),
    ("DT1", "pgos", [33.869, 34.5505, 0.4040]),
    ("DT2", "blocked", [23.282, 25.1415, 1.0590]),
    ("DT2", "pgos", [25.094, 25.5990, 0.2993]),
    ("DT3", "blocked", [69.393, 75.4246, 3.1770]),
    ("DT3", "pgos", [65.287, 74.3577, 4.7668]),
];
const FIELDS: [&str; 3] = ["p95_mbps", "mean_mbps", "std_mbps"];

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    let of = |layout: &str, component: &str, field: &str| {
        let wanted = [
            ("kind", COMPONENT),
            ("layout", layout),
            ("component", component),
        ];
        find(rows, &wanted, field)
    };
    for (component, layout, theirs) in TABLE_IV {
        let ours = FIELDS.map(|field| of(layout, component, field));
        let [Some(p95), Some(mean), Some(deviation)] = ours else {
            continue;
        };
        lines.push(Published::new(
            format!("{component}, {layout}: Mbit/s in 95 % of windows, mean, deviation"),
            "IQ-Paths Table IV",
            join(theirs),
            join([p95, mean, deviation]),
        ));
    }
    for layout in distinct(rows, "layout") {
        for component in ["DT1", "DT2"] {
            let figures = ["target_mbps", "p95_mbps", "std_mbps"];
            let [Some(target), Some(p95), Some(deviation)] =
                figures.map(|field| of(layout, component, field))
            else {
                continue;
            };
            lines.push(Published::new(
                format!("{component}, {layout}: % of target in 95 % of windows, deviation in %"),
                "target for pgos",
                "99.5 (paper 98.0), 1.0 (1.17)",
                format!(
                    "{:.2}, {:.2}",
                    100.0 * p95 / target,
                    100.0 * deviation / target
                ),
            ));
        }
        let ratio = |own: Option<f64>, blocked: Option<f64>| Some(own? / blocked?);
        let elastic = ratio(
            of(layout, "DT3", "mean_mbps"),
            of("blocked", "DT3", "mean_mbps"),
        );
        let goodput = |layout: &str| {
            let wanted = [("kind", LAYOUT), ("layout", layout)];
            find(rows, &wanted, "goodput_mbps")
        };
        let total = ratio(goodput(layout), goodput("blocked"));
        if let (Some(elastic), Some(total)) = (elastic, total) {
            lines.push(Published::new(
                format!("{layout}: mean of DT3 and total, over those of blocked"),
                "target for pgos",
                "0.985, 0.99",
                format!("{elastic:.3}, {total:.3}"),
            ));
        }
    }
    lines
}

fn join(figures: [f64; 3]) -> String {
    figures.map(|figure| format!("{figure:.3}")).join(", ")
}

//! Published effects, and whether they are reproduced.

use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        streams::show::find,
    },
};

use super::{ASSIGN, WALK};

fn field(rows: &[Row], policy: usize, scheduler: &str, stream: usize, field: &str) -> f64 {
    let (policy, name) = (format!("s{policy}"), format!("stream {stream}"));
    let wanted = [
        ("policy", policy.as_str()),
        ("scheduler", scheduler),
        ("name", &name),
    ];
    find(rows, &wanted, field).unwrap_or(f64::NAN)
}

/// The same figure of all streams, with either scheduler.
fn all(rows: &[Row], policy: usize, name: &str, scale: f64, digits: usize) -> String {
    let of = |scheduler: &str| -> String {
        let each = (0..4).map(|stream| {
            let value = field(rows, policy, scheduler, stream, name) * scale;
            format!("{value:.digits$}")
        });
        each.collect::<Vec<_>>().join(" / ")
    };
    format!("{WALK} {}; {ASSIGN} {}", of(WALK), of(ASSIGN))
}

/// Policy, scheduler, stream and field of a figure.
type Figure = (usize, &'static str, usize, &'static str);

/// Text that states whether one figure is below another, and both figures.
fn below(rows: &[Row], one: Figure, other: Figure) -> String {
    let get =
        |(policy, scheduler, stream, name): Figure| field(rows, policy, scheduler, stream, name);
    let (a, b) = (get(one), get(other));
    let digits = if a.abs().max(b.abs()) < 2.0 { 4 } else { 0 };
    let verdict = if a < b { "yes" } else { "no" };
    format!("{verdict}: {a:.digits$} against {b:.digits$}")
}

pub(super) fn lines(rows: &[Row], number: usize) -> Vec<Published> {
    let mut lines = Vec::new();
    let mut line = |what: &str, source, theirs: &str, ours: String| {
        lines.push(Published::new(what, source, theirs, ours));
    };
    let mean = "round_trip_mean_ms";
    let median = "round_trip_p50_ms";
    let loss = "loss_fraction";
    line(
        "round trip of streams 0 / 1 / 2 / 3, mean, ms",
        "Horde Figures 7-7 to 7-20",
        [
            "alike",
            "524 / higher / higher / 476",
            "– / – / – / 673",
            "–",
            "–",
        ][number],
        all(rows, number, mean, 1.0, 0),
    );
    line(
        "median, ms",
        "Horde Figures 7-7 to 7-20",
        [
            "alike",
            "250 apart",
            "– / – / – / 617",
            "3 mostly below 700",
            "0 has a longer tail",
        ][number],
        all(rows, number, median, 1.0, 0),
    );
    line(
        "loss, %",
        "Horde Figures 7-14 to 7-22",
        ["–", "–", "3 least", "3 least", "0 falls"][number],
        all(rows, number, loss, 100.0, 2),
    );
    let before = number.saturating_sub(1);
    for scheduler in [WALK, ASSIGN] {
        let mut effect = |what: &str, source, one: Figure, other: Figure| {
            let what = format!("{scheduler}: {what}");
            line(&what, source, "yes", below(rows, one, other));
        };
        match number {
            1 => {
                for stream in [0, 3] {
                    let what = format!("stream {stream} is quicker than without X1");
                    let at = |policy| (policy, scheduler, stream, median);
                    effect(&what, "Horde Figure 7-9", at(1), at(before));
                }
                for stream in [1, 2] {
                    let what = format!("stream {stream} is slower than without X1");
                    let at = |policy| (policy, scheduler, stream, median);
                    effect(&what, "Horde Figure 7-9", at(before), at(1));
                }
                let on = |policy| (policy, scheduler, 0, "on_cdma2");
                effect("stream 0 moves to cdma2", "Horde Figure 7-10", on(0), on(1));
            }
            2 => {
                let at = |policy, name| (policy, scheduler, 3, name);
                effect(
                    "X2 lowers the loss of stream 3",
                    "Horde Figure 7-15",
                    at(2, loss),
                    at(1, loss),
                );
                effect(
                    "stream 3 leaves cdma2",
                    "Horde Figure 7-13",
                    at(2, "on_cdma2"),
                    at(1, "on_cdma2"),
                );
                let other = |policy| (policy, scheduler, 0, loss);
                effect(
                    "stream 0 loses more",
                    "Horde Figure 7-15",
                    other(1),
                    other(2),
                );
            }
            3 => {
                let at = |policy, name| (policy, scheduler, 3, name);
                effect(
                    "X3 makes stream 3 quicker",
                    "Horde Figure 7-17",
                    at(3, mean),
                    at(2, mean),
                );
                effect(
                    "stream 3 is mostly on cdma1, stream 0 on cdma2",
                    "Horde Figure 7-17",
                    (3, scheduler, 3, "on_cdma2"),
                    (3, scheduler, 0, "on_cdma2"),
                );
                for stream in 0..3 {
                    let what = format!("stream 3 loses less than stream {stream}");
                    effect(
                        &what,
                        "Horde Figure 7-18",
                        at(3, loss),
                        (3, scheduler, stream, loss),
                    );
                }
            }
            4 => {
                let at = |policy, name| (policy, scheduler, 0, name);
                let both = "correlated_loss_fraction";
                effect(
                    "X4 lowers stream 0's correlated loss",
                    "Horde Figure 7-21",
                    at(4, both),
                    at(3, both),
                );
                effect(
                    "and all its loss",
                    "Horde Figure 7-22",
                    at(4, loss),
                    at(3, loss),
                );
                effect(
                    "it leaves cdma2",
                    "Horde Figure 7-23",
                    at(4, "on_cdma2"),
                    at(3, "on_cdma2"),
                );
            }
            _ => {}
        }
    }
    if number >= 1 {
        let on_gprs = |scheduler: &str, stream: usize| -> f64 {
            let share = |n: usize| field(rows, number, scheduler, stream, &format!("on_gprs{n}"));
            (1..=4).map(share).sum::<f64>() * 100.0
        };
        let of = |scheduler: &str| {
            format!(
                "{:.2} / {:.2}",
                on_gprs(scheduler, 0),
                on_gprs(scheduler, 3)
            )
        };
        lines.push(Published::new(
            "ADUs of streams 0 / 3 on GPRS channels, %",
            "Horde §7.2.3: none, if it were optimal",
            "a small proportion",
            format!("{WALK} {}; {ASSIGN} {}", of(WALK), of(ASSIGN)),
        ));
    }
    lines
}

/// Plots of the channels that each stream used, and of its round trips.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let channels = ["cdma1", "cdma2", "gprs1", "gprs2", "gprs3", "gprs4"];
    let mut policies: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["policy"].as_str())
        .collect();
    policies.sort_unstable();
    let Some(policy) = policies.last() else {
        return Vec::new();
    };
    let streams = |scheduler: &'static str| {
        rows.iter().filter(move |row| {
            row["policy"] == *policy && row["scheduler"] == scheduler && row["kind"] == "stream"
        })
    };
    let usage = [WALK, ASSIGN].into_iter().flat_map(|scheduler| {
        streams(scheduler).map(move |row| Curve {
            name: format!("{scheduler}, {}", row["name"].as_str().unwrap_or("?")),
            mark: Mark::Points,
            points: (1..)
                .zip(channels)
                .filter_map(|(x, name)| {
                    Some((
                        f64::from(x),
                        row.get(&format!("on_{name}"))?.as_f64()? * 100.0,
                    ))
                })
                .collect(),
        })
    });
    vec![Plot {
        file: "usage".into(),
        title: format!("{policy}: share of each stream's ADUs on cdma1, cdma2, gprs1 … gprs4"),
        x: Axis::linear("channel"),
        y: Axis::linear("share of the stream's ADUs, %"),
        curves: usage.collect(),
    }]
}

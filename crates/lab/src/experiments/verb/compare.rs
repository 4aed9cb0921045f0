//! Figures of the thesis, beside ours.

use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        streams::show::find,
    },
};

const STATIONARY: &str = "cdma2000/stationary";
const MOBILE: &str = "cdma2000/mobile";

fn field(rows: &[Row], channel: &str, controller: &str, field: &str) -> f64 {
    let wanted = [
        ("kind", "channel"),
        ("channel", channel),
        ("controller", controller),
    ];
    find(rows, &wanted, field).unwrap_or(f64::NAN)
}

/// Goodput in kbit/s: 10th percentile, median and 90th percentile.
fn goodput(rows: &[Row], channel: &str, controller: &str) -> String {
    let of = |name: &str| field(rows, channel, controller, name) / 1e3;
    format!(
        "{controller} {:.0} / {:.0} / {:.0}",
        of("goodput_p10_bps"),
        of("goodput_p50_bps"),
        of("goodput_p90_bps")
    )
}

pub(super) fn lines(rows: &[Row]) -> Vec<Published> {
    let source = "Horde §7.4.1, Figure 7-26";
    let all = |channel: &str| {
        let names = [
            "verb",
            "aimd",
            "binomial",
            "cubic",
            "bbr3",
            "auto",
            "constant 120",
            "constant 60",
        ];
        let each = names.map(|name| goodput(rows, channel, name));
        each.join("; ")
    };
    let pair = |channel: &str, name: &str, digits: usize| {
        let of = |controller| field(rows, channel, controller, name);
        format!("verb {:.digits$}, aimd {:.digits$}", of("verb"), of("aimd"))
    };
    let mut lines = vec![
        Published::new(
            "stationary: goodput over 10 s, p10 / median / p90, kbit/s",
            source,
            "verb's median is that of bulk TCP; it varies less than AIMD; raw UDP has the lowest median",
            all(STATIONARY),
        ),
        Published::new(
            "moving: the same",
            source,
            "verb varies as binomial does when stationary, with a higher median",
            all(MOBILE),
        ),
    ];
    for (channel, figure) in [
        (STATIONARY, "Horde §7.4.1, Figure 7-27"),
        (MOBILE, "Horde §7.4.1, Figure 7-28"),
    ] {
        lines.push(Published::new(
            format!("{channel}: fraction lost"),
            figure,
            "verb avoids the losses of AIMD's probing",
            pair(channel, "loss_fraction", 4),
        ));
        lines.push(Published::new(
            format!("{channel}: 95th percentile of round trips, ms"),
            figure,
            "–",
            pair(channel, "rtt_p95_ms", 0),
        ));
    }
    lines
}

pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (channel, file, title) in [
        (
            STATIONARY,
            "stationary",
            "Figure 7-27: verb and AIMD on a stationary CDMA2000 channel",
        ),
        (
            MOBILE,
            "mobile",
            "Figure 7-28: verb and AIMD on a moving CDMA2000 channel",
        ),
    ] {
        for (field, words, suffix) in [
            ("goodput_bps", "goodput, kbit/s", "goodput"),
            ("rtt_ms", "round trip, s", "rtt"),
        ] {
            let curve = |controller: &str| Curve {
                name: controller.to_owned(),
                mark: Mark::Line,
                points: rows
                    .iter()
                    .filter(|row| {
                        row["kind"] == "series"
                            && row["channel"] == channel
                            && row["controller"] == controller
                    })
                    .filter_map(|row| Some((row["t_s"].as_f64()?, row[field].as_f64()? / 1e3)))
                    .collect(),
            };
            plots.push(Plot {
                file: format!("{file}-{suffix}"),
                title: title.to_owned(),
                x: Axis::linear("time, s"),
                y: Axis::linear(words),
                curves: vec![curve("verb"), curve("aimd")],
            });
        }
    }
    let (mut delay, mut names): (Vec<Curve>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row["kind"] == "channel") {
        if let Some(name) = row["controller"].as_str()
            && row["technology"] != "cdma2000"
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    for name in names {
        delay.push(Curve {
            name: name.to_owned(),
            mark: Mark::Points,
            points: rows
                .iter()
                .filter(|row| row["kind"] == "channel" && row["controller"] == name)
                .filter(|row| row["technology"] != "cdma2000")
                .filter_map(|row| {
                    Some((
                        row["rtt_p95_ms"].as_f64()?,
                        row["goodput_fraction"].as_f64()?,
                    ))
                })
                .collect(),
        });
    }
    plots.push(Plot {
        file: "recorded".into(),
        title: "Recorded channels: goodput against delay".into(),
        x: Axis::log("95th percentile of round trips, ms"),
        y: Axis::linear("goodput, of what the channel carries"),
        curves: delay,
    });
    plots
}

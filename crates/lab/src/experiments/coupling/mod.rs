#![doc = include_str!("plan.md")]

mod scene;

use serde_json::json;

use self::scene::{COUPLINGS, PLACES, Shares};
use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Plot, Published},
        parallel,
        streams::show::find,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "coupling",
    summary: "two channels over one bottleneck against one flow, coupled and not [RFC 6356]",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Controllers of the session.
const CONTROLLERS: [&str; 7] = [
    "auto",
    "cubic",
    "newreno",
    "bbr3",
    "aimd",
    "binomial:sqrt",
    "verb:lte",
];
/// Controllers of the competing flows.
const RIVALS: [&str; 2] = ["cubic", "bbr3"];

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut jobs = Vec::new();
    for place in PLACES {
        for rival in RIVALS {
            for controller in CONTROLLERS {
                for coupling in COUPLINGS {
                    let name = format!("{place} {rival} {controller} {coupling}");
                    // With separate bottlenecks, only the cost of coupling is of interest.
                    let is_asked = place == "shared" || ["off", "auto"].contains(&coupling);
                    if is_asked && options.wants(&name) {
                        jobs.push((place, rival, controller, coupling));
                    }
                }
            }
        }
    }
    let results = parallel::map(&jobs, |&(place, rival, controller, coupling)| {
        let shares = scene::run(place, rival, controller, coupling, options.seed);
        (options.progress)(&format!("{place} {rival} {controller} {coupling}"));
        shares
    });
    let of = |job: (&str, &str, &str, &str)| -> Option<Shares> {
        let index = jobs.iter().position(|&other| other == job)?;
        results[index]
    };
    let mut rows = Vec::new();
    for (&(place, rival, controller, coupling), shares) in jobs.iter().zip(&results) {
        let Some(shares) = shares else { continue };
        let mut row = Row::new();
        row.insert("place".into(), json!(place));
        row.insert("rival".into(), json!(rival));
        row.insert("controller".into(), json!(controller));
        row.insert("coupling".into(), json!(coupling));
        row.insert("session_bps".into(), json!(shares.session_bps.round()));
        row.insert("rivals_bps".into(), json!(shares.rivals_bps.round()));
        row.insert("share".into(), json!(rounded(shares.share())));
        let one = of((place, rival, controller, "one"));
        let over_one = one.map(|one| rounded(shares.session_bps / one.session_bps));
        row.insert("over_one".into(), json!(over_one));
        row.insert("found".into(), json!(rounded(shares.found)));
        rows.push(row);
    }
    rows
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    let of = |place: &str, rival: &str, controller: &str, coupling: &str, field: &str| {
        let wanted = [
            ("place", place),
            ("rival", rival),
            ("controller", controller),
            ("coupling", coupling),
        ];
        find(rows, &wanted, field).unwrap_or(f64::NAN)
    };
    for rival in RIVALS {
        for controller in CONTROLLERS {
            let over = |coupling| of("shared", rival, controller, coupling, "over_one");
            let (off, auto, all) = (over("off"), over("auto"), over("all"));
            if off.is_nan() && auto.is_nan() && all.is_nan() {
                continue;
            }
            lines.push(Published::new(
                format!("{controller} against {rival}: of what one channel takes; off, auto, all"),
                "target",
                "–, at most 1.1, at most 1.1",
                format!("{off:.2}, {auto:.2}, {all:.2}"),
            ));
            let rate = |coupling| of("separate", rival, controller, coupling, "session_bps");
            lines.push(Published::new(
                format!("{controller} beside {rival}, separate: auto over off"),
                "target",
                "0.98 at least",
                format!("{:.3}", rate("auto") / rate("off")),
            ));
        }
    }
    lines
}

fn plots(_rows: &[Row]) -> Vec<Plot> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    /// Rows that are quick enough for a test.
    #[test]
    fn two_coupled_channels_are_one_flow() {
        let run = |coupling| scene::run("shared", "cubic", "aimd", coupling, Seed(1));
        let [one, off, all] = ["one", "off", "all"].map(|coupling| run(coupling).unwrap());
        let (off, all) = (
            off.session_bps / one.session_bps,
            all.session_bps / one.session_bps,
        );
        assert!(off > 1.2, "{off}");
        assert!(all < 1.15, "{all}");
    }
}

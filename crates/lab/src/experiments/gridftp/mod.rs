#![doc = include_str!("plan.md")]

mod lanes;
pub mod live;
mod published;
mod run;
mod testbed;

use anabranch_session::Term;
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        experiment::WHEN_NAMED,
        output::Plot,
        parallel,
        sources::records::NAMES,
        streams::{
            Timing,
            figures::Rates,
            show::{distinct, distribution_plot, mbps, path_rows, rounded, time_plot},
        },
    },
};
use run::{Component, Figures, Method};
use testbed::APPLICATION_SHARE;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gridftp",
    summary: "records in three components over two paths, by layout [IQ-Paths Table IV]",
    plan: include_str!("plan.md"),
    folders: WHEN_NAMED,
    run,
    compare: published::compare,
    plots,
};

/// Kind of the rows with the figures of a component.
const COMPONENT: &str = "component";
/// Kind of the rows with the figures of a layout.
const LAYOUT: &str = "layout";

/// Runs every layout.
fn run(options: &Options<'_>) -> Vec<Row> {
    let mut methods = Method::all();
    methods.retain(|method| options.wants(&method.name()));
    if methods.is_empty() {
        return Vec::new();
    }
    let setting = match testbed::setting(options) {
        Ok(setting) => setting,
        Err(reason) => {
            (options.progress)(&format!("gridftp: {reason}"));
            return Vec::new();
        }
    };
    let runs = parallel::map(&methods, |&method| {
        let figures = run::run(options.seed, &setting, method, Timing::USUAL);
        (options.progress)(&format!("gridftp: {}", method.name()));
        figures.ok()
    });
    let mut rows = path_rows(&setting.scene, options.seed, Timing::USUAL);
    for (method, figures) in methods.iter().zip(&runs) {
        let components = figures.iter().flat_map(|figures| {
            let indices = 0..figures.components.len();
            indices.map(|index| component_row(&method.name(), figures, index))
        });
        rows.extend(components);
    }
    for (method, figures) in methods.iter().zip(&runs) {
        rows.extend(figures.iter().map(|f| layout_row(&method.name(), f)));
    }
    for (method, figures) in methods.iter().zip(&runs) {
        rows.extend(figures.iter().flat_map(|f| window_rows(&method.name(), f)));
    }
    rows
}

fn labelled(kind: &str, layout: &str) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("layout".into(), json!(layout));
    row
}

fn component_row(layout: &str, figures: &Figures, index: usize) -> Row {
    let Component {
        name,
        target_bps,
        bytes,
        whole,
        promise,
    } = &figures.components[index];
    let mut row = labelled(COMPONENT, layout);
    row.insert("component".into(), json!(name));
    row.insert("target_mbps".into(), mbps(*target_bps));
    rates_into(&mut row, "", bytes);
    rates_into(&mut row, "whole_", whole);
    let mut put = |field: &str, value| row.insert(field.to_owned(), value);
    put("whole_per_s", rounded(figures.components_per_s(index)));
    if let Some(promise) = promise {
        let term = promise.term.map_or("none", |term| match term {
            Term::Durable => "durable",
            Term::Renewable => "renewable",
        });
        put("promise", json!(term));
        put("promise_kept", json!(promise.account.kept));
        put("promise_broken", json!(promise.account.broken));
        put("promise_withdrawn", json!(promise.account.withdrawn));
    }
    row
}

/// Puts the rate of a component in a row, in fields whose names begin with `prefix`.
fn rates_into(row: &mut Row, prefix: &str, rates: &Rates) {
    let mut put = |field: &str, value| row.insert(format!("{prefix}{field}"), value);
    put("p95_mbps", mbps(rates.p95_bps));
    put("p99_mbps", mbps(rates.p99_bps));
    put("mean_mbps", mbps(rates.mean_bps));
    put("std_mbps", mbps(rates.std_bps));
    put("met_fraction", rounded(rates.met));
}

fn layout_row(layout: &str, figures: &Figures) -> Row {
    let mut row = labelled(LAYOUT, layout);
    let mut put = |field: &str, value| row.insert(field.to_owned(), value);
    put("records_per_s", rounded(figures.records_per_s));
    put("skipped_records", json!(figures.skipped));
    put("goodput_mbps", mbps(figures.goodput_bps));
    put("available_mbps", mbps(figures.available_bps));
    row
}

/// A row for each window, with the rate of each component in arrived bytes.
fn window_rows(layout: &str, figures: &Figures) -> Vec<Row> {
    let windows = figures.components.first();
    let windows = windows.map_or(0, |component| component.bytes.series_bps.len());
    let row = |window: usize| {
        let mut row = labelled("window", layout);
        row.insert("window".into(), json!(window));
        for component in &figures.components {
            let rate = component.bytes.series_bps[window];
            row.insert(format!("{}_mbps", component.name), mbps(rate));
        }
        row
    };
    (0..windows).map(row).collect()
}

/// Figures 14 and 15 of the paper.
fn plots(rows: &[Row]) -> Vec<Plot> {
    let layouts = distinct(rows, "layout");
    let over_time = layouts
        .iter()
        .map(|layout| time_plot(rows, ("layout", layout), &NAMES));
    let distributions = NAMES
        .iter()
        .map(|name| distribution_plot(rows, ("layout", &layouts), name));
    over_time.chain(distributions).collect()
}

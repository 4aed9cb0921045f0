#![doc = include_str!("plan.md")]

mod channel;
mod compare;
mod driver;
mod measure;

use serde_json::json;

use self::channel::Channel;
use crate::{Experiment, Options, Row, kit::parallel};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "horde-verb",
    summary: "congestion controllers on CDMA2000-like and recorded radio channels [Horde Figures 7-26 to 7-28]",
    plan: include_str!("plan.md"),
    folders: &[
        "paths/zhuge_abc4g",
        "paths/nyc_cellular",
        "paths/zhuge_xu5g",
        "paths/starlink_tcp",
    ],
    run,
    compare: compare::lines,
    plots: compare::plots,
};

fn run(options: &Options<'_>) -> Vec<Row> {
    let recorded = options.corpus.recordings.iter().filter_map(Channel::of);
    let channels: Vec<Channel> = Channel::cdma().into_iter().chain(recorded).collect();
    let mut jobs = Vec::new();
    for channel in &channels {
        for (name, controller) in channel.controllers() {
            if options.wants(&format!("{} {name}", channel.name)) {
                jobs.push((channel, name, controller));
            }
        }
    }
    let rows = parallel::map(&jobs, |&(channel, name, controller)| {
        // The same channel, with the same losses, for every controller.
        let looks = driver::run(channel, controller, options.seed.child(&channel.name))?;
        let mut row = measure::row(channel, &looks);
        row.insert("controller".into(), json!(name));
        row.insert("parameters".into(), json!(controller.to_string()));
        (options.progress)(&format!("{} {name}", channel.name));
        let series = measure::series(channel, name, &looks);
        Some((row, series))
    });
    let (mut rows, series): (Vec<Row>, Vec<Vec<Row>>) = rows.into_iter().flatten().unzip();
    let summaries = measure::summaries(&rows);
    rows.extend(summaries);
    rows.extend(series.into_iter().flatten());
    rows
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    fn rows(only: &str) -> Vec<Row> {
        let corpus = Corpus::default();
        run(&Options {
            seed: Seed(1),
            only: Some(only),
            corpus: &corpus,
            progress: &|_| {},
        })
    }

    fn of(rows: &[Row], field: &str) -> f64 {
        let row = rows.iter().find(|row| row["kind"] == "channel");
        row.unwrap()[field].as_f64().unwrap()
    }

    /// Main result of the thesis: as much goodput as AIMD, without its losses and queue.
    #[test]
    fn verb_has_less_delay_and_loss_than_aimd_on_its_target_channel() {
        let verb = rows("cdma2000/stationary verb");
        let aimd = rows("cdma2000/stationary aimd");
        assert!(of(&verb, "goodput_fraction") > 0.8, "{:?}", verb[0]);
        assert!(of(&verb, "rtt_p95_ms") < 0.6 * of(&aimd, "rtt_p95_ms"));
        assert!(of(&verb, "loss_fraction") <= of(&aimd, "loss_fraction"));
        assert!(verb.iter().filter(|row| row["kind"] == "series").count() > 500);
    }
}

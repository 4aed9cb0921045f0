//! `anabranch process place`: where on the paths a pipeline costs least, by what the running node knows of its overlay.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the command and its output |
//! | `sample` | work and bytes of the pipeline, measured on messages of the source |
//! | `view` | candidates from members, links and loads of the overlay |

mod sample;
pub(super) mod view;

use std::{path::PathBuf, time::Duration};

use anabranch::{base::duration, control::Request};
use anabranch_processing::process::place::{Demand, Estimate, best};
use serde_json::{Value, json};

use self::{sample::Sample, view::View};
use super::modules;
use crate::{
    bytes,
    control::{Asking, rows},
    exit::{Failure, Outcome, print_line},
    stream::{self, Framing},
    table::{self, Column, Table},
};

/// Most messages a second.
const PER_SECOND_MAX: f64 = 1e6;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The legs are the direct links between members, as the running node knows them from its overlay, with the standard error of their rates; processors are those of the loads that nodes \
publish (anabranch process serve). Work and bytes of the pipeline are measured here, on the sample. A place is better than another one if it keeps the demand, and then if messages arrive sooner.

Give the place that is named first to 'offer' and 'subscribe' as --at, the others as --fallback.")]
pub(super) struct Arguments {
    /// Candidate, by its name in the overlay; may be repeated.
    #[arg(long = "at", value_name = "NODE", required = true)]
    at: Vec<String>,
    /// The source is a candidate, too (offer --at-source).
    #[arg(long)]
    at_source: bool,
    /// Subscriber, by its name in the overlay; may be repeated.
    #[arg(long = "for", value_name = "NODE", required = true)]
    subscribers: Vec<String>,
    /// Source, by its name in the overlay.
    #[arg(long, value_name = "NODE", default_value = view::HERE)]
    from: String,
    #[command(flatten)]
    pipeline: modules::Flags,
    /// File with messages as the source makes them; the first 1,000 are read.
    #[arg(long, value_name = "FILE")]
    sample: PathBuf,
    /// Form of the sample: `lines`, `frames`, `record`, `record=N` or `json`.
    #[arg(long = "as", value_name = "FORM", default_value = "lines", value_parser = stream::parse_form)]
    framing: Framing,
    /// Messages that the source makes in a second.
    #[arg(long, value_name = "NUMBER", value_parser = parse_per_second)]
    per_second: f64,
    /// Share of windows that have to be in time.
    #[arg(long, value_name = "PERCENT", default_value = "95 %", value_parser = parse_share)]
    probability: f64,
    /// Time from the source to the subscribers, such as '300 ms' [default: they have to keep up only].
    #[arg(long, value_name = "DURATION", value_parser = parse_deadline)]
    deadline: Option<Duration>,
    #[command(flatten)]
    asking: Asking,
}

fn parse_per_second(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1e-3..=PER_SECOND_MAX).contains(number));
    number.ok_or_else(|| "give 0.001 to 1000000 messages a second".to_owned())
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(str::trim_end);
    let number: Option<f64> = number.and_then(|number| number.parse().ok());
    let share = number.map(|number| number / 100.0);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a percentage, such as '95 %'".to_owned())
}

pub(super) fn parse_deadline(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A candidate, and its estimate or the reason for which there is none.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) estimate: Result<Estimate, String>,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (own, pipeline) = arguments.pipeline.read()?;
    let pipeline = (&pipeline, &own.modules);
    let sample = Sample::read(&arguments.sample, arguments.framing, pipeline).await?;
    let answer = arguments.asking.ask(&Request::Overlay {}).await?;
    let view = View::new(rows(&answer));
    let demand = Demand {
        share: arguments.probability,
        deadline: arguments.deadline,
    };
    let flow = sample.flow(arguments.per_second);
    let source = arguments.at_source.then_some(&arguments.from);
    let names = arguments.at.iter().chain(source);
    let subscribers = arguments.subscribers.iter();
    let subscribers: Vec<_> = subscribers
        .map(|name| (name.clone(), sample.derived()))
        .collect();
    let of = |name: &String| {
        let ends = (&*arguments.from, &*subscribers);
        let candidate = view.candidate(name, ends, sample.unit_ps());
        Row {
            name: name.clone(),
            estimate: candidate.map(|candidate| Estimate::of(&candidate, &flow, &demand)),
        }
    };
    let rows: Vec<Row> = names.map(of).collect();
    let estimates = estimates(&rows);
    let Some(best) = best(&estimates, &demand) else {
        let why = rows.iter().filter_map(|row| row.estimate.as_ref().err());
        let why: Vec<&str> = why.map(String::as_str).collect();
        return Err(Failure::other(format!(
            "no place is known: {}",
            why.join("; ")
        )));
    };
    if arguments.asking.json {
        for (at, row) in rows.iter().enumerate() {
            print_line(&of_row(row, at == best).to_string())?;
        }
        return Ok(());
    }
    print_line(&sample.to_string())?;
    for line in table(&rows, best).lines(table::width()) {
        print_line(&line)?;
    }
    print_line(&reason(&rows, best, &demand))
}

/// The estimates that are known.
pub(super) fn estimates(rows: &[Row]) -> Vec<Option<Estimate>> {
    let estimate = |row: &Row| row.estimate.as_ref().ok().copied();
    rows.iter().map(estimate).collect()
}

fn of_row(row: &Row, is_best: bool) -> Value {
    match &row.estimate {
        Err(why) => json!({"kind": "place", "place": row.name, "is_best": false, "why": why}),
        Ok(estimate) => json!({
            "kind": "place",
            "place": row.name,
            "is_best": is_best,
            "share": estimate.share,
            "time_ms": estimate.time_s.is_finite().then_some(estimate.time_s * 1e3),
            "bytes": estimate.bytes,
            "tightest": estimate.tightest.to_string(),
            "use_share": estimate.use_share,
        }),
    }
}

fn table(rows: &[Row], best: usize) -> Table {
    let columns = vec![
        Column::text("PLACE"),
        Column::number("IN TIME"),
        Column::number("AFTER"),
        Column::number("BYTES OF A MESSAGE"),
        Column::text("USED MOST"),
    ];
    let cells = rows.iter().enumerate().map(|(at, row)| {
        let mark = if at == best { " *" } else { "" };
        let name = format!("{}{mark}", row.name);
        match &row.estimate {
            Err(_) => [name, "-".into(), "-".into(), "-".into(), "unknown".into()].into(),
            Ok(estimate) => {
                let time = estimate.time_s.is_finite();
                vec![
                    name,
                    format!("{:.0} %", 100.0 * estimate.share),
                    if time {
                        format!("{:.0} ms", estimate.time_s * 1e3)
                    } else {
                        "never".to_owned()
                    },
                    bytes::text(estimate.bytes.round() as u64),
                    format!("{}, {:.0} %", estimate.tightest, 100.0 * estimate.use_share),
                ]
            }
        }
    });
    Table::new(columns, cells)
}

/// The reason for the choice, in words.
fn reason(rows: &[Row], best: usize, demand: &Demand) -> String {
    let mut words = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match &row.estimate {
            Err(why) => words.push(format!("{} is unknown: {why}", row.name)),
            Ok(estimate) if at == best && !estimate.keeps(demand) => {
                words.insert(
                    0,
                    format!(
                        "no place keeps the demand; {} comes closest: {estimate}",
                        row.name
                    ),
                );
            }
            Ok(estimate) if at == best => words.insert(0, format!("{}: {estimate}", row.name)),
            Ok(_) => {}
        }
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use anabranch_processing::process::place::Part;

    use super::*;

    #[test]
    fn values_are_read_and_refused() {
        assert_eq!(parse_share("95 %"), Ok(0.95));
        assert_eq!(parse_share("99.5%"), Ok(0.995));
        for wrong in ["95", "101 %", "-1 %", "x %", "NaN %"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_per_second("25"), Ok(25.0));
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "x"] {
            assert!(parse_per_second(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_choice_is_explained() {
        let estimate = |share, time_s| {
            Ok(Estimate {
                share,
                time_s,
                bytes: 41_000.0,
                tightest: Part::Last,
                use_share: 0.5,
            })
        };
        let row = |name: &str, estimate| Row {
            name: name.to_owned(),
            estimate,
        };
        let rows = [
            row("hub", estimate(1.0, 0.061)),
            row(
                "spare",
                Err("no link from here to spare is measured".to_owned()),
            ),
        ];
        let demand = Demand {
            share: 0.95,
            deadline: None,
        };
        assert_eq!(
            reason(&rows, 0, &demand),
            "hub: in time in 100 % of windows, after 61 ms; spare is unknown: no link from here to spare is measured"
        );
        assert_eq!(
            table(&rows, 0).lines(crate::table::COLUMNS_MAX),
            [
                "PLACE  IN TIME  AFTER  BYTES OF A MESSAGE  USED MOST",
                "hub *    100 %  61 ms             41.0 kB  the last leg, 50 %",
                "spare        -      -                   -  unknown",
            ]
        );
        let short = [row("hub", estimate(0.5, 0.061))];
        assert!(
            reason(&short, 0, &demand)
                .starts_with("no place keeps the demand; hub comes closest: in time in 50 %")
        );
        assert_eq!(of_row(&rows[0], true)["time_ms"], 61.0);
        assert_eq!(of_row(&rows[1], false)["is_best"], false);
    }
}

//! `anabranch hose explain`: one plan of a running node, with its reasons.

use std::{path::PathBuf, time::Duration};

use anabranch::control::Request;
use anabranch_base::{duration, text::printable};
use anabranch_hose::{
    Limits, Objectives,
    explain::Explanation,
    json::{Document, JsonSchedule, SlotEntry},
};
use serde_json::Value;

use super::{choices, eval, lines};
use crate::{
    control::{self, Asking},
    exit::{Failure, Outcome, print_line},
    table::{Column, Table},
};

/// Characters of a channel's name that are shown.
const NAME_CHARS: usize = 32;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A plan is made whenever something can be sent under the policy assign with objectives over messages, and in each cycle of random_walk. The \
next one is shown: the slots that there were and that were expected, each message that waited with the slots that it could have had and the \
difference that each would have made, all others staying where they were, and what each objective gained. With --save it can be evaluated \
again: anabranch hose eval --schedule FILE --alternatives 10.

Exit codes: 0; 1 if nothing is planned, or no plan was made in time; 3 if no node answers; 6 if the file cannot be written.")]
pub(crate) struct Arguments {
    /// Session, such as session-0 [default: the first that makes a plan].
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of messages, or fragments of them, that have to wait in the plan at least.
    #[arg(long, value_name = "N", default_value_t = 1)]
    adus: usize,
    /// Time to wait for such a plan, 60 s at most.
    #[arg(long, value_name = "DURATION", default_value = "10 s", value_parser = parse_within)]
    within: Duration,
    /// Number of messages for which to print all choices.
    #[arg(long, value_name = "N", default_value_t = 10)]
    alternatives: usize,
    /// Number of contexts of each objective to print in full.
    #[arg(long, value_name = "N", default_value_t = 3)]
    contexts: usize,
    /// Write the plan to a file, as a schedule in JSON.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

fn parse_within(text: &str) -> Result<Duration, String> {
    let within = duration::parse(text).map_err(|error| error.to_string())?;
    match (1..=60_000).contains(&within.as_millis()) {
        true => Ok(within),
        false => Err("give 1 ms to 60 s".to_owned()),
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let request = Request::Cycle {
        session: arguments.session.clone(),
        adus: Some(arguments.adus),
        within_ms: Some(u64::try_from(arguments.within.as_millis()).unwrap_or(u64::MAX)),
    };
    let answer = arguments.asking.ask(&request).await?;
    let row = control::rows(&answer).first();
    let row = row.ok_or_else(|| Failure::other("the node answered with no plan"))?;
    if let Some(path) = &arguments.save {
        std::fs::write(path, format!("{}\n", row["schedule"]))
            .map_err(|error| Failure::file(format!("cannot write {}: {error}", path.display())))?;
    }
    let document: Document = serde_json::from_value(row["schedule"].clone())
        .map_err(|error| Failure::other(format!("the node is of another version: {error}")))?;
    let vocabulary = document.vocabulary().map_err(Failure::other)?;
    let mut objectives = Objectives::new(Limits::default(), vocabulary);
    for text in &document.objectives {
        eval::inject(&mut objectives, "objectives of the node", text)?;
    }
    let mut schedule =
        JsonSchedule::new(document, objectives.vocabulary()).map_err(Failure::other)?;
    let explanation = objectives.explain(&schedule, arguments.contexts);
    let alternatives = schedule.alternatives(&mut objectives, arguments.alternatives);
    if arguments.asking.json {
        let mut result = answer;
        result["rows"][0]["explanation"] =
            serde_json::to_value(&explanation).map_err(Failure::other)?;
        result["rows"][0]["alternatives"] = choices::as_json(&alternatives);
        return print_line(&result.to_string());
    }
    let document = schedule.document();
    let mut all = vec![head(row, document, &explanation), String::new()];
    all.extend(slots(document));
    all.extend(choices::lines(document, &alternatives));
    let waiting = document.adus.iter().filter(|adu| adu.is_waiting()).count();
    if waiting > alternatives.len() {
        let left = waiting - alternatives.len();
        all.push(String::new());
        all.push(format!("and {left} more that wait; see --alternatives"));
    }
    all.push(String::new());
    all.extend(lines::of(&explanation));
    all.iter().try_for_each(|line| print_line(line))
}

/// `session-0, policy assign: 5 messages wait, 3 were sent before; utility 17`.
fn head(row: &Value, document: &Document, explanation: &Explanation) -> String {
    let waiting = document.adus.iter().filter(|adu| adu.is_waiting()).count();
    let sent = document.adus.len() - waiting;
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let (wait, were) = (
        if waiting == 1 { "waits" } else { "wait" },
        if sent == 1 { "was" } else { "were" },
    );
    format!(
        "{}, policy {}: {waiting} {wait}, {sent} {were} sent before; utility {}",
        text("session"),
        text("policy"),
        lines::number(explanation.utility)
    )
}

/// Table of the slots of each channel.
fn slots(document: &Document) -> Vec<String> {
    let mut columns = vec![Column::text("CHANNEL")];
    columns.extend(["NOW", "EXPECTED", "LOSS", "ROUND TRIP", "COST/MB"].map(Column::number));
    let taken: Vec<usize> = (document.adus.iter())
        .filter(|adu| !adu.is_waiting())
        .filter_map(|adu| adu.slot)
        .collect();
    let slots = document.slots.iter().enumerate();
    let slots: Vec<&SlotEntry> = slots
        .filter(|(at, _)| !taken.contains(at))
        .map(|(_, slot)| slot)
        .collect();
    let rows = document.channels.keys().map(|key| {
        let own = slots
            .iter()
            .copied()
            .filter(|slot| slot.channel.as_deref() == Some(key));
        let (expected, now): (Vec<_>, Vec<_>) = own.partition(|slot| slot.is_phantom());
        let first = now.first().or(expected.first());
        let of = |value: &dyn Fn(&SlotEntry) -> Option<String>| {
            first
                .and_then(|slot| value(slot))
                .unwrap_or_else(|| "-".to_owned())
        };
        vec![
            printable(key, NAME_CHARS),
            now.len().to_string(),
            expected.len().to_string(),
            of(&|slot| Some(format!("{} %", lines::number(slot.loss? * 100.0)))),
            of(&|slot| {
                let (mean, deviation) = (slot.rtt_ms?, slot.rtt_deviation_ms);
                Some(format!("{mean:.0} ± {deviation:.0} ms"))
            }),
            of(&|slot| Some(lines::number(slot.cost_per_byte * 1e6))),
        ]
    });
    Table::new(columns, rows).lines(usize::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_begins_with_its_session_and_slots() {
        let document: Document = serde_json::from_value(json!({
            "channels": {"lte": {}, "wifi": {}},
            "slots": [
                {"channel": "wifi", "loss": 0.015, "rtt_ms": 20, "rtt_deviation_ms": 2.2},
                {"channel": "wifi", "wait_ms": 4},
                {"channel": "lte", "wait_ms": 9, "rtt_ms": 50, "cost_per_byte": 2e-6},
                {"channel": "lte"},
            ],
            "adus": [
                {"stream_id": 1, "stream_seq": 2, "slot": 0},
                {"stream_id": 1, "stream_seq": 1, "slot": 3, "sent": true},
            ],
        }))
        .unwrap();
        let row = json!({"session": "session-0", "policy": "assign"});
        let head = head(&row, &document, &Explanation::default());
        assert_eq!(
            head,
            "session-0, policy assign: 1 waits, 1 was sent before; utility 0"
        );
        assert_eq!(
            slots(&document),
            [
                "CHANNEL  NOW  EXPECTED   LOSS  ROUND TRIP  COST/MB",
                "lte        0         1      -   50 ± 0 ms        2",
                "wifi       1         1  1.5 %   20 ± 2 ms        0",
            ]
        );
    }
}

//! `anabranch hose eval`: the utility of a schedule.

use anabranch_hose::{
    Limits, Objectives, Vocabulary,
    evaluate::InjectError,
    explain::{Bound, Context, Explanation, Scored},
    json::JsonSchedule,
};
use serde_json::to_string;

use super::{name, read};
use crate::exit::{Failure, Outcome, print_error, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files of objectives, all in force together; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// File with the schedule, the assignment of ADUs to slots (see docs/hose.md); `-` for standard input.
    #[arg(long, value_name = "JSON")]
    schedule: String,
    /// Number of contexts of each objective to print in full.
    #[arg(long, value_name = "N", default_value_t = 10)]
    contexts: usize,
    /// Maximum number of bindings to try for one objective; the rest are skipped and reported.
    #[arg(long, value_name = "N", default_value_t = Limits::default().tries)]
    tries: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let limits = Limits {
        tries: arguments.tries,
    };
    let mut objectives = Objectives::new(limits, Vocabulary::default());
    for file in &arguments.files {
        match objectives.inject(&read(file)?) {
            Ok(injected) => print_error(&injected.warnings.render(name(file))),
            Err(InjectError::Text(report)) => {
                print_error(&report.render(name(file)));
                return Err(Failure::usage(format!("{} has errors", name(file))));
            }
            Err(error) => return Err(Failure::usage(error)),
        }
    }
    let text = read(&arguments.schedule)?;
    let schedule = JsonSchedule::parse(&text, objectives.vocabulary())
        .map_err(|error| Failure::usage(format!("{}: {error}", name(&arguments.schedule))))?;
    let explanation = objectives.explain(&schedule, arguments.contexts);
    if arguments.json {
        let line = to_string(&explanation).map_err(Failure::other)?;
        return print_line(&line);
    }
    for line in lines(&explanation) {
        print_line(&line)?;
    }
    Ok(())
}

fn lines(explanation: &Explanation) -> Vec<String> {
    let mut lines = vec![format!("utility {}", number(explanation.utility))];
    for scored in &explanation.objectives {
        lines.push(String::new());
        objective(&mut lines, scored);
    }
    let touched = |worth: &&anabranch_hose::explain::Worth| worth.utility != 0.0 || !worth.is_sent;
    let mut adus = explanation.adus.iter().filter(touched).peekable();
    if adus.peek().is_some() {
        lines.push(String::new());
        lines.push("by ADU:".to_owned());
    }
    for worth in adus {
        let which = adu(worth.stream_id, worth.stream_seq);
        let gained = if worth.is_sent {
            number(worth.utility)
        } else {
            "not sent".to_owned()
        };
        lines.push(format!("  {which}: {gained}"));
    }
    lines
}

fn objective(lines: &mut Vec<String>, scored: &Scored) {
    lines.push(format!(
        "{}: {}; its goal is met in {} of {} contexts",
        scored.name,
        number(scored.utility),
        scored.contexts_met,
        scored.contexts
    ));
    for fault in &scored.faults {
        lines.push(format!("  note: it {fault}"));
    }
    for context in &scored.first {
        lines.push(format!("  {}", context_line(context)));
    }
    let left = scored.contexts.saturating_sub(scored.first.len() as u64);
    if left > 0 && !scored.first.is_empty() {
        lines.push(format!("  and {left} more contexts; see --contexts"));
    }
}

fn context_line(context: &Context) -> String {
    let bindings: Vec<String> = context.bindings.iter().map(bound).collect();
    let mut why: Vec<String> = Vec::new();
    for test in &context.tests {
        let verdict = if test.holds { "" } else { "not " };
        why.push(match test.values {
            Some([left, right]) => format!(
                "{verdict}{} ({}, {})",
                test.text,
                number(left),
                number(right)
            ),
            None => format!("{verdict}{}", test.text),
        });
    }
    for gain in &context.gains {
        let value = number(gain.value);
        why.push(format!("{} gains {value} = {}", gain.variable, gain.text));
    }
    let sum = number(context.utility);
    format!("{}: {sum}; {}", bindings.join(", "), why.join("; "))
}

fn bound(bound: &Bound) -> String {
    format!(
        "{} = {}",
        bound.variable,
        adu(bound.stream_id, bound.stream_seq)
    )
}

/// Formats an ADU as `stream 3 #17`, or a stream as `stream 3`.
fn adu(stream: Option<u64>, sequence: Option<u64>) -> String {
    let part = |id: Option<u64>| id.map_or("?".to_owned(), |id| id.to_string());
    match sequence {
        Some(_) => format!("stream {} #{}", part(stream), part(sequence)),
        None => format!("stream {}", part(stream)),
    }
}

/// Formats a number with at most three decimals.
fn number(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    // The addition turns minus zero into zero.
    format!("{}", rounded + 0.0)
}

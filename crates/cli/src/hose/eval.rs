//! `anabranch hose eval`: the utility of a schedule.

use anabranch_hose::{
    Limits, Objectives,
    evaluate::InjectError,
    json::{Document, JsonSchedule},
};

use super::{choices, lines, name, read};
use crate::exit::{Failure, Outcome, print_error, print_line};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A schedule that `anabranch hose explain --save` wrote holds the objectives that were in force; without FILE, these are evaluated. Exit \
code 2 if a file has errors, 6 if it cannot be read.")]
pub(crate) struct Arguments {
    /// Files of objectives, all in force together; `-` for standard input [default: the objectives in the schedule].
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// File with the schedule, the assignment of ADUs to slots (see docs/hose.md); `-` for standard input.
    #[arg(long, value_name = "JSON")]
    schedule: String,
    /// Number of contexts of each objective to print in full.
    #[arg(long, value_name = "N", default_value_t = 10)]
    contexts: usize,
    /// Number of waiting ADUs for which to print the slots that they could have, and the difference that each would make.
    #[arg(long, value_name = "N", default_value_t = 0)]
    alternatives: usize,
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
    let text = read(&arguments.schedule)?;
    let in_schedule = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", name(&arguments.schedule)))
    };
    let document: Document = serde_json::from_str(&text)
        .map_err(|error| in_schedule(&format!("not a schedule: {error}")))?;
    let vocabulary = document.vocabulary().map_err(|error| in_schedule(&error))?;
    let mut objectives = Objectives::new(limits, vocabulary);
    let mut texts = Vec::new();
    for file in &arguments.files {
        texts.push((name(file), read(file)?));
    }
    if texts.is_empty() {
        let own = document.objectives.iter().cloned();
        texts.extend(own.map(|text| (name(&arguments.schedule), text)));
    }
    if texts.is_empty() {
        return Err(Failure::usage(format!(
            "no objectives: name files of them; {} holds none",
            name(&arguments.schedule)
        )));
    }
    for (name, text) in &texts {
        inject(&mut objectives, name, text)?;
    }
    let mut schedule = JsonSchedule::new(document, objectives.vocabulary())
        .map_err(|error| in_schedule(&error))?;
    let explanation = objectives.explain(&schedule, arguments.contexts);
    let alternatives = schedule.alternatives(&mut objectives, arguments.alternatives);
    if arguments.json {
        let mut result = serde_json::to_value(&explanation).map_err(Failure::other)?;
        if arguments.alternatives > 0 {
            result["alternatives"] = choices::as_json(&alternatives);
        }
        return print_line(&result.to_string());
    }
    let mut all = lines::of(&explanation);
    all.extend(choices::lines(schedule.document(), &alternatives));
    all.iter().try_for_each(|line| print_line(line))
}

/// Puts a text into force; warnings and errors are printed.
pub(super) fn inject(objectives: &mut Objectives, name: &str, text: &str) -> Result<(), Failure> {
    match objectives.inject(text) {
        Ok(injected) => {
            print_error(&injected.warnings.render(name));
            Ok(())
        }
        Err(InjectError::Text(report)) => {
            print_error(&report.render(name));
            Err(Failure::usage(format!("{name} has errors")))
        }
        Err(error) => Err(Failure::usage(error)),
    }
}

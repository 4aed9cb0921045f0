//! `anabranch objective`: adds, lists and removes the objectives of a running node.

use anabranch::control::Request;
use anabranch_hose::{Vocabulary, compile};
use serde_json::Value;

use crate::{
    control,
    exit::{Failure, Outcome, print_error, print_line},
    hose, table,
};

/// Characters of an objective's text that a table shows.
const TEXT_CHARS: usize = 40;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Apply the objectives of a file atomically: all or none.
    #[command(after_help = "\
Objectives have an effect under the policies assign and random_walk. They apply to the sessions that are open now, until these end;
objectives for all later sessions are given to the node with --objectives. If the file has errors, they are printed with their
places, and the exit code is 2.")]
    Add {
        /// File of objectives, `-` for standard input; or names of the library, such as 'low_latency(voice, 150); avoid_metered'.
        #[arg(value_name = "FILE")]
        file: String,
        #[command(flatten)]
        asking: Where,
    },
    /// List the objectives in force, with what each did in the last minute.
    #[command(after_help = "\
Counts are of messages that were sent in the last minute under a policy that follows objectives, each in the slot that it took: \
the contexts tried (bindings of variables), those in which the goal was met, the utility gained in these, and those whose evaluation had a \
fault. Objectives over streams alone count once a second while something is sent; rates do not.")]
    List {
        #[command(flatten)]
        asking: Where,
    },
    /// Remove an objective, and release what it was promised.
    Remove {
        /// Number of the objective; see `anabranch objective list`.
        #[arg(value_name = "OBJECTIVE")]
        objective: String,
        #[command(flatten)]
        asking: Where,
    },
}

#[derive(Debug, clap::Args)]
struct Where {
    #[command(flatten)]
    control: control::Asking,
    /// Session to which the command applies, such as session-0 [default: every session].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let (asking, request) = match arguments.what {
        What::Add { file, asking } => {
            let text = checked(&file)?;
            let session = asking.session.clone();
            (asking, Request::ObjectiveAdd { text, session })
        }
        What::List { asking } => {
            let session = asking.session.clone();
            (asking, Request::Objectives { session })
        }
        What::Remove { objective, asking } => {
            let session = asking.session.clone();
            (asking, Request::ObjectiveRemove { objective, session })
        }
    };
    let answer = asking.control.ask(&request).await?;
    if asking.control.json {
        return print_line(&answer.to_string());
    }
    let rows = control::rows(&answer);
    let lines = match request {
        _ if rows.is_empty() => vec!["no objectives".to_owned()],
        Request::Objectives { .. } => list(rows),
        _ => rows.iter().map(line).collect(),
    };
    for line in lines {
        print_line(&line)?;
    }
    Ok(())
}

/// Table of the objectives in force, and a line for each that has faults.
fn list(rows: &[Value]) -> Vec<String> {
    let head = [
        "session",
        "objective",
        "name",
        "kind",
        "contexts",
        "met",
        "utility",
        "faulty",
        "text",
    ];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    let number = |value: &Value| match value.as_f64() {
        None => "-".to_owned(),
        // The addition turns minus zero into zero.
        Some(number) => format!("{}", (number * 10.0).round() / 10.0 + 0.0),
    };
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    cells.extend(rows.iter().map(|row| {
        let words: Vec<&str> = row["text"]
            .as_str()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        vec![
            text(&row["session"]),
            number(&row["objective"]),
            text(&row["name"]),
            text(&row["kind"]),
            number(&row["contexts"]),
            number(&row["contexts_met"]),
            number(&row["utility"]),
            number(&row["contexts_faulty"]),
            short(&words.join(" ")),
        ]
    }));
    let mut lines = table::headed(&cells);
    for row in rows {
        let which = || format!("{} objective {}", text(&row["session"]), row["objective"]);
        let faults = row["faults"].as_str().unwrap_or_default();
        if !faults.is_empty() {
            lines.push(format!("{}: it {faults}", which()));
        }
        if let Some(policy) = ignoring(row) {
            lines.push(format!("{}: policy {policy} ignores objectives", which()));
        }
    }
    lines
}

/// The beginning of a text that is too long for a table; JSON has all of it.
fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The policy of a row's session, if it ignores objectives.
fn ignoring(row: &Value) -> Option<&str> {
    let policy = row["policy"].as_str().unwrap_or_default();
    let follows = policy == "assign" || policy.starts_with("random_walk");
    (!follows && row["kind"] != "rate").then_some(policy)
}

/// Returns the text of a file without errors. The node checks it again, against the fields that its applications declared.
fn checked(file: &str) -> Result<String, Failure> {
    let text = hose::read(file)?;
    let compiled = compile(&text, &mut Vocabulary::default());
    let report = match &compiled {
        Ok(compiled) => &compiled.warnings,
        Err(report) => report,
    };
    print_error(&report.render(hose::name(file)));
    let Ok(compiled) = compiled else {
        return Err(Failure::usage("nothing was changed"));
    };
    let program = &compiled.program;
    if program.objectives.is_empty() && program.rates.is_empty() {
        let name = hose::name(file);
        return Err(Failure::usage(format!(
            "{name} contains no objectives; nothing was changed"
        )));
    }
    Ok(text)
}

fn line(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let head = format!(
        "{} objective {}",
        text("session"),
        row["objective"].as_u64().unwrap_or_default()
    );
    match (text("kind"), ignoring(row)) {
        ("added", None) => format!("{head}: in force"),
        ("added", Some(policy)) => {
            format!("{head}: in force (policy {policy} ignores objectives)")
        }
        _ => format!("{head}: removed"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objectives_are_listed_with_what_they_did() {
        let row = |objective: u64, more: Value| {
            let mut row = json!({
                "session": "session-0", "objective": objective, "kind": "single", "policy": "assign",
                "text": "objective x {\n  …\n}",
            });
            for (key, value) in more.as_object().unwrap() {
                row[key] = value.clone();
            }
            row
        };
        let rows = [
            row(
                0,
                json!({
                    "name": "quick", "contexts": 120, "contexts_met": 118, "utility": 4130.25, "contexts_faulty": 2,
                    "faults": "divides by zero; contexts in which it does so add nothing",
                }),
            ),
            row(11, json!({ "kind": "rate", "text": "64 kbit/s" })),
        ];
        let expected = [
            "session    objective  name   kind    contexts  met  utility  faulty  text",
            "session-0  0          quick  single  120       118  4130.3   2       objective x { … }",
            "session-0  11         -      rate    -         -    -        -       64 kbit/s",
            "session-0 objective 0: it divides by zero; contexts in which it does so add nothing",
        ];
        assert_eq!(list(&rows), expected);
        let ignored = row(1, json!({ "policy": "default" }));
        assert_eq!(
            list(&[ignored]).last().unwrap(),
            "session-0 objective 1: policy default ignores objectives"
        );
    }
}

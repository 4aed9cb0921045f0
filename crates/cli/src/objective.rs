//! `anabranch objective`: adds, lists and removes the objectives of a running node.

use anabranch::control::Request;
use anabranch_hose::{Vocabulary, compile};
use serde_json::Value;

use crate::{
    control,
    exit::{Failure, Outcome, print_error, print_line},
    hose,
};

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
        /// File of objectives; `-` for standard input.
        #[arg(value_name = "FILE")]
        file: String,
        #[command(flatten)]
        asking: Where,
    },
    /// List the objectives in force.
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
    if rows.is_empty() {
        return print_line("no objectives");
    }
    for row in rows {
        print_line(&line(row))?;
    }
    Ok(())
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
    let policy = match text("policy") {
        policy if policy == "assign" || policy.starts_with("random_walk") => String::new(),
        policy => format!(" (policy {policy} ignores objectives)"),
    };
    match text("kind") {
        "added" => format!("{head}: in force{policy}"),
        "removed" => format!("{head}: removed"),
        kind => {
            let name = row["name"].as_str().map(|name| format!(" '{name}'"));
            let words: Vec<&str> = text("text").split_whitespace().collect();
            format!(
                "{head}{}, {kind}: {}",
                name.unwrap_or_default(),
                words.join(" ")
            )
        }
    }
}

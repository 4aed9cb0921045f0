//! `anabranch objective`: what is in force at a running node, what comes, what goes.

use anabranch::control::Question;
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
    /// Put the objectives of a file into force, all or none.
    #[command(after_help = "\
Objectives count under the policies assign and random_walk, for the sessions there are, as long as these last; those for all
sessions to come are given to the node: --objectives. Exit codes: 2 when the file has errors, with their places.")]
    Add {
        /// File of objectives; - for standard input.
        #[arg(value_name = "FILE")]
        file: String,
        #[command(flatten)]
        asking: Where,
    },
    /// What is in force.
    List {
        #[command(flatten)]
        asking: Where,
    },
    /// Take an objective out of force, and release what it was promised.
    Remove {
        /// Its number; see `anabranch objective list`.
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
    /// The session, such as session-0 [default: each].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let (asking, question) = match arguments.what {
        What::Add { file, asking } => {
            let text = checked(&file)?;
            let question = Question {
                text: Some(text),
                ..Question::show("objective_add")
            };
            (asking, question)
        }
        What::List { asking } => (asking, Question::show("objectives")),
        What::Remove { objective, asking } => {
            let question = Question {
                objective: Some(objective),
                ..Question::show("objective_remove")
            };
            (asking, question)
        }
    };
    let question = Question {
        session: asking.session,
        ..question
    };
    let answer = asking.control.ask(&question).await?;
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

/// The text of a file without errors. The node checks it again, against what its applications said of fields.
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
            "{name} holds no objectives; nothing was changed"
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
        policy => format!(" (policy {policy} does not look at objectives)"),
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

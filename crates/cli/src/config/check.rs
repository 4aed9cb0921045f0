//! `anabranch config check`.

use std::path::PathBuf;

use anabranch::config::{Finding, Layer, Mistake, review};
use serde_json::{Value, json};

use super::{usual_file, variable_for};
use crate::{
    exit::{Failure, Outcome, print_line},
    node,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file [default: that of the node of this user].
    #[arg(value_name = "FILE", env = "ANABRANCH_CONFIG")]
    file: Option<PathBuf>,
    /// Print the findings as a line of JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = arguments.file.clone().or_else(usual_file);
    let file = file.ok_or_else(|| Failure::usage("this user has no node yet; name a file"))?;
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Failure::file(format!("cannot read {}: {error}", file.display())))?;
    let variable = variable_for(&file);
    let environment = Layer::from_environment(&variable).map_err(Failure::usage)?;
    let (mistakes, findings) = match review(&text, &environment, &variable) {
        Err(mistakes) => (mistakes, Vec::new()),
        // Files that it names are relative to the folder of the command, as for a node.
        Ok(config) => (Vec::new(), node::examine(&config)),
    };
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    for finding in findings {
        match finding {
            Finding::Fault(words) => faults.push(words),
            Finding::Note(words) => notes.push(words),
        }
    }
    let place = file.display();
    if arguments.json {
        let row = |mistake: &Mistake| {
            json!({
                "line": mistake.place.map(|(line, _)| line),
                "column": mistake.place.map(|(_, column)| column),
                "words": mistake.words,
            })
        };
        let rows: Vec<Value> = mistakes.iter().map(row).collect();
        let all = json!({ "file": place.to_string(), "mistakes": rows, "faults": faults, "notes": notes });
        print_line(&all.to_string())?;
    } else {
        for mistake in &mistakes {
            print_line(&match mistake.place {
                Some((line, column)) => format!("{place}:{line}:{column}: {}", mistake.words),
                None => format!("{place}: {}", mistake.words),
            })?;
        }
        for words in &faults {
            print_line(&format!("{place}: {words}"))?;
        }
        for words in &notes {
            print_line(&format!("{place}: note: {words}"))?;
        }
    }
    match (mistakes.len(), faults.len()) {
        (0, 0) if arguments.json => Ok(()),
        (0, 0) => print_line("configuration OK"),
        (0, 1) => Err(Failure::file("1 fault")),
        (0, count) => Err(Failure::file(format!("{count} faults"))),
        (1, _) => Err(Failure::usage("1 mistake")),
        (count, _) => Err(Failure::usage(format!("{count} mistakes"))),
    }
}

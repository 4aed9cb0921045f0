//! `anabranch hose fmt`: the standard layout of files of objectives.

use std::fs;

use super::{name, read};
use crate::exit::{Failure, Outcome, print_bytes, print_error, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files to rewrite; `-` formats standard input to standard output.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Change nothing; list the files that would change, and fail if there are any.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (mut errors, mut changed) = (0, 0);
    for file in &arguments.files {
        let text = read(file)?;
        let formatted = match anabranch_hose::format(&text) {
            Ok(formatted) => formatted,
            Err(report) => {
                print_error(&report.render(name(file)));
                errors += report.errors();
                continue;
            }
        };
        if arguments.check {
            if formatted != text {
                changed += 1;
                print_line(file)?;
            }
        } else if file == "-" {
            print_bytes(formatted.as_bytes())?;
        } else if formatted != text {
            fs::write(file, formatted)
                .map_err(|error| Failure::file(format!("cannot write {file}: {error}")))?;
        }
    }
    match (errors, changed) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::other(format!(
            "{changed} file(s) are not in the standard layout; 'anabranch hose fmt FILE' rewrites them"
        ))),
        _ => Err(Failure::usage("a file with errors is not formatted")),
    }
}

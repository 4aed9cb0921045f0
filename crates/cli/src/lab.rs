//! `anabranch lab`: experiments that anyone can run again.

use std::path::PathBuf;

use anabranch_base::Seed;
use anabranch_lab::{EXPERIMENTS, Experiment, Options, Outcome as Results, Row};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::exit::{self, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments.
    List,
    /// Run one.
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Its name, as `lab list` prints it.
    name: String,
    /// Seed of the first run; the same seed gives the same rows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs, with consecutive seeds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Only rows whose name contains this, such as a pair of `pairs`.
    #[arg(long)]
    only: Option<String>,
    /// Write JSON, to FILE or, without one, to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
    /// Say nothing while it runs.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List => {
            let lines: Vec<String> = EXPERIMENTS
                .iter()
                .map(|experiment| format!("{:12} {}", experiment.name, experiment.summary))
                .collect();
            exit::print_line(&lines.join("\n"))
        }
        Command::Run(run) => run.go(),
    }
}

impl Run {
    fn go(&self) -> Outcome {
        let experiment = Experiment::find(&self.name).ok_or_else(|| {
            let names: Vec<&str> = EXPERIMENTS.iter().map(|known| known.name).collect();
            Failure::usage(format!(
                "there is no experiment '{}'; choose one of {}",
                self.name,
                names.join(", ")
            ))
        })?;
        let results: Vec<Results> = (self.seed..self.seed.saturating_add(self.seeds))
            .map(|seed| {
                experiment.run(&Options {
                    seed: Seed(seed),
                    only: self.only.as_deref(),
                    progress: &|line| {
                        if !self.quiet {
                            eprintln!("{line}");
                        }
                    },
                })
            })
            .collect();
        if results.iter().all(|result| result.rows.is_empty()) {
            return Err(Failure::usage(format!(
                "--only {} matches no row of '{}'",
                self.only.as_deref().unwrap_or_default(),
                self.name
            )));
        }
        match &self.json {
            None => exit::print_line(&table(&results)),
            Some(target) => {
                // One run is one object, as every tool expects; several are a list of them.
                let text = match results.as_slice() {
                    [one] => serde_json::to_string_pretty(one),
                    many => serde_json::to_string_pretty(many),
                }
                .map_err(Failure::other)?;
                match target {
                    None => exit::print_line(&text),
                    Some(path) => std::fs::write(path, text + "\n").map_err(|error| {
                        Failure::file(format!("cannot write {}: {error}", path.display()))
                    }),
                }
            }
        }
    }
}

/// One line a row, one column a field; fields that a row lacks are left empty.
fn table(results: &[Results]) -> String {
    let rows: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
    let mut fields: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(|row| row.keys()) {
        if !fields.contains(&key.as_str()) {
            fields.push(key);
        }
    }
    let cell = |row: &Row, field: &str| match row.get(field) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let mut lines = vec![
        fields
            .iter()
            .map(|field| (*field).to_owned())
            .collect::<Vec<_>>(),
    ];
    lines.extend(
        rows.iter()
            .map(|row| fields.iter().map(|field| cell(row, field)).collect()),
    );
    let widths: Vec<usize> = (0..fields.len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let formatted: Vec<String> = lines
        .iter()
        .map(|line| {
            let cells = line.iter().zip(&widths);
            let padded: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            padded.join("  ").trim_end().to_owned()
        })
        .collect();
    formatted.join("\n")
}

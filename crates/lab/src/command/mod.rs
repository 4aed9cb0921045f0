//! Subcommands: list, run, report.

mod attainable;
mod beat;
mod gridftp;
mod live;
mod promises;
mod replay;
mod stop;
mod table;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_base::{Seed, text::nearest};
use anabranch_lab::{
    EXPERIMENTS, Experiment, Options, Outcome as Results, Row,
    experiments::{gridftp as records, promises_live, telemedicine},
    kit::{
        corpus::{Corpus, DATA_FOLDERS},
        output::{Page, to_csv},
        parallel,
    },
};
use clap::{Args, Subcommand};
use serde_json::json;

use self::beat::Beat;
use crate::failure::{self, Failure, Outcome};

/// Recordings that were left out and are named; the others are only counted.
const SKIPPED_SHOWN: usize = 5;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the experiments.
    List {
        /// Print a line of JSON for each: `name`, `summary`, `takes_recordings`, `runs_live`.
        #[arg(long)]
        json: bool,
    },
    /// Run one.
    Run(Run),
    /// Run all, and write one page with plans, figures and plots.
    Report(Report),
    /// Repeat the decisions of a session from its transcript, or ask what another policy would have done.
    Replay(replay::Arguments),
    /// Ask which rates the streams of a live `anabranch demo-visualise` could have had on the same paths.
    Attainable(attainable::Arguments),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Its name, as `lab list` prints it.
    name: String,
    /// Seed of the first run; the same seed gives the same rows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs, with consecutive seeds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Only rows whose name contains this, such as a pair of `pairs` or a method of `prediction`.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    traces: Traces,
    /// Write JSON, a list with an object for each run, to FILE; without one, or with -, to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
    /// Write NAME.json, NAME.csv and the plots to this folder, which is made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Between nodes on this machine over emulated paths, by its clock, for so long, 10 to 3600 seconds. `telemedicine`: not in
    /// virtual time, 60 s for each policy. `promises-live`: virtual time as well, 300 s for each set. `gridftp`: virtual time as well, 120 s,
    /// only `pgos`. --traces and --only hold as ever.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        value_parser = clap::value_parser!(u64).range(10..=3600))]
    live: Option<Option<u64>>,
    #[command(flatten)]
    promises: promises::Arguments,
    /// Say nothing while it runs.
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Seed of the runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only experiments whose name contains this.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    traces: Traces,
    /// Folder for report.md, report.html, rows and plots; it is made.
    #[arg(long, value_name = "DIR", default_value = "lab-report")]
    out: PathBuf,
    /// Say nothing while it runs.
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
struct Traces {
    /// Recordings to run on, and folders of them: CSV with a header naming t_s and bandwidth_bps, rtt_ms or
    /// loss. Without this: those in ../shared/data if it is there, else the few that travel with the program.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    traces: Vec<PathBuf>,
    /// The film to stream, for the `twoflow-` experiments: CSV with a header naming bytes and pts_s, and type where it
    /// is not IBBPBBPBBPBB. Without this: Star Wars of ../shared/data if it is there, else a generated one.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Traces {
    fn read(&self, experiment: &Experiment, quiet: bool) -> Result<Corpus, Failure> {
        let default = DATA_FOLDERS.map(PathBuf::from);
        let corpus = experiment
            .corpus(&self.traces, &default)
            .map_err(Failure::file)?;
        let corpus = Corpus {
            film: self.trace.clone(),
            ..corpus
        };
        let is_without = corpus.recordings.is_empty();
        if is_without && self.traces.is_empty() && !experiment.needs_traces() {
            return Ok(corpus);
        }
        if is_without {
            return Err(Failure::usage(format!(
                "no recordings in {}",
                self.traces
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        if !quiet {
            if corpus.is_bundled() {
                eprintln!(
                    "{}: no recordings in {}; it runs on the few that travel with the program",
                    experiment.name,
                    DATA_FOLDERS.join(" or ")
                );
            }
            eprintln!(
                "{}: {} recordings, {} files left out",
                experiment.name,
                corpus.recordings.len(),
                corpus.skipped.len()
            );
            for words in corpus.skipped.iter().take(SKIPPED_SHOWN) {
                eprintln!("  left out: {words}");
            }
        }
        Ok(corpus)
    }
}

pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::List { json } => failure::print_line(&list(*json)),
        Command::Run(run) => run.go().await,
        Command::Report(report) => report.go(),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Attainable(arguments) => attainable::run(arguments),
    }
}

/// A line for each experiment.
fn list(json: bool) -> String {
    let width = EXPERIMENTS.iter().map(|experiment| experiment.name.len());
    let width = width.max().unwrap_or_default();
    let line = |experiment: &Experiment| match json {
        true => json!({
            "name": experiment.name,
            "summary": experiment.summary,
            "takes_recordings": experiment.takes_traces(),
            "runs_live": runs_live(experiment),
        })
        .to_string(),
        false => format!("{:width$}  {}", experiment.name, experiment.summary),
    };
    let lines: Vec<String> = EXPERIMENTS.iter().map(line).collect();
    lines.join("\n")
}

/// Experiments that can run live.
const LIVE: [&str; 3] = [
    records::EXPERIMENT.name,
    promises_live::EXPERIMENT.name,
    telemedicine::EXPERIMENT.name,
];

/// True if the experiment can run between nodes on this machine by its clock.
fn runs_live(experiment: &Experiment) -> bool {
    LIVE.contains(&experiment.name)
}

fn progress(quiet: bool) -> impl Fn(&str) + Sync {
    move |line| {
        if !quiet {
            beat::line(line);
        }
    }
}

impl Run {
    async fn go(&self) -> Outcome {
        let experiment = Experiment::find(&self.name).ok_or_else(|| {
            let names: Vec<&str> = EXPERIMENTS.iter().map(|known| known.name).collect();
            let choice = match nearest(&self.name, names.iter().copied()) {
                Some(near) => format!("did you mean '{near}'? `lab list` has all"),
                None => format!("choose one of {}", names.join(", ")),
            };
            Failure::usage(format!("there is no experiment '{}'; {choice}", self.name))
        })?;
        if !experiment.takes_traces() && !self.traces.traces.is_empty() {
            return Err(Failure::usage(format!(
                "'{}' runs on no recordings; leave out --traces",
                self.name
            )));
        }
        if let Some(film) = &self.traces.trace {
            if !experiment.takes_film() {
                return Err(Failure::usage(format!(
                    "'{}' streams no film; leave out --trace, or give recordings of paths with --traces",
                    self.name
                )));
            }
            anabranch_lab::experiments::twoflow::check_film(film).map_err(Failure::file)?;
        }
        let is_promises = experiment.name == promises_live::EXPERIMENT.name;
        if self.live.is_some() && !runs_live(experiment) {
            return Err(Failure::usage(format!(
                "'{}' runs in virtual time only; leave out --live, or run one of {}",
                self.name,
                LIVE.join(", ")
            )));
        }
        if self.promises.is_given() && !is_promises {
            return Err(Failure::usage(format!(
                "--sets, --seconds, --rows and --netns are for 'promises-live'; leave them out for '{}'",
                self.name
            )));
        }
        let corpus = self.traces.read(experiment, self.quiet)?;
        let results = self.results(experiment, &corpus).await?;
        if results.iter().all(|result| result.rows.is_empty()) {
            return Err(Failure::usage(match &self.only {
                Some(only) if experiment.takes_traces() => format!(
                    "--only {only} matches no row of '{}', or the recordings it matches are too short",
                    self.name
                ),
                Some(only) => format!("--only {only} matches no row of '{}'", self.name),
                None => format!(
                    "'{}' has nothing to say of these recordings; they may be too short, or lack the column it needs",
                    self.name
                ),
            }));
        }
        let text = serde_json::to_string_pretty(&results).map_err(Failure::other)?;
        if let Some(folder) = &self.out {
            make_folder(folder)?;
            write(
                &folder.join(format!("{}.json", self.name)),
                &(text.clone() + "\n"),
            )?;
            let rows: Vec<Row> = results
                .iter()
                .flat_map(|result| result.rows.clone())
                .collect();
            write(&folder.join(format!("{}.csv", self.name)), &to_csv(&rows))?;
            write_plots(folder, experiment, &results[0])?;
        }
        match &self.json {
            None if self.out.is_some() => Ok(()),
            None => failure::print_line(&table::of(&results, table::width())),
            Some(None) => failure::print_line(&text),
            Some(Some(path)) if path.as_os_str() == "-" => failure::print_line(&text),
            Some(Some(path)) => write(path, &(text + "\n")),
        }
    }
}

impl Run {
    async fn results(
        &self,
        experiment: &Experiment,
        corpus: &Corpus,
    ) -> Result<Vec<Results>, Failure> {
        let progress = progress(self.quiet);
        let _beat = Beat::start(experiment.name, self.quiet);
        let seeds: Vec<u64> = (self.seed..self.seed.saturating_add(self.seeds)).collect();
        if experiment.name == promises_live::EXPERIMENT.name {
            let mut results = Vec::new();
            for seed in seeds {
                let show = promises::Show {
                    seed,
                    corpus,
                    only: self.only.as_deref(),
                    arguments: &self.promises,
                    live: self.live,
                };
                results.push(promises::run(&show, &progress).await?);
            }
            return Ok(results);
        }
        let Some(seconds) = self.live else {
            return Ok(parallel::map(&seeds, |&seed| {
                experiment.run(&Options {
                    seed: Seed(seed),
                    only: self.only.as_deref(),
                    corpus,
                    progress: &progress,
                })
            }));
        };
        let mut results = Vec::new();
        for seed in seeds {
            if experiment.name == records::EXPERIMENT.name {
                let show = gridftp::Show {
                    seed,
                    corpus,
                    only: self.only.as_deref(),
                    seconds: seconds.unwrap_or(records::live::Plan::SECONDS),
                };
                results.push(gridftp::run(&show, &progress).await?);
                continue;
            }
            let show = live::Show {
                seed,
                corpus,
                only: self.only.as_deref(),
                time: Duration::from_secs(seconds.unwrap_or(live::SECONDS)),
            };
            results.push(live::run(&show, &progress).await?);
        }
        Ok(results)
    }
}

impl Report {
    fn go(&self) -> Outcome {
        let wanted: Vec<&Experiment> = EXPERIMENTS
            .iter()
            .filter(|known| {
                self.only
                    .as_ref()
                    .is_none_or(|only| known.name.contains(only))
            })
            .collect();
        if wanted.is_empty() {
            return Err(Failure::usage(format!(
                "--only {} matches no experiment",
                self.only.as_deref().unwrap_or_default()
            )));
        }
        make_folder(&self.out)?;
        let mut page = Page::default();
        for experiment in wanted {
            let corpus = self.traces.read(experiment, self.quiet)?;
            let beat = Beat::start(experiment.name, self.quiet);
            let outcome = experiment.run(&Options {
                seed: Seed(self.seed),
                only: None,
                corpus: &corpus,
                progress: &progress(self.quiet),
            });
            drop(beat);
            let rows_file = format!("{}.csv", experiment.name);
            write(&self.out.join(&rows_file), &to_csv(&outcome.rows))?;
            let json = serde_json::to_string_pretty(&[&outcome]).map_err(Failure::other)?;
            write(
                &self.out.join(format!("{}.json", experiment.name)),
                &(json + "\n"),
            )?;
            write_plots(&self.out, experiment, &outcome)?;
            page.sections.push(experiment.section(&outcome, rows_file));
            // What is done is on the page already if a later experiment is interrupted.
            write(&self.out.join("report.md"), &page.to_markdown())?;
            write(&self.out.join("report.html"), &page.to_html())?;
        }
        failure::print_line(&self.out.join("report.html").display().to_string())
    }
}

fn write_plots(folder: &Path, experiment: &Experiment, outcome: &Results) -> Result<(), Failure> {
    let section = experiment.section(outcome, String::new());
    for plot in &section.plots {
        if let Some(svg) = plot.to_svg() {
            write(&folder.join(section.plot_file(plot)), &svg)?;
        }
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::file(format!("cannot make {}: {error}", folder.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::file(format!("cannot write {}: {error}", path.display())))
}

//! Runs many storms, as many at a time as there are cores, each in a process of its own so that its memory can be
//! measured.
//!
//! ```text
//! storm [--seeds N] [--from N] [--rows FILE] [--jobs N]
//! storm --seed N [--log]
//! ```
//!
//! With `--rows`, every result is appended to a file, and seeds that are in it already are not run again: a long run
//! continues where it was interrupted.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program, not part of the engine"
)]

use std::{
    alloc::System,
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
};

use anabranch_sim::storm::{self, Options};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const USAGE: &str =
    "usage: storm [--seeds N] [--from N] [--rows FILE] [--jobs N]   or   storm --seed N [--log]";

fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated) as u64
}

#[derive(Debug, Default)]
struct Arguments {
    from: u64,
    seeds: u64,
    only: Option<u64>,
    with_log: bool,
    rows: Option<PathBuf>,
    jobs: u64,
    /// True in a child process: it reads seeds from standard input and writes rows to standard output.
    is_worker: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut parsed = Arguments {
        seeds: 200,
        jobs: cores,
        ..Arguments::default()
    };
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || format!("{argument} needs a value; {USAGE}");
            arguments.next().ok_or_else(missing)
        };
        let number = |text: String| {
            let wrong = |_| format!("'{text}' is not a whole number; {USAGE}");
            text.parse::<u64>().map_err(wrong)
        };
        match argument.as_str() {
            "--seeds" => parsed.seeds = number(value()?)?,
            "--from" => parsed.from = number(value()?)?,
            "--seed" => parsed.only = Some(number(value()?)?),
            "--log" => parsed.with_log = true,
            "--rows" => parsed.rows = Some(value()?.into()),
            "--jobs" => parsed.jobs = number(value()?)?.max(1),
            "--worker" => parsed.is_worker = true,
            other => return Err(format!("unknown argument '{other}'; {USAGE}")),
        }
    }
    Ok(parsed)
}

/// Row of a storm: seed, packets, virtual time, and `ok` or the broken invariants.
fn row(report: &storm::Report) -> String {
    let broken: Vec<String> = report.broken.iter().map(ToString::to_string).collect();
    let verdict = if broken.is_empty() {
        "ok".to_owned()
    } else {
        broken.join("; ").replace([',', '\n'], " ")
    };
    let (seed, packets) = (report.seed, report.packets);
    format!(
        "{seed},{packets},{},{verdict}",
        report.virtual_time.as_millis()
    )
}

fn options() -> Options {
    Options {
        allocated: Some(allocated),
        ..Options::default()
    }
}

/// Runs the seeds read from standard input.
fn work() -> ExitCode {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let Ok(seed) = line.trim().parse() else {
            break;
        };
        println!("{}", row(&storm::run(seed, options())));
    }
    ExitCode::SUCCESS
}

/// Runs one seed and prints a full report.
fn show(seed: u64, with_log: bool) -> ExitCode {
    let report = storm::run(
        seed,
        Options {
            with_log,
            ..options()
        },
    );
    if let Some(log) = &report.log {
        println!("{log}");
    }
    println!("{}\n{:#?}", report.plan, report.reach);
    for broken in &report.broken {
        println!("{broken}");
    }
    println!("{}", row(&report));
    ExitCode::from(u8::from(!report.broken.is_empty()))
}

/// Seeds that are still to be run, and results of the others.
struct Queue {
    waiting: std::vec::IntoIter<u64>,
    rows: Option<File>,
    done: u64,
    failed: u64,
    packets: u64,
}

impl Queue {
    fn note(&mut self, line: &str) {
        self.done += 1;
        let mut fields = line.splitn(4, ',');
        let (seed, packets) = (fields.next(), fields.next());
        let verdict = fields.nth(1).unwrap_or("unreadable");
        self.packets += packets.and_then(|text| text.parse().ok()).unwrap_or(0);
        if verdict != "ok" {
            self.failed += 1;
            println!("seed {}: {verdict}", seed.unwrap_or("?"));
        }
        if let Some(file) = &mut self.rows {
            writeln!(file, "{line}").expect("the file of rows can be written");
        }
        if self.done.is_multiple_of(100) {
            eprintln!("{} storms, {} failed", self.done, self.failed);
        }
    }
}

/// Sends a worker one seed at a time, and replaces it when it dies.
fn supervise(queue: &Mutex<Queue>) -> std::io::Result<()> {
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || lock().waiting.next();
    let mut seed = next();
    while seed.is_some() {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut to = child.stdin.take().expect("piped");
        let mut from = BufReader::new(child.stdout.take().expect("piped"));
        while let Some(current) = seed {
            let mut line = String::new();
            let is_alive = writeln!(to, "{current}").is_ok()
                && from.read_line(&mut line).is_ok_and(|bytes| bytes > 0);
            if is_alive {
                lock().note(line.trim_end());
            } else {
                lock().note(&format!("{current},0,0,the process died; run it alone"));
            }
            seed = next();
            if !is_alive {
                break;
            }
        }
        drop(to);
        child.wait()?;
    }
    Ok(())
}

/// Reads the seeds that are in the rows already, and the number of those that failed.
fn read_rows(path: &PathBuf) -> (BTreeSet<u64>, u64) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut seeds = BTreeSet::new();
    let mut failed = 0;
    // An interrupted last line is ignored.
    for line in text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
    {
        if let Some(seed) = line.split(',').next().and_then(|text| text.parse().ok()) {
            seeds.insert(seed);
            failed += u64::from(!line.trim_end().ends_with(",ok"));
        }
    }
    (seeds, failed)
}

fn run_all(arguments: &Arguments) -> std::io::Result<ExitCode> {
    let (known, failed_before) = arguments.rows.as_ref().map(read_rows).unwrap_or_default();
    let all = arguments.from..arguments.from.saturating_add(arguments.seeds);
    let waiting: Vec<u64> = all.filter(|seed| !known.contains(seed)).collect();
    let rows = match &arguments.rows {
        Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        None => None,
    };
    if !known.is_empty() {
        println!(
            "{} storms were run before, {failed_before} failed",
            known.len()
        );
    }
    let queue = Mutex::new(Queue {
        waiting: waiting.into_iter(),
        rows,
        done: 0,
        failed: 0,
        packets: 0,
    });
    let outcome = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs)
            .map(|_| scope.spawn(|| supervise(&queue)))
            .collect();
        let mut joined = workers.into_iter().map(|one| one.join());
        joined.try_for_each(|one| one.expect("a supervisor does not panic"))
    });
    outcome?;
    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    let passed = queue.done - queue.failed;
    println!(
        "{} storms, {} packets: {passed} passed, {} failed",
        queue.done, queue.packets, queue.failed
    );
    Ok(ExitCode::from(u8::from(queue.failed + failed_before > 0)))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(2);
        }
    };
    if arguments.is_worker {
        return work();
    }
    if let Some(seed) = arguments.only {
        return show(seed, arguments.with_log);
    }
    run_all(&arguments).unwrap_or_else(|error| {
        eprintln!("storms could not be run: {error}");
        ExitCode::from(2)
    })
}

//! `anabranch demo-records`: a set of three components, watched over three emulated paths, one of which is cut.
//!
//! Two nodes are separate processes, `anabranch node`. The server of the set and its client are in this process, attached to them as
//! applications; so are the emulated links.

mod account;
mod set;

use std::{
    convert::Infallible,
    path::{Path as FilePath, PathBuf},
    time::{Duration, Instant},
};

use anabranch::{
    base::Seed,
    local::client::Session,
    net::emulate::{Emulator, Path},
};
use anabranch_records::{
    client::{Difference, Fetch, Fetched, Plan, Records, RecordsError, Up},
    server::Server,
    wire::OnRefusal,
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval_at, timeout},
};

use self::{
    account::Account,
    set::{NAME, RATE, SECONDS_MAX, Set},
};
use super::{
    data::Data,
    links::{emulate_paths, mbps_since, rows, table},
    nodes::{self, Nodes},
    stage::{Narrator, until_ctrl_c},
};
use crate::{
    attach,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,
    /// File eraint_uvz.nc of the tutorial data of xarray, whose fields become the records [default: a generated set of the same shape].
    #[arg(long, value_name = "FILE")]
    fields: Option<PathBuf>,
    /// Time for which records are produced, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=SECONDS_MAX))]
    seconds: u64,
    /// Multiplies the sizes of the records and the rates of the paths; with 10, the sizes are those of the climate database in IQ-Paths.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10))]
    scale: u64,
    /// Seed of the random losses and of a generated set.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Paths: name, trace of the rate, and the other properties of the link.
const PATHS: [(&str, &str, &str); 3] = [
    (
        "satellite",
        "starlink-up.csv",
        "delay=30 ms, queue=120 ms, jitter=3 ms, loss=0.2 %",
    ),
    (
        "3g",
        "hsdpa-bus.csv",
        "delay=45 ms, queue=300 ms, jitter=4 ms",
    ),
    (
        "3g-2",
        "hsdpa-bus.csv from 640 s",
        "delay=55 ms, queue=300 ms, jitter=4 ms",
    ),
];
/// Index of the path that is cut: the one that carries most.
const CUT: usize = 0;
/// Shares of the time after which it is cut, and is back.
const CUT_AT: (f64, f64) = (0.4, 0.6);
/// Interval of the progress lines, and of the account.
const SECOND: Duration = Duration::from_secs(1);
/// Interval of the looks at the time of the cut.
const LOOK: Duration = Duration::from_millis(50);
/// Time for what is late at the end.
const REST: Duration = Duration::from_secs(240);
/// Events that wait to be counted.
const EVENTS_MAX: usize = 1_024;

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let outcome = until_ctrl_c(show(&arguments, folder.path())).await;
    nodes::remove(folder).await;
    outcome
}

async fn show(arguments: &Arguments, folder: &FilePath) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let records = RATE * arguments.seconds;
    let set = Set::new(
        arguments.fields.as_deref(),
        records,
        arguments.scale,
        arguments.seed,
    )?;
    set.write(&folder.join("sets").join(NAME))?;
    let (archive, at) = Nodes::start(folder, "records/1/*").await?;
    let scale = arguments.scale;
    let paths = PATHS.map(|(name, trace, rest)| {
        let rate = match trace.split_once(" from ") {
            Some((file, from)) => format!("{file} x{scale} from {from}"),
            None => format!("{trace} x{scale}"),
        };
        (name, format!("rate=trace {rate}, {rest}"))
    });
    let emulator = emulate_paths(&arguments.data, &paths, at, Seed(arguments.seed))?;
    let nodes = archive.join(folder, emulator.addresses()).await?;

    let place = match &arguments.fields {
        Some(file) => format!("fields of {}", file.display()),
        None => "generated".to_owned(),
    };
    narrator.say(format!(
        "set {NAME}: {records} records, {RATE} a second, {place}"
    ))?;
    for (index, name) in set.names.iter().enumerate() {
        let rate = set.rate_bps(index) as f64 * 1e-6;
        let promise = set::PROMISES[index].map_or_else(
            || "elastic".to_owned(),
            |share| format!("in {:.0} % of seconds", 100.0 * share),
        );
        let size = set.sizes[index] as f64 * 1e-3;
        narrator.say(format!(
            "  {name:<4} {size:>5.1} kB a record, {rate:>5.2} Mbit/s {promise}"
        ))?;
    }
    for path in emulator.paths() {
        let rate = path.rates().1.map(|rate| rate.to_string());
        let rate = rate.unwrap_or_default();
        narrator.say(format!("path {:<10} {rate} at first", path.name()))?;
    }

    let (client, shelf) = (nodes.archive.clone(), folder.join("sets"));
    let opening = tokio::task::spawn_blocking(move || Server::open(client, &shelf, false));
    let (server, _) = opening
        .await
        .map_err(Failure::other)?
        .map_err(Failure::file)?;
    let service = server.register().await.map_err(attach::failure)?;
    let session = nodes.connect(PATHS.len()).await?;
    let watching = watch(arguments, &set, session, &emulator, folder, narrator);
    let report = tokio::select! {
        report = watching => report?,
        ended = server.serve(&service) => return Err(attach::failure(ended)),
    };
    if arguments.json {
        print_line(&report.to_string())?;
    } else {
        narrator.say_all(lines(&report))?;
    }
    match report["verified"]["wrong"].as_u64() {
        Some(0) => Ok(()),
        _ => Err(Failure::other("parts of the set are not as they were sent")),
    }
}

/// Watches the set over the paths, and compares the copy with it.
async fn watch(
    arguments: &Arguments,
    set: &Set,
    session: Session,
    emulator: &Emulator,
    folder: &FilePath,
    narrator: Narrator,
) -> Result<Value, Failure> {
    let records = Records::new(session);
    let copy = folder.join("copy");
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let plan = Plan {
        promises: Some(OnRefusal::Offer),
        is_watched: true,
        ..Plan::default()
    };
    let opened = Fetch::open(&records, NAME, &copy, plan, Some(sender)).await;
    let fetch = opened.map_err(failure)?;
    narrator.say("")?;
    let begin = Instant::now();
    let mut account = Account::new(set, begin);
    let time = Duration::from_secs(arguments.seconds);
    let running = async {
        let ran = timeout(time + REST, fetch.run(&records)).await;
        let ran = ran.map_err(|_| Failure::other("the records do not arrive"));
        // Even after a failure, for the reason of one of the disk.
        (ran, fetch.settle().await)
    };
    let (ran, settled) = tokio::select! {
        ended = running => ended,
        never = follow(&mut account, &mut events, emulator.paths(), time, narrator) => match never? {},
    };
    while let Ok(up) = events.try_recv() {
        note(&mut account, &up, narrator)?;
    }
    account.second(Instant::now());
    let fetched = fetch.finish(settled).await.map_err(failure);
    ran?.map_err(failure)?;
    let fetched = fetched?;
    emulator.paths()[CUT].set_up(true);
    narrator.say("\ncomparing the copy with the set …")?;
    let all = Plan::default();
    let verified = records.verify(NAME, &copy, &all, |_| ()).await;
    let verified = verified.map_err(failure)?;
    let (missing, wrong): (Vec<_>, Vec<_>) = (verified.differences.iter())
        .partition(|(_, _, difference)| matches!(difference, Difference::Missing));
    Ok(json!({
        "seed": arguments.seed,
        "records": set.records,
        "is_generated": arguments.fields.is_none(),
        "is_complete": is_complete(&fetched),
        "components": account.report(),
        "paths": rows(emulator.paths()),
        "verified": {
            "parts": verified.parts,
            "bytes": verified.bytes,
            "missing": missing.len(),
            "wrong": wrong.len(),
        },
    }))
}

fn is_complete(fetched: &Fetched) -> bool {
    fetched.is_complete && fetched.faults.is_empty()
}

fn failure(error: RecordsError) -> Failure {
    match error {
        RecordsError::Sink(_) => Failure::file(error),
        error => Failure::other(error),
    }
}

/// Counts what arrives, with a line a second, cuts a path and brings it back; returns only on failure.
async fn follow(
    account: &mut Account,
    events: &mut mpsc::Receiver<Up>,
    paths: &[Path],
    time: Duration,
    narrator: Narrator,
) -> Result<Infallible, Failure> {
    let begin = Instant::now();
    let mut seconds = interval_at(tokio::time::Instant::now() + SECOND, SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = tokio::time::interval(LOOK);
    let delivered = |path: &Path| path.stats().1.delivered.bytes;
    let mut before: Vec<u64> = paths.iter().map(delivered).collect();
    let mut said = begin;
    loop {
        tokio::select! {
            Some(up) = events.recv() => note(account, &up, narrator)?,
            _ = looks.tick() => {
                let share = begin.elapsed().as_secs_f64() / time.as_secs_f64();
                let is_up = !(CUT_AT.0..CUT_AT.1).contains(&share);
                let cut = &paths[CUT];
                if is_up != cut.is_up() {
                    cut.set_up(is_up);
                    let what = if is_up { "is back" } else { "is cut" };
                    let at = begin.elapsed().as_secs_f64();
                    narrator.say(format!("{at:>4.1} s  {} {what}", cut.name()))?;
                }
            }
            _ = seconds.tick() => {
                let now = Instant::now();
                let elapsed = now - said;
                said = now;
                let mut line = format!("{:>4.0} s ", begin.elapsed().as_secs_f64());
                for (name, rate) in account.second(now) {
                    line += &format!(" {name} {:>5.2}", rate.as_bps() as f64 * 1e-6);
                }
                line += " Mbit/s ";
                for (path, before) in paths.iter().zip(&mut before) {
                    let mbps = mbps_since(before, delivered(path), elapsed);
                    line += &format!("| {} {mbps:.1} ", path.name());
                }
                narrator.say(line.trim_end())?;
            }
        }
    }
}

fn note(account: &mut Account, up: &Up, narrator: Narrator) -> Outcome {
    let now = Instant::now();
    match up {
        Up::Part {
            record, component, ..
        } => account.arrived(*component, *record, now),
        Up::Promise { component, promise } => {
            narrator.say(account.promise(*component, promise, now))?;
        }
        Up::Record { .. } => {}
    }
    Ok(())
}

fn lines(report: &Value) -> Vec<String> {
    let records = report["records"].as_u64().unwrap_or_default();
    let mut lines = account::table(&report["components"], records);
    lines.extend(table(&report["paths"]));
    let verified = &report["verified"];
    let megabytes = verified["bytes"].as_f64().unwrap_or_default() / 1e6;
    let wrong = match verified["wrong"].as_u64() {
        Some(0) => "no byte is wrong (BLAKE3)".to_owned(),
        _ => format!("{} PARTS ARE WRONG", verified["wrong"]),
    };
    lines.push(String::new());
    lines.push(format!(
        "{} parts compared, {megabytes:.1} MB: {wrong}, {} missing",
        verified["parts"], verified["missing"]
    ));
    lines
}

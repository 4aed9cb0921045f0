//! Bounded adversary against one's own node on the loopback interface.
//!
//! ```text
//! abuse --list                                       the kinds of abuse
//! abuse --ticket FILE --pid PID initials no-join     two kinds at once, for ten seconds
//! abuse --ticket FILE --pid PID --seconds 600 all    every kind at once
//! abuse --ticket FILE --pid PID --listed 7 tiny      with a key that the victim lists: `abuse --id 7` prints its id
//! abuse --http 127.0.0.1:8080 --pid PID half-requests
//! ```
//! Each kind prints one line of JSON: what it sent, how the victim reacted, and the cost to the victim. The last line holds the
//! victim's memory and CPU time over the whole run, and the verdict; the exit code is 1 if a bound was exceeded.
//! Only loopback addresses are accepted, and every kind is bounded in rate, in sockets and in time.

mod client;
mod kinds;
mod report;
mod tally;
mod target;
mod victim;

use std::{
    error::Error,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;

use crate::{
    kinds::{KINDS, Kind, Limits},
    target::Target,
    victim::Victim,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Limit on the run, in seconds.
const SECONDS_MAX: u64 = 3600;
/// Limit on the connection attempts a second of one kind.
const ATTEMPTS_MAX: u32 = 20_000;
/// Limit on the megabits a second of one kind.
const MEGABITS_MAX: u32 = 200;

/// Abuses one's own node on the loopback interface, in bounded amounts, and prints what it cost.
#[derive(Debug, Parser)]
#[command(name = "abuse")]
struct Arguments {
    /// Kinds of abuse, all at once; `all`: every kind that the target allows.
    kinds: Vec<String>,
    /// List the kinds and exit.
    #[arg(long)]
    list: bool,
    /// Print the node id of this one of our keys and exit, so that the victim can list it.
    #[arg(long, value_name = "NUMBER")]
    id: Option<u64>,
    /// Number of our key that the victim lists: the kinds that send frames use it for every session.
    #[arg(long, value_name = "NUMBER")]
    listed: Option<u64>,
    /// File with a ticket of the victim: its key and its addresses (`recv`, `video origin`, or `anabranch1:ID::ADDRESS:PORT` of
    /// a node). The secret is not used.
    #[arg(long, value_name = "FILE")]
    ticket: Option<PathBuf>,
    /// Address of a victim that serves HTTP (`video proxy`).
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<std::net::SocketAddr>,
    /// Process to watch: its memory and CPU time.
    #[arg(long, required_unless_present_any = ["list", "id"])]
    pid: Option<u32>,
    /// Duration of the run in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connection attempts a second, of the kinds that connect.
    #[arg(long, default_value_t = 5000)]
    attempts: u32,
    /// Megabits a second of frames, of each kind that sends frames.
    #[arg(long, default_value_t = 5)]
    megabits: u32,
    /// Limit on the victim's resident memory above that at the start, in MiB.
    #[arg(long, default_value_t = 64)]
    memory: u64,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        for kind in KINDS {
            println!("{:<16} {}", kind.name, kind.about);
        }
        return Ok(());
    }
    if let Some(number) = arguments.id {
        println!("{}", client::key(number).node_id());
        return Ok(());
    }
    if arguments.seconds > SECONDS_MAX
        || arguments.attempts > ATTEMPTS_MAX
        || arguments.megabits > MEGABITS_MAX
    {
        return Err(format!(
            "at most {SECONDS_MAX} seconds, {ATTEMPTS_MAX} attempts and {MEGABITS_MAX} megabits a second"
        )
        .into());
    }
    let target = Target::new(
        arguments.ticket.as_deref(),
        arguments.listed,
        arguments.http,
    )?;
    let chosen = choose(&arguments.kinds, &target)?;
    kinds::prepare(&chosen, &target, arguments.seconds, arguments.attempts)
        .map_err(|error| error.to_string())?;
    eprintln!("the abuse begins");
    let limits = Limits {
        end: Instant::now() + Duration::from_secs(arguments.seconds),
        attempts_per_s: arguments.attempts,
        bits_per_s: u64::from(arguments.megabits) * 1_000_000,
    };
    let mut victim = Victim::watch(arguments.pid.ok_or("--pid names the victim")?)?;
    let running: Vec<_> = chosen
        .into_iter()
        .map(|kind| {
            let (target, limits) = (target.clone(), limits);
            (kind, thread::spawn(move || (kind.run)(&target, &limits)))
        })
        .collect();
    while Instant::now() < limits.end && victim.sample() {
        thread::sleep(Duration::from_millis(100));
    }
    for (kind, thread) in running {
        match thread.join() {
            Ok(Ok(tally)) => println!("{}", report::of_kind(kind, &tally)),
            Ok(Err(error)) => println!("{}", report::of_failure(kind, &*error)),
            Err(_) => return Err(format!("{} panicked", kind.name).into()),
        }
    }
    let holds = victim.holds(arguments.memory << 20);
    println!(
        "{}",
        report::of_victim(&victim, arguments.memory << 20, holds)
    );
    if holds {
        Ok(())
    } else {
        Err("a bound was exceeded".into())
    }
}

fn choose(names: &[String], target: &Target) -> Outcome<Vec<&'static Kind>> {
    let fits = |kind: &&Kind| target.allows(kind.door);
    if names.iter().any(|name| name == "all") {
        return Ok(KINDS.iter().filter(fits).collect());
    }
    if names.is_empty() {
        return Err("name a kind of abuse, or `all`; --list lists them".into());
    }
    let find = |name: &String| {
        let kind = KINDS.iter().find(|kind| kind.name == name.as_str());
        let kind = kind.ok_or(format!("no kind '{name}'; --list lists them"))?;
        if fits(&kind) {
            Ok(kind)
        } else {
            Err(format!("'{name}' needs {}", kind.door.needs()).into())
        }
    };
    names.iter().map(find).collect()
}

//! Load test: many players of different films at a time, through one proxy; counts late frames, and measures the cost.
//!
//! ```console
//! $ cargo run --release -p anabranch-video --example players -- --players 200 --seconds 60
//! ```
//!
//! Origin and proxy are separate processes, so that their memory and time can be measured separately; the players are tasks of
//! this one. Every film is another one for the proxy (the same file under many names), so no flow is shared. A player requests
//! the progressive file over plain HTTP and reads as players do: no more than `--ahead` beyond what it shows. A frame is late
//! when its chunk is not there at the time at which it is to be shown, if playback begins as soon as the first chunk is there.
//!
//! | flag | default | |
//! |---|---|---|
//! | `--players` | 20 | players, and films |
//! | `--seconds` | 30 | seconds for which each of them plays |
//! | `--stagger` | 10 | seconds over which they begin |
//! | `--ahead` | 10 | seconds that a player reads ahead |
//! | `--prefix` | 4 | seconds of every film that are prefetched before the first player comes |
//! | `--rate-kbps` | 1500 | rate of the films |
//! | `--film` | made by ffmpeg | an MP4 file that is longer than `--seconds` |
//! | `--pipe` | none | a link between origin and proxy, such as `rate=400 Mbit/s, delay=10 ms, queue=200 ms` |
#![allow(clippy::print_stdout, reason = "it is there to print")]
#![allow(clippy::print_stderr, reason = "it is there to print")]
#![allow(clippy::disallowed_methods, reason = "it measures")]

mod film;
mod player;
mod process;
mod roles;

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    base::Seed,
    net::emulate::{Emulator, PathSpec, link::describe::parse_both},
};
use serde_json::Value;
use tokio::task::JoinSet;

use self::{
    player::{Seen, Watching},
    process::{Role, Usage},
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

struct Flags(HashMap<String, String>);

impl Flags {
    fn read(arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let known = "players seconds stagger ahead prefix rate-kbps film pipe";
        let mut flags = HashMap::new();
        let mut arguments = arguments.peekable();
        while let Some(name) = arguments.next() {
            let name = name.strip_prefix("--").unwrap_or(&name).to_owned();
            if !known.split(' ').any(|one| one == name) {
                return Err(format!("there is no flag --{name}; choose from {known}").into());
            }
            let value = arguments.next().ok_or("a flag without a value")?;
            flags.insert(name, value);
        }
        Ok(Self(flags))
    }

    fn number(&self, name: &str, default: u32) -> Outcome<u32> {
        let Some(text) = self.0.get(name) else {
            return Ok(default);
        };
        let wrong = |_| format!("--{name} {text} is not a number");
        Ok(text.parse().map_err(wrong)?)
    }
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match arguments.next().as_deref() {
        Some("origin") => runtime.block_on(roles::origin(arguments)),
        Some("proxy") => runtime.block_on(roles::proxy(arguments)),
        first => {
            let all = first.map(str::to_owned).into_iter().chain(arguments);
            let flags = Flags::read(all)?;
            runtime.block_on(run(&flags))
        }
    }
}

async fn run(flags: &Flags) -> Outcome {
    let players = flags.number("players", 20)?.max(1);
    let seconds = flags.number("seconds", 30)?.max(5);
    let stagger = Duration::from_secs(flags.number("stagger", 10)?.into());
    let ahead = Duration::from_secs(flags.number("ahead", 10)?.into());
    let prefix = flags.number("prefix", 4)?;
    let rate_kbps = flags.number("rate-kbps", 1_500)?;
    let folder = tempfile::tempdir()?;
    let film = match flags.0.get("film") {
        Some(path) => PathBuf::from(path),
        None => film::make(folder.path(), seconds + 20, rate_kbps)?,
    };
    let library = folder.path().join("library");
    fill(&library, &film, players)?;
    println!("load before: {}", process::load());

    let mut origin = Role::start("origin", &[path(&library)?])?;
    let mut ticket: anabranch::Ticket = origin.line()?.parse()?;
    let mut emulators = Vec::new();
    if let Some(pipe) = flags.0.get("pipe") {
        let links = parse_both(pipe, &mut |name: &str| Err(format!("no trace {name}")))?;
        let spec = PathSpec {
            name: "pipe".to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            target: ticket.addresses[0],
            links,
        };
        let emulator = Emulator::start(vec![spec], Seed(1))?;
        ticket.addresses = emulator.addresses().to_vec();
        emulators.push(emulator);
    }
    let cache = folder.path().join("cache");
    let ticket = ticket.to_string();
    let prefix = prefix.to_string();
    let mut proxy = Role::start("proxy", &[path(&cache)?, &ticket, &prefix])?;
    let http: SocketAddr = proxy.line()?.parse()?;
    let chunks = prepared(http, players).await?;

    let idle = proxy.usage();
    let idle_origin = origin.usage();
    let own = process::own();
    println!(
        "playing; the proxy uses {:.1} MB without players",
        idle.resident_mb
    );
    let begun = tokio::time::Instant::now();
    let mut running = JoinSet::new();
    for number in 0..players {
        let watching = Watching {
            http,
            name: name(number),
            begin: begun + stagger.mul_f64(f64::from(number) / f64::from(players)),
            lasts: Duration::from_secs(seconds.into()),
            ahead,
            chunks: chunks.clone(),
        };
        running.spawn(watching.watch());
    }
    let mut most: Vec<(Usage, Usage)> = Vec::new();
    let mut seen = Vec::new();
    let mut look = tokio::time::interval(Duration::from_secs(1));
    while !running.is_empty() {
        tokio::select! {
            Some(done) = running.join_next() => seen.push(done?),
            _ = look.tick() => most.push((proxy.usage(), origin.usage())),
        }
    }
    let lasted = begun.elapsed().as_secs_f64();
    let stats = player::json(http, "/stats.json").await?;
    report(&Report {
        seen: &seen,
        stats: &stats,
        players,
        lasted,
        proxy: Spent::of(&idle, most.iter().map(|(proxy, _)| proxy)),
        origin: Spent::of(&idle_origin, most.iter().map(|(_, origin)| origin)),
        own_cpu_s: process::own() - own,
    });
    println!("load after: {}", process::load());
    Ok(())
}

fn path(path: &Path) -> Outcome<&str> {
    Ok(path.to_str().ok_or("a folder with a strange name")?)
}

fn name(number: u32) -> String {
    format!("film-{number:04}")
}

/// Fills the library: every film has a name of its own; on the disk they are one file.
fn fill(library: &Path, film: &Path, players: u32) -> Outcome {
    std::fs::create_dir(library)?;
    let first = library.join(format!("{}.mp4", name(0)));
    std::fs::copy(film, &first)?;
    for number in 1..players {
        std::fs::hard_link(&first, library.join(format!("{}.mp4", name(number))))?;
    }
    Ok(())
}

/// Waits until the proxy has the prefixes of all films. Returns the start times of the film's chunks.
async fn prepared(http: SocketAddr, players: u32) -> Outcome<Vec<Duration>> {
    let mut before = None;
    loop {
        let held = player::json(http, "/stats.json").await?["cache"].clone();
        let is_known = player::chunks(http, &name(players - 1)).await.is_ok();
        if is_known && before.as_ref() == Some(&held) {
            println!("prepared: {held}");
            return player::chunks(http, &name(0)).await;
        }
        before = Some(held);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

/// Resources that a process used for the players.
struct Spent {
    resident_mb: f64,
    cpu_s: f64,
}

impl Spent {
    fn of<'a>(idle: &Usage, samples: impl Iterator<Item = &'a Usage>) -> Self {
        let (mut resident, mut cpu) = (idle.resident_mb, idle.cpu_s);
        for sample in samples {
            resident = resident.max(sample.resident_mb);
            cpu = cpu.max(sample.cpu_s);
        }
        Self {
            resident_mb: resident - idle.resident_mb,
            cpu_s: cpu - idle.cpu_s,
        }
    }
}

struct Report<'a> {
    seen: &'a [Outcome<Seen>],
    stats: &'a Value,
    players: u32,
    lasted: f64,
    proxy: Spent,
    origin: Spent,
    own_cpu_s: f64,
}

fn report(report: &Report<'_>) {
    let mut first = Vec::new();
    let mut begun = Vec::new();
    let (mut frames, mut late, mut bytes, mut failed) = (0, 0, 0, 0);
    let mut late_chunks: BTreeMap<usize, Vec<Duration>> = BTreeMap::new();
    for outcome in report.seen {
        match outcome {
            Ok(seen) => {
                first.push(seen.first_byte);
                begun.push(seen.begun);
                frames += seen.frames;
                late += seen.late_frames;
                bytes += seen.bytes;
                for &(chunk, time) in &seen.late {
                    late_chunks.entry(chunk).or_default().push(time);
                }
            }
            Err(error) => {
                failed += 1;
                eprintln!("a player failed: {error}");
            }
        }
    }
    let players = f64::from(report.players);
    println!(
        "players {}, of which {failed} failed; {:.0} s",
        report.players, report.lasted
    );
    println!(
        "frames {frames}, late {late}; {:.1} Mbit/s",
        bytes as f64 * 8e-6 / report.lasted
    );
    for (chunk, times) in late_chunks {
        let latest = times.iter().max().copied().unwrap_or_default();
        println!(
            "chunk {chunk} was late for {} players, {:.0} ms at most",
            times.len(),
            millis(latest)
        );
    }
    for (what, times) in [("first byte", &mut first), ("first chunk", &mut begun)] {
        times.sort();
        if let (Some(last), Some(middle)) = (times.last(), times.get(times.len() / 2)) {
            let tail = times[times.len() * 95 / 100];
            println!(
                "{what} after {:.0} ms (median), {:.0} ms (95 %), {:.0} ms (longest)",
                millis(*middle),
                millis(tail),
                millis(*last)
            );
        }
    }
    println!(
        "proxy: {:.1} MB more than idle, {:.2} MB a player; {:.2} cores",
        report.proxy.resident_mb,
        report.proxy.resident_mb / players,
        report.proxy.cpu_s / report.lasted
    );
    println!(
        "origin: {:.1} MB more than idle; {:.2} cores. players: {:.2} cores",
        report.origin.resident_mb,
        report.origin.cpu_s / report.lasted,
        report.own_cpu_s / report.lasted
    );
    println!("counters of the proxy: {}", report.stats["counters"]);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

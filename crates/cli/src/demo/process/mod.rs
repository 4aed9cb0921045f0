//! `anabranch demo-process`: a node on the way reduces the frames of a simulation to what a slow path carries, by pipelines that change meanwhile.
//!
//! Three nodes are separate processes, `anabranch node`. The source, the service at the processing node and the subscriber are in this process,
//! attached to them as applications; so are the emulated links.

mod account;
mod frames;

use std::{
    collections::BTreeMap,
    path::Path as FilePath,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    StreamSpec,
    base::{Rate, Seed, text::printable},
    local::client::Session,
    net::emulate::Emulator,
};
use anabranch_processing::{
    offer::{self, Source},
    process::{Fields, Pipeline},
    service::{self, Service},
    subscribe::{self, Received, Subscriber},
    wire::message::{Demand, Pace},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use self::{
    account::Account,
    frames::{ATOMS, BYTES, Frames},
};
use super::{
    data::Data,
    links::{emulate_paths, mbps_since, rows, table},
    nodes::{self, Archive},
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
    /// Time for which frames are made, in seconds; each of the three pipelines has a third of it.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(6..=600))]
    seconds: u64,
    /// Seed of the frames and of the random losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// A pipeline, and how what it derives is checked.
#[derive(Clone, Copy, Debug)]
struct Phase {
    pipeline: &'static str,
    /// The pipeline that makes of a frame alone what the subscriber gets of it.
    checked: &'static str,
    /// Distance between two frames that pass.
    step: u64,
}

const PHASES: [Phase; 3] = [
    Phase {
        pipeline: "every 5",
        checked: "",
        step: 5,
    },
    Phase {
        pipeline: "precision 10 of f32 then delta of f32",
        checked: "precision 10 of f32",
        step: 1,
    },
    Phase {
        pipeline: "region sphere 50 50 50 25 of f32 then precision 12 of f32",
        checked: "region sphere 50 50 50 25 of f32 then precision 12 of f32",
        step: 1,
    },
];
/// Name of the stream.
const NAME: &str = "positions";
/// Frames of a second.
const RATE: u64 = 25;
/// Promise from the source to the subscriber.
const DEMAND: Demand = Demand {
    rate_bps: 1_000_000,
    deadline_ms: None,
    share_ppm: 900_000,
};
/// Path from the source to the processing node.
const FIRST_LEG: [(&str, &str); 1] = [("fibre", "rate=50 Mbit/s, delay=8 ms, queue=100 ms")];
/// Paths from there to the subscriber: name, trace of the rate, and the other properties of the link.
const LAST_LEG: [(&str, &str, &str); 2] = [
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
/// Frames and events that wait to be counted.
const WAITING_MAX: usize = 256;
/// Interval of looks at what the other parts have done.
const LOOK: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);
/// Characters of a reason that are shown.
const REASON_CHARS: usize = 100;

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let outcome = until_ctrl_c(show(&arguments, folder.path())).await;
    nodes::remove(folder).await;
    outcome
}

async fn show(arguments: &Arguments, folder: &FilePath) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let seed = Seed(arguments.seed);
    let raw = Rate::from_bytes_per(BYTES as u64 * RATE, SECOND);
    narrator.say(format!(
        "lab makes the positions of {ATOMS} atoms {RATE} times a second, {raw}; hub processes them; desk is behind two slow paths"
    ))?;
    let (hub, at) = Archive::start(folder, &["lab", "desk"], "process/1/*").await?;
    let first = FIRST_LEG.map(|(name, text)| (name, text.to_owned()));
    let first = emulate_paths(&arguments.data, &first, at, seed)?;
    let last = LAST_LEG.map(|(name, trace, rest)| (name, format!("rate=trace {trace}, {rest}")));
    let last = emulate_paths(&arguments.data, &last, at, seed)?;
    let lab = hub.guest(folder, "lab", first.addresses()).await?;
    let desk = hub.guest(folder, "desk", last.addresses()).await?;
    for path in last.paths() {
        let rate = path.rates().1.map(|rate| rate.to_string());
        let rate = rate.unwrap_or_default();
        narrator.say(format!("hub → desk: {:<6} {rate} at first", path.name()))?;
    }
    let service = Service::new(service::Settings::default(), mpsc::channel(1).0);
    let registration = service.register(hub.client()).await;
    let registration = registration.map_err(attach::failure)?;
    let source = Source::new(offer::Settings {
        name: NAME.to_owned(),
        run: 1,
        subscribers: vec![desk.node().to_string()],
        pace: Pace::Slowest,
        patience: None,
        spec: StreamSpec::default(),
    });
    let sessions = (
        lab.connect(FIRST_LEG.len()).await?,
        desk.connect(LAST_LEG.len()).await?,
    );
    let scene = Scene {
        seconds: arguments.seconds,
        source,
        legs: [first, last],
        frames: Frames::new(seed),
        narrator,
    };
    let phases = tokio::select! {
        phases = scene.play(&sessions.0, &sessions.1) => phases?,
        ended = service.serve(&registration) => return Err(attach::failure(ended)),
    };
    let report = json!({
        "seed": arguments.seed,
        "seconds": arguments.seconds,
        "frame_bytes": BYTES,
        "pipelines": phases,
        "paths": rows(scene.legs[1].paths()),
    });
    let count = |field: &str| -> u64 {
        let rows = report["pipelines"].as_array().into_iter().flatten();
        rows.filter_map(|row| row[field].as_u64()).sum()
    };
    let (wrong, missing) = (count("wrong"), count("missing"));
    if arguments.json {
        print_line(&report.to_string())?;
    } else {
        narrator.say_all(account::table(&report["pipelines"]))?;
        narrator.say_all(table(&report["paths"]))?;
        narrator.say(format!(
            "\n{} frames compared with what their pipeline makes of them here: {wrong} wrong, {missing} missing",
            count("frames")
        ))?;
    }
    match wrong + missing {
        0 => Ok(()),
        _ => Err(Failure::other(
            "frames are not what their pipeline derives, or are missing",
        )),
    }
}

/// A source that makes frames, and both legs.
struct Scene {
    seconds: u64,
    source: Source,
    legs: [Emulator; 2],
    frames: Frames,
    narrator: Narrator,
}

/// The account, shared by those who make frames and those who receive them.
type Shared<'a> = Mutex<Account<'a>>;

fn lock<'a, 's>(account: &'s Shared<'a>) -> MutexGuard<'s, Account<'a>> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scene {
    /// Bytes that both legs have carried, headers included.
    fn carried(&self) -> [u64; 2] {
        let [first, last] = &self.legs;
        let to = first.paths().iter();
        let from = last.paths().iter();
        [
            to.map(|path| path.stats().0.delivered.bytes).sum(),
            from.map(|path| path.stats().1.delivered.bytes).sum(),
        ]
    }

    /// Makes frames, and has them processed and received until the last one; rows of the pipelines.
    async fn play(&self, lab: &Session, desk: &Session) -> Result<Vec<serde_json::Value>, Failure> {
        let (sender, mut received) = mpsc::channel(WAITING_MAX);
        let settings = subscribe::Settings {
            name: NAME.to_owned(),
            run: 2,
            source: None,
            demand: Some(DEMAND),
            modules: BTreeMap::new(),
            patience: None,
            spec: StreamSpec::default(),
        };
        let subscriber = Subscriber::new(settings, &pipeline(&PHASES[0])?, sender);
        let account = Mutex::new(Account::new(&PHASES, &self.frames));
        let offering = async { self.source.run(lab).await.map_err(Failure::other) };
        let subscribing = async {
            // The offer may come after the question for it.
            let mut subscribers = self.source.subscribers();
            while !self.source.has_begun() {
                tokio::time::sleep(LOOK).await;
            }
            let making = async {
                // The sender is of this source.
                let _ = subscribers.wait_for(|count| *count > 0).await;
                self.make(&subscriber, &account).await
            };
            let ran = async { subscriber.run(desk).await.map_err(Failure::other) };
            tokio::try_join!(ran, making).map(drop)
        };
        let running = async { tokio::try_join!(offering, subscribing).map(drop) };
        tokio::select! {
            ran = running => ran?,
            failed = self.watch(&mut received, &account) => return Err(failed),
        }
        while let Ok(received) = received.try_recv() {
            self.take(received, &account)?;
        }
        let mut account = lock(&account);
        account.carried(self.carried());
        Ok(account.report())
    }

    /// Makes each frame at its time, and changes the pipeline twice.
    async fn make(&self, subscriber: &Subscriber, account: &Shared<'_>) -> Outcome {
        let begin = Instant::now();
        let all = RATE * self.seconds;
        for number in 0..all {
            let third = all.div_ceil(PHASES.len() as u64);
            if number % third == 0 {
                let phase = (number / third) as usize;
                // However busy the machine is, each pipeline derives something.
                while phase > 0 && !lock(account).is_in_effect() {
                    tokio::time::sleep(LOOK).await;
                }
                self.narrator
                    .say(format!("desk asks for: {}", PHASES[phase].pipeline))?;
                lock(account).asked(phase, self.carried());
                if phase > 0 {
                    subscriber.change(&pipeline(&PHASES[phase])?);
                }
            }
            sleep_until(begin + SECOND.mul_f64(number as f64 / RATE as f64)).await;
            lock(account).made();
            self.source
                .put(Fields::default(), self.frames.body(number))
                .await;
        }
        self.source.finish();
        Ok(())
    }

    /// Counts what is received, with a line a second; returns on failure only.
    async fn watch(
        &self,
        received: &mut mpsc::Receiver<Received>,
        account: &Shared<'_>,
    ) -> Failure {
        let mut seconds = interval_at(Instant::now() + SECOND, SECOND);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let begin = Instant::now();
        let (mut before, mut said, mut frames, mut age) = (self.carried(), begin, 0, None);
        loop {
            tokio::select! {
                Some(received) = received.recv() => match self.take(received, account) {
                    Ok(Some(own)) => {
                        frames += 1;
                        age = Some(own);
                    }
                    Ok(None) => {}
                    Err(failure) => return failure,
                },
                now = seconds.tick() => {
                    let (carried, elapsed) = (self.carried(), now - said);
                    said = now;
                    let [to, from] =
                        [0, 1].map(|leg| mbps_since(&mut before[leg], carried[leg], elapsed));
                    let age = age.take().map(|age: Duration| format!(", the last one {:.2} s old", age.as_secs_f64()));
                    let made = lock(account).frames_made();
                    let line = format!(
                        "{:>4.0} s  to hub {to:>5.2} | to desk {from:>5.2} Mbit/s | {frames:>2} frames{} ({made} made)",
                        begin.elapsed().as_secs_f64(),
                        age.unwrap_or_default()
                    );
                    if let Err(failure) = self.narrator.say(line) {
                        return failure;
                    }
                    frames = 0;
                }
            }
        }
    }

    /// Counts or shows what was received; the age of a frame.
    fn take(&self, received: Received, account: &Shared<'_>) -> Result<Option<Duration>, Failure> {
        let line = match received {
            Received::Adu { adu, change } => {
                return lock(account).arrived(&adu, change).map(Some);
            }
            Received::Promise {
                rate_bps: Some(bps),
                ..
            } => format!("  {} are promised from lab to desk", Rate::from_bps(bps)),
            Received::Promise { why, .. } => {
                // Before it is the leg, after it what to do about it.
                let cause = why.split_once(": ").map_or(&*why, |(_, cause)| cause);
                let cause = cause.split([':', ';']).next().unwrap_or_default();
                let cause = printable(cause, REASON_CHARS);
                format!("  no promise from lab to desk yet: {cause}")
            }
            Received::NotChanged { why, .. } => return Err(Failure::other(why)),
            Received::Dropped { why, .. } => return Err(Failure::other(why)),
            _ => return Ok(None),
        };
        self.narrator.say(line)?;
        Ok(None)
    }
}

fn pipeline(phase: &Phase) -> Result<Pipeline, Failure> {
    phase.pipeline.parse().map_err(Failure::other)
}

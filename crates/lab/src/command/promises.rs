//! `anabranch-lab run promises-live`: its arguments, and with `--live` its runs between three nodes on this machine.

mod bench;
#[cfg(target_os = "linux")]
mod namespaces;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    Session, Stream,
    base::{Instant, Seed},
    net::{Clock, session::StreamSpec},
};
use anabranch_lab::{
    Outcome as Results,
    experiments::promises_live::{
        self,
        observed::{Notice, Observed},
        rows::Mode,
        setting::{Plan, PromisedStream, START, Setting, bulk_adu, settings},
        store::Store,
    },
    kit::corpus::Corpus,
};
use anabranch_sim::apps::read_adu;
use clap::Args;
use tokio::task::JoinSet;

use self::bench::Bench;
use super::stop::stopped;
use crate::failure::Failure;

/// Time after the last ADU, for those in transit.
const GRACE: Duration = Duration::from_secs(2);

/// Arguments that only this experiment takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Number of sets of paths, for `promises-live`; 10 without this.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=24))]
    sets: Option<u64>,
    /// Duration of each run, for `promises-live`, 30 to 3600; 300 without this.
    #[arg(long, value_parser = clap::value_parser!(u64).range(30..=3600))]
    seconds: Option<u64>,
    /// File to which the rows of each set are appended when it is done; sets that are in it are not run again. For
    /// `promises-live`.
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// With --live: the sending node in one network namespace and the receiving nodes in another, with emulated links between them. Needs root.
    #[arg(long, requires = "live")]
    netns: bool,
}

impl Arguments {
    pub(super) fn is_given(&self) -> bool {
        self.sets.is_some() || self.seconds.is_some() || self.rows.is_some() || self.netns
    }
}

/// Parameters of a run.
pub(super) struct Show<'a> {
    pub(super) seed: u64,
    pub(super) corpus: &'a Corpus,
    pub(super) only: Option<&'a str>,
    pub(super) arguments: &'a Arguments,
    /// `None`: in virtual time only.
    pub(super) live: Option<Option<u64>>,
}

/// Observations of the promised streams, in their order, while a run is under way.
type Shared = Arc<Mutex<Vec<Observed>>>;

/// Runs every set in virtual time, then live if that is asked for.
pub(super) async fn run(
    show: &Show<'_>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Results, Failure> {
    let (seed, usual) = (Seed(show.seed), Plan::default());
    let sets = show.arguments.sets.map(|sets| sets as usize);
    let seconds = show.arguments.seconds.or(show.live.flatten());
    let plan = Plan {
        sets: sets.unwrap_or(usual.sets),
        seconds: seconds.unwrap_or(usual.seconds),
    };
    let mut settings = settings(show.corpus, seed, plan);
    settings.retain(|setting| show.only.is_none_or(|only| setting.name.contains(only)));
    let store = match &show.arguments.rows {
        Some(file) => Store::open(file).map_err(Failure::file)?,
        None => Store::default(),
    };
    let store = Mutex::new(store);
    promises_live::run_virtual(&settings, seed, &store, progress).map_err(Failure::file)?;
    let mut store = store.into_inner().unwrap_or_else(PoisonError::into_inner);
    if show.live.is_some() {
        let mode = match show.arguments.netns {
            true => Mode::Namespaces,
            false => Mode::Live,
        };
        for setting in &settings {
            if store.rows_of(mode, setting, seed).is_none() {
                let stopped =
                    stopped("sets that were done are in the file of --rows, if there is one");
                let observed = one(mode, seed, setting, stopped?).await?;
                let added = store.add(mode, (setting, seed), &observed);
                added.map_err(Failure::file)?;
            }
            let which = (setting, settings.len(), seed);
            promises_live::report(&store, mode, which, progress);
        }
    }
    let paths = settings.iter().flat_map(|setting| &setting.paths);
    let mut traces: Vec<String> = paths.map(|path| path.name.clone()).collect();
    traces.sort_unstable();
    traces.dedup();
    Ok(Results {
        experiment: promises_live::EXPERIMENT.name,
        version: env!("CARGO_PKG_VERSION"),
        seed: show.seed,
        traces,
        rows: promises_live::all_rows(&store, &settings, seed),
    })
}

/// Time since the paths began, by the machine's clock.
#[derive(Clone, Copy)]
struct Time {
    clock: Clock,
    zero: Instant,
}

impl Time {
    fn of(bench: &Bench) -> Self {
        let clock = bench.origin.clock();
        let paths = bench.paths().first();
        let since = paths.map_or(Duration::ZERO, |path| path.now().since_epoch());
        let zero = clock.now().since_epoch().saturating_sub(since);
        Self {
            clock,
            zero: Instant::EPOCH + zero,
        }
    }

    fn now(self) -> Duration {
        self.clock.now().since(self.zero)
    }

    async fn sleep_until(self, at: Duration) {
        tokio::time::sleep(at.saturating_sub(self.now())).await;
    }
}

/// Runs a set live, unless it is stopped; observations of each promised stream. What it started is over afterwards.
async fn one(
    mode: Mode,
    seed: Seed,
    setting: &Setting,
    stopped: impl Future<Output = Failure>,
) -> Result<Vec<Observed>, Failure> {
    let bench = match mode {
        Mode::Namespaces => Bench::in_namespaces(seed, setting)?,
        Mode::Virtual | Mode::Live => Bench::on_loopback(seed, setting)?,
    };
    let observed = tokio::select! {
        observed = on(&bench, setting) => observed,
        stopped = stopped => Err(stopped),
    };
    bench.origin.shutdown().await;
    for peer in &bench.peers {
        peer.shutdown().await;
    }
    observed
}

async fn on(bench: &Bench, setting: &Setting) -> Result<Vec<Observed>, Failure> {
    let (time, plan) = (Time::of(bench), setting.plan);
    let observed: Shared = Arc::new(Mutex::new(vec![Observed::default(); setting.streams.len()]));
    let mut sessions = Vec::new();
    let mut receiving = JoinSet::new();
    for (peer, links) in bench.peers.iter().zip(&bench.links) {
        let first = links[..setting.first_paths()].to_vec();
        let calling = bench.origin.connect_over(peer.node_id(), first);
        let (outgoing, incoming) = tokio::join!(calling, peer.accept());
        let incoming = incoming.ok_or_else(|| Failure::other("a receiver did not start"))?;
        receiving.spawn(receive(
            incoming,
            setting.streams.clone(),
            Arc::clone(&observed),
            time,
        ));
        sessions.push(outgoing?);
    }
    time.sleep_until(START).await;
    let mut sending = JoinSet::new();
    let mut streams = Vec::new();
    for (index, promised) in setting.streams.iter().enumerate() {
        let stream = sessions[promised.peer].open_stream(promised.spec());
        let stream = stream.map_err(Failure::other)?;
        sending.spawn(send(stream.clone(), *promised, time, plan.end()));
        receiving.spawn(note(stream.clone(), index, Arc::clone(&observed), time));
        streams.push(stream);
    }
    for session in &sessions {
        let bulk = session.open_stream(StreamSpec::bulk("bulk"));
        let bulk = bulk.map_err(Failure::other)?;
        sending.spawn(async move { while bulk.send(bulk_adu()).await.is_ok() {} });
    }
    let path = bench.paths().first();
    let path = path.ok_or_else(|| Failure::other("a set has no paths"))?;
    time.sleep_until(plan.cut().start).await;
    path.set_up(false);
    time.sleep_until(plan.cut().end).await;
    path.set_up(true);
    time.sleep_until(plan.join()).await;
    for (session, links) in sessions.iter().zip(&bench.links) {
        for &link in &links[setting.first_paths()..] {
            session.add_link(link);
        }
    }
    time.sleep_until(plan.end()).await;
    let accounts: Vec<(u64, u64)> = streams
        .iter()
        .map(|stream| {
            let explained = stream.explain().map(|explained| explained.account);
            explained.map_or((0, 0), |account| (account.kept, account.broken))
        })
        .collect();
    tokio::time::sleep(GRACE).await;
    receiving.abort_all();
    sending.abort_all();
    let mut observed = std::mem::take(&mut *lock(&observed));
    for (observed, account) in observed.iter_mut().zip(accounts) {
        observed.account = account;
    }
    Ok(observed)
}

fn lock(observed: &Shared) -> std::sync::MutexGuard<'_, Vec<Observed>> {
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends each ADU at its time, or as soon after it as the stream accepts it.
async fn send(stream: Stream, promised: PromisedStream, time: Time, end: Duration) {
    for number in 0.. {
        let due = promised.due(number);
        if due >= end {
            return;
        }
        if due > time.now() {
            time.sleep_until(due).await;
        }
        if stream.send(promised.adu(number)).await.is_err() {
            return;
        }
    }
}

/// Writes down the events of a promise, until it is aborted or the stream is over.
async fn note(stream: Stream, index: usize, observed: Shared, time: Time) {
    while let Ok(event) = stream.next_promise().await {
        let notice = Notice::of(&event).map(|notice| (time.now(), notice));
        lock(&observed)[index].notices.extend(notice);
    }
}

/// Reads every stream of a session and writes down arrivals of promised ones, until it is aborted or the session ends.
async fn receive(session: Session, promised: Vec<PromisedStream>, observed: Shared, time: Time) {
    let mut tasks = JoinSet::new();
    while let Ok(stream) = session.accept_stream().await {
        let mut labels = promised.iter().map(|promised| promised.label);
        let index = labels.position(|label| label == stream.spec().label);
        let observed = Arc::clone(&observed);
        tasks.spawn(async move {
            while let Ok(Some(adu)) = stream.recv().await {
                if let Some(index) = index
                    && let Some((_, number)) = read_adu(&adu.data)
                {
                    lock(&observed)[index].arrivals.push((number, time.now()));
                }
            }
        });
    }
}

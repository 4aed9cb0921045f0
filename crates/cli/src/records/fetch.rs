//! `anabranch records get` and `anabranch records watch`.

use std::{ops::Range, path::PathBuf, time::Duration};

use anabranch::AduSession;
use anabranch_records::{
    client::{Fetch, Plan, Records, RecordsError},
    recordset::Layout,
    wire::OnRefusal,
};
use tokio::sync::mpsc;

use super::{
    Selecting, failure, follow, parse_duration, parse_layout, parse_place, parse_sizes,
    paths::{Meter, Paths},
    reach::{Attempts, ReachFlags, Reached, settled, with},
};
use crate::{
    events,
    exit::{Failure, Outcome, STOPPED, unless_stopped},
    meter::Direction,
};

/// Events that wait to be printed.
const EVENTS_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
DEST gets the files of the set as its manifest names them, and the manifest. After an interruption, even of the machine, the same command \
goes on: what is there is in the file .anabranch-records in DEST, until the set is complete.")]
pub(super) struct Arguments {
    /// Set of a peer. PEER is the name or id of a peer of the running node; or without a node, ID@HOST:PORT or a ticket.
    #[arg(value_name = "PEER:SET")]
    place: String,
    /// Directory of the set here, new, empty or of an earlier attempt [default: the set's name].
    #[arg(value_name = "DEST")]
    to: Option<PathBuf>,
    #[command(flatten)]
    selecting: Selecting,
    /// Bytes of each part: A..B as numbers or sizes, such as 0..64KiB.
    #[arg(long, value_name = "A..B", value_parser = parse_sizes)]
    bytes: Option<Range<u64>>,
    /// Layout on the paths: pgos (a stream for each component), partitioned or blocked:SIZE (a lane for each path, as in GridFTP).
    #[arg(long, value_name = "LAYOUT", default_value = "pgos", value_parser = parse_layout)]
    layout: Layout,
    /// Ask for the promises of the manifest; `watch` always does.
    #[arg(long)]
    promised: bool,
    /// Reaction if a promise cannot be given: take the rate that is offered, go on without until it can, or fail [default: wait; watch:
    /// offer].
    #[arg(long, value_name = "WHAT")]
    on_refusal: Option<OnRefusalFlag>,
    /// Time for which to try to reconnect after an interruption, such as `90 s`; `0 s`: not at all.
    #[arg(long, value_name = "DURATION", default_value = "10 min", value_parser = parse_duration)]
    retry: Duration,
    /// Print events as lines of JSON on standard output (docs/records.md): among them each record that is complete.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    flags: ReachFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnRefusalFlag {
    Offer,
    Wait,
    Fail,
}

impl From<OnRefusalFlag> for OnRefusal {
    fn from(flag: OnRefusalFlag) -> Self {
        match flag {
            OnRefusalFlag::Offer => Self::Offer,
            OnRefusalFlag::Wait => Self::Wait,
            OnRefusalFlag::Fail => Self::Fail,
        }
    }
}

impl Arguments {
    fn plan(&self, is_watched: bool) -> Plan {
        let usual = match is_watched {
            true => OnRefusalFlag::Offer,
            false => OnRefusalFlag::Wait,
        };
        let asks = is_watched || self.promised || self.on_refusal.is_some();
        Plan {
            layout: self.layout,
            bytes: self.bytes.clone(),
            promises: asks.then(|| self.on_refusal.unwrap_or(usual).into()),
            is_watched,
            ..self.selecting.plan()
        }
    }
}

pub(super) async fn run(arguments: Arguments, is_watched: bool) -> Outcome {
    let (peer, set) = parse_place(&arguments.place)?;
    if is_watched && arguments.layout != Layout::Pgos {
        return Err(Failure::usage(
            "records are watched in the layout pgos: each component has a stream with its own promise and deadline",
        ));
    }
    let to = arguments.to.clone().unwrap_or_else(|| PathBuf::from(&set));
    let outcome = fetch(&arguments, &peer, &set, to, is_watched).await;
    if let (true, Err(failure)) = (arguments.json, &outcome) {
        events::failed(failure);
    }
    outcome
}

async fn fetch(
    arguments: &Arguments,
    peer: &str,
    set: &str,
    to: PathBuf,
    is_watched: bool,
) -> Outcome {
    let program = match is_watched {
        true => "anabranch records watch",
        false => "anabranch records get",
    };
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let up = arguments.json.then_some(sender);
    let opening = Reached::open(peer, &arguments.flags, program);
    let mut reached = unless_stopped(STOPPED, opening).await?;
    let paths = Paths::of(&reached);
    let plan = arguments.plan(is_watched);
    let opening = async {
        let opened = with!(&reached, records => Fetch::open(records, set, &to, plan, up).await);
        opened.map_err(|error| match failure(error) {
            failure if failure.code() == 5 => Failure::unreachable(failure.message()),
            failure => failure,
        })
    };
    let fetch = match unless_stopped(STOPPED, opening).await {
        Ok(fetch) => fetch,
        Err(failure) => {
            reached.close().await;
            return Err(failure);
        }
    };
    let mut meter = Meter::new(&paths, Direction::Receiving);
    meter.update().await;
    let running = async {
        let mut attempts = Attempts::new(arguments.retry);
        loop {
            let before = fetch.progress();
            let ran = with!(&reached, records => settled(run_on(&fetch, records)).await)?;
            let Err(interrupted) = ran else {
                return Ok(());
            };
            if fetch.progress() != before {
                attempts.went_well();
            }
            attempts.again(interrupted).await?;
            while let Err(failure) = reopen(&mut reached, &paths, peer, arguments, program).await {
                if !matches!(failure.code(), 3 | 5) {
                    return Err(failure);
                }
                attempts.again(failure).await?;
            }
        }
    };
    let running = async {
        let ran = unless_stopped(STOPPED, running).await;
        // Even after a failure: what arrived is noted.
        (ran, fetch.settle().await)
    };
    let manner = [arguments.json, arguments.quiet];
    let following = follow::follow(&fetch, &mut meter, set, &mut events, manner);
    let (ran, settled) = tokio::select! {
        ended = running => ended,
        never = following => match never {},
    };
    follow::rest(fetch.manifest(), &mut events);
    let manifest = fetch.manifest().clone();
    let path = fetch.path().to_owned();
    let finished = fetch.finish(settled).await.map_err(failure);
    meter.update().await;
    reached.close().await;
    // If nothing could be written any more, that is the cause of everything else.
    let fetched = finished?;
    ran?;
    let manner = [is_watched, arguments.json, arguments.quiet];
    follow::report((&fetched, &meter), &manifest, set, &path, manner)
}

async fn run_on<S: AduSession>(fetch: &Fetch, records: &Records<S>) -> Result<(), RecordsError> {
    fetch.run(records).await
}

/// Opens another session in place of one that is over.
async fn reopen(
    reached: &mut Reached,
    paths: &Paths,
    peer: &str,
    arguments: &Arguments,
    program: &str,
) -> Outcome {
    let other = Reached::open(peer, &arguments.flags, program).await?;
    paths.turn_to(&other);
    std::mem::replace(reached, other).close().await;
    Ok(())
}

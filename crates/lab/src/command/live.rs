//! `anabranch-lab run telemedicine --live`: the same application between two nodes on this machine, over emulated paths, by
//! this machine's clock.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Policy, Session, Stream,
    base::{Instant, Seed},
    keys,
    net::{
        Clock,
        emulate::{Emulator, PathSpec},
        session::Link,
    },
};
use anabranch_clinic::ambulance::{Question, Thinner};
use anabranch_lab::{
    Outcome as Results,
    experiments::telemedicine::{
        self, OBJECTIVES,
        clinic::{Clinic, FEEDS, Feed, Side, VIDEO_FEED},
        figures::{Arrival, Figures},
        lines::Line,
        show,
    },
    kit::corpus::Corpus,
};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// Time for which each policy sends unless another is given, in seconds.
pub(super) const SECONDS: u64 = 60;
/// Seconds before anything counts: what it takes to get to know the paths.
const SETTLING: Duration = Duration::from_secs(5);
/// After the last ADU, for those on their way.
const GRACE: Duration = Duration::from_secs(5);

/// Arrivals of each stream.
type Arrivals = Arc<Mutex<[Vec<Arrival>; FEEDS.len()]>>;

/// Parameters of a run.
pub(super) struct Show<'a> {
    pub(super) seed: u64,
    pub(super) corpus: &'a Corpus,
    pub(super) only: Option<&'a str>,
    /// Time for which each policy sends.
    pub(super) time: Duration,
}

/// Runs every policy, one after the other.
pub(super) async fn run(
    show: &Show<'_>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Results, Failure> {
    let seed = Seed(show.seed);
    let (clinic, lines) = telemedicine::setting(seed, show.corpus).map_err(Failure::file)?;
    let mut rows = show::path_rows(&lines);
    let policies = telemedicine::policies(show.only);
    if policies.is_empty() {
        rows.clear();
    }
    for policy in policies {
        progress(&format!(
            "telemedicine: {policy}, live for {} s",
            show.time.as_secs()
        ));
        let (figures, shares) = one(seed, &clinic, &lines, policy, show.time).await?;
        let labels = [
            ("algorithm", policy.name()),
            ("film", clinic.film),
            ("record", clinic.ekg),
            ("clock", "live"),
        ];
        let names = lines.iter().map(|line| line.name.as_str());
        let shares: Vec<_> = names.zip(shares).collect();
        rows.extend(show::rows(&labels, &figures, &shares));
    }
    let recordings = show.corpus.recordings.iter();
    Ok(Results {
        experiment: telemedicine::EXPERIMENT.name,
        version: env!("CARGO_PKG_VERSION"),
        seed: show.seed,
        traces: recordings.map(|recording| recording.name.clone()).collect(),
        rows,
    })
}

/// Arrivals under a policy, and the share of bytes that went up each path.
async fn one(
    seed: Seed,
    clinic: &Arc<Clinic>,
    lines: &[Line],
    policy: Policy,
    time: Duration,
) -> Result<(Figures, Vec<f64>), Failure> {
    let (up_key, down_key) = (keys::generate()?, keys::generate()?);
    let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut config = HostConfig::new(down_key, AllowList::of([up_key.node_id()]));
    config.engine.policy = policy;
    let hospital = Host::start(config.bind([loopback]))?;
    let mut config = HostConfig::new(up_key, AllowList::default());
    config.engine.policy = policy;
    let ambulance = Host::start(config.bind(vec![loopback; lines.len()]))?;
    let target = hospital.addresses()[0];
    let spec = |line: &Line| PathSpec {
        name: line.name.clone(),
        listen: loopback,
        target,
        links: line.configs(),
    };
    let emulator =
        Emulator::start(lines.iter().map(spec).collect(), seed).map_err(Failure::other)?;
    // A socket of its own for each path, as a car with six modems has.
    let pairs = ambulance.sockets().into_iter().zip(emulator.addresses());
    let links = pairs.map(|(socket, &remote)| Link {
        socket: socket.id,
        remote,
    });
    let calling = ambulance.connect_over(hospital.node_id(), links.collect());
    let (up, down) = tokio::join!(calling, hospital.accept());
    let up = up?;
    let down = down.ok_or_else(|| Failure::other("the receiver did not start"))?;

    let clock = Clock::start();
    let begin = clock.now();
    let arrivals = Arrivals::default();
    let mut listening = JoinSet::new();
    let mut sending = JoinSet::new();
    for (session, side) in [(&up, Side::Ambulance), (&down, Side::Hospital)] {
        session
            .inject_objectives(OBJECTIVES)
            .map_err(Failure::other)?;
        listening.spawn(listen(
            session.clone(),
            Arc::clone(&arrivals),
            (clock, begin),
        ));
        for (index, feed) in FEEDS.iter().enumerate() {
            if feed.side == side {
                let stream = open(session, feed)?;
                sending.spawn(send(stream, index, Arc::clone(clinic), time));
            }
        }
    }
    // Streams stay open until what was sent on them has arrived.
    let streams = sending.join_all().await;
    tokio::time::sleep(GRACE).await;
    drop(streams);
    listening.abort_all();
    let arrivals = std::mem::take(&mut *arrivals.lock().unwrap_or_else(PoisonError::into_inner));
    let channels = up.channels();
    let sum: u64 = channels.iter().map(|c| c.payload_sent_bytes).sum();
    let shares = emulator.addresses().iter().map(|address| {
        let own = channels.iter().filter(|channel| channel.remote == *address);
        own.map(|channel| channel.payload_sent_bytes).sum::<u64>() as f64 / sum.max(1) as f64
    });
    let shares = shares.collect();
    tokio::join!(ambulance.shutdown(), hospital.shutdown());
    Ok((Figures::new(clinic, &arrivals, (SETTLING, time)), shares))
}

fn open(session: &Session, feed: &Feed) -> Result<Stream, Failure> {
    session.open_stream(feed.spec(true)).map_err(Failure::other)
}

/// Sends each ADU of a stream at its time; the stream, still open.
async fn send(stream: Stream, feed: usize, clinic: Arc<Clinic>, time: Duration) -> Stream {
    let begin = tokio::time::Instant::now();
    let mut thinner = Thinner::default();
    for number in 0.. {
        let at = clinic.made_at(feed, number);
        if at >= time {
            break;
        }
        tokio::time::sleep_until(begin + at).await;
        let (data, fields) = (clinic.adu(feed, number), clinic.fields(feed, number));
        let chances = |asked: Question| stream.chances(asked.bytes, asked.within);
        if feed == VIDEO_FEED && !clinic.fits(&mut thinner, number, chances) {
            continue;
        }
        // What is left out, or finds the buffer full, is never sent, and counts as lost.
        let _ = stream.try_send_with_fields(data, 0, &fields);
    }
    stream
}

/// Writes down what arrives, until it is aborted or the session ends.
async fn listen(session: Session, arrivals: Arrivals, (clock, begin): (Clock, Instant)) {
    let mut tasks = JoinSet::new();
    while let Ok(stream) = session.accept_stream().await {
        let label = &stream.spec().label;
        let Some(feed) = Feed::of_label(label) else {
            continue;
        };
        let arrivals = Arc::clone(&arrivals);
        tasks.spawn(async move {
            while let Ok(Some(adu)) = stream.recv().await {
                let at = clock.now().since(begin);
                if let Some(number) = Clinic::number(&adu.data) {
                    let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                    arrivals[feed].push(Arrival { number, at });
                }
            }
        });
    }
}

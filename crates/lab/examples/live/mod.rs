//! Common parts of both examples: two nodes on this machine, emulated paths between them, a source at one
//! end and a table at the other.

mod table;

use std::{
    error::Error,
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    AllowList, Explanation, Host, HostConfig, Policy, Session, Stream, StreamFailure, Term,
    base::{Instant, Seed, StreamId, duration},
    control::Control,
    keys,
    net::{
        Clock,
        emulate::{Emulator, PathSpec},
        session::{Link, SendError},
    },
};
use anabranch_lab::kit::sources::{Frame, Offer, Source, share_sum};
use anabranch_link::{Trace, describe::parse_both};
use bytes::Bytes;
use tokio::sync::mpsc;

use table::Row;

/// Frames of a critical stream that wait in the application; one more is left out.
const BACKLOG_FRAMES: usize = 250;
/// After the last frame, for those on their way.
const GRACE: Duration = Duration::from_millis(800);
/// Longest time that elastic streams have to themselves before others open.
const LEAD_MAX: Duration = Duration::from_secs(30);
/// From when the others have opened until seconds count.
const SETTLING: Duration = Duration::from_secs(5);
/// Local address of every endpoint.
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Time to send, in seconds. Elastic streams have the first 30 s, or half of it, to themselves, because
    /// nothing is known of the paths before; seconds count when the others have been open for 5 s.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(12..=3600))]
    pub(crate) seconds: u64,
    /// The scheduling policy.
    #[arg(long, default_value_t = Policy::Default)]
    pub(crate) policy: Policy,
    /// A path as NAME:LINK, such as 'lte:rate=20 Mbit/s, delay=30 ms' (see `anabranch emulate --help`); may be
    /// repeated. Without any: one that is steady and one that is not.
    #[arg(long = "path", value_name = "NAME:LINK")]
    pub(crate) paths: Vec<String>,
    /// The queueing delay that paths with promised streams keep to. What the machine wakes up too late must be
    /// less, or such paths are filled less and less; try '10 ms' on a busy one.
    #[arg(long, value_name = "DURATION", default_value = "2 ms", value_parser = duration::parse)]
    pub(crate) queue_target: Duration,
    /// Open a control socket here, for `anabranch streams`, `admit` and `explain`.
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Same seed, same paths.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Arrivals of one stream.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Time at which each frame arrived, and its bytes.
    pub(crate) arrivals: Vec<(Instant, usize)>,
}

/// A line to standard output.
pub(crate) fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}

/// Says what went wrong, if anything did.
pub(crate) fn exit(result: Result<(), Box<dyn Error>>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    // Where not even that can be written, the code is all there is.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

/// Sends `source` over the paths for as long as asked, then prints what arrived.
pub(crate) async fn run(
    arguments: &Run,
    usual: &[String],
    source: Box<dyn Source>,
) -> Result<(), Box<dyn Error>> {
    let texts = if arguments.paths.is_empty() {
        usual
    } else {
        &arguments.paths
    };
    let (sender_key, receiver_key) = (keys::generate()?, keys::generate()?);
    let admitted = AllowList::of([sender_key.node_id()]);
    let loopback: SocketAddr = LOOPBACK.into();
    let receiver = Host::start(HostConfig::new(receiver_key, admitted).bind([loopback]))?;
    let mut config = HostConfig::new(sender_key, AllowList::default());
    config.engine.policy = arguments.policy;
    config.engine.channel.queue_target = arguments.queue_target;
    let sender = Host::start(config.bind(vec![loopback; texts.len()]))?;
    let emulator = emulate(texts, receiver.addresses()[0], Seed(arguments.seed))?;
    for (path, text) in emulator.paths().iter().zip(texts) {
        let link = text.split_once(':').map_or(text.as_str(), |(_, link)| link);
        say(&format!("path {}:{link}", path.name()))?;
    }
    // A socket of its own for each path, as a machine with several modems has.
    let pairs = sender.sockets().into_iter().zip(emulator.addresses());
    let links = pairs.map(|(socket, &remote)| Link {
        socket: socket.id,
        remote,
    });
    let calling = sender.connect_over(receiver.node_id(), links.collect());
    let (outgoing, incoming) = tokio::join!(calling, receiver.accept());
    let (outgoing, incoming) = (outgoing?, incoming.ok_or("the receiver did not start")?);

    let clock = Clock::start();
    let time = Duration::from_secs(arguments.seconds);
    let (offers, period) = (source.offers().to_vec(), source.period());
    let received: Vec<Arc<Mutex<Received>>> = offers.iter().map(|_| Arc::default()).collect();
    let listening = tokio::spawn(listen(incoming, offers.clone(), received.clone(), clock));
    let answering = match &arguments.control {
        Some(path) => {
            let (control, host) = (Control::open(path).await?, sender.clone());
            Some(tokio::spawn(
                async move { control.serve(&host, None).await },
            ))
        }
        None => None,
    };
    let lead = LEAD_MAX.min(time / 2);
    let begin = clock.now().since_epoch();
    let (skipped, promised) = send(&outgoing, source, time, lead).await?;
    tokio::time::sleep(GRACE).await;
    // The last word on each promise, before the streams are gone.
    let accounts: Vec<String> = promised
        .iter()
        .filter_map(|&(name, id)| account(name, &outgoing.explain(id)?))
        .collect();
    listening.abort();
    let rows = offers.iter().zip(&received).zip(&skipped);
    let rows = rows.map(|((offer, received), &skipped)| {
        let received = received.lock().unwrap_or_else(PoisonError::into_inner);
        Row::new(
            offer,
            &received,
            skipped,
            period,
            (begin + lead + SETTLING, begin + time),
        )
    });
    let rows: Vec<Row> = rows.collect();
    say("")?;
    say(&format!(
        "policy {}, {} s",
        arguments.policy, arguments.seconds
    ))?;
    for line in table::lines(&rows) {
        say(&line)?;
    }
    for line in accounts {
        say(&line)?;
    }
    let channels = outgoing.channels();
    let sum: u64 = channels.iter().map(|c| c.payload_sent_bytes).sum();
    for (path, address) in emulator.paths().iter().zip(emulator.addresses()) {
        let own = channels.iter().filter(|channel| channel.remote == *address);
        let bytes: u64 = own.map(|channel| channel.payload_sent_bytes).sum();
        let share = 100.0 * bytes as f64 / sum.max(1) as f64;
        say(&format!("path {}: {share:.1} % of the bytes", path.name()))?;
    }
    if let Some(answering) = answering {
        // The socket's file goes with it.
        answering.abort();
        let _ = answering.await;
    }
    tokio::join!(sender.shutdown(), receiver.shutdown());
    Ok(())
}

fn emulate(texts: &[String], target: SocketAddr, seed: Seed) -> Result<Emulator, Box<dyn Error>> {
    let mut load = |name: &str| {
        let bytes = std::fs::read(name).map_err(|error| format!("cannot read {name}: {error}"))?;
        let trace = Trace::parse(name, &bytes).map_err(|error| format!("{name}: {error}"))?;
        Ok(Arc::new(trace))
    };
    let mut specs = Vec::new();
    for text in texts {
        let (name, link) = text
            .split_once(':')
            .ok_or_else(|| format!("--path '{text}': expected NAME:LINK"))?;
        let links =
            parse_both(link, &mut load).map_err(|error| format!("--path '{text}': {error}"))?;
        specs.push(PathSpec {
            name: name.trim().to_owned(),
            listen: LOOPBACK.into(),
            target,
            links,
        });
    }
    Ok(Emulator::start(specs, seed)?)
}

/// Streams with a promise, by name.
type Named = Vec<(&'static str, StreamId)>;

/// Offers every frame at its time; how many of each stream were left out, and the streams that asked for a
/// promise. Elastic streams have the time before `lead` to themselves, so that it is known what the paths
/// hold when promises are asked for.
async fn send(
    session: &Session,
    source: Box<dyn Source>,
    time: Duration,
    lead: Duration,
) -> Result<(Vec<u64>, Named), Box<dyn Error>> {
    let mut source = source;
    let offers = source.offers().to_vec();
    let mut outlets: Vec<Option<Outlet>> = offers.iter().map(|_| None).collect();
    let mut skipped = vec![0; offers.len()];
    let mut promised = Named::new();
    let begin = tokio::time::Instant::now();
    loop {
        let Frame { at, parts, .. } = source.next_frame();
        if at >= time {
            break;
        }
        tokio::time::sleep_until(begin + at).await;
        for (offer, outlet) in offers.iter().zip(&mut outlets) {
            if outlet.is_none() && (!offer.is_critical() || at >= lead) {
                let (opened, id) = Outlet::open(session, &offers, offer, begin)?;
                *outlet = Some(opened);
                if offer.promise.is_some() {
                    promised.push((offer.name, id));
                }
            }
        }
        for (index, data) in parts {
            if let Some(outlet) = &outlets[index]
                && !outlet.offer(data)?
            {
                skipped[index] += 1;
            }
        }
    }
    Ok((skipped, promised))
}

/// Place where the frames of a stream go.
enum Outlet {
    /// As much as the session takes.
    Elastic(Stream),
    /// All, in order, however long it takes.
    Critical(mpsc::Sender<Bytes>),
}

impl Outlet {
    fn open(
        session: &Session,
        offers: &[Offer],
        offer: &Offer,
        begin: tokio::time::Instant,
    ) -> Result<(Self, StreamId), Box<dyn Error>> {
        let spec = offer.spec(share_sum(offers));
        say(&asked(offer))?;
        if spec.guarantee.is_some() {
            say(&match session.admit(&spec) {
                Ok(grant) => format!("  would be promised: {grant}"),
                Err(error) => format!("  {error}"),
            })?;
        }
        let stream = session.open_stream(spec)?;
        let id = stream.id();
        if !offer.is_critical() {
            return Ok((Self::Elastic(stream), id));
        }
        tokio::spawn(print_promises(offer.name, stream.clone(), begin));
        let (sender, mut frames) = mpsc::channel::<Bytes>(BACKLOG_FRAMES);
        tokio::spawn(async move {
            while let Some(data) = frames.recv().await {
                if stream.send(data).await.is_err() {
                    return;
                }
            }
        });
        Ok((Self::Critical(sender), id))
    }

    /// True if the frame was taken.
    fn offer(&self, data: Bytes) -> Result<bool, StreamFailure> {
        match self {
            Self::Elastic(stream) => match stream.try_send(data) {
                Ok(_) => Ok(true),
                Err(StreamFailure::Send(SendError::Full(_))) => Ok(false),
                Err(error) => Err(error),
            },
            Self::Critical(frames) => Ok(frames.try_send(data).is_ok()),
        }
    }
}

/// Demand of a stream, in words.
fn asked(offer: &Offer) -> String {
    match offer.promise {
        Some((rate, probability)) => format!(
            "stream {}: asks for {rate} in {:.0} % of all seconds",
            offer.name,
            100.0 * probability
        ),
        None => format!("stream {}: elastic, up to {}", offer.name, offer.rate),
    }
}

/// Prints the events of a stream's promise until the stream is closed.
async fn print_promises(name: &'static str, stream: Stream, begin: tokio::time::Instant) {
    while let Ok(event) = stream.next_promise().await {
        let at = begin.elapsed().as_secs_f64();
        if say(&format!("{at:>6.1} s  {name}: {event}")).is_err() {
            return;
        }
    }
}

/// Share of windows in which a stream's promise was kept; `None` for one that asked for none.
fn account(name: &str, explained: &Explanation) -> Option<String> {
    let account = &explained.account;
    let term = explained.term.map_or("none", |term| match term {
        Term::Durable => "durable",
        Term::Renewable => "renewable",
    });
    let judged = account.kept + account.broken;
    let kept = 100.0 * account.kept as f64 / judged.max(1) as f64;
    let asked = 100.0 * explained.guarantee.probability()?;
    Some(format!(
        "promise of {name}: in force {term}; windows kept {} of {judged} ({kept:.1} %, promised {asked:.0} %), \
         withdrawn {} times",
        account.kept, account.withdrawn
    ))
}

/// Writes down what arrives, until it is aborted or the session ends.
async fn listen(
    session: Session,
    offers: Vec<Offer>,
    received: Vec<Arc<Mutex<Received>>>,
    clock: Clock,
) {
    let mut tasks = tokio::task::JoinSet::new();
    while let Ok(stream) = session.accept_stream().await {
        let index = offers.iter().position(|o| o.name == stream.spec().label);
        let Some(received) = index.map(|index| Arc::clone(&received[index])) else {
            continue;
        };
        tasks.spawn(async move {
            while let Ok(Some(adu)) = stream.recv().await {
                let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
                received.arrivals.push((clock.now(), adu.data.len()));
            }
        });
    }
}

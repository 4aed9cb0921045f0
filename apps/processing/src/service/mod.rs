//! Service: takes offers of streams and subscriptions to them at a processing node, through the node that it is attached to.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Service`]: the streams that it takes, and which belong together |
//! | `source` | an offered stream: derivations, ADUs that are kept |
//! | `subscription` | a subscriber's place in it |
//! | `offered` | the streams of a source |
//! | `early` | subscribers that come before the source |
//! | `here` | a source of this program itself |
//! | `subscribed` | the streams of a subscriber |
//! | `openings` | streams for ADUs, and the requests that they belong to |
//! | `holding` | bytes that it holds |
//! | `library`, `brought` | WebAssembly modules; those that subscribers bring |
//! | `report` | [`Report`] |
//! | `monitor` | load of operators, machine and queues |
//! | `load` | the load, taken every second and published through the node |
//! | `state` | answers to questions for the state |
//! | `settings` | [`Settings`]: what the operator of the node chooses |
//! | `refusal` | refusals of offers and subscriptions |
//! | `promise` | promises for streams to subscribers |

mod brought;
mod early;
mod here;
mod holding;
mod library;
mod load;
mod monitor;
mod offered;
mod openings;
mod promise;
mod refusal;
mod report;
mod settings;
pub(crate) mod source;
mod state;
mod subscribed;
pub(crate) mod subscription;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use anabranch::{
    Client, ClientError,
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    local::client::{Service as Registration, Stream},
    net::limited,
};
use anabranch_process::{
    memory::{Account, Accounts, Memory},
    serve::End,
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use self::{
    library::Library,
    monitor::{Effort, Monitor},
    openings::{Key, Openings},
    refusal::Refusal,
    source::Source,
};
pub use self::{report::Report, settings::Settings};
use crate::wire::{
    CODE_BUSY, CODE_MALFORMED, CODE_UNUSED, Label, ModuleLabel, Notice, Purpose, Request,
    WireError, decode, encode,
    label::{ALL_LABELS, STATUS_LABEL, modules_for, subscriptions_to},
    message::SubscriberState,
};

/// Time for the first message of a stream, and for the stream that follows from it.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Streams at a time; a source and a subscriber have two each.
const STREAMS_MAX: usize = 320;
/// Streams of one peer at a time.
const STREAMS_OF_PEER_MAX: usize = 32;
/// Reason why a stream is over.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    /// The stream is.
    #[error(transparent)]
    Stream(#[from] ClientError),
    /// The peer does not keep to the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer does not do its next step.
    #[error("it made no request")]
    Silent,
}

/// The last look at a subscriber.
#[derive(Clone)]
struct Held {
    /// Name of the stream.
    name: String,
    state: SubscriberState,
    /// Bytes that it holds; of an unreliable one, that were sent.
    arrived_bytes: u64,
    /// Bytes that wait, those in the stream included.
    waiting_bytes: u64,
    /// Bytes that were lost.
    lost_bytes: u64,
}

/// A service of a processing node.
pub struct Service {
    settings: Settings,
    library: Arc<Library>,
    accounts: Mutex<Accounts>,
    sources: Mutex<BTreeMap<String, Arc<Source>>>,
    /// Notified of each offer that is taken.
    offers: watch::Sender<()>,
    openings: Mutex<Openings<(Stream, Seat)>>,
    subscribers: Mutex<BTreeMap<u64, Held>>,
    streams: Mutex<BTreeMap<NodeId, usize>>,
    numbers: std::sync::atomic::AtomicU64,
    effort: Arc<Effort>,
    monitor: Mutex<(Monitor, Option<Instant>)>,
    reports: mpsc::Sender<Report>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that is counted until this is dropped.
struct Seat(Weak<Service>, NodeId);

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(service) = self.0.upgrade() else {
            return;
        };
        let mut streams = lock(&service.streams);
        if let Some(count) = streams.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.1);
            }
        }
    }
}

/// A stream for ADUs that a peer opens, or has opened, for a request that it makes; refused if this is dropped before it was taken.
struct Opening<'a> {
    service: &'a Service,
    key: Key,
    stream: oneshot::Receiver<(Stream, Seat)>,
}

impl Opening<'_> {
    /// Number in its label.
    fn number(&self) -> u64 {
        self.key.1.number
    }

    /// True if the peer has chosen the number.
    fn is_chosen(&self) -> bool {
        self.key.1.is_chosen()
    }

    /// The stream.
    async fn opened(&mut self) -> Result<Stream, Stopped> {
        let opened = timeout(REQUEST_TIME, &mut self.stream).await;
        let opened = opened.map_err(|_| Stopped::Silent)?;
        opened
            .map(|(stream, _)| stream)
            .map_err(|_| Stopped::Silent)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(&self.service.openings).forget(&self.key);
        if let Ok((stream, _)) = self.stream.try_recv() {
            refuse(&stream, CODE_UNUSED);
        }
    }
}

impl Service {
    /// A service; what happens is reported to `reports`, as long as that has space.
    pub fn new(settings: Settings, reports: mpsc::Sender<Report>) -> Arc<Self> {
        let memory = Memory::new(settings.memory);
        Arc::new(Self {
            library: Arc::new(Library::new(settings.modules.clone())),
            settings,
            accounts: Mutex::new(Accounts::new(memory)),
            sources: Mutex::default(),
            offers: watch::Sender::default(),
            openings: Mutex::default(),
            subscribers: Mutex::default(),
            streams: Mutex::default(),
            numbers: 1.into(),
            effort: Arc::default(),
            monitor: Mutex::new((Monitor::new(monitor::machine::cores()), None)),
            reports,
        })
    }

    /// Registers the labels of processing at the node.
    ///
    /// # Errors
    /// The connection to the node is over, or another application has them.
    pub async fn register(&self, client: &Client) -> Result<[Registration; 1], ClientError> {
        Ok([client.register(ALL_LABELS).await?])
    }

    /// Registers the labels of subscriptions to one stream, which [`Self::host`] serves, and of modules for them.
    ///
    /// # Errors
    /// As [`Self::register`].
    pub async fn register_stream(
        &self,
        client: &Client,
        name: &str,
    ) -> Result<[Registration; 2], ClientError> {
        let subscriptions = client.register(&subscriptions_to(name)).await?;
        Ok([subscriptions, client.register(&modules_for(name)).await?])
    }

    /// Serves the streams of registrations until the connection to the node is over; returns the reason.
    pub async fn serve(self: &Arc<Self>, registrations: &[Registration]) -> ClientError {
        let mut serving = JoinSet::new();
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while serving.try_join_next().is_some() {}
            let accepted = tokio::select! {
                accepted = accept(registrations) => accepted,
                _ = ticks.tick() => {
                    self.tidy();
                    self.sample().await;
                    continue;
                }
            };
            let (peer, stream) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => return error,
            };
            match self.seat(peer) {
                Some(seat) => {
                    let service = self.clone();
                    serving.spawn(async move { service.stream(peer, stream, seat).await });
                }
                None => refuse(&stream, CODE_BUSY),
            }
        }
    }

    /// Ends sources that have been away for too long, and forgets those that are over.
    fn tidy(&self) {
        self.library.tidy();
        let overdue = lock(&self.openings).take_overdue(Instant::now());
        for (stream, _) in overdue {
            refuse(&stream, CODE_UNUSED);
        }
        let mut sources = lock(&self.sources);
        sources.retain(|_, source| {
            source.trim();
            let is_over = source.is_over() && source.is_away();
            if is_over {
                let grace = self.settings.grace.as_secs();
                let why = format!("the source has been away for {grace} s or more");
                source.end(End::for_now(&why));
            }
            !is_over
        });
    }

    fn seat(self: &Arc<Self>, peer: NodeId) -> Option<Seat> {
        let mut streams = lock(&self.streams);
        let of_peer = streams.get(&peer).copied().unwrap_or_default();
        if of_peer >= STREAMS_OF_PEER_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        streams.insert(peer, of_peer + 1);
        Some(Seat(Arc::downgrade(self), peer))
    }

    async fn stream(self: Arc<Self>, peer: NodeId, stream: Stream, seat: Seat) {
        match self.streamed(peer, stream.clone(), seat).await {
            Ok(()) | Err(Stopped::Stream(_)) => {}
            Err(end) => {
                let words = printable(&end.to_string(), REASON_CHARS);
                limited!(info, %peer, error = words, "a stream about processing was refused");
                refuse(&stream, CODE_MALFORMED);
            }
        }
    }

    async fn streamed(
        self: &Arc<Self>,
        peer: NodeId,
        stream: Stream,
        seat: Seat,
    ) -> Result<(), Stopped> {
        if stream.spec().label == STATUS_LABEL {
            return match first::<Request>(&stream).await? {
                Request::Status => self.status(&stream).await,
                other => Err(unexpected(&other)),
            };
        }
        if let Ok(label) = stream.spec().label.parse::<ModuleLabel>() {
            return match first(&stream).await? {
                Request::Module { hash, bytes } => {
                    let hash = hash.parse().ok().filter(|hash| label.is_of(hash));
                    let hash = hash.ok_or_else(|| WireError(format!("another hash on {label}")))?;
                    let module = (hash, bytes as usize);
                    self.brought(peer, &label.name, &stream, module).await
                }
                other => Err(unexpected(&other)),
            };
        }
        let label: Result<Label, ()> = stream.spec().label.parse();
        let label =
            label.map_err(|()| WireError(format!("the label '{}'", stream.spec().label)))?;
        if label.number > 0 {
            return self.belongs((peer, label), stream, seat);
        }
        match (label.purpose, first(&stream).await?) {
            (Purpose::Offer, Request::Offer(offer)) => {
                self.offered(peer, &label.name, &stream, offer).await
            }
            (Purpose::Subscribe, Request::Subscribe(request)) => {
                self.subscribed(peer, &label.name, &stream, request).await
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Hands a stream for ADUs over to the request that expects it, which may be still to come.
    fn belongs(&self, key: Key, stream: Stream, seat: Seat) -> Result<(), Stopped> {
        let label = key.1.clone();
        let opened = lock(&self.openings).opened(key, (stream, seat), Instant::now());
        match opened {
            Ok(()) => Ok(()),
            Err((stream, _)) if label.is_chosen() => {
                refuse(&stream, CODE_UNUSED);
                Ok(())
            }
            Err(_) => Err(WireError(format!("no stream {label} is expected")).into()),
        }
    }

    /// Expects the stream for ADUs of a request, by the number that the peer has chosen if it has chosen one, and by a new one otherwise.
    fn expect(
        &self,
        peer: NodeId,
        purpose: Purpose,
        name: &str,
        opens: Option<u64>,
    ) -> Opening<'_> {
        let key = |number| {
            let name = name.to_owned();
            let label = Label {
                purpose,
                name,
                number,
            };
            (peer, label)
        };
        let mut openings = lock(&self.openings);
        let chosen = opens.map(key).filter(|(_, label)| label.is_chosen());
        let expected = chosen.and_then(|key| Some((key.clone(), openings.expect(key)?)));
        let (key, stream) = expected.unwrap_or_else(|| {
            let key = key(self.number());
            let stream = openings.expect(key.clone());
            (key, stream.expect("each number is given once"))
        });
        drop(openings);
        Opening {
            service: self,
            key,
            stream,
        }
    }

    fn number(&self) -> u64 {
        self.numbers
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    fn source(&self, name: &str) -> Option<Arc<Source>> {
        lock(&self.sources).get(name).cloned()
    }

    /// The account of a peer that may have more memory.
    fn account(&self, peer: NodeId) -> Result<Account, Refusal> {
        let mut accounts = lock(&self.accounts);
        let account = accounts.of(peer);
        if account.is_full() {
            return Err(Refusal::without_memory(accounts.memory(), &account));
        }
        Ok(account)
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }

    /// Refuses the first request of a stream, for a reason that may pass or not.
    async fn refused(
        &self,
        peer: NodeId,
        name: &str,
        stream: &Stream,
        Refusal { why, may_retry }: Refusal,
    ) -> Result<(), Stopped> {
        let notice = Notice::Refused {
            number: None,
            may_retry,
            why: why.clone(),
        };
        let name = name.to_owned();
        self.report(Report::Refused { peer, name, why });
        stream.send(encode(&notice)).await?;
        concluded(stream).await
    }
}

/// The next stream of any registration.
async fn accept(registrations: &[Registration]) -> Result<(NodeId, Stream), ClientError> {
    let all = registrations.iter();
    let mut all: Vec<_> = all.map(|one| Box::pin(one.accept())).collect();
    std::future::poll_fn(|context| {
        let ready = all
            .iter_mut()
            .find_map(|one| match one.as_mut().poll(context) {
                Poll::Ready(accepted) => Some(accepted),
                Poll::Pending => None,
            });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Finishes a stream, and waits until everything has arrived.
async fn concluded(stream: &Stream) -> Result<(), Stopped> {
    stream.finish()?;
    // An error means that the session is over.
    let _ = timeout(REQUEST_TIME, stream.delivered()).await;
    Ok(())
}

/// The next message of a stream; `None`: the peer has finished.
async fn request<T: DeserializeOwned>(stream: &Stream) -> Result<Option<T>, Stopped> {
    match stream.recv().await? {
        Some(adu) => Ok(Some(decode(&adu.data)?)),
        None => Ok(None),
    }
}

async fn first<T: DeserializeOwned>(stream: &Stream) -> Result<T, Stopped> {
    let first = timeout(REQUEST_TIME, request(stream)).await;
    first.map_err(|_| Stopped::Silent)??.ok_or(Stopped::Silent)
}

fn unexpected(request: &Request) -> Stopped {
    let words = format!("{request:?}");
    WireError(words.chars().take(100).collect()).into()
}

/// Resets and stops a stream.
fn refuse(stream: &Stream, code: u32) {
    // An error means that it is over.
    let _ = (stream.reset(code), stream.stop(code));
}

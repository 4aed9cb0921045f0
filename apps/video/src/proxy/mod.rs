//! The proxy: near the viewers, with a cache, over plain HTTP.
//!
//! | file | holds |
//! |---|---|
//! | `pipe` | the session with the origin, established again when it ends |
//! | `pieces` | an answer that comes in pieces |
//! | `cached_video`, `viewing` | a video that is being watched; the requests that wait for its chunks |
//! | `flows` | assignment of viewers to flows; deadlines of chunks |
//! | `flow` | one play at the origin: chunks from two streams |
//! | `due` | completion of a chunk; the lost frames to request again |
//! | `content` | a chunk that arrives, and a chunk that is served |
//! | `catalogue` | the origin's catalogue; prefetch of all videos' prefixes |
//! | `prefix` | length of a video's prefix |
//! | `prefixes` | prefixes that are stored already |
//! | `http` | the interface for players and people |
//! | `capacity` | admission of plays by the capacity of the pipe |
//! | `stats`, `monitor` | statistics; the state for people and monitoring |

mod cached_video;
mod capacity;
mod catalogue;
mod content;
mod due;
mod flow;
mod flows;
mod http;
mod monitor;
mod pieces;
mod pipe;
mod prefix;
mod prefixes;
mod stats;
mod viewing;
#[cfg(test)]
pub(crate) mod virtual_time;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anabranch::{Host, Ticket};
use bytes::Bytes;
use tokio::net::TcpListener;

use self::{
    cached_video::CachedVideo, capacity::AdmissionController, catalogue::Catalogue, pipe::Pipe,
    stats::Stats,
};
pub use self::{capacity::Admission, http::Settings as Http, monitor::Monitor, prefix::Prefix};
use crate::{
    clock::Clock,
    store::{Class, Part, Store, StoreError, VideoKey},
    video::Division,
    wire::{Entry, Refusal, RefusalKind},
};

/// Maximum number of videos whose index is in memory, unless more are watched.
const VIDEOS_MAX: usize = 64;
/// Pause before the disk is tried again after it was full.
const DISK_PAUSE: Duration = Duration::from_secs(30);

/// Time for which a proxy waits for the cache of another that is ending.
const FAREWELL: Duration = Duration::from_secs(3);

/// Settings of a proxy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Folder of the disk store.
    pub cache: PathBuf,
    /// Maximum bytes in it.
    pub cache_bytes: u64,
    /// Maximum time for which a player is held up before a chunk is served without the frames that have not come.
    pub start_delay: Duration,
    /// Lead of the enhanced flow over the viewer.
    pub lead: Duration,
    /// Part of the beginning of every video that is prefetched.
    pub prefix: Prefix,
    /// True if lost frames are requested again while there is time for it.
    pub repairs: bool,
    /// Policy by which plays are refused for lack of capacity in the pipe.
    pub admission: Admission,
    /// Settings of the HTTP side.
    pub http: Http,
}

impl Config {
    /// The defaults, for a pipe of some tens of milliseconds.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            cache,
            cache_bytes: 10 << 30,
            start_delay: Duration::from_secs(2),
            lead: Duration::from_secs(8),
            prefix: Prefix::Auto,
            repairs: true,
            admission: Admission::Open,
            http: Http::default(),
        }
    }
}

/// Reason for which the proxy cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The HTTP address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The origin does not answer.
    #[error("{0}")]
    Unreachable(Refusal),
    /// The origin refuses.
    #[error("{0}")]
    Refused(Refusal),
}

/// A proxy that is listening.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
}

/// State shared by all parts of a proxy.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) origin: anabranch::base::NodeId,
    pub(crate) pipe: Arc<Pipe>,
    pub(crate) store: Arc<Store>,
    pub(crate) stats: Stats,
    pub(crate) catalogue: Catalogue,
    cached_videos: Mutex<HashMap<String, (Instant, Arc<CachedVideo>)>>,
    capacity: AdmissionController,
    pub(crate) clock: Clock,
    /// Time until which nothing is written to the disk, because it was full.
    disk_full_until: Mutex<Option<Instant>>,
}

/// Opens the cache; a proxy that still uses it may be about to end.
async fn open_store(config: &Config, clock: Clock) -> Result<Store, StoreError> {
    let begun = clock.now();
    loop {
        match Store::open(&config.cache, config.cache_bytes) {
            Err(StoreError::InUse { .. }) if clock.since(begun) < FAREWELL => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            opened => return opened,
        }
    }
}

/// The videos of an origin.
///
/// # Errors
/// The origin does not answer, or refuses.
pub async fn list(host: &Host, ticket: &Ticket) -> Result<Vec<Entry>, ProxyError> {
    let timeout = Duration::from_secs(10);
    let pipe = Pipe::new();
    let asking = async {
        let line = pipe.line(timeout).await.map_err(ProxyError::Unreachable)?;
        line.list().await.map_err(ProxyError::Refused)
    };
    tokio::select! {
        listed = asking => listed,
        () = pipe.keep(host, ticket) => unreachable!("it is kept until it is dropped"),
    }
}

impl Proxy {
    /// Opens the cache and listens on `http`.
    ///
    /// # Errors
    /// The cache or the address cannot be used.
    pub async fn open(
        config: Config,
        http: SocketAddr,
        ticket: &Ticket,
    ) -> Result<Self, ProxyError> {
        let clock = Clock::system();
        let store = open_store(&config, clock).await?;
        let listen = |source| ProxyError::Listen {
            address: http,
            source,
        };
        let listener = TcpListener::bind(http).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let shared = Shared {
            origin: ticket.node,
            pipe: Pipe::new(),
            store: Arc::new(store),
            stats: Stats::default(),
            catalogue: Catalogue::restore(&config.cache, ticket.node),
            cached_videos: Mutex::default(),
            capacity: AdmissionController::new(config.admission, clock),
            clock,
            disk_full_until: Mutex::default(),
            config,
        };
        Ok(Self {
            shared: Arc::new(shared),
            listener,
            address,
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready; then lets responses in progress continue for a moment, and saves its state.
    pub async fn run(
        self,
        host: &Host,
        ticket: &Ticket,
        stop: impl Future<Output = ()> + Send + 'static,
    ) {
        let shared = self.shared.clone();
        tokio::select! {
            () = http::serve(shared.clone(), self.listener, stop) => {}
            () = shared.pipe.keep(host, ticket) => {}
            () = catalogue::keep(&shared) => {}
        }
        let store = shared.store.clone();
        let saved = tokio::task::spawn_blocking(move || store.save()).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, "the popularity of videos cannot be saved");
        }
        // Flows may hold the store for a while.
        shared.store.release();
    }
}

impl Shared {
    /// A video by name.
    ///
    /// # Errors
    /// There is no such video, or the origin must be asked and is away.
    pub(crate) async fn cached_video(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Arc<CachedVideo>, Refusal> {
        let not_found = || {
            let words = format!("there is no video '{name}'");
            Refusal::new(RefusalKind::NotFound, words)
        };
        let version = match self.catalogue.version(name) {
            Some(version) => version,
            None => {
                self.catalogue.refresh(self).await;
                self.catalogue.version(name).ok_or_else(not_found)?
            }
        };
        {
            let mut cached_videos = self.cached_videos();
            if let Some((used, cached_video)) = cached_videos.get_mut(name)
                && cached_video.video.version == version
            {
                *used = self.clock.now();
                return Ok(cached_video.clone());
            }
        }
        let cached_video = self.open_video(name, &version).await?;
        let mut cached_videos = self.cached_videos();
        // Another request may have been quicker.
        if let Some((_, known)) = cached_videos.get(name)
            && known.video.version == cached_video.video.version
        {
            return Ok(known.clone());
        }
        if cached_videos.len() >= VIDEOS_MAX {
            let idle = cached_videos
                .iter()
                .filter(|(_, (_, cached_video))| cached_video.is_idle());
            let oldest = idle.min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                cached_videos.remove(&oldest);
            }
        }
        let before =
            cached_videos.insert(name.to_owned(), (self.clock.now(), cached_video.clone()));
        drop(cached_videos);
        if let Some((_, before)) = before {
            self.forget(&before);
        }
        Ok(cached_video)
    }

    async fn open_video(
        self: &Arc<Self>,
        name: &str,
        version: &str,
    ) -> Result<Arc<CachedVideo>, Refusal> {
        let key = VideoKey::of(self.origin, name, version);
        if let Some(stored) = self.load(key, Part::Index).await
            && let Some((division, index)) = catalogue::unpack_index(&stored)
            && let Ok(cached_video) = self.make(name, version, key, index, division).await
        {
            return Ok(cached_video);
        }
        let timeout = Duration::from_secs(10);
        let line = self.pipe.line(timeout).await?;
        let opened = line.open(name).await?;
        let key = VideoKey::of(self.origin, name, &opened.version);
        let index = opened.index.clone();
        let cached_video = self
            .make(name, &opened.version, key, index, opened.division)
            .await?;
        self.catalogue.note(name, &opened.version);
        let packed = catalogue::pack_index(&opened.division, &opened.index);
        self.keep(key, Part::Index, Class::Prefix, packed).await;
        Ok(cached_video)
    }

    async fn make(
        self: &Arc<Self>,
        name: &str,
        version: &str,
        key: VideoKey,
        index: Bytes,
        division: Division,
    ) -> Result<Arc<CachedVideo>, Refusal> {
        let (name, version) = (name.to_owned(), version.to_owned());
        let made = tokio::task::spawn_blocking(move || {
            crate::video::Video::decode(&name, &version, &index, division)
        });
        let video = made
            .await
            .map_err(|error| Refusal::new(RefusalKind::Failed, error))?;
        let video = video.map_err(|error| Refusal::new(RefusalKind::Unusable, error))?;
        let prefix = self.config.prefix.chunks(&video, self.known_pipe());
        Ok(CachedVideo::new(video, key, prefix, self.clone()))
    }

    /// Current state of the pipe.
    fn known_pipe(&self) -> prefix::Pipe {
        let unknown = prefix::Pipe::default();
        let Some(line) = self.pipe.line_now() else {
            return unknown;
        };
        let channels = line.session().channels().into_iter();
        let rtts = channels.map(|report| report.stats.rtt_smoothed);
        let rtt = rtts.filter(|rtt| *rtt > Duration::ZERO).min();
        let (sent, arrived) = (self.stats.sent_adus.get(), self.stats.arrived_adus.get());
        prefix::Pipe {
            rtt: rtt.unwrap_or(unknown.rtt),
            loss: sent.saturating_sub(arrived) as f64 / sent.max(1) as f64,
        }
    }

    /// Forgets a video of which there is another version now.
    pub(crate) fn forget(&self, cached_video: &CachedVideo) {
        let words = format!(
            "the video '{}' has changed; load it again",
            cached_video.video.name
        );
        cached_video.replaced(Refusal::new(RefusalKind::Changed, words));
        let (store, key) = (self.store.clone(), cached_video.key);
        tokio::task::spawn_blocking(move || store.forget(key));
    }

    /// True if anything plays.
    pub(crate) fn is_busy(&self) -> bool {
        !self.capacity.is_empty()
    }

    /// Reads from the store; `None` when the part is not there, or the disk fails.
    pub(crate) async fn load(&self, key: VideoKey, part: Part) -> Option<Bytes> {
        if !self.store.holds(key, part) {
            return None;
        }
        let store = self.store.clone();
        let found = tokio::task::spawn_blocking(move || store.get(key, part)).await;
        match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the cache cannot be read");
                None
            }
            Err(_) => None,
        }
    }

    /// Writes to the store; false when the part is not stored, for whatever reason: playback continues.
    pub(crate) async fn keep(&self, key: VideoKey, part: Part, class: Class, data: Bytes) -> bool {
        if !self.is_disk_usable() {
            return false;
        }
        let store = self.store.clone();
        let put = move || store.put(key, part, class, &data);
        match tokio::task::spawn_blocking(put).await {
            Ok(Ok(is_kept)) => is_kept,
            Ok(Err(error)) => {
                tracing::warn!(%error, "not cached");
                *self.disk_full() = Some(self.clock.now() + DISK_PAUSE);
                false
            }
            Err(_) => false,
        }
    }

    /// True if the disk accepts data now.
    pub(crate) fn is_disk_usable(&self) -> bool {
        self.disk_full()
            .is_none_or(|until| self.clock.now() >= until)
    }

    /// The videos that are open, and their flows.
    pub(crate) fn watched(&self) -> Vec<(String, usize)> {
        let cached_videos = self.cached_videos();
        let mut all: Vec<_> = cached_videos
            .iter()
            .map(|(name, (_, cached_video))| (name.clone(), cached_video.flows()))
            .collect();
        all.sort();
        all
    }

    fn cached_videos(&self) -> MutexGuard<'_, HashMap<String, (Instant, Arc<CachedVideo>)>> {
        self.cached_videos
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn disk_full(&self) -> MutexGuard<'_, Option<Instant>> {
        self.disk_full_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_http(text: &str) {
    http::fuzz(text);
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_catalogue(bytes: &[u8]) {
    catalogue::parse_copy(bytes, "origin");
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_index(stored: &Bytes) -> Option<(Division, Bytes)> {
    catalogue::unpack_index(stored)
}

/// A chunk with some of its enhanced frames: those for which `noise` has a bit.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_content(
    video: &Arc<crate::video::Video>,
    chunk: u32,
    noise: &[u8],
) -> Option<content::Content> {
    const BYTES_MAX: u64 = 1 << 20;
    use anabranch_media::Part;
    let essential = video.bytes(chunk, Part::Essential);
    if essential > BYTES_MAX || video.bytes(chunk, Part::Enhanced) > BYTES_MAX {
        return None;
    }
    let frames: Vec<_> = video.frames(chunk, Part::Enhanced).collect();
    let mut map = vec![0; frames.len().div_ceil(8)];
    for (at, byte) in map.iter_mut().enumerate() {
        *byte = noise.get(at % noise.len().max(1)).copied().unwrap_or(0);
    }
    let is_there = |n: usize| map[n / 8] >> (n % 8) & 1 == 1;
    let there = frames.iter().enumerate().filter(|&(n, _)| is_there(n));
    let bytes: u64 = there.map(|(_, &frame)| u64::from(video.size(frame))).sum();
    let stored = [&map[..], &vec![1; bytes as usize]].concat();
    let essential = vec![2; essential as usize].into();
    let restored = content::Content::restore(video.clone(), chunk, essential, &stored.into());
    Some(restored.expect("the assembled content fits"))
}

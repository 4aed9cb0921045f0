//! Catalogue of the origin, and prefetch of its videos' prefixes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anabranch::{
    base::NodeId,
    base::text::{REASON_CHARS, printable},
};
use anabranch_media as media;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::{Shared, cached_video::CachedVideo, content::Content, prefixes::Prefixes};
use crate::{
    store::{Class, Part, VideoKey},
    video::{Division, PART_MIN, parse_policy, policy_text},
    wire::{Entry, Refusal, RefusalKind},
};

/// Interval between requests for the catalogue.
const EVERY: Duration = Duration::from_secs(10);
/// Minimum interval between requests, however many viewers ask for a video that is not in it.
const PAUSE: Duration = Duration::from_secs(1);
/// File of its copy in the cache folder, for use while the origin is away.
const FILE: &str = "catalogue.json";
/// Maximum size of the copy; a larger file is not valid.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Interval of checks whether prefixes can be fetched while a viewer watches.
const BUSY: Duration = Duration::from_millis(500);
/// Divisor of the cache size: prefixes may fill this share of it.
const PREFIX_SHARE: u64 = 2;

/// The videos by name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    path: PathBuf,
    origin: NodeId,
    state: Mutex<State>,
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    videos: BTreeMap<String, Entry>,
    asked: Option<Instant>,
}

#[derive(Serialize, Deserialize)]
struct Copy {
    origin: String,
    videos: Vec<Entry>,
}

impl Catalogue {
    /// Restores the copy that an earlier run kept of the same origin's catalogue.
    pub(super) fn restore(folder: &Path, origin: NodeId) -> Self {
        let path = folder.join(FILE);
        let is_small = fs::metadata(&path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
        let text = is_small.then(|| fs::read(&path).ok()).flatten();
        let copy = text.and_then(|text| parse_copy(&text, &origin.to_string()));
        Self {
            path,
            origin,
            state: Mutex::new(State {
                videos: copy.unwrap_or_default(),
                asked: None,
            }),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn version(&self, name: &str) -> Option<String> {
        Some(self.lock().videos.get(name)?.version.clone())
    }

    /// The first `most` of them by name, and their total number.
    pub(super) fn first(&self, most: usize) -> (Vec<Entry>, usize) {
        let state = self.lock();
        let first = state.videos.values().take(most).cloned().collect();
        (first, state.videos.len())
    }

    pub(super) fn list(&self) -> Vec<Entry> {
        self.lock().videos.values().cloned().collect()
    }

    /// Records the version of a video that was opened.
    pub(super) fn note(&self, name: &str, version: &str) {
        if let Some(entry) = self.lock().videos.get_mut(name) {
            entry.version = version.to_owned();
        }
    }

    /// Requests the catalogue, unless that was done a moment ago or the origin is away. Videos that have changed or gone are
    /// forgotten.
    pub(super) async fn refresh(&self, shared: &Arc<Shared>) {
        let _asking = self.asking.lock().await;
        let clock = shared.clock;
        if self.lock().asked.is_some_and(|at| clock.since(at) < PAUSE) {
            return;
        }
        let Some(line) = shared.pipe.line_now() else {
            return;
        };
        let videos = match line.list().await {
            Ok(videos) => videos,
            Err(error) => {
                let error = printable(&error.to_string(), REASON_CHARS);
                tracing::info!(%error, "the catalogue cannot be requested");
                return;
            }
        };
        let fresh: BTreeMap<_, _> = videos
            .into_iter()
            .map(|entry| (entry.name.clone(), entry))
            .collect();
        let before = {
            let mut state = self.lock();
            state.asked = Some(clock.now());
            std::mem::replace(&mut state.videos, fresh.clone())
        };
        if before == fresh {
            return;
        }
        for (name, old) in &before {
            if fresh.get(name).is_none_or(|new| new.version != old.version) {
                let key = crate::store::VideoKey::of(self.origin, name, &old.version);
                shared.forget_version(name, &old.version, key);
            }
        }
        let copy = Copy {
            origin: self.origin.to_string(),
            videos: fresh.into_values().collect(),
        };
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let temporary = path.with_extension("tmp");
            let text = serde_json::to_vec(&copy).unwrap_or_default();
            fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path))
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(%error, "the catalogue cannot be stored");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn forget_version(self: &Arc<Self>, name: &str, version: &str, key: crate::store::VideoKey) {
        let cached_video = {
            let mut cached_videos = self.cached_videos();
            match cached_videos.get(name) {
                Some((_, cached_video)) if cached_video.video.version == version => cached_videos
                    .remove(name)
                    .map(|(_, cached_video)| cached_video),
                _ => None,
            }
        };
        if let Some(cached_video) = cached_video {
            self.forget(&cached_video);
        } else {
            let store = self.store.clone();
            tokio::task::spawn_blocking(move || store.forget(key));
        }
    }
}

/// Parses the copy of a catalogue; `None`: it is invalid, or another origin's.
pub(super) fn parse_copy(text: &[u8], origin: &str) -> Option<BTreeMap<String, Entry>> {
    let copy: Copy = serde_json::from_slice(text).ok()?;
    let videos = copy.videos.into_iter();
    let named = videos.map(|entry| (entry.name.clone(), entry));
    (copy.origin == origin).then(|| named.collect())
}

/// Keeps the catalogue and the prefixes up to date; does not return.
pub(super) async fn keep(shared: &Arc<Shared>) {
    let mut lines = shared.pipe.watch();
    let mut prefixes = Prefixes::default();
    loop {
        shared.catalogue.refresh(shared).await;
        if shared.config.prefix.is_any() {
            let list = shared.catalogue.list();
            prefixes.retain(&list);
            for entry in list {
                let key = VideoKey::of(shared.origin, &entry.name, &entry.version);
                let holds = |part| shared.store.holds(key, part);
                if !prefixes.is_wanted(&entry, |chunk| {
                    holds(Part::Essential(chunk)) && holds(Part::Enhanced(chunk))
                }) {
                    continue;
                }
                match fetch_prefix(shared, &entry.name).await {
                    Ok(Some(chunks)) => prefixes.note(&entry, Some(chunks)),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(video = entry.name, %error, "the prefix cannot be fetched");
                        if error.kind == RefusalKind::Unusable {
                            prefixes.note(&entry, None);
                        }
                    }
                }
                if shared.pipe.line_now().is_none() {
                    break;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shared.pipe.changed(&mut lines) => {}
        }
    }
}

/// Fetches what is missing of a video's prefix, so that it begins at once when a viewer requests it. Returns the number of
/// chunks of the prefix; `None`: there is no space for them.
async fn fetch_prefix(shared: &Arc<Shared>, name: &str) -> Result<Option<u32>, Refusal> {
    let stats = shared.store.stats();
    if stats.prefix_bytes > stats.limit_bytes / PREFIX_SHARE || !shared.is_disk_usable() {
        return Ok(None);
    }
    let cached_video = shared.cached_video(name).await?;
    let prefix = cached_video.prefix.min(cached_video.video.count());
    for chunk in 0..prefix {
        let holds = |part| shared.store.holds(cached_video.key, part);
        if !holds(Part::Essential(chunk)) || !holds(Part::Enhanced(chunk)) {
            // Viewers go first.
            while shared.is_busy() {
                tokio::time::sleep(BUSY).await;
            }
            fetch_chunk(shared, &cached_video, chunk).await?;
        }
    }
    Ok(Some(prefix))
}

async fn fetch_chunk(
    shared: &Arc<Shared>,
    cached_video: &CachedVideo,
    chunk: u32,
) -> Result<(), Refusal> {
    let line = shared.pipe.line(EVERY).await?;
    let essential = line.fetch(&cached_video.video, chunk, media::Part::Essential);
    let essential = essential.await?;
    let enhanced = line.fetch(&cached_video.video, chunk, media::Part::Enhanced);
    let enhanced = enhanced.await?;
    let video = cached_video.video.clone();
    let Some(content) = Content::complete(video, chunk, essential, enhanced) else {
        return Ok(());
    };
    let (key, class) = (cached_video.key, Class::Prefix);
    let essential = content.essential().clone();
    shared
        .keep(key, Part::Essential(chunk), class, essential)
        .await;
    let enhanced = content.stored();
    shared
        .keep(key, Part::Enhanced(chunk), class, enhanced)
        .await;
    Ok(())
}

/// Header of an index in the store: the video's division, in JSON, after its length.
#[derive(Serialize, Deserialize)]
struct Head {
    policy: String,
    chunk_ms: u64,
    segment_ms: Option<u64>,
}

pub(super) fn pack_index(division: &Division, index: &Bytes) -> Bytes {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let head = Head {
        policy: policy_text(division.policy),
        chunk_ms: millis(division.chunk),
        segment_ms: division.segment.map(millis),
    };
    let head = serde_json::to_vec(&head).unwrap_or_default();
    let mut out = BytesMut::with_capacity(4 + head.len() + index.len());
    out.put_u32(u32::try_from(head.len()).unwrap_or(0));
    out.put_slice(&head);
    out.put_slice(index);
    out.freeze()
}

pub(super) fn unpack_index(stored: &Bytes) -> Option<(Division, Bytes)> {
    let (length, rest) = stored.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (head, index) = rest.split_at_checked(length)?;
    let head: Head = serde_json::from_slice(head).ok()?;
    let division = Division {
        policy: parse_policy(&head.policy).ok()?,
        chunk: Duration::from_millis(head.chunk_ms).max(PART_MIN),
        segment: head
            .segment_ms
            .map(|length| Duration::from_millis(length).max(PART_MIN)),
    };
    Some((division, stored.slice_ref(index)))
}

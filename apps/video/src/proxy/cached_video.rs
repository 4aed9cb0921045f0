//! A video that is being watched: its chunks from memory, from the disk, or from a flow that viewers share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    Shared,
    content::Content,
    flow,
    flows::{Asked, Demand, Flows, REACH},
};
use crate::{
    store::{Class, Part, VideoKey},
    video::Video,
    wire::{Refusal, RefusalKind},
};

/// Maximum number of chunks in memory; of those that are on disk only the most recently used.
const RECENT: usize = 3;
/// Timeout of a viewer's request for a chunk.
const TIMEOUT: Duration = Duration::from_secs(45);

/// A video at the proxy.
#[derive(Debug)]
pub(crate) struct CachedVideo {
    pub(crate) video: Arc<Video>,
    pub(crate) key: VideoKey,
    pub(crate) shared: Arc<Shared>,
    /// Chunks of its prefix.
    pub(super) prefix: u32,
    state: Mutex<State>,
    /// Number of changes that may end a wait.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    recent: VecDeque<Arc<Content>>,
    flows: Flows,
    refused: Option<(Instant, Refusal)>,
    /// Set when the origin has another version of the video.
    is_over: Option<Refusal>,
}

impl CachedVideo {
    pub(crate) fn new(video: Video, key: VideoKey, prefix: u32, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            video: Arc::new(video),
            key,
            shared,
            prefix,
            state: Mutex::default(),
            changed: watch::Sender::new(0),
        })
    }

    /// A chunk for a viewer: as soon as it is there, or at its deadline. `viewer` identifies the viewer as well as possible.
    ///
    /// # Errors
    /// The chunk is not available: the origin refuses, or is away for too long.
    ///
    /// # Panics
    /// There is no such chunk.
    pub(crate) async fn content(
        self: &Arc<Self>,
        chunk: u32,
        viewer: u64,
    ) -> Result<Arc<Content>, Refusal> {
        let asked = Instant::now();
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(content) = self.at_hand(chunk).await {
                self.look_ahead(chunk, viewer);
                return Ok(content);
            }
            let _waiting = {
                let mut state = self.lock();
                if let Some(refusal) = &state.is_over {
                    return Err(refusal.clone());
                }
                // An absence of the origin may pass; other refusals do not.
                if let Some((at, refusal)) = &state.refused
                    && *at >= asked
                    && (refusal.kind != RefusalKind::Failed || asked.elapsed() > TIMEOUT)
                {
                    return Err(refusal.clone());
                }
                let number = self.flow_for(&mut state, chunk, viewer, None);
                Waiting::new(self, &mut state, number, chunk)
            };
            let left = TIMEOUT.saturating_sub(asked.elapsed());
            if tokio::time::timeout(left, changed.changed()).await.is_err() {
                let refused = self.lock().refused.clone();
                return Err(refused.map_or_else(
                    || Refusal {
                        retry_after_s: Some(5),
                        ..Refusal::new(RefusalKind::Failed, "the origin is too slow")
                    },
                    |(_, refusal)| refusal,
                ));
            }
        }
    }

    /// A chunk from memory or disk.
    async fn at_hand(self: &Arc<Self>, chunk: u32) -> Option<Arc<Content>> {
        {
            let state = self.lock();
            let mut recent = state.recent.iter();
            if let Some(found) = recent.find(|content| content.chunk == chunk) {
                return Some(found.clone());
            }
        }
        let essential = self.shared.load(self.key, Part::Essential(chunk)).await?;
        let enhanced = self.shared.load(self.key, Part::Enhanced(chunk)).await?;
        let content = Content::restore(self.video.clone(), chunk, essential, &enhanced)?;
        let content = Arc::new(content);
        self.remember(&mut self.lock(), content.clone());
        Some(content)
    }

    /// Begins to get what the viewer of `chunk` needs next, if it is not there.
    fn look_ahead(self: &Arc<Self>, chunk: u32, viewer: u64) {
        let until = self.video.start(chunk).saturating_add(REACH);
        let following = chunk + 1..self.video.count();
        let mut near = following.take_while(|&next| self.video.start(next) <= until);
        let missing = near.find(|&next| !self.is_at_hand(next));
        let mut state = self.lock();
        if let Some(missing) = missing {
            if state.is_over.is_some() {
                return;
            }
            // Repeated starts do not help while the origin refuses.
            let pause = Duration::from_secs(2);
            if state
                .refused
                .as_ref()
                .is_some_and(|(at, _)| at.elapsed() < pause)
            {
                return;
            }
            self.flow_for(&mut state, missing, viewer, Some(chunk));
        }
    }

    pub(super) fn is_at_hand(&self, chunk: u32) -> bool {
        let state = self.lock();
        state.recent.iter().any(|content| content.chunk == chunk) || self.is_on_disk(chunk)
    }

    fn is_on_disk(&self, chunk: u32) -> bool {
        let store = &self.shared.store;
        store.holds(self.key, Part::Essential(chunk))
            && store.holds(self.key, Part::Enhanced(chunk))
    }

    /// Keeps a chunk in memory, and drops others.
    fn remember(&self, state: &mut State, content: Arc<Content>) {
        let recent = &mut state.recent;
        recent.retain(|known| known.chunk != content.chunk && !self.is_on_disk(known.chunk));
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(content);
    }

    /// The flow that brings `chunk`; starts one if there is none. `playing`: the chunk that the viewer has.
    fn flow_for(
        self: &Arc<Self>,
        state: &mut State,
        chunk: u32,
        viewer: u64,
        playing: Option<u32>,
    ) -> u64 {
        let asked = Asked {
            chunk,
            viewer,
            playing,
        };
        let (number, is_new) = state.flows.join(Instant::now(), &self.video, asked);
        if !is_new {
            return number;
        }
        if playing.is_none() || chunk <= self.prefix {
            self.shared.store.touch(self.key);
        }
        tokio::spawn(flow::run(self.clone(), number, chunk));
        number
    }

    /// Takes a chunk that a flow has finished.
    pub(super) fn finished(&self, number: u64, content: Content) {
        let now = Instant::now();
        let mut state = self.lock();
        let chunk = content.chunk;
        let start = self.video.start(chunk);
        state.flows.finished(now, number, chunk, start);
        self.remember(&mut state, Arc::new(content));
        drop(state);
        self.notify();
    }

    /// Removes a flow that is over; `refusal`: the reason, if it was refused.
    pub(super) fn ended(&self, number: u64, refusal: Option<Refusal>) {
        let mut state = self.lock();
        state.flows.ended(number);
        if let Some(refusal) = refusal {
            if refusal.kind == RefusalKind::Changed {
                state.is_over = Some(refusal.clone());
            }
            state.refused = Some((Instant::now(), refusal));
        }
        drop(state);
        self.notify();
    }

    /// Demand of a flow's viewers.
    pub(super) fn demand(&self, number: u64, chunk: u32) -> Demand {
        let start = self.video.start(chunk);
        let delay = self.shared.config.start_delay;
        let state = self.lock();
        let flows = &state.flows;
        flows.demand(Instant::now(), number, (chunk, start), delay)
    }

    /// True if no request and no flow uses it.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().flows.len() == 0
    }

    /// Number of running flows.
    pub(crate) fn flows(&self) -> usize {
        self.lock().flows.len()
    }

    /// Notes that the origin has another version.
    pub(crate) fn replaced(&self, refusal: Refusal) {
        let mut state = self.lock();
        state.is_over = Some(refusal);
        state.flows.end_all();
        drop(state);
        self.notify();
    }

    /// Storage class of a chunk: whether it belongs to the prefix.
    pub(crate) fn class(&self, chunk: u32) -> Class {
        if chunk < self.prefix {
            Class::Prefix
        } else {
            Class::Body
        }
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for a flow.
struct Waiting<'a> {
    cached_video: &'a CachedVideo,
    number: u64,
    chunk: u32,
}

impl<'a> Waiting<'a> {
    fn new(cached_video: &'a CachedVideo, state: &mut State, number: u64, chunk: u32) -> Self {
        state.flows.wait(number, chunk);
        Self {
            cached_video,
            number,
            chunk,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.cached_video
            .lock()
            .flows
            .leave(self.number, self.chunk);
    }
}

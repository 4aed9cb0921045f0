//! A video that is being watched: its state, and what its flows bring and need.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::watch;

use super::{
    Shared,
    content::Content,
    flows::{Demand, Flows},
};
use crate::{
    store::{Class, Part, VideoKey},
    video::Video,
    wire::{Refusal, RefusalKind},
};

/// Maximum number of chunks in memory; of those that are on disk only the most recently used.
const RECENT: usize = 3;

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
    pub(super) changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) recent: VecDeque<Arc<Content>>,
    pub(super) flows: Flows,
    /// The last refusal of a flow, and its time.
    pub(super) refused: Option<(Instant, Refusal)>,
    /// Set when the origin has another version of the video.
    pub(super) is_over: Option<Refusal>,
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
    pub(super) fn remember(&self, state: &mut State, content: Arc<Content>) {
        let recent = &mut state.recent;
        recent.retain(|known| known.chunk != content.chunk && !self.is_on_disk(known.chunk));
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(content);
    }

    /// Takes a chunk that a flow has finished.
    pub(super) fn finished(&self, number: u64, content: Content) {
        let now = self.shared.clock.now();
        let mut state = self.lock();
        let chunk = content.chunk;
        let start = self.video.start(chunk);
        let stalled = state.flows.finished(now, number, chunk, start);
        self.remember(&mut state, Arc::new(content));
        drop(state);
        if !stalled.is_zero() {
            self.shared.stats.stalls.add(1);
            self.shared.stats.stalled_ms.add(stalled.as_millis() as u64);
        }
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
            state.refused = Some((self.shared.clock.now(), refusal));
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
        flows.demand(self.shared.clock.now(), number, (chunk, start), delay)
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

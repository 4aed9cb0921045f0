//! A video that somebody watches: its chunks from memory, from the disk, or from a flow that viewers share.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{Shared, content::Content, flow};
use crate::{
    store::{Class, Part, VideoKey},
    video::Video,
    wire::{Refusal, RefusalKind},
};

/// Chunks that stay in memory after they were served.
const RECENT: usize = 3;
/// Flows of one video at a time: viewers at different places.
const FLOWS_MAX: usize = 8;
/// A viewer that asked for nothing for this long is gone, or has paused.
const INTEREST: Duration = Duration::from_secs(20);
/// How far ahead of where a flow is a viewer waits for it, rather than for another.
const REACH: Duration = Duration::from_secs(12);
/// How long a viewer's request waits for a chunk.
const PATIENCE: Duration = Duration::from_secs(45);

/// A video at the proxy.
#[derive(Debug)]
pub(crate) struct Title {
    pub(crate) video: Arc<Video>,
    pub(crate) key: VideoKey,
    pub(crate) shared: Arc<Shared>,
    state: Mutex<State>,
    /// Counts what may end somebody's waiting.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    recent: VecDeque<Arc<Content>>,
    flows: Vec<FlowState>,
    next: u64,
    refused: Option<(Instant, Refusal)>,
    /// The origin has another version of it now.
    is_over: Option<Refusal>,
}

/// What viewers see of a flow.
#[derive(Debug)]
struct FlowState {
    number: u64,
    /// The chunk that it works on.
    next: u32,
    /// Requests that wait for it.
    waiting: Vec<u32>,
    /// Who asked for something near it, and when.
    viewers: Vec<(u64, Instant)>,
    /// When something of the video was handed to the viewer for whom it began, and when in the video that is: from then on he
    /// plays.
    clock: Option<(Instant, Duration)>,
    is_to_end: bool,
}

/// What a flow is to know of its viewers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Nobody wants it any more.
    pub(super) is_to_end: bool,
    /// Somebody waits for the chunk that it works on, and has it by then, complete or not.
    pub(super) deadline: Option<Instant>,
}

impl Title {
    pub(crate) fn new(video: Video, key: VideoKey, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            video: Arc::new(video),
            key,
            shared,
            state: Mutex::default(),
            changed: watch::Sender::new(0),
        })
    }

    /// A chunk for a viewer: as soon as it is there, or when it must be. `viewer` tells viewers apart as well as it can
    /// be told.
    ///
    /// # Errors
    /// It cannot be had: the origin refuses, or is away for too long.
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
                // What the origin is away for may pass; the rest will not.
                if let Some((at, refusal)) = &state.refused
                    && *at >= asked
                    && (refusal.kind != RefusalKind::Failed || asked.elapsed() > PATIENCE)
                {
                    return Err(refusal.clone());
                }
                let number = self.flow_for(&mut state, chunk, viewer, None);
                Waiting::new(self, &mut state, number, chunk)
            };
            let left = PATIENCE.saturating_sub(asked.elapsed());
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
        self.lock().remember(content.clone());
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
            // Beginning again and again helps nobody while the origin refuses.
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
        state.recent.iter().any(|content| content.chunk == chunk)
            || self.shared.store.holds(self.key, Part::Essential(chunk))
                && self.shared.store.holds(self.key, Part::Enhanced(chunk))
    }

    /// The flow that brings `chunk`, begun if there is none. `playing`: the chunk that the viewer has.
    fn flow_for(
        self: &Arc<Self>,
        state: &mut State,
        chunk: u32,
        viewer: u64,
        playing: Option<u32>,
    ) -> u64 {
        let now = Instant::now();
        let wanted = self.video.start(chunk);
        let reaches = |flow: &&mut FlowState| {
            !flow.is_to_end
                && flow.next <= chunk
                && wanted <= self.video.start(flow.next).saturating_add(REACH)
        };
        if let Some(flow) = state.flows.iter_mut().find(reaches) {
            flow.note(viewer, now);
            return flow.number;
        }
        // He has left the flow that only he watched.
        for flow in &mut state.flows {
            let others = flow.viewers.iter().filter(|(other, _)| *other != viewer);
            let mut recent = others.filter(|(_, at)| now.duration_since(*at) < INTEREST);
            if flow.waiting.is_empty() && recent.next().is_none() {
                flow.is_to_end = true;
            }
        }
        if state.flows.len() >= FLOWS_MAX
            && let Some(oldest) = state
                .flows
                .iter_mut()
                .filter(|flow| flow.waiting.is_empty())
                .min_by_key(|flow| flow.viewers.iter().map(|(_, at)| *at).max())
        {
            oldest.is_to_end = true;
        }
        let number = state.next;
        state.next += 1;
        let clock = playing.map(|playing| (now, self.video.start(playing)));
        state.flows.push(FlowState {
            number,
            next: chunk,
            waiting: Vec::new(),
            viewers: vec![(viewer, now)],
            clock,
            is_to_end: false,
        });
        if playing.is_none() || chunk <= self.video.prefix(self.shared.config.prefix) {
            self.shared.store.touch(self.key);
        }
        tokio::spawn(flow::run(self.clone(), number, chunk));
        number
    }

    /// A flow has finished a chunk.
    pub(super) fn finished(&self, number: u64, content: Content) {
        let now = Instant::now();
        let mut state = self.lock();
        let chunk = content.chunk;
        let start = self.video.start(chunk);
        if let Some(flow) = state.flows.iter_mut().find(|flow| flow.number == number) {
            flow.next = chunk + 1;
            // Whoever waited for the first chunk plays from now on.
            flow.clock.get_or_insert((now, start));
        }
        state.remember(Arc::new(content));
        drop(state);
        self.tell();
    }

    /// A flow is over; `refusal`: because of that.
    pub(super) fn ended(&self, number: u64, refusal: Option<Refusal>) {
        let mut state = self.lock();
        state.flows.retain(|flow| flow.number != number);
        if let Some(refusal) = refusal {
            if refusal.kind == RefusalKind::Changed {
                state.is_over = Some(refusal.clone());
            }
            state.refused = Some((Instant::now(), refusal));
        }
        drop(state);
        self.tell();
    }

    /// What a flow's viewers want of it.
    pub(super) fn demand(&self, number: u64, chunk: u32) -> Demand {
        let now = Instant::now();
        let state = self.lock();
        let Some(flow) = state.flows.iter().find(|flow| flow.number == number) else {
            return Demand {
                is_to_end: true,
                deadline: None,
            };
        };
        let is_wanted = !flow.waiting.is_empty()
            || flow
                .viewers
                .iter()
                .any(|(_, at)| now.duration_since(*at) < INTEREST);
        let deadline = flow.clock.filter(|_| flow.waiting.contains(&chunk));
        let deadline = deadline.map(|(at, begun)| {
            let since = self.video.start(chunk).saturating_sub(begun);
            at + since + self.shared.config.start_delay
        });
        Demand {
            is_to_end: flow.is_to_end || !is_wanted,
            deadline,
        }
    }

    /// Whether nobody uses it now.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().flows.is_empty()
    }

    /// The flows that run.
    pub(crate) fn flows(&self) -> usize {
        self.lock().flows.len()
    }

    /// The origin has another version.
    pub(crate) fn replaced(&self, refusal: Refusal) {
        let mut state = self.lock();
        state.is_over = Some(refusal);
        for flow in &mut state.flows {
            flow.is_to_end = true;
        }
        drop(state);
        self.tell();
    }

    /// Whether a part belongs to the prefix.
    pub(crate) fn class(&self, chunk: u32) -> Class {
        if chunk < self.video.prefix(self.shared.config.prefix) {
            Class::Prefix
        } else {
            Class::Body
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, content: Arc<Content>) {
        self.recent.retain(|known| known.chunk != content.chunk);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(content);
    }
}

impl FlowState {
    fn note(&mut self, viewer: u64, now: Instant) {
        self.viewers
            .retain(|(other, at)| *other != viewer && now.duration_since(*at) < INTEREST);
        // Of very many at one place the last are enough.
        if self.viewers.len() >= 64 {
            self.viewers.remove(0);
        }
        self.viewers.push((viewer, now));
    }
}

/// A request that waits for a flow.
struct Waiting<'a> {
    title: &'a Title,
    number: u64,
    chunk: u32,
}

impl<'a> Waiting<'a> {
    fn new(title: &'a Title, state: &mut State, number: u64, chunk: u32) -> Self {
        if let Some(flow) = state.flows.iter_mut().find(|flow| flow.number == number) {
            flow.waiting.push(chunk);
        }
        Self {
            title,
            number,
            chunk,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.title.lock();
        let mut flows = state.flows.iter_mut();
        if let Some(flow) = flows.find(|flow| flow.number == self.number)
            && let Some(at) = flow.waiting.iter().position(|&chunk| chunk == self.chunk)
        {
            flow.waiting.swap_remove(at);
        }
    }
}

//! Requests of viewers: a chunk from memory, from the disk, or from a flow that viewers share, which is started where there is
//! none.

use std::{sync::Arc, time::Duration};

use super::{
    cached_video::{CachedVideo, State},
    content::Content,
    flow,
    flows::{Asked, REACH},
};
use crate::{
    store::Part,
    wire::{Refusal, RefusalKind},
};

/// Timeout of a viewer's request for a chunk.
const TIMEOUT: Duration = Duration::from_secs(45);

impl CachedVideo {
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
        let clock = self.shared.clock;
        let asked = clock.now();
        let mut changed = self.changed.subscribe();
        let mut has_waited = false;
        loop {
            changed.mark_unchanged();
            if let Some(content) = self.at_hand(chunk).await {
                self.look_ahead(chunk, viewer);
                let stats = &self.shared.stats;
                if !has_waited {
                    stats.at_once.add(1);
                } else {
                    stats.waits.add(1);
                    stats.waited_ms.add(clock.since(asked).as_millis() as u64);
                }
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
                    && (refusal.kind != RefusalKind::Failed || clock.since(asked) > TIMEOUT)
                {
                    return Err(refusal.clone());
                }
                let number = self.flow_for(&mut state, chunk, viewer, None);
                Waiting::new(self, &mut state, number, chunk)
            };
            has_waited = true;
            let left = TIMEOUT.saturating_sub(clock.since(asked));
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
                .is_some_and(|(at, _)| self.shared.clock.since(*at) < pause)
            {
                return;
            }
            self.flow_for(&mut state, missing, viewer, Some(chunk));
        }
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
        let (number, is_new) = state
            .flows
            .join(self.shared.clock.now(), &self.video, asked);
        if !is_new {
            return number;
        }
        if playing.is_none() || chunk <= self.prefix {
            self.shared.store.touch(self.key);
        }
        tokio::spawn(flow::run(self.clone(), number, chunk));
        number
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
        let now = cached_video.shared.clock.now();
        state.flows.wait(now, number, chunk);
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

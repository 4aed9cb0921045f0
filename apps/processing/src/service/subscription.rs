//! Subscription to a source that others share.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_process::{
    Pipeline,
    derive::Status,
    memory::Account,
    serve::{self, Next, Position, Request},
};

use super::source::{ReaderId, Source};
use crate::wire::message::Subscribe;

/// A subscription, until this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    source: Arc<Source>,
    /// Place at which it began.
    pub(crate) begin: Position,
    state: Mutex<serve::Subscription>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.state().end(&mut self.source.inner().offered);
        self.source.wake();
    }
}

impl Subscription {
    /// Subscribes.
    ///
    /// # Errors
    /// The reason: an operator cannot begin, a bound is reached, or ADUs that the subscriber lacks are not kept any more.
    pub(crate) fn new(
        source: &Arc<Source>,
        (reader, account): (ReaderId, Account),
        asked: &Subscribe,
        pipeline: &Pipeline,
    ) -> Result<Self, String> {
        let position = asked.position.clone();
        let request = Request {
            reader,
            change: asked.change,
            position: position.map(|position| (asked.of, position.into())),
            delivery: serve::delivery(asked.is_reliable),
            account,
        };
        let now = source.now();
        let state = {
            let offered = &mut source.inner().offered;
            serve::Subscription::new(offered, request, pipeline, now)?
        };
        source.wake();
        Ok(Self {
            source: source.clone(),
            begin: state.begin().clone(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, serve::Subscription> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another pipeline, from the source's next ADU on; true if it is another one, so that what was taken before is out of date.
    ///
    /// # Errors
    /// The reason; everything is then as before.
    pub(crate) fn change(&self, number: u32, pipeline: &Pipeline) -> Result<bool, String> {
        let mut state = self.state();
        state.change(&mut self.source.inner().offered, number, pipeline)
    }

    /// The subscriber holds what is derived from the ADUs before this one.
    pub(crate) fn held(&self, next: u64) {
        let now = self.source.now();
        self.state()
            .held(&mut self.source.inner().offered, next, now);
        self.source.wake();
    }

    /// The subscriber has left, for good or not.
    pub(crate) fn leave(&self, is_for_good: bool) {
        let now = self.source.now();
        self.state()
            .leave(&mut self.source.inner().offered, is_for_good, now);
        self.source.wake();
    }

    /// Status in the table, the pipeline and its number; `None` while it is behind, or over.
    pub(crate) fn status(&self) -> Option<(Status, String, u32)> {
        self.state().status(&self.source.inner().offered)
    }

    /// Windows of which something was given up here since the last call, because it waited for too long.
    pub(crate) fn take_lost_windows(&self) -> BTreeSet<u64> {
        self.state()
            .take_lost_windows(&mut self.source.inner().offered)
    }

    /// The next thing to send.
    pub(crate) fn next(&self) -> Next {
        self.state().next(&mut self.source.inner().offered)
    }
}

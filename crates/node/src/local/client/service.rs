//! Handle of a registered label: the streams that peers open with it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_base::NodeId;
use tokio::sync::Notify;

use super::{ClientError, Stream, core::Tasks, stream::StreamState};

/// State of a registered label.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub(super) handle: u32,
    /// The node bounds them by the backlog.
    incoming: Mutex<VecDeque<(NodeId, Arc<StreamState>)>>,
    changed: Notify,
}

impl ServiceState {
    pub(super) fn new(handle: u32) -> Self {
        Self {
            handle,
            incoming: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(super) fn push(&self, peer: NodeId, stream: Arc<StreamState>) {
        let incoming = self.incoming.lock();
        let mut incoming = incoming.unwrap_or_else(PoisonError::into_inner);
        incoming.push_back((peer, stream));
        drop(incoming);
        self.changed.notify_waiters();
    }

    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    fn pop(&self) -> Option<(NodeId, Arc<StreamState>)> {
        let incoming = self.incoming.lock();
        incoming.unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A label that this application has registered, until this is dropped. Streams that were accepted are not affected.
#[derive(Debug)]
pub struct Service {
    tasks: Arc<Tasks>,
    state: Arc<ServiceState>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks.core.forget_service(self.state.handle);
        while let Some((_, stream)) = self.state.pop() {
            self.tasks.core.forget_stream(stream.handle);
        }
    }
}

impl Service {
    pub(super) fn new(tasks: Arc<Tasks>, state: Arc<ServiceState>) -> Self {
        Self { tasks, state }
    }

    /// Waits for the next stream, with the peer that opened it.
    ///
    /// # Errors
    /// The connection to the node is over.
    pub async fn accept(&self) -> Result<(NodeId, Stream), ClientError> {
        loop {
            let changed = self.state.changed.notified();
            if let Some((peer, state)) = self.state.pop() {
                let stream = Stream::new(self.tasks.clone(), state);
                stream.accept();
                return Ok((peer, stream));
            }
            if self.tasks.core.is_over() {
                return Err(self.tasks.core.detached());
            }
            changed.await;
        }
    }
}

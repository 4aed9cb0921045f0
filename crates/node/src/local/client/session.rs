//! Handle to a session of the node.

use std::sync::Arc;

use anabranch_base::NodeId;
use anabranch_net::SessionEvent;
use anabranch_session::{
    Grant, ObjectiveId, SessionCloseReason, StreamSpec,
    objective::{Entry, Kind, Tally},
};
use serde::Deserialize;

use super::{
    ClientError, Stream,
    core::{Expected, Reply, Tasks},
    session_state::SessionState,
    stream::WINDOW,
};
use crate::{
    local::message::{GrantBody, PathBody, Request},
    spec::SpecText,
};

/// A session of the node with a peer, shared with other applications. Clones share it; dropping the last one gives it back, and
/// streams stay open.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tasks: Arc<Tasks>,
    state: Arc<SessionState>,
    peer: NodeId,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.core.forget_session(self.state.handle);
    }
}

/// An objective in an answer.
#[derive(Deserialize)]
struct Listed {
    id: u64,
    #[serde(default)]
    name: Option<String>,
    kind: String,
    text: String,
    #[serde(default)]
    tally: Option<TallyBody>,
}

/// A tally in an answer.
#[derive(Deserialize)]
struct TallyBody {
    contexts: u64,
    contexts_met: u64,
    utility: f64,
    contexts_faulty: u64,
}

impl From<TallyBody> for Tally {
    fn from(body: TallyBody) -> Self {
        Self {
            contexts: body.contexts,
            contexts_met: body.contexts_met,
            utility: body.utility,
            contexts_faulty: body.contexts_faulty,
            ..Self::default()
        }
    }
}

impl Session {
    pub(super) fn new(tasks: Arc<Tasks>, state: Arc<SessionState>, peer: NodeId) -> Self {
        let inner = Inner { tasks, state, peer };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The node at the other end.
    pub fn peer(&self) -> NodeId {
        self.inner.peer
    }

    /// Waits for the next change of the session's channels and objectives; the first events are those of the channels that were up
    /// when [`Client::connect`](super::Client::connect) returned. At most 1024 are kept; the oldest are dropped. Each session that
    /// `connect` returned gets every event; its clones share them.
    ///
    /// # Errors
    /// The session is over and all its events were read, or the connection is over; the node is of an older release.
    pub async fn next_event(&self) -> Result<SessionEvent, ClientError> {
        let next = self.inner.state.wait(|events, closed| match closed {
            Some(reason) if events.is_empty() => Some(Err(reason.to_string())),
            _ => events.pop_front().map(Ok),
        });
        next.await?.map_err(ClientError::SessionOver)
    }

    /// Waits until the session is over; returns the cause.
    ///
    /// # Errors
    /// The connection is over, with which nothing is known of the session any more; the node is of an older release.
    pub async fn closed(&self) -> Result<SessionCloseReason, ClientError> {
        self.inner.state.wait(|_, closed| closed.cloned()).await
    }

    /// Asks every path of the session for an acknowledgement, without waiting for it: one that gives none does not respond any more. Nothing else
    /// finds that out while there is nothing to send. A node of an older release does nothing.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn probe(&self) -> Result<(), ClientError> {
        let session = self.inner.state.handle;
        let request = Request::Probe { session };
        match self.inner.tasks.core.ask(request, Expected::Value).await {
            Ok(_) => Ok(()),
            Err(ClientError::Node { kind, .. }) if kind == "request" => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Paths of the session, with the bytes that each carried of all its streams, those of other applications included. A node of an
    /// older release names none.
    ///
    /// # Errors
    /// The session or the connection is over.
    pub async fn paths(&self) -> Result<Vec<PathBody>, ClientError> {
        let session = self.inner.state.handle;
        let request = Request::Paths { session };
        match self.inner.tasks.core.ask(request, Expected::Value).await {
            Ok(reply) => reply.field("paths"),
            Err(ClientError::Node { kind, .. }) if kind == "request" => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Opens a stream; nothing is sent before the first ADU.
    ///
    /// # Errors
    /// The session or the connection is over, the spec is not valid, or its guarantee cannot be promised.
    pub async fn open_stream(&self, spec: StreamSpec) -> Result<Stream, ClientError> {
        let request = Request::Open {
            session: self.inner.state.handle,
            spec: Box::new(SpecText::of(&spec)),
            credit: WINDOW,
        };
        let expected = Expected::Stream(Box::new(spec));
        match self.inner.tasks.core.ask(request, expected).await? {
            Reply::Stream(state) => Ok(Stream::new(self.inner.tasks.clone(), state)),
            _ => Err(ClientError::Protocol("no stream in the answer".to_owned())),
        }
    }

    /// Decision that [`Session::open_stream`] would make on the spec's guarantee now. Nothing is opened or reserved.
    ///
    /// # Errors
    /// As [`Session::open_stream`], and a refusal if the spec has no guarantee.
    pub async fn admit(&self, spec: &StreamSpec) -> Result<Grant, ClientError> {
        let request = Request::Admit {
            session: self.inner.state.handle,
            spec: Box::new(SpecText::of(spec)),
        };
        let reply = self.inner.tasks.core.ask(request, Expected::Value).await?;
        let grant: GrantBody = reply.field("grant")?;
        grant
            .resolve()
            .map_err(|error| ClientError::Protocol(error.to_string()))
    }

    /// Applies the objectives of a HOSE text for everything that the node sends in this session: all of them, or none
    /// if there is an error. They have an effect under the policies `assign` and `random_walk`.
    ///
    /// # Errors
    /// The text has errors, which are given with their places; the session is over.
    pub async fn inject_objectives(&self, text: &str) -> Result<Vec<ObjectiveId>, ClientError> {
        let request = Request::Inject {
            session: self.inner.state.handle,
            text: text.to_owned(),
        };
        let reply = self.inner.tasks.core.ask(request, Expected::Value).await?;
        let ids: Vec<u64> = reply.field("ids")?;
        Ok(ids.into_iter().map(ObjectiveId).collect())
    }

    /// Removes an objective. Returns false if it is not in force.
    ///
    /// # Errors
    /// The session is over.
    pub async fn remove_objective(&self, objective: ObjectiveId) -> Result<bool, ClientError> {
        let request = Request::Remove {
            session: self.inner.state.handle,
            objective: objective.0,
        };
        let reply = self.inner.tasks.core.ask(request, Expected::Value).await?;
        reply.field("removed")
    }

    /// The objectives in force.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn objectives(&self) -> Result<Vec<Entry>, ClientError> {
        self.listed().await?.into_iter().map(entry).collect()
    }

    /// Contexts, utility and faulty contexts of each objective within the last minute; rates have none, nor has a node of an older release.
    /// Kinds of faults are not among them.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn tallies(&self) -> Result<Vec<(ObjectiveId, Tally)>, ClientError> {
        let listed = self.listed().await?.into_iter();
        let tallies = listed.filter_map(|one| Some((ObjectiveId(one.id), one.tally?.into())));
        Ok(tallies.collect())
    }

    async fn listed(&self) -> Result<Vec<Listed>, ClientError> {
        let request = Request::Objectives {
            session: self.inner.state.handle,
        };
        let reply = self.inner.tasks.core.ask(request, Expected::Value).await?;
        reply.field("objectives")
    }
}

fn entry(listed: Listed) -> Result<Entry, ClientError> {
    let kinds = [Kind::Streams, Kind::Single, Kind::Combinatorial, Kind::Rate];
    let kind = kinds.into_iter().find(|kind| kind.name() == listed.kind);
    let unknown = || ClientError::Protocol(format!("an objective of kind {}", listed.kind));
    Ok(Entry {
        kind: kind.ok_or_else(unknown)?,
        id: ObjectiveId(listed.id),
        name: listed.name,
        text: listed.text,
    })
}

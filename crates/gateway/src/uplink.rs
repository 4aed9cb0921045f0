//! Uplinks: the session with the peer that connections are made through, opened again when it ends.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use anabranch::{
    ConnectError, Host, Remotes, Session, base::NodeId, daemon::Handle, net::WeakSession,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    error::{Code, Refusal},
    notice::{Notice, Notices},
};

/// First pause before the peer is dialled again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause, and so the longest delay until a peer that is back is reached.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time limit of one call: handshakes back off, so a new one reaches a peer that has just come back sooner than an old one.
const CALL_MAX: Duration = Duration::from_secs(5);

/// A session in the making.
pub type Waiting<'u> = Pin<Box<dyn Future<Output = Result<Session, Refusal>> + Send + 'u>>;

/// Source of sessions with one peer.
pub trait Uplink: Send + Sync + fmt::Debug + 'static {
    /// An open session; waits for one until `by`.
    fn session(&self, by: Instant) -> Waiting<'_>;

    /// The peer.
    fn peer(&self) -> NodeId;
}

/// Choice of the peer for a flow.
pub trait Exits: Send + Sync + fmt::Debug + 'static {
    /// Sessions with the peer that a rule names; `None`: no rule names one.
    ///
    /// # Errors
    /// There is none for such flows.
    fn exit(&self, named: Option<NodeId>) -> Result<Arc<dyn Uplink>, Refusal>;
}

/// The only peer, whatever rules name.
#[derive(Debug)]
pub struct OnlyExit(pub Arc<dyn Uplink>);

impl Exits for OnlyExit {
    fn exit(&self, _: Option<NodeId>) -> Result<Arc<dyn Uplink>, Refusal> {
        Ok(self.0.clone())
    }
}

fn without_session(cause: &str) -> Refusal {
    let text = format!("no session with the peer in time: {cause}");
    Refusal::new(Code::Unreachable, text)
}

/// The sessions of a running node: shared with everything else there, opened on demand, or by the peer.
#[derive(Debug)]
pub struct NodeUplink {
    handle: Handle,
    peer: NodeId,
}

impl NodeUplink {
    /// Sessions of the node with a peer.
    pub fn new(handle: Handle, peer: NodeId) -> Self {
        Self { handle, peer }
    }
}

impl Uplink for NodeUplink {
    fn peer(&self) -> NodeId {
        self.peer
    }

    fn session(&self, by: Instant) -> Waiting<'_> {
        Box::pin(async move {
            let mut pause = PAUSE_MIN;
            let mut cause = "no answer".to_owned();
            loop {
                match timeout_at(by, self.handle.session_with(self.peer, Remotes::default())).await
                {
                    Ok(Ok(session)) => return Ok(session),
                    Ok(Err(error @ ConnectError::ShuttingDown)) => {
                        return Err(Refusal::new(Code::Failed, error.to_string()));
                    }
                    Ok(Err(error)) => cause = error.to_string(),
                    Err(_) => return Err(without_session(&cause)),
                }
                if Instant::now() + pause >= by {
                    return Err(without_session(&cause));
                }
                // The peer may call in the meantime.
                sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
            }
        })
    }
}

/// One session, which is not opened again: that of a stream that a peer opened.
#[derive(Debug)]
pub(crate) struct OneSession {
    peer: NodeId,
    session: WeakSession,
}

impl OneSession {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            peer: session.peer(),
            session: session.downgrade(),
        }
    }
}

impl Uplink for OneSession {
    fn peer(&self) -> NodeId {
        self.peer
    }

    fn session(&self, _: Instant) -> Waiting<'_> {
        let session = self.session.upgrade();
        let open = session.filter(|session| session.close_reason().is_none());
        let over = || Refusal::new(Code::Unreachable, "the session is over");
        Box::pin(std::future::ready(open.ok_or_else(over)))
    }
}

/// Latest session of a host of its own, or the cause of there being none.
type State = Result<Session, String>;

/// A peer that is dialled whenever there is no session with it.
#[derive(Debug)]
pub struct Dialled {
    peer: NodeId,
    state: watch::Receiver<State>,
}

/// The task that dials for a [`Dialled`]; run it.
#[derive(Debug)]
pub struct Dialler {
    host: Host,
    peer: NodeId,
    addresses: Remotes,
    state: watch::Sender<State>,
    notices: Notices,
}

impl Dialled {
    /// A peer with its addresses, and the task that dials it.
    pub fn new(
        host: Host,
        peer: NodeId,
        addresses: impl Into<Remotes>,
        notices: Notices,
    ) -> (Self, Dialler) {
        let (sender, state) = watch::channel(Err("no answer yet".to_owned()));
        let dialler = Dialler {
            host,
            peer,
            addresses: addresses.into(),
            state: sender,
            notices,
        };
        (Self { peer, state }, dialler)
    }

    /// Waits for the next session that is not the one with this number.
    pub async fn next(&self, last: Option<&Session>) -> Option<Session> {
        let mut state = self.state.clone();
        let is_next = |state: &State| {
            let other = |session: &Session| last.is_none_or(|last| last.id() != session.id());
            state.as_ref().is_ok_and(other)
        };
        let found = state.wait_for(is_next).await.ok()?;
        found.as_ref().ok().cloned()
    }
}

impl Uplink for Dialled {
    fn peer(&self) -> NodeId {
        self.peer
    }

    fn session(&self, by: Instant) -> Waiting<'_> {
        Box::pin(async move {
            let mut state = self.state.clone();
            let open = |state: &State| {
                let is_open = |session: &Session| session.close_reason().is_none();
                state.as_ref().is_ok_and(is_open)
            };
            let found = timeout_at(by, state.wait_for(open)).await;
            match found {
                Ok(Ok(found)) => Ok(found.as_ref().cloned().expect("it is open")),
                Ok(Err(_)) => Err(Refusal::new(Code::Failed, "the gateway has ended")),
                Err(_) => {
                    let state = self.state.borrow();
                    let cause = state.as_ref().err().map_or("no answer", String::as_str);
                    Err(without_session(cause))
                }
            }
        })
    }
}

impl Dialler {
    /// Keeps a session with the peer open, and calls `serve` with each. Returns the failure of the first call, if that fails
    /// for good: the peer refuses, another node answers at its addresses, or none of them can be reached from here. Other failures
    /// are notices.
    ///
    /// # Errors
    /// As above, or the host shuts down.
    pub async fn run<F>(self, mut serve: impl FnMut(Session) -> F) -> Result<(), ConnectError>
    where
        F: Future<Output = ()>,
    {
        let mut pause = PAUSE_MIN;
        let mut is_first = true;
        let mut last_cause = String::new();
        loop {
            let calling = self.host.connect(self.peer, &self.addresses);
            let cause = match tokio::time::timeout(CALL_MAX, calling).await {
                Ok(Ok(session)) => {
                    pause = PAUSE_MIN;
                    is_first = false;
                    last_cause.clear();
                    drop(self.state.send_replace(Ok(session.clone())));
                    self.notices.show(&Notice::Connected);
                    let reason = tokio::select! {
                        reason = session.closed() => reason,
                        () = serve(session.clone()) => session.closed().await,
                    };
                    reason.to_string()
                }
                Ok(Err(error @ ConnectError::ShuttingDown)) => return Err(error),
                Ok(Err(error)) if is_first && !error.is_temporary() => return Err(error),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            drop(self.state.send_replace(Err(cause.clone())));
            if cause != last_cause {
                self.notices.show(&Notice::Disconnected(cause.clone()));
                last_cause = cause;
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

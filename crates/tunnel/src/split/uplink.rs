//! The session in which the streams of connections are opened: that in which the client is in the tunnel.

use anabranch::{Session, base::NodeId, net::WeakSession};
use anabranch_gateway::{
    Code, Refusal,
    uplink::{Uplink, Waiting},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// The session with the server, while there is one.
#[derive(Debug)]
pub(super) struct Joined {
    server: NodeId,
    session: watch::Sender<Option<WeakSession>>,
}

impl Joined {
    pub(super) fn new(server: NodeId) -> Self {
        Self {
            server,
            session: watch::Sender::new(None),
        }
    }

    pub(super) fn set(&self, session: Option<&Session>) {
        self.session.send_replace(session.map(Session::downgrade));
    }

    /// True while there is a session.
    pub(super) fn is_there(&self) -> bool {
        self.session.borrow().is_some()
    }
}

impl Uplink for Joined {
    fn peer(&self) -> NodeId {
        self.server
    }

    fn session(&self, by: Instant) -> Waiting<'_> {
        Box::pin(async move {
            let mut session = self.session.subscribe();
            let open = |session: &Option<WeakSession>| {
                let session = session.as_ref().and_then(WeakSession::upgrade);
                session.is_some_and(|session| session.close_reason().is_none())
            };
            let none = || Refusal::new(Code::TimedOut, "this machine is not in the tunnel");
            let found = timeout_at(by, session.wait_for(open)).await;
            let found = found.map_err(|_| none())?.map_err(|_| none())?;
            found
                .as_ref()
                .and_then(WeakSession::upgrade)
                .ok_or_else(none)
        })
    }
}

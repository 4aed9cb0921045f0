//! A line: the session with one member, and the streams that the overlay has on it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_base::{NodeId, SessionId};
use anabranch_net::{
    ConnectError, Host, Remotes, Session, Stream, StreamEvent, StreamFailure, WeakSession,
};
use anabranch_session::{ChannelStatus, Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::runner::Input;
use crate::rights::CODE_NO_RIGHT;

/// Prefix of the labels of the overlay's streams.
pub(crate) const LABELS: &str = "anabranch-overlay";
const GOSSIP: &str = "anabranch-overlay-gossip/1";
const PROBES: &str = "anabranch-overlay-probes/1";

/// The first message of a stream; it is not read.
const GREETING: Bytes = Bytes::from_static(&[0]);

/// Time that a member may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Gossip that waits longer is out of date.
const GOSSIP_LIFETIME: Duration = Duration::from_secs(2);
/// Test message lifetime: a link that takes longer is of no use.
const PROBE_LIFETIME: Duration = Duration::from_secs(30);

/// A session with a member.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) session: Session,
    gossip: Stream,
    probes: Stream,
    /// Node that opened the session.
    pub(super) opener: NodeId,
}

/// Sessions that are lines, for the rest of the node: nothing else is served on them. Bounded by the sessions of the host.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(Arc<Mutex<BTreeMap<SessionId, WeakSession>>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, WeakSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, line: &Line) {
        let mut all = self.all();
        all.retain(|_, session| session.upgrade().is_some());
        all.insert(line.session.id(), line.session.downgrade());
    }

    pub(super) fn contains(&self, id: SessionId) -> bool {
        self.all().contains_key(&id)
    }
}

/// Gossip goes both ways on one stream; the node that was dialled sends on it, too.
fn gossip_spec() -> StreamSpec {
    StreamSpec {
        reliable: false,
        order: Order::Unordered,
        priority: Priority::URGENT,
        lifetime: Some(GOSSIP_LIFETIME),
        duplex: true,
        label: GOSSIP.to_owned(),
        ..StreamSpec::default()
    }
}

/// Test messages compete for capacity as files do, so that their results apply to files. Each end has a stream of its own for
/// them, because only the end that opened a stream is notified of the outcome of its messages.
fn probes_spec() -> StreamSpec {
    StreamSpec {
        order: Order::Unordered,
        priority: Priority::BULK,
        lifetime: Some(PROBE_LIFETIME),
        notify: true,
        label: PROBES.to_owned(),
        ..StreamSpec::default()
    }
}

/// A member could not be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Silent,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Stream(#[from] StreamFailure),
}

impl Line {
    /// Dials a member.
    pub(super) async fn dial(
        host: &Host,
        peer: NodeId,
        remotes: Remotes,
    ) -> Result<Self, DialError> {
        let calling = tokio::time::timeout(TIMEOUT, host.connect(peer, remotes));
        let session = calling.await.map_err(|_| DialError::Silent)??;
        let gossip = session.open_stream(gossip_spec())?;
        // A stream appears at the other end with its first message.
        gossip.send(GREETING).await?;
        Ok(Self {
            probes: session.open_stream(probes_spec())?,
            opener: host.node_id(),
            session,
            gossip,
        })
    }

    /// Accepts a session that a member opened, if the member opens the overlay's stream on it; `None` if the session ends
    /// before.
    pub(super) async fn attend(session: Session) -> Option<Self> {
        let gossip = session.accept_stream_where(|spec| spec.label == GOSSIP);
        let gossip = gossip.await.ok()?;
        Some(Self {
            probes: session.open_stream(probes_spec()).ok()?,
            opener: session.peer(),
            session,
            gossip,
        })
    }

    /// Ends the session.
    pub(super) fn close(&self) {
        self.session
            .close(0, "the overlay no longer needs this session");
    }

    pub(super) fn peer(&self) -> NodeId {
        self.session.peer()
    }

    /// True if any of its channels is active.
    pub(super) fn is_active(&self) -> bool {
        let channels = self.session.channels();
        channels
            .iter()
            .any(|channel| channel.state == ChannelStatus::Active)
    }

    /// Sends gossip; a message that does not fit is dropped, which does no harm.
    pub(super) fn send_gossip(&self, message: Vec<u8>) {
        if let Err(error) = self.gossip.try_send(message.into()) {
            tracing::debug!(peer = %self.peer(), %error, "gossip dropped");
        }
    }

    /// Sends a test message of so many zeros and returns its number.
    pub(super) fn probe(&self, bytes: usize) -> Result<u64, StreamFailure> {
        self.probes.try_send(vec![0; bytes].into())
    }

    /// Refuses streams that are none of the overlay, until the session is over: their opener would wait for ever.
    pub(super) async fn refuse_others(self) {
        let is_other = |spec: &StreamSpec| !spec.label.starts_with(LABELS);
        while let Ok(stream) = self.session.accept_stream_where(is_other).await {
            // A direction that is already over has nothing to stop.
            let _ = stream.stop(CODE_NO_RIGHT);
            if stream.can_send() {
                let _ = stream.reset(CODE_NO_RIGHT);
            }
        }
    }

    /// Reports the member's messages and the outcome of test messages, until the session is over.
    pub(super) async fn listen(self, inputs: mpsc::Sender<Input>) {
        let (peer, session) = (self.peer(), self.session.id());
        let gossip = async {
            while let Ok(Some(adu)) = self.gossip.recv().await {
                if adu.data != GREETING {
                    let input = Input::Message(peer, adu.data);
                    inputs.send(input).await.ok();
                }
            }
        };
        let probes = async {
            while let Ok(event) = self.probes.next_event().await {
                let (adu, took) = match event {
                    StreamEvent::Acked { adu, rtt, .. } => (adu, Some(rtt)),
                    StreamEvent::Lost { adu, .. }
                    | StreamEvent::Expired { adu }
                    | StreamEvent::Dropped { adu } => (adu, None),
                    _ => continue,
                };
                let input = Input::Probed(session, adu, took);
                inputs.send(input).await.ok();
            }
        };
        // Test messages from the member are read and discarded.
        let drain = async {
            let is_probes = |spec: &StreamSpec| spec.label == PROBES;
            while let Ok(stream) = self.session.accept_stream_where(is_probes).await {
                while let Ok(Some(_)) = stream.recv().await {}
            }
        };
        tokio::join!(gossip, probes, drain, self.session.closed());
        inputs.send(Input::Over(peer, session)).await.ok();
    }
}

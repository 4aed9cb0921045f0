//! A line: the session with one member, and the streams that the overlay has on it.

use std::time::Duration;

use anabranch_base::NodeId;
use anabranch_net::{Host, Session, Stream, StreamEvent, StreamFailure};
use anabranch_session::{ChannelState, Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::runner::Input;

/// Prefix of the labels of the overlay's streams.
pub(crate) const LABELS: &str = "anabranch-overlay";
const GOSSIP: &str = "anabranch-overlay-gossip/1";
const PROBES: &str = "anabranch-overlay-probes/1";

/// The first message of a stream; nobody reads it.
const GREETING: Bytes = Bytes::from_static(&[0]);

/// How long a member may take to answer, and to open its streams.
const PATIENCE: Duration = Duration::from_secs(10);
/// Gossip that waits longer is out of date.
const GOSSIP_LIFETIME: Duration = Duration::from_secs(2);
/// A test message that takes longer says that the link is of no use.
const PROBE_LIFETIME: Duration = Duration::from_secs(30);

/// A session with a member.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) session: Session,
    gossip: Stream,
    probes: Stream,
    /// Which end opened it.
    pub(super) opener: NodeId,
}

fn spec(label: &str, reliable: bool, priority: Priority, lifetime: Duration) -> StreamSpec {
    StreamSpec {
        reliable,
        order: Order::Unordered,
        priority,
        lifetime: Some(lifetime),
        duplex: true,
        notify: label == PROBES,
        label: label.to_owned(),
        ..StreamSpec::default()
    }
}

impl Line {
    /// Calls a member.
    pub(super) async fn dial(
        host: &Host,
        peer: NodeId,
        addresses: &[std::net::SocketAddr],
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let session = tokio::time::timeout(PATIENCE, host.connect(peer, addresses)).await??;
        let gossip = session.open_stream(spec(GOSSIP, false, Priority::URGENT, GOSSIP_LIFETIME))?;
        // Test messages compete as files do: what they find is what a file would.
        let probes = session.open_stream(spec(PROBES, true, Priority::BULK, PROBE_LIFETIME))?;
        // A stream appears at the other end with its first message.
        for stream in [&gossip, &probes] {
            stream.send(GREETING).await?;
        }
        Ok(Self {
            session,
            gossip,
            probes,
            opener: host.node_id(),
        })
    }

    /// Takes the streams that a member opens on a session of its own; `None` when it opens none before the
    /// session ends.
    pub(super) async fn attend(session: Session) -> Option<Self> {
        let accept = |label: &'static str| {
            let session = session.clone();
            async move {
                let wanted = session.accept_stream_where(|spec| spec.label == label);
                wanted.await.ok()
            }
        };
        let gossip = accept(GOSSIP).await?;
        let probes = tokio::time::timeout(PATIENCE, accept(PROBES))
            .await
            .ok()??;
        let opener = session.peer();
        Some(Self {
            session,
            gossip,
            probes,
            opener,
        })
    }

    /// Ends the session.
    pub(super) fn close(&self) {
        self.session.close(0, "the overlay needs it no more");
    }

    pub(super) fn peer(&self) -> NodeId {
        self.session.peer()
    }

    /// Whether any of its channels is heard from.
    pub(super) fn is_heard(&self) -> bool {
        let channels = self.session.channels();
        channels
            .iter()
            .any(|channel| channel.state == ChannelState::Active)
    }

    /// Sends gossip; what does not fit is dropped, which is no harm.
    pub(super) fn tell(&self, message: Vec<u8>) {
        if let Err(error) = self.gossip.try_send(message.into()) {
            tracing::debug!(peer = %self.peer(), %error, "gossip dropped");
        }
    }

    /// Sends a test message of so many zeros; its number.
    pub(super) fn probe(&self, bytes: usize) -> Result<u64, StreamFailure> {
        self.probes.try_send(vec![0; bytes].into())
    }

    /// Reports what the member says and what becomes of test messages, until the session is over.
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
        // Test messages of the member are read and thrown away.
        let drain = async { while let Ok(Some(_)) = self.probes.recv().await {} };
        tokio::join!(gossip, probes, drain, self.session.closed());
        inputs.send(Input::Over(peer, session)).await.ok();
    }
}

//! Diverted connections: TCP connections that another part of the node has taken from their way, as a tunnel does with those of a
//! machine.
//!
//! The peer makes the connection first; the program's side is accepted then. So a program learns whether its target accepts, and when.

use std::{future::Future, net::SocketAddr, sync::Arc};

use anabranch::{Stream, StreamFailure, daemon::CODE_NO_RIGHT, rights::Transport};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    connections::{Connections, Means, OfSession, WeakConnections},
    endpoint::Endpoint,
    error::{Code, Refusal},
    forward::open,
    register::{Begun, Registered},
    relay::{Phase, abort, no_answer, relay},
    route::{Choice, Chooser},
    rules::Facts,
    socket::Socket,
    source::Source,
    uplink::{OnlyExit, Uplink},
    wire::{Action, CODE_PROTOCOL, CODE_RESET, Message},
};

/// A connection that the peer did not make.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotMade {
    /// A rule of this node refuses it.
    #[error(transparent)]
    Denied(Refusal),
    /// The peer or the target refuses, or there is no answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer serves no such connections, or gives this node no right to them.
    #[error("the peer makes no connections for this node")]
    NotServed,
}

/// Maker of diverted connections: asks a peer for each. Clones share the connections, which this does not keep.
#[derive(Clone, Debug)]
pub struct Diverter {
    connections: WeakConnections,
    means: Means,
    chooser: Chooser,
}

/// A connection that the peer has made; the program's side is still to be accepted. Dropped, it is reset.
#[derive(Debug)]
pub struct Made {
    target: Endpoint,
    means: Means,
    choice: Choice,
    flow: Registered,
    shared: OfSession,
    stream: Reset,
}

/// Stream that is reset when this is dropped before the relay has ended.
#[derive(Debug)]
struct Reset(Stream);

impl Drop for Reset {
    fn drop(&mut self) {
        // One that is over is not changed.
        abort(&self.0, CODE_RESET);
    }
}

impl Diverter {
    /// Connections that the peer of an uplink makes, on streams with this label; the rules choose their service.
    pub fn new(connections: &Connections, uplink: Arc<dyn Uplink>, label: &'static str) -> Self {
        let chooser = Chooser::new(None, Arc::new(OnlyExit(uplink)));
        Self {
            connections: connections.downgrade(),
            means: connections.means().clone(),
            chooser: chooser.with_label(label),
        }
    }

    /// Runs the task of a connection; false if there are as many as may be.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let Some(connections) = self.connections.upgrade() else {
            return false;
        };
        let Some(place) = connections.try_place() else {
            return false;
        };
        connections.spawn(async move {
            let _place = place;
            task.await;
        });
        true
    }

    /// Has the peer connect to `target` for the program at `client`. Waits for a session, and for the answer, as long as the timeouts
    /// of the connections say.
    ///
    /// # Errors
    /// The connection is not made.
    pub async fn ask(&self, client: SocketAddr, target: SocketAddr) -> Result<Made, NotMade> {
        let means = &self.means;
        let by = Instant::now() + means.timeouts.connect();
        let source = Source::Address {
            transport: Transport::Tcp,
            client,
            at: target,
        };
        let target = Endpoint::tcp(target);
        let facts = Facts {
            target: &target,
            source: &source,
            dscp: None,
        };
        let choice = self.chooser.choose(means, facts).await;
        let choice = choice.map_err(NotMade::Denied)?;
        let flow = means.register.enter(Begun::by(&choice, source, &target));
        let action = Action::Connect(target.clone());
        let (session, stream) = open(&choice, &target, &action, &means.notices, by).await?;
        let stream = Reset(stream);
        let first = timeout_at(by, stream.0.recv()).await;
        let first = first.map_err(|_| no_answer())?;
        let answer = match first.map_err(not_answered)? {
            Some(adu) => Message::decode(adu.data),
            None => return Err(Refusal::new(Code::Failed, "the peer ended the stream").into()),
        };
        match answer {
            Ok(Message::Answer(answer)) => answer?,
            _ => {
                abort(&stream.0, CODE_PROTOCOL);
                let text = "the peer does not keep to the protocol";
                return Err(Refusal::new(Code::Failed, text).into());
            }
        };
        Ok(Made {
            shared: means.of(&session),
            target,
            means: means.clone(),
            choice,
            flow,
            stream,
        })
    }
}

/// Meaning of a stream that failed before its answer.
fn not_answered(failure: StreamFailure) -> NotMade {
    match failure {
        StreamFailure::Reset(CODE_NO_RIGHT) | StreamFailure::Stopped(CODE_NO_RIGHT) => {
            NotMade::NotServed
        }
        failure => Refusal::new(Code::Failed, failure.to_string()).into(),
    }
}

impl Made {
    /// Carries the bytes between the peer and the program's side, which was accepted, until both have ended, or either fails.
    pub async fn carry(self, accepted: TcpStream) {
        let socket = Socket::from(accepted);
        let stream = &self.stream.0;
        let relaying = relay(socket, stream, Phase::Open, self.shared, &self.flow);
        let service = &self.choice.service;
        let watching = service.watch(stream, &self.target, &self.means.notices, &self.flow);
        tokio::select! {
            result = relaying => if let Err(broken) = result {
                tracing::debug!(target = %self.target, %broken, "a connection ended");
            },
            () = watching => {}
        }
    }
}

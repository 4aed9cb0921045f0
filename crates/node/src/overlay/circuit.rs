//! Path over relays, opened and kept by this node: carries the requests of its [`RelayedPath`] over the sessions with the
//! relays.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::{
    Clock, Session, Stream, limited,
    relay::{Answer, Broken, CircuitId, Origin, RelayedPath, RelayedPathSpec, Request},
};
use anabranch_overlay::Fault;
use anabranch_session::{ChannelStatus, StreamSpec};
use tokio::{sync::mpsc, task::JoinSet};

use super::runner::Input;

/// Label of the streams that carry requests for circuits.
pub(super) const RELAYS: &str = "anabranch-overlay-relay/1";
/// Lifetime requested; a circuit whose source is gone ends after this.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time that a relay may take to acknowledge that a circuit has ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// Request for a path from which nothing comes back: its first relay shall learn anew where packets come from
/// ([`RelayedPath::relearn`]).
#[derive(Debug)]
pub(super) struct Relearn;

/// Parameters of a path, and the channel for its events.
pub(super) struct Order {
    pub(super) subscription: u64,
    pub(super) source: NodeId,
    /// The sessions with its relays, in order.
    pub(super) sessions: Vec<Session>,
    pub(super) destination: NodeId,
    /// Circuit ID that this node has not used for another path.
    pub(super) circuit: CircuitId,
    /// Rate requested; each relay grants what it has, up to the source's quota.
    pub(super) rate: Rate,
    pub(super) clock: Clock,
    pub(super) report: mpsc::Sender<Input>,
    /// Requests from the user of the path; the path ends when the sender is dropped.
    pub(super) wishes: mpsc::Receiver<Relearn>,
}

/// Address at which the peer of a session is reached now.
fn remote_of(session: &Session) -> Option<IpAddr> {
    let channels = session.channels();
    let mut active = channels
        .iter()
        .filter(|channel| channel.state == ChannelStatus::Active);
    let channel = active.next().or(channels.first())?;
    Some(channel.remote.ip().to_canonical())
}

impl Order {
    fn relays(&self) -> Vec<NodeId> {
        self.sessions.iter().map(Session::peer).collect()
    }

    fn relayed_path(&self) -> Option<RelayedPath> {
        let spec = RelayedPathSpec {
            circuit: self.circuit,
            source: self.source,
            relays: self.relays(),
            first: remote_of(self.sessions.first()?)?,
            destination: self.destination,
            // It may differ from the address that this node knows.
            towards: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            origin: Origin::Known,
            rate: self.rate,
            lifetime: LIFETIME,
        };
        RelayedPath::new(spec).ok()
    }
}

/// The stream of requests to each relay, and the answers on all of them; `None`: no more will come.
struct Talks {
    streams: Vec<Stream>,
    answers: mpsc::Receiver<(NodeId, Option<Answer>)>,
    /// Tasks that read the answers; they end with this.
    _listeners: JoinSet<()>,
}

impl Talks {
    fn open(sessions: &[Session]) -> Option<Self> {
        let (sender, answers) = mpsc::channel(sessions.len().max(1));
        let mut listeners = JoinSet::new();
        let mut streams = Vec::new();
        for session in sessions {
            let spec = StreamSpec {
                duplex: true,
                ..StreamSpec::messages(RELAYS)
            };
            let stream = session.open_stream(spec).ok()?;
            let (listened, relay, sender) = (stream.clone(), session.peer(), sender.clone());
            listeners.spawn(async move {
                loop {
                    let adu = listened.recv().await.ok().flatten();
                    let answer = adu.and_then(|adu| Answer::decode(&adu.data).ok());
                    let is_over = answer.is_none();
                    if sender.send((relay, answer)).await.is_err() || is_over {
                        return;
                    }
                }
            });
            streams.push(stream);
        }
        Some(Self {
            streams,
            answers,
            _listeners: listeners,
        })
    }

    /// Sends a request to the relay at this position in the path; false if it cannot be sent.
    fn ask(&self, place: usize, request: &Request) -> bool {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.streams[place].try_send(bytes.into()).is_ok()
    }

    /// Waits for a limited time until the relays have received everything.
    async fn close(self) {
        for stream in &self.streams {
            // If its session is over, there is nothing left to send.
            if stream.finish().is_ok() {
                tokio::time::timeout(FAREWELL, stream.delivered())
                    .await
                    .ok();
            }
        }
    }
}

/// Opens a path and keeps it until it is no longer wanted or breaks; reports when it is open, and when it is broken.
pub(super) async fn keep(mut order: Order) {
    let relays = order.relays();
    let Some((mut relayed_path, mut talks)) =
        order.relayed_path().zip(Talks::open(&order.sessions))
    else {
        // A session with a relay has ended.
        order
            .report
            .send(Input::CircuitDown(
                order.subscription,
                relays,
                Fault::Somewhere,
            ))
            .await
            .ok();
        return;
    };
    let (mut stands, mut is_broken) = (false, false);
    loop {
        while let Some((relay, request)) = relayed_path.next(order.clock.now()) {
            let place = relays.iter().position(|&other| other == relay);
            if !place.is_some_and(|place| talks.ask(place, &request)) {
                relayed_path.lost(relay);
            }
        }
        let granted = relayed_path.entrance().zip(relayed_path.rate());
        if let Some(granted) = granted.filter(|_| !stands) {
            stands = true;
            let up = Input::CircuitUp(order.subscription, relays.clone(), granted);
            order.report.send(up).await.ok();
        }
        if let Some(why) = relayed_path.broken().filter(|_| !is_broken) {
            is_broken = true;
            if why != Broken::Closed {
                limited!(info, subscription = order.subscription, %why, "path over relays broken");
                let down = Input::CircuitDown(order.subscription, relays.clone(), why.into());
                order.report.send(down).await.ok();
            }
        }
        if relayed_path.is_over() {
            break;
        }
        let now = order.clock.now();
        let pause = relayed_path
            .timeout()
            .map_or(LIFETIME, |due| due.since(now));
        tokio::select! {
            Some((relay, answer)) = talks.answers.recv() => match answer {
                Some(answer) => relayed_path.answer(order.clock.now(), relay, &answer),
                None => relayed_path.lost(relay),
            },
            wish = order.wishes.recv(), if !is_broken => match wish {
                Some(Relearn) => relayed_path.relearn(order.clock.now()),
                None => relayed_path.close(),
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
    talks.close().await;
}

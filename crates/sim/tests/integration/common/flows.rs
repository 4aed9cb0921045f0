//! Nodes with sessions to several peers, and streams at given times.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate, SessionId, StreamId};
use anabranch_session::{
    Event, Explanation, Guarantee, Link, SendError, StreamError, StreamSpec, Tenant,
};
use anabranch_sim::{App, Context, World};
use bytes::Bytes;

const TICK: Duration = Duration::from_millis(20);

/// A stream of a session: packets in time, or as many as the session takes.
pub(crate) struct Flow {
    pub(crate) session: usize,
    pub(crate) spec: StreamSpec,
    pub(crate) rate: Option<Rate>,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    pub(crate) stream: Option<StreamId>,
    pub(crate) refusal: Option<StreamError>,
    pub(crate) owed_bytes: f64,
}

impl Flow {
    pub(crate) fn bulk(session: usize, [from, until]: [u64; 2]) -> Self {
        Self {
            session,
            spec: StreamSpec::default(),
            rate: None,
            from: Instant::from_secs(from),
            until: Instant::from_secs(until),
            stream: None,
            refusal: None,
            owed_bytes: 0.0,
        }
    }

    /// Sends so many Mbit/s, and asks for a promise of that.
    pub(crate) fn promised(session: usize, mbps: u64, [from, until]: [u64; 2]) -> Self {
        let rate = Rate::from_mbps(mbps);
        Self {
            spec: StreamSpec::default().with_guarantee(Guarantee::rate(rate, 0.9)),
            rate: Some(rate),
            ..Self::bulk(session, [from, until])
        }
    }

    pub(crate) fn of(mut self, tenant: Tenant) -> Self {
        self.spec.tenant = Some(tenant);
        self
    }

    pub(crate) fn waiting(mut self) -> Self {
        let guarantee = self.spec.guarantee.take().expect("it asks for a promise");
        self.spec = self.spec.with_guarantee(guarantee.waiting());
        self
    }

    fn step(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        if now < self.from || self.refusal.is_some() {
            return;
        }
        let stream = match self.stream {
            Some(stream) => stream,
            None => match context.open(session, self.spec.clone()) {
                Ok(stream) => *self.stream.insert(stream),
                Err(error) => {
                    self.refusal = Some(error);
                    return;
                }
            },
        };
        if now >= self.until {
            return;
        }
        let bytes = match self.rate {
            None => usize::MAX,
            Some(rate) => {
                self.owed_bytes += rate.bytes_in(TICK) as f64;
                self.owed_bytes as usize
            }
        };
        let mut sent = 0;
        while sent + 1_000 <= bytes {
            match context.send(session, stream, Bytes::from_static(&[7; 1_000])) {
                Ok(_) => sent += 1_000,
                Err(SendError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.owed_bytes = (self.owed_bytes - sent as f64).max(0.0);
    }
}

/// Sessions with several peers. Key: node.
pub(crate) struct Sources {
    pub(crate) peers: Vec<(NodeId, Vec<Link>)>,
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) wake_at: Instant,
}

impl Sources {
    /// Without peers; the world adds them.
    pub(crate) fn new(flows: Vec<Flow>) -> Self {
        Self {
            peers: Vec::new(),
            sessions: Vec::new(),
            flows,
            wake_at: Instant::EPOCH,
        }
    }
}

impl App for Sources {
    fn on_event(&mut self, _: &mut Context<'_>, event: Event) {
        assert!(!matches!(event, Event::Closed { .. }), "{event:?}");
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.sessions.is_empty() {
            let peers = self.peers.iter();
            let connected = peers.map(|(peer, links)| context.connect(*peer, links.clone()));
            self.sessions = connected.collect();
        }
        for flow in &mut self.flows {
            flow.step(context, self.sessions[flow.session]);
        }
        self.wake_at = context.now() + TICK;
    }

    fn next_wake(&self) -> Option<Instant> {
        Some(self.wake_at)
    }
}

/// The explanation of a flow's promise.
pub(crate) fn explain(world: &mut World, node: usize, flow: usize) -> Explanation {
    let sources = world.app::<Sources>(node);
    let flow = &sources.flows[flow];
    let session = sources.sessions[flow.session];
    let stream = flow
        .stream
        .unwrap_or_else(|| panic!("refused: {:?}", flow.refusal));
    let session = world.engine(node).session(session).expect("it is open");
    session
        .stream(stream)
        .explain()
        .expect("it asked for a promise")
}

/// True if the promise that a flow asked for was refused.
pub(crate) fn is_refused(world: &mut World, node: usize, flow: usize) -> bool {
    let flow = &world.app::<Sources>(node).flows[flow];
    assert!(flow.stream.is_some() || flow.refusal.is_some(), "it asked");
    matches!(flow.refusal, Some(StreamError::Refused(_)))
}

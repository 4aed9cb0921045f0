//! Ready-made applications for scenarios.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_session::{
    Event, Link, PromiseEvent, SendError, SessionCloseReason, StreamEvent, StreamSpec,
};
use bytes::Bytes;

use crate::app::{App, Context};

/// Load of a [`Sender`] on one stream.
#[derive(Clone, Debug)]
pub struct Load {
    /// Specification of the stream. Its label names it in the receiver's records.
    pub spec: StreamSpec,
    /// Size of one ADU in bytes.
    pub adu_bytes: usize,
    /// Time between two ADUs; `None`: as fast as the stream accepts them.
    pub every: Option<Duration>,
    /// Number of ADUs; then the stream is finished.
    pub adus: u64,
    /// Time at which to begin.
    pub start: Instant,
}

impl Load {
    /// `bytes` in ADUs of 64 KiB, as fast as possible.
    pub fn bulk(bytes: u64) -> Self {
        let adu_bytes = 64 << 10;
        Self {
            spec: StreamSpec::bulk("bulk"),
            adu_bytes,
            every: None,
            adus: bytes.div_ceil(adu_bytes as u64),
            start: Instant::EPOCH,
        }
    }

    /// Reliable urgent messages: `adus` of them, `adu_bytes` each, one every `every`.
    pub fn messages(adu_bytes: usize, every: Duration, adus: u64) -> Self {
        Self {
            spec: StreamSpec::messages("messages"),
            adu_bytes,
            every: Some(every),
            adus,
            start: Instant::EPOCH,
        }
    }
}

#[derive(Debug)]
struct Running {
    load: Load,
    stream: Option<StreamId>,
    /// True if the stream's buffer was full at the last attempt.
    is_blocked: bool,
    sent: u64,
    delivered: bool,
    expired: u64,
    lost: u64,
    acked: u64,
}

/// Application that opens a session and sends its loads. ADUs begin with the virtual time at which they were sent and
/// their number, so that a [`Receiver`] can check and measure them.
#[derive(Debug)]
pub struct Sender {
    peer: NodeId,
    links: Vec<Link>,
    session: Option<SessionId>,
    running: Vec<Running>,
    /// Close reason of the session, if it has ended.
    pub closed: Option<SessionCloseReason>,
    connect_at: Option<Instant>,
}

/// Size of the head of every ADU of a [`Sender`]: time and number.
pub const HEAD_BYTES: usize = 16;

impl Sender {
    /// A sender to `peer`; [`Sender::dial`] starts it.
    pub fn new(peer: NodeId, loads: Vec<Load>) -> Self {
        Self {
            peer,
            links: Vec::new(),
            session: None,
            running: loads
                .into_iter()
                .map(|load| Running {
                    load,
                    stream: None,
                    is_blocked: false,
                    sent: 0,
                    delivered: false,
                    expired: 0,
                    lost: 0,
                    acked: 0,
                })
                .collect(),
            closed: None,
            connect_at: None,
        }
    }

    /// Opens the session at `at`, over `links`.
    pub fn dial(&mut self, at: Instant, links: Vec<Link>) {
        self.links = links;
        self.connect_at = Some(at);
    }

    /// Its session.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// True if every load has been delivered.
    pub fn is_done(&self) -> bool {
        self.running.iter().all(|running| running.delivered)
    }

    /// ADUs of the load labelled `label`: sent, acknowledged, lost, expired.
    pub fn outcomes(&self, label: &str) -> Option<(u64, u64, u64, u64)> {
        let running = self.find(label)?;
        Some((running.sent, running.acked, running.lost, running.expired))
    }

    fn find(&self, label: &str) -> Option<&Running> {
        self.running
            .iter()
            .find(|running| running.load.spec.label == label)
    }

    fn by_stream(&mut self, stream: StreamId) -> Option<&mut Running> {
        self.running
            .iter_mut()
            .find(|running| running.stream == Some(stream))
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(session) = self.session.filter(|_| self.closed.is_none()) else {
            return;
        };
        for running in &mut self.running {
            if now < running.load.start || running.sent >= running.load.adus {
                continue;
            }
            if running.stream.is_none() {
                running.stream = context.open(session, running.load.spec.clone()).ok();
            }
            let Some(stream) = running.stream else {
                continue;
            };
            while running.sent < running.load.adus && !running.is_blocked {
                let due = running.due();
                if due > now {
                    break;
                }
                let stamp = if running.load.every.is_some() {
                    due
                } else {
                    now
                };
                let adu = make_adu(stamp, running.sent, running.load.adu_bytes);
                match context.send(session, stream, adu) {
                    Ok(_) => running.sent += 1,
                    Err(SendError::Full(_)) => running.is_blocked = true,
                    Err(_) => return,
                }
            }
            if running.sent == running.load.adus {
                context.finish(session, stream);
            }
        }
    }
}

impl Running {
    /// Time at which the next ADU is due.
    fn due(&self) -> Instant {
        match self.load.every {
            Some(every) => {
                let nanos = every.as_nanos() as u64;
                self.load.start + Duration::from_nanos(nanos.saturating_mul(self.sent))
            }
            None => self.load.start,
        }
    }
}

/// An ADU of `bytes` (at least [`HEAD_BYTES`]): time, number, and a pattern made from the number.
pub fn make_adu(now: Instant, number: u64, bytes: usize) -> Bytes {
    let mut data = Vec::with_capacity(bytes.max(HEAD_BYTES));
    data.extend_from_slice(&now.as_nanos().to_le_bytes());
    data.extend_from_slice(&number.to_le_bytes());
    data.resize(bytes.max(HEAD_BYTES), pattern(number));
    Bytes::from(data)
}

fn pattern(number: u64) -> u8 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Reads time and number from an ADU made by [`make_adu`]; `None` if its bytes were changed.
pub fn read_adu(data: &[u8]) -> Option<(Instant, u64)> {
    let nanos = u64::from_le_bytes(data.get(..8)?.try_into().ok()?);
    let number = u64::from_le_bytes(data.get(8..16)?.try_into().ok()?);
    let intact = data[16..].iter().all(|&byte| byte == pattern(number));
    intact.then_some((Instant::from_nanos(nanos), number))
}

impl App for Sender {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                self.session.get_or_insert(session);
            }
            Event::Closed { session, reason } => {
                if Some(session) == self.session {
                    self.closed = Some(reason);
                    self.pump(context);
                }
                return;
            }
            Event::Writable { stream, .. } => {
                if let Some(running) = self.by_stream(stream) {
                    running.is_blocked = false;
                }
            }
            Event::Delivered { stream, .. } => {
                if let Some(running) = self.by_stream(stream) {
                    running.delivered = true;
                }
            }
            Event::Promise {
                stream,
                event: PromiseEvent::Closed(_),
                ..
            } => {
                if let Some(running) = self.by_stream(stream) {
                    running.load.adus = running.sent;
                }
            }
            Event::Stream {
                stream,
                event: StreamEvent::Acked { .. },
                ..
            } => {
                if let Some(running) = self.by_stream(stream) {
                    running.acked += 1;
                }
            }
            Event::Stream {
                stream,
                event: StreamEvent::Lost { .. },
                ..
            } => {
                if let Some(running) = self.by_stream(stream) {
                    running.lost += 1;
                }
            }
            Event::Stream {
                stream,
                event: StreamEvent::Expired { .. },
                ..
            } => {
                if let Some(running) = self.by_stream(stream) {
                    running.expired += 1;
                }
            }
            _ => {}
        }
        self.pump(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.session.is_none() && self.connect_at.is_some_and(|at| at <= context.now()) {
            self.session = Some(context.connect(self.peer, self.links.clone()));
            self.connect_at = None;
        }
        self.pump(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.closed.is_some() {
            return None;
        }
        let timed = |running: &Running| {
            let waiting = running.sent < running.load.adus
                && !running.is_blocked
                && (running.load.every.is_some() || running.stream.is_none());
            waiting.then(|| running.due())
        };
        let due = self
            .session
            .and_then(|_| self.running.iter().filter_map(timed).min());
        [self.connect_at, due].into_iter().flatten().min()
    }
}

/// Receiver's record of one stream.
#[derive(Debug, Clone, Default)]
pub struct StreamRecord {
    /// ADUs read, in order of arrival.
    pub numbers: Vec<u64>,
    /// Their one-way delays, from `send` to delivery.
    pub delays: Vec<Duration>,
    /// Bytes read.
    pub bytes: u64,
    /// Time at which the first and the last ADU were read.
    pub first_at: Option<Instant>,
    /// See `first_at`.
    pub last_at: Option<Instant>,
    /// Longest time between two ADUs.
    pub gap_max: Duration,
    /// Time at which the longest gap ended.
    pub gap_at: Option<Instant>,
    /// ADUs whose bytes were changed.
    pub corrupt: u64,
    /// True if the peer finished the stream and all of it was read.
    pub finished: bool,
    /// Bytes read per 100 ms of virtual time.
    pub per_100ms: Vec<u64>,
}

impl StreamRecord {
    /// Delay that the fraction `q` of the ADUs did not exceed; zero if there are none.
    pub fn delay_quantile(&self, q: f64) -> Duration {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let index = ((delays.len() as f64 * q).ceil() as usize).saturating_sub(1);
        delays.get(index).copied().unwrap_or_default()
    }
}

/// Application that accepts sessions and reads everything, keeping a [`StreamRecord`] per label.
#[derive(Debug, Default)]
pub struct Receiver {
    /// Streams by label.
    pub records: BTreeMap<String, StreamRecord>,
    labels: BTreeMap<(SessionId, StreamId), String>,
    /// Sessions that the peer opened.
    pub sessions: u64,
    /// Close reasons of the sessions that ended.
    pub closed: Vec<SessionCloseReason>,
    /// True to read nothing: for tests of flow control.
    pub deaf: bool,
    /// ADUs that had arrived unread when a session ended.
    pub left: usize,
}

impl Receiver {
    /// A receiver that reads everything immediately.
    pub fn new() -> Self {
        Self::default()
    }

    /// The record of a label; empty if no such stream arrived.
    pub fn record(&self, label: &str) -> StreamRecord {
        self.records.get(label).cloned().unwrap_or_default()
    }

    fn read(&mut self, context: &mut Context<'_>, session: SessionId, stream: StreamId) {
        if self.deaf {
            return;
        }
        let Some(label) = self.labels.get(&(session, stream)) else {
            return;
        };
        let record = self.records.entry(label.clone()).or_default();
        let now = context.now();
        while let Some(adu) = context.receive(session, stream) {
            if let Some(last) = record.last_at
                && now.since(last) > record.gap_max
            {
                record.gap_max = now.since(last);
                record.gap_at = Some(now);
            }
            record.first_at.get_or_insert(now);
            record.last_at = Some(now);
            record.bytes += adu.data.len() as u64;
            let slot = (now.as_nanos() / 100_000_000) as usize;
            if record.per_100ms.len() <= slot {
                record.per_100ms.resize(slot + 1, 0);
            }
            record.per_100ms[slot] += adu.data.len() as u64;
            match read_adu(&adu.data) {
                Some((sent_at, number)) => {
                    record.numbers.push(number);
                    record.delays.push(now.since(sent_at));
                }
                None => record.corrupt += 1,
            }
        }
    }
}

impl App for Receiver {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { .. } => self.sessions += 1,
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => {
                // A session that replaces another sends everything again: its records begin anew.
                let replaced =
                    |of: &SessionId, label: &String| *of != session && *label == spec.label;
                let before = self.labels.len();
                self.labels.retain(|(of, _), label| !replaced(of, label));
                if self.labels.len() < before {
                    self.records.remove(&spec.label);
                }
                self.labels.insert((session, stream), spec.label);
            }
            Event::Readable { session, stream } => self.read(context, session, stream),
            Event::Finished { session, stream } => {
                if let Some(label) = self.labels.get(&(session, stream)) {
                    self.records.entry(label.clone()).or_default().finished = true;
                }
            }
            Event::Closed { reason, .. } => {
                self.closed.push(reason);
            }
            Event::Remainder { adus, .. } => {
                self.left += adus.len();
            }
            _ => {}
        }
    }
}

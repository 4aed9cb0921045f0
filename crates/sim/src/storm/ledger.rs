//! Ledger of a storm: every ADU by its identity, from both ends. The checks read it when all is over; it
//! survives restarts of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use anabranch_base::{Instant, SessionId};
use anabranch_session::{Missing, SessionCloseReason};

/// One direction of a stream in one life of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    /// Counts the sessions that the opening node has had in this storm.
    pub life: u32,
    /// The node that opened the stream.
    pub side: usize,
    /// Which of its loads.
    pub load: usize,
    /// From the accepting node to the opener.
    pub is_back: bool,
}

impl Flow {
    /// As it stands in ADUs.
    pub(super) fn word(self) -> u32 {
        self.life << 8 | (self.load as u32) << 2 | (self.side as u32) << 1 | u32::from(self.is_back)
    }

    /// The label of its stream.
    pub(super) fn label(self) -> String {
        format!("{}/{}/{}", self.life, self.side, self.load)
    }

    /// The flow from the opener of the stream with this label.
    pub(super) fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('/').map(str::parse::<u32>);
        let mut next = || parts.next()?.ok();
        Some(Self {
            life: next()?,
            side: next()? as usize,
            load: next()? as usize,
            is_back: false,
        })
    }

    /// The other direction of the same stream.
    pub(super) fn back(self) -> Self {
        Self {
            is_back: !self.is_back,
            ..self
        }
    }

    /// The node that sends.
    pub(super) fn sender(self) -> usize {
        if self.is_back {
            1 - self.side
        } else {
            self.side
        }
    }
}

/// What a sender was told of an ADU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AduOutcome {
    Acked,
    Lost {
        arrived: Vec<Range<u64>>,
        lost: Vec<Range<u64>>,
    },
    Expired,
    Dropped,
}

/// An ADU as its sender knows it.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub at: Instant,
    pub bytes: usize,
    pub outcomes: Vec<(Instant, AduOutcome)>,
}

/// An ADU as its receiver got it.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub at: Instant,
    /// Time at which the packet left that brought it; `None`: the application had let it wait.
    pub departed: Option<Instant>,
    /// Number by its content; `None` when that is not an ADU of this flow.
    pub number: Option<u64>,
    /// Number by the engine.
    pub sequence: u64,
    pub is_intact: bool,
    pub bytes: usize,
    pub missing: Missing,
}

/// How an end of a flow learned that it was over.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// The receiver: everything was read.
    pub finished: u32,
    /// The sender: everything is at the peer's node.
    pub delivered: u32,
    /// The sender gave it up with this code; the receiver heard of it with that one.
    pub reset: Option<u32>,
    pub reset_heard: Option<u32>,
    /// The receiver wanted no more, with this code; the sender heard of it with that one.
    pub stopped: Option<u32>,
    pub stopped_heard: Option<u32>,
    /// ADUs delivered after the receiver knew of either.
    pub late: u64,
}

impl Ends {
    fn is_closed_for_reading(&self) -> bool {
        self.reset_heard.is_some() || self.stopped.is_some()
    }

    /// One of the two ends wanted no more of it.
    pub(super) fn is_cut_short(&self) -> bool {
        self.reset.is_some() || self.stopped.is_some()
    }
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub sent: Vec<Sent>,
    pub delivered: Vec<Delivery>,
    pub ends: Ends,
    /// Fates of numbers that were never sent.
    pub stray_outcomes: u64,
    /// The engine numbered an ADU in another way than its application.
    pub misnumbered: u64,
    /// Its session ended before it.
    pub is_orphaned: bool,
    /// Bytes that the receiver has read.
    pub read_bytes: u64,
    /// ADUs that the receiver's engine says it dropped for want of room.
    pub dropped_adus: u64,
}

/// A session of a node that ended.
#[derive(Debug, Clone)]
pub(super) struct Closed {
    pub side: usize,
    pub at: Instant,
    pub reason: SessionCloseReason,
}

/// A bound and the most that came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauge {
    /// The largest share of the bound that was used.
    pub share: f64,
    pub value: u64,
    pub bound: u64,
}

impl Gauge {
    pub(super) fn note(&mut self, value: u64, bound: u64) {
        let share = value as f64 / bound.max(1) as f64;
        if share > self.share {
            *self = Self {
                share,
                value,
                bound,
            };
        }
    }
}

/// Gauges of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauges {
    pub send_buffer: Gauge,
    pub session_window: Gauge,
    pub stream_window: Gauge,
    pub copies: Gauge,
    pub cap: Gauge,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub flows: BTreeMap<Flow, Account>,
    pub closed: Vec<Closed>,
    /// Sessions from node to node, as each side counted them.
    pub sessions: [Vec<SessionId>; 2],
    pub gauges: [Gauges; 2],
    /// The most that a stream's send buffer was allowed to hold: long fat paths raise it.
    pub send_buffer_max: [u64; 2],
    /// Bytes held by the process beyond what it held at the start, against what it may.
    pub memory: Gauge,
    /// Sessions that the hostile peer had with its victim.
    pub hostile_sessions: u64,
    lives: u32,
    /// Lives that are over.
    ended: BTreeSet<u32>,
}

impl Ledger {
    pub(super) fn new_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    pub(super) fn account(&mut self, flow: Flow) -> &mut Account {
        // A stream that was under way may open after its opener's life.
        let is_orphaned = self.ended.contains(&flow.life);
        self.flows.entry(flow).or_insert_with(|| Account {
            is_orphaned,
            ..Account::default()
        })
    }

    pub(super) fn sent(&mut self, flow: Flow, at: Instant, bytes: usize, sequence: u64) {
        let account = self.account(flow);
        account.misnumbered += u64::from(sequence != account.sent.len() as u64);
        account.sent.push(Sent {
            at,
            bytes,
            outcomes: Vec::new(),
        });
    }

    pub(super) fn outcome(&mut self, flow: Flow, at: Instant, sequence: u64, outcome: AduOutcome) {
        let account = self.account(flow);
        match account.sent.get_mut(sequence as usize) {
            Some(sent) => sent.outcomes.push((at, outcome)),
            None => account.stray_outcomes += 1,
        }
    }

    pub(super) fn delivered(&mut self, flow: Flow, delivery: Delivery) {
        let account = self.account(flow);
        account.read_bytes += delivery.bytes as u64;
        account.ends.late += u64::from(account.ends.is_closed_for_reading());
        account.delivered.push(delivery);
    }

    /// The node that accepted a stream has to forget what it got and what it answered, because the opener begins anew.
    pub(super) fn begin_anew(&mut self, flow: Flow) {
        let account = self.account(flow);
        if account.is_orphaned {
            return;
        }
        account.delivered.clear();
        account.read_bytes = 0;
        account.ends.finished = 0;
        account.ends.reset_heard = None;
        account.ends.stopped = None;
        account.ends.late = 0;
        // What the opener got of the answers stays: it must not come twice.
        if let Some(answers) = self.flows.get_mut(&flow.back()) {
            answers.sent.clear();
            answers.stray_outcomes = 0;
            answers.misnumbered = 0;
            answers.ends.delivered = 0;
            answers.ends.stopped_heard = None;
        }
    }

    /// A life is over, and its flows with it.
    pub(super) fn end(&mut self, life: u32) {
        self.ended.insert(life);
        for (flow, account) in &mut self.flows {
            account.is_orphaned |= flow.life == life;
        }
    }
}

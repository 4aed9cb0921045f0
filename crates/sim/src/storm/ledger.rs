//! Ledger of a storm: every ADU by its identity, from both ends. The checks read it at the end; it survives restarts of
//! nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use anabranch_base::{Instant, SessionId};
use anabranch_session::{Missing, SessionCloseReason};

use super::invariant::Invariant;

/// One direction of a stream in one life of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    /// Number of the session among those of the opening node in this storm.
    pub life: u32,
    /// The node that opened the stream.
    pub side: usize,
    /// Index of its load.
    pub load: usize,
    /// True for the direction from the accepting node to the opener.
    pub is_back: bool,
}

impl Flow {
    /// The flow as encoded in ADUs.
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

/// Outcome of an ADU as reported to its sender.
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

/// Sender's record of an ADU.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub at: Instant,
    pub bytes: usize,
    pub outcomes: Vec<(Instant, AduOutcome)>,
}

/// Receiver's record of an ADU.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub at: Instant,
    /// Time at which the packet that completed it was sent; `None` if the application had delayed reading it.
    pub departed: Option<Instant>,
    /// Number by its content; `None` if the content is not an ADU of this flow.
    pub number: Option<u64>,
    /// Number assigned by the engine.
    pub sequence: u64,
    pub is_intact: bool,
    pub bytes: usize,
    pub missing: Missing,
}

/// Notifications of a flow's end at both of its ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// Count at the receiver: everything was read.
    pub finished: u32,
    /// Count at the sender: everything is at the peer's node.
    pub delivered: u32,
    /// Code with which the sender reset it; `reset_notified` is the code that the receiver was notified of.
    pub reset: Option<u32>,
    pub reset_notified: Option<u32>,
    /// Code with which the receiver stopped it; `stopped_notified` is the code that the sender was notified of.
    pub stopped: Option<u32>,
    pub stopped_notified: Option<u32>,
    /// ADUs delivered after the receiver knew of either.
    pub late: u64,
}

impl Ends {
    fn is_closed_for_reading(&self) -> bool {
        self.reset_notified.is_some() || self.stopped.is_some()
    }

    /// True if one of the two ends gave it up.
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
    /// Outcomes of numbers that were never sent.
    pub stray_outcomes: u64,
    /// ADUs whose number at the engine differs from the application's.
    pub misnumbered: u64,
    /// True if its session ended before it.
    pub is_orphaned: bool,
    /// ADUs that the sender's application has discarded.
    pub discarded_adus: u64,
    /// Bytes that the receiver has read.
    pub read_bytes: u64,
    /// ADUs that the receiver's engine reports as dropped for lack of space.
    pub dropped_adus: u64,
}

/// A session of a node that ended.
#[derive(Debug, Clone)]
pub(super) struct Closed {
    pub side: usize,
    pub at: Instant,
    pub reason: SessionCloseReason,
}

/// A bound and the largest share of it that was used.
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
    /// Rates promised on a path, in bits per second, against the highest that it may have.
    pub promised: Gauge,
}

/// All records of a storm.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub flows: BTreeMap<Flow, Account>,
    pub closed: Vec<Closed>,
    /// Sessions between the two nodes, as counted by each side.
    pub sessions: [Vec<SessionId>; 2],
    pub gauges: [Gauges; 2],
    /// Largest bound of a stream's send buffer: long fat paths raise it.
    pub send_buffer_max: [u64; 2],
    /// Bytes held by the process beyond those at the start, against the bound.
    pub memory: Gauge,
    /// Windows of promised streams that were judged.
    pub windows_judged: u64,
    /// Contradictions between the state of a promise and its events or what arrived.
    pub contradictions: Vec<(Invariant, String)>,
    /// Sessions that the hostile peer had with its victim.
    pub hostile_sessions: u64,
    lives: u32,
    /// Lives that have ended.
    ended: BTreeSet<u32>,
}

impl Ledger {
    pub(super) fn new_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    pub(super) fn account(&mut self, flow: Flow) -> &mut Account {
        // A stream that was in transit may open after its opener's life.
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

    /// Discards what the accepting node of a stream received and answered, because the opener begins anew.
    pub(super) fn begin_anew(&mut self, flow: Flow) {
        let account = self.account(flow);
        if account.is_orphaned {
            return;
        }
        account.delivered.clear();
        account.read_bytes = 0;
        account.ends.finished = 0;
        account.ends.reset_notified = None;
        account.ends.stopped = None;
        account.ends.late = 0;
        // The opener's record of the answers stays: they must not come twice.
        if let Some(answers) = self.flows.get_mut(&flow.back()) {
            answers.sent.clear();
            answers.stray_outcomes = 0;
            answers.misnumbered = 0;
            answers.ends.delivered = 0;
            answers.ends.stopped_notified = None;
        }
    }

    /// Ends a life, and its flows with it.
    pub(super) fn end(&mut self, life: u32) {
        self.ended.insert(life);
        for (flow, account) in &mut self.flows {
            account.is_orphaned |= flow.life == life;
        }
    }
}

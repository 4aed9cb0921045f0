//! Classes: packets that share a service, with queues and a stream of their own beside those for all other packets.
//!
//! The side whose rule gives packets a service opens the stream of their class; the other side sends the answers to them on it. Both keep
//! their classes in a [`Classes`], by their place.
//!
//! | module | holds |
//! |---|---|
//! | `carry` | the task that takes packets from the queues of a class |
//! | `set` | the classes of one side of a membership, and what arrives on their streams |

mod carry;
mod set;

use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Stream,
    base::{Instant, Rate},
    daemon::PromiseState,
    pace::Pace,
};
use anabranch_gateway::packets::PacketRule;
use bytes::Bytes;
use tokio::sync::Notify;

pub(crate) use self::{
    carry::Ended,
    set::{Arrived, Classes},
};
use crate::outlet::Outlet;

/// Memory of the packets that wait in a class.
const QUEUE_BYTES_MAX: usize = 512 << 10;
/// Time for which the packets of a class with a limited rate may wait.
const LIMITED_WAIT: Duration = Duration::from_millis(250);
/// Bytes that may wait in it at least.
const LIMITED_BYTES_MIN: u64 = 8 << 10;

/// Limit on the rate of a class.
#[derive(Debug)]
pub(crate) enum Limit {
    /// That of a rule, as long as it has one.
    Rule(PacketRule),
    /// This rate, which the other side asked for.
    Rate(Pace, Rate),
    /// None.
    None,
}

impl Limit {
    fn rate(&self) -> Option<Rate> {
        match self {
            Self::Rule(rule) => rule.rate_max(),
            Self::Rate(_, rate) => Some(*rate),
            Self::None => None,
        }
    }

    async fn ready(&self) {
        match self {
            Self::Rule(rule) => rule.ready().await,
            Self::Rate(pace, rate) => pace.ready(|| Some(*rate)).await,
            Self::None => {}
        }
    }

    fn sent(&self, bytes: usize) {
        match self {
            Self::Rule(rule) => rule.pace(bytes),
            Self::Rate(pace, rate) => pace.sent(*rate, bytes as u64),
            Self::None => {}
        }
    }
}

/// A class at one side.
#[derive(Debug)]
pub(crate) struct Class {
    place: u8,
    pub(crate) queues: Outlet,
    limit: Limit,
    /// `None` before it is open, and after it is over.
    stream: Mutex<Option<Stream>>,
    /// The latest message that is no packet.
    message: Mutex<Option<Bytes>>,
    told: Notify,
    is_over: AtomicBool,
    over: Notify,
    /// Code with which the other side ended the stream.
    code: OnceLock<u32>,
    /// State of this side's promise, where the other side asked for one.
    promise: Mutex<Option<PromiseState>>,
    /// Time of the last packet of either direction, in nanoseconds.
    used_at: AtomicU64,
}

impl Class {
    /// Place of the class among those of its side.
    pub(crate) fn place(&self) -> u8 {
        self.place
    }

    fn new(place: u8, beside: &Outlet, limit: Limit, now: Instant) -> Self {
        let memory = limit.rate().map_or(QUEUE_BYTES_MAX, |rate| {
            let bytes = rate.bytes_in(LIMITED_WAIT).max(LIMITED_BYTES_MIN);
            usize::try_from(bytes).map_or(QUEUE_BYTES_MAX, |bytes| bytes.min(QUEUE_BYTES_MAX))
        });
        Self {
            place,
            queues: beside.beside(memory),
            limit,
            stream: Mutex::default(),
            message: Mutex::default(),
            told: Notify::new(),
            is_over: AtomicBool::new(false),
            over: Notify::new(),
            code: OnceLock::new(),
            promise: Mutex::default(),
            used_at: AtomicU64::new(now.as_nanos()),
        }
    }

    /// Notes that a packet was sent or has arrived.
    pub(crate) fn note_use(&self, now: Instant) {
        self.used_at.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// State of the promise that the other side asked for; `None`: it asked for none.
    pub(crate) fn promise(&self) -> Option<PromiseState> {
        *self.promise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_promise(&self, state: Option<PromiseState>) {
        *self.promise.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn idle(&self, now: Instant) -> Duration {
        let used_at = self.used_at.load(Ordering::Relaxed);
        Duration::from_nanos(now.as_nanos().saturating_sub(used_at))
    }

    fn stream(&self) -> Option<Stream> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.clone()
    }

    /// Keeps a message for [`Class::next_message`], in place of one before.
    pub(crate) fn tell(&self, message: Bytes) {
        let mut latest = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(message);
        self.told.notify_one();
    }

    /// Waits for the next message that is no packet.
    pub(crate) async fn next_message(&self) -> Bytes {
        loop {
            let latest = self.message.lock();
            let latest = latest.unwrap_or_else(PoisonError::into_inner).take();
            match latest {
                Some(message) => return message,
                None => self.told.notified().await,
            }
        }
    }

    /// Ends the class: nothing is read from its stream any more. The first code is kept.
    pub(crate) fn end(&self, code: Option<u32>) {
        if let Some(code) = code {
            self.code.get_or_init(|| code);
        }
        self.is_over.store(true, Ordering::Release);
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.over.notify_one();
    }

    /// Code with which the other side ended it.
    pub(crate) fn code(&self) -> Option<u32> {
        self.code.get().copied()
    }

    /// True once it was ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits until it is ended; one task may.
    pub(crate) async fn ended(&self) {
        while !self.is_over() {
            self.over.notified().await;
        }
    }
}

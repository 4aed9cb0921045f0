//! The class of a rule at a client, with the state of its stream.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use anabranch::daemon::PromiseState;
use anabranch_gateway::packets::{PacketFlow, PacketRule, PacketStream};

use crate::class::Class;

/// State of the stream of a rule's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// The other side has not answered yet.
    Opening,
    /// Packets go on it.
    Open,
    /// It cannot be had; packets go with all others.
    Refused,
    /// Its promise cannot be had, and flows of the rule are refused without it.
    Denied,
}

/// The class of a rule.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) rule: PacketRule,
    pub(super) class: Arc<Class>,
    /// The flow that came first.
    pub(super) first: PacketFlow,
    state: AtomicU8,
    is_over: AtomicBool,
    stream: Mutex<Option<Arc<PacketStream>>>,
    /// State of the promise for the way back.
    promise_back: Mutex<Option<PromiseState>>,
}

impl Served {
    /// A class whose stream is not open yet.
    pub(super) fn new(rule: PacketRule, class: Arc<Class>, first: PacketFlow) -> Self {
        Self {
            rule,
            class,
            first,
            state: AtomicU8::new(State::Opening as u8),
            is_over: AtomicBool::new(false),
            stream: Mutex::default(),
            promise_back: Mutex::default(),
        }
    }

    pub(super) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Opening,
            1 => State::Open,
            2 => State::Refused,
            _ => State::Denied,
        }
    }

    /// Ends it: another one takes its place when it is wanted.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.set_stream(None);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn set_stream(&self, stream: Option<Arc<PacketStream>>) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    pub(super) fn set_promise_back(&self, state: Option<PromiseState>) {
        let mut back = self
            .promise_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *back = state;
    }

    /// State of its promise for the way back.
    pub(super) fn promise_back(&self) -> Option<PromiseState> {
        *self
            .promise_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// State of its promise.
    pub(super) fn promise(&self) -> Option<PromiseState> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_ref()?.promise()
    }
}

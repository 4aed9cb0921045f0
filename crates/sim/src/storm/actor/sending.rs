//! Sending side of an actor.

use std::time::Duration;

use anabranch_base::{Instant, Rate, StreamId};
use anabranch_session::{Guarantee, SendError, StreamSpec};

use super::Actor;
use crate::{
    app::Context,
    storm::{
        adu,
        ledger::{AduOutcome, Flow},
        plan::{Ending, Load},
    },
};

/// A flow that this node sends.
#[derive(Debug)]
pub(in crate::storm) struct Outgoing {
    pub flow: Flow,
    pub stream: Option<StreamId>,
    spec: StreamSpec,
    adu_bytes: usize,
    every: Option<Duration>,
    adus: u64,
    start: Instant,
    ending: Ending,
    discard_after: Option<u64>,
    sent: u64,
    /// True if the stream's buffer was full at the last attempt.
    is_blocked: bool,
    is_finishing: bool,
    is_over: bool,
}

impl Outgoing {
    pub(in crate::storm) fn new(flow: Flow, load: &Load, now: Instant) -> Self {
        Self {
            flow,
            stream: None,
            spec: StreamSpec {
                label: flow.label(),
                ..load.spec.clone()
            },
            adu_bytes: load.adu_bytes,
            every: load.every,
            adus: load.adus,
            start: load.start.max(now),
            ending: load.ending,
            discard_after: load.discard_after,
            sent: 0,
            is_blocked: false,
            is_finishing: false,
            is_over: false,
        }
    }

    /// Flow of the accepting node on a stream that the peer opened.
    pub(super) fn back(flow: Flow, load: &Load, stream: StreamId) -> Option<Self> {
        let (adus, adu_bytes) = load.back?;
        Some(Self {
            stream: Some(stream),
            adus,
            adu_bytes,
            every: None,
            ending: Ending::Finish,
            discard_after: None,
            ..Self::new(flow, load, Instant::EPOCH)
        })
    }

    /// True if everything was delivered, or one of the two ends gave the stream up.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Largest number of bytes that one ADU takes.
    pub(super) fn adu_bytes(&self) -> usize {
        self.adu_bytes
    }

    pub(super) fn cap(&self) -> Option<Rate> {
        self.spec.cap.filter(|_| !self.flow.is_back)
    }

    pub(super) fn guarantee(&self) -> Option<&Guarantee> {
        self.spec.guarantee.as_deref()
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some() && !self.is_over
    }

    fn next_at(&self) -> Instant {
        match self.every {
            Some(every) => {
                let nanos = every.as_nanos() as u64;
                self.start + Duration::from_nanos(nanos.saturating_mul(self.sent))
            }
            None => self.start,
        }
    }

    /// Time at which it has something to do, if its stream's buffer permits.
    pub(super) fn due(&self) -> Option<Instant> {
        let waits =
            self.sent < self.adus && !self.is_blocked && !self.is_over && !self.is_finishing;
        let by_time = self.every.is_some() || self.stream.is_none();
        (waits && by_time).then(|| self.next_at())
    }

    fn has_to_discard(&self) -> bool {
        let after = self.discard_after;
        after.is_some_and(|after| self.sent.is_multiple_of(after))
    }

    fn has_reset(&self) -> Option<u32> {
        match self.ending {
            Ending::Reset { after, code } if self.sent >= after => Some(code),
            _ => None,
        }
    }
}

impl Actor {
    /// Sends whatever is due.
    pub(super) fn pump(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(session) = self.session else {
            return;
        };
        for one in &mut self.outgoing {
            if now < one.start || one.is_over || one.is_finishing {
                continue;
            }
            if one.stream.is_none() {
                one.stream = context.open(session, one.spec.clone()).ok();
                if one.spec.cap.is_some() {
                    let _ = context
                        .engine()
                        .session(session)
                        .map(|mut session| session.keep_journal(true));
                }
            }
            let Some(stream) = one.stream else {
                continue;
            };
            while one.sent < one.adus && !one.is_blocked && one.next_at() <= now {
                let number = one.sent as u32;
                let data = adu::make(one.flow.word(), number, one.adu_bytes);
                let bytes = data.len();
                let importance = (number.wrapping_mul(37) % 256) as u8;
                let engine = context.engine();
                let Ok(handle) = engine.session(session) else {
                    break;
                };
                match handle.stream(stream).send_important(now, data, importance) {
                    Ok(sequence) => {
                        let mut ledger = self.shared.ledger.borrow_mut();
                        ledger.sent(one.flow, now, bytes, sequence);
                        one.sent += 1;
                    }
                    Err(SendError::Full(_)) => one.is_blocked = true,
                    Err(_) => break,
                }
                if one.has_to_discard()
                    && let Ok(session) = context.engine().session(session)
                    && let Ok(discarded) = session.stream(stream).discard(now)
                {
                    let mut ledger = self.shared.ledger.borrow_mut();
                    ledger.account(one.flow).discarded_adus += discarded.adus;
                }
                if let Some(code) = one.has_reset() {
                    let _ = context
                        .engine()
                        .session(session)
                        .and_then(|session| session.stream(stream).reset(code));
                    let mut ledger = self.shared.ledger.borrow_mut();
                    ledger.account(one.flow).ends.reset = Some(code);
                    one.is_over = true;
                    break;
                }
            }
            if one.sent == one.adus && !one.is_over {
                context.finish(session, stream);
                one.is_finishing = true;
            }
        }
    }

    fn sending(&mut self, stream: StreamId) -> Option<&mut Outgoing> {
        let mut all = self.outgoing.iter_mut();
        all.find(|one| one.stream == Some(stream))
    }

    pub(super) fn on_writable(&mut self, stream: StreamId) {
        if let Some(one) = self.sending(stream) {
            one.is_blocked = false;
        }
    }

    pub(super) fn on_delivered(&mut self, stream: StreamId) {
        if let Some(one) = self.sending(stream) {
            one.is_over = true;
            let flow = one.flow;
            let mut ledger = self.shared.ledger.borrow_mut();
            ledger.account(flow).ends.delivered += 1;
        }
    }

    pub(super) fn on_stopped(&mut self, stream: StreamId, code: u32) {
        if let Some(one) = self.sending(stream) {
            one.is_over = true;
            let flow = one.flow;
            let mut ledger = self.shared.ledger.borrow_mut();
            ledger.account(flow).ends.stopped_notified = Some(code);
        }
    }

    pub(super) fn on_outcome(
        &mut self,
        now: Instant,
        stream: StreamId,
        sequence: u64,
        outcome: AduOutcome,
    ) {
        if let Some(one) = self.sending(stream) {
            let flow = one.flow;
            self.shared
                .ledger
                .borrow_mut()
                .outcome(flow, now, sequence, outcome);
        }
    }
}

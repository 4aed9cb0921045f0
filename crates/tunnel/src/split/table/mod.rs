//! Table of the connections that are split, by their ends and by the number of each.
//!
//! The number is the port of the second half: the kernel of this machine sees a connection from the server's address in the tunnel,
//! with this port, to the listener of the tunnel. A number is given back some time after its connection has ended, because both
//! halves may still exchange their last segments.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroU16,
    time::Duration,
};

use anabranch::base::Instant;

use super::side::Side;
use crate::packet::{Ends, Progress};

/// Time without a segment after which the number of a connection that has ended is free: longer than a kernel waits in TIME-WAIT.
const LINGER: Duration = Duration::from_secs(65);
/// Connections, those that have ended included. Beyond, the one that ended first is forgotten, or else no more begin.
pub(crate) const FLOWS_MAX: usize = 32_768;

/// Number of a connection.
pub(crate) type Number = NonZeroU16;

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server was asked to make it.
    Asked,
    /// The server has made it, and its opening was handed to the listener here.
    Offered {
        /// The listener has answered.
        is_answered: bool,
    },
    /// Both halves are there.
    Accepted,
    /// It is over, but for the last segments of its halves.
    Ended,
}

/// A connection; `W` is what waits for its second half.
#[derive(Debug)]
struct Flow<W> {
    ends: Ends,
    stage: Stage,
    waiting: Option<W>,
    /// Time of its last segment.
    touched: Instant,
    program: Side,
    listener: Side,
    is_reset: bool,
}

impl<W> Flow<W> {
    /// Its stage, which is the last one as soon as both halves have seen its end, whether the relay has noticed or not.
    fn stage(&self) -> Stage {
        let is_over = self.is_reset || self.program.has_ended() && self.listener.has_ended();
        match self.stage {
            Stage::Offered { .. } | Stage::Accepted if is_over => Stage::Ended,
            stage => stage,
        }
    }
}

/// A connection whose addresses are gone, with the numbers of resets for its halves.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) number: Number,
    pub(crate) ends: Ends,
    pub(crate) for_program: Vec<u32>,
    pub(crate) for_listener: Vec<u32>,
}

/// The connections.
///
/// Invariant: `numbers` has the numbers of `flows` by their ends, and `ended` has each flow that has ended; it may also have numbers
/// that are free or those of later flows.
#[derive(Debug)]
pub(crate) struct Table<W> {
    flows: HashMap<Number, Flow<W>>,
    numbers: HashMap<Ends, Number>,
    /// Those that have ended, in the order in which they are looked at.
    ended: VecDeque<(Instant, Number)>,
    next: Number,
}

impl<W> Table<W> {
    pub(crate) fn new() -> Self {
        Self {
            flows: HashMap::new(),
            numbers: HashMap::new(),
            ended: VecDeque::new(),
            next: Number::MIN,
        }
    }

    /// Adds a connection with these ends, of which there is none, or one that has ended. `None`: there is no place.
    pub(crate) fn begin(&mut self, now: Instant, ends: Ends) -> Option<Number> {
        self.forget(now);
        match self.numbers.get(&ends) {
            Some(number) if self.flows[number].stage() != Stage::Ended => return None,
            Some(&number) => self.remove(number),
            None => {}
        }
        while self.flows.len() >= FLOWS_MAX {
            let (_, first) = self.ended.pop_front()?;
            if self
                .flows
                .get(&first)
                .is_some_and(|flow| flow.stage == Stage::Ended)
            {
                self.remove(first);
            }
        }
        let number = self.free()?;
        let flow = Flow {
            ends,
            stage: Stage::Asked,
            waiting: None,
            touched: now,
            program: Side::default(),
            listener: Side::default(),
            is_reset: false,
        };
        self.flows.insert(number, flow);
        self.numbers.insert(ends, number);
        Some(number)
    }

    /// The number that was free for longest, roughly: they are given out in turn.
    fn free(&mut self) -> Option<Number> {
        for _ in 0..u16::MAX {
            let number = self.next;
            self.next = number.checked_add(1).unwrap_or(Number::MIN);
            if !self.flows.contains_key(&number) {
                return Some(number);
            }
        }
        None
    }

    /// Forgets a connection; its next segments are those of one that is not split.
    pub(crate) fn remove(&mut self, number: Number) {
        if let Some(flow) = self.flows.remove(&number) {
            self.numbers.remove(&flow.ends);
        }
    }

    /// The number of the connection with these ends, which a segment was sent on, and its stage before that.
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        ends: &Ends,
        progress: &Progress,
    ) -> Option<(Number, Stage)> {
        let number = *self.numbers.get(ends)?;
        let flow = self.flows.get_mut(&number)?;
        let stage = flow.stage();
        flow.touched = now;
        flow.program.note(progress);
        flow.is_reset |= progress.is_reset;
        Some((number, stage))
    }

    /// Forgets the connection with these ends, of which no second half has begun.
    pub(crate) fn withdraw_with(&mut self, ends: &Ends) {
        if let Some(&number) = self.numbers.get(ends) {
            self.withdraw(number);
        }
    }

    /// The ends of the connection with this number, which the listener has answered on.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        number: Number,
        progress: &Progress,
    ) -> Option<Ends> {
        let flow = self.flows.get_mut(&number)?;
        flow.touched = now;
        flow.listener.note(progress);
        flow.is_reset |= progress.is_reset;
        if let Stage::Offered { is_answered } = &mut flow.stage {
            *is_answered = true;
        }
        Some(flow.ends)
    }

    /// Notes that the opening of a connection is handed to the listener; false if the connection is over.
    pub(crate) fn offer(&mut self, number: Number, waiting: W) -> bool {
        match self.flows.get_mut(&number) {
            Some(flow) if flow.stage == Stage::Asked => {
                flow.stage = Stage::Offered { is_answered: false };
                flow.waiting = Some(waiting);
                true
            }
            _ => false,
        }
    }

    /// Forgets a connection that was offered to the listener, unless the listener has answered; true if it is forgotten.
    pub(crate) fn take_back(&mut self, number: Number) -> bool {
        let flow = self.flows.get(&number);
        let is_unanswered =
            flow.is_some_and(|flow| flow.stage == Stage::Offered { is_answered: false });
        if is_unanswered {
            self.remove(number);
        }
        is_unanswered
    }

    /// Notes that the listener has accepted a connection; returns what waits for it, `None` if nothing does.
    pub(crate) fn accept(&mut self, number: Number) -> Option<W> {
        let flow = self.flows.get_mut(&number)?;
        let Stage::Offered { .. } = flow.stage else {
            return None;
        };
        flow.stage = Stage::Accepted;
        flow.waiting.take()
    }

    /// Forgets a connection of which no second half has begun.
    pub(crate) fn withdraw(&mut self, number: Number) {
        if self
            .flows
            .get(&number)
            .is_some_and(|flow| flow.stage == Stage::Asked)
        {
            self.remove(number);
        }
    }

    /// Notes that a connection is over.
    pub(crate) fn end(&mut self, now: Instant, number: Number) {
        let Some(flow) = self.flows.get_mut(&number) else {
            return;
        };
        flow.waiting = None;
        if flow.stage != Stage::Ended {
            flow.stage = Stage::Ended;
            self.ended.push_back((now, number));
        }
    }

    /// Forgets all connections of a family, and returns those that have halves.
    pub(crate) fn leave(&mut self, is_v4: bool) -> Vec<Left> {
        let is_left = |flow: &Flow<W>| flow.ends.source.is_ipv4() == is_v4;
        let flows = self.flows.iter();
        let numbers: Vec<Number> = flows
            .filter(|(_, flow)| is_left(flow))
            .map(|(number, _)| *number)
            .collect();
        let left = |number: Number| {
            let flow = self.flows.remove(&number)?;
            self.numbers.remove(&flow.ends);
            (flow.stage != Stage::Asked).then(|| Left {
                number,
                ends: flow.ends,
                for_program: flow.program.resets(&flow.listener).collect(),
                for_listener: flow.listener.resets(&flow.program).collect(),
            })
        };
        numbers.into_iter().filter_map(left).collect()
    }

    /// Frees the numbers of connections that ended long ago.
    fn forget(&mut self, now: Instant) {
        while let Some(&(since, number)) = self.ended.front() {
            if now.since(since) < LINGER {
                break;
            }
            self.ended.pop_front();
            let Some(flow) = self.flows.get(&number) else {
                continue;
            };
            match (flow.stage, flow.touched) {
                // The number of another flow by now, which is added when it ends.
                (stage, _) if stage != Stage::Ended => {}
                (_, touched) if now.since(touched) < LINGER => {
                    self.ended.push_back((touched, number));
                }
                _ => self.remove(number),
            }
        }
    }
}

#[cfg(test)]
mod tests;

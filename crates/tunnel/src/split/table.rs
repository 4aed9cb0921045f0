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

use crate::packet::Ends;

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
            Some(number) if self.flows[number].stage != Stage::Ended => return None,
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

    /// The number and the stage of the connection with these ends, which a segment was sent on.
    pub(crate) fn sent(&mut self, now: Instant, ends: &Ends) -> Option<(Number, Stage)> {
        let number = *self.numbers.get(ends)?;
        let flow = self.flows.get_mut(&number)?;
        flow.touched = now;
        Some((number, flow.stage))
    }

    /// The ends of the connection with this number, which the listener has answered on.
    pub(crate) fn answered(&mut self, now: Instant, number: Number) -> Option<Ends> {
        let flow = self.flows.get_mut(&number)?;
        flow.touched = now;
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

    /// Notes that a connection is over; returns its stage before.
    pub(crate) fn end(&mut self, now: Instant, number: Number) -> Option<Stage> {
        let flow = self.flows.get_mut(&number)?;
        flow.waiting = None;
        let before = std::mem::replace(&mut flow.stage, Stage::Ended);
        if before != Stage::Ended {
            self.ended.push_back((now, number));
        }
        Some(before)
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(port: u16) -> Ends {
        Ends {
            source: ([10, 77, 0, 2], port).into(),
            destination: ([192, 0, 2, 1], 80).into(),
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    #[test]
    fn a_connection_from_its_opening_to_its_end() {
        let mut table = Table::new();
        let number = table.begin(at(1), ends(5)).unwrap();
        assert_eq!(table.sent(at(1), &ends(5)), Some((number, Stage::Asked)));
        assert_eq!(table.begin(at(1), ends(5)), None, "it has begun");
        assert_eq!(table.accept(number), None, "nothing was offered");
        assert!(table.offer(number, "task"));
        assert!(!table.offer(number, "another"));
        assert_eq!(table.answered(at(1), number), Some(ends(5)));
        let offered = Stage::Offered { is_answered: true };
        assert_eq!(table.sent(at(1), &ends(5)), Some((number, offered)));
        assert_eq!(table.accept(number), Some("task"));
        assert_eq!(table.accept(number), None);
        assert_eq!(table.end(at(9), number), Some(Stage::Accepted));
        // Its last segments still pass.
        assert_eq!(table.answered(at(9), number), Some(ends(5)));
        assert_eq!(table.sent(at(9), &ends(5)), Some((number, Stage::Ended)));
        let second = table.begin(at(9), ends(5)).unwrap();
        assert_ne!(second, number, "a number is not used again at once");
        assert_eq!(table.answered(at(9), number), None);
    }

    #[test]
    fn numbers_are_free_some_time_after_the_last_segment() {
        let mut table = Table::<()>::new();
        let number = table.begin(at(0), ends(1)).unwrap();
        table.end(at(0), number);
        table.answered(at(60), number);
        table.begin(at(66), ends(2)).unwrap();
        assert_eq!(table.flows.len(), 2, "a segment came late");
        table.begin(at(126), ends(3)).unwrap();
        assert_eq!(table.flows.len(), 2);
        assert_eq!(table.answered(at(126), number), None);
    }

    #[test]
    fn a_connection_that_is_not_made_leaves_nothing() {
        let mut table = Table::<()>::new();
        let number = table.begin(at(0), ends(1)).unwrap();
        table.withdraw(number);
        assert_eq!(table.flows.len(), 0);
        assert!(!table.offer(number, ()));
        let number = table.begin(at(0), ends(1)).unwrap();
        table.offer(number, ());
        table.withdraw(number);
        assert_eq!(table.flows.len(), 1, "its second half may have begun");
    }

    #[test]
    fn a_full_table_forgets_what_ended_first_and_nothing_else() {
        let mut table = Table::<()>::new();
        let all: Vec<Number> = (0..FLOWS_MAX as u16)
            .map(|port| table.begin(at(0), ends(port)).unwrap())
            .collect();
        assert_eq!(table.begin(at(0), ends(60_000)), None);
        table.end(at(1), all[7]);
        table.end(at(2), all[3]);
        table.begin(at(3), ends(60_000)).unwrap();
        assert_eq!(table.answered(at(3), all[7]), None);
        assert_eq!(table.answered(at(3), all[3]), Some(ends(3)));
    }

    proptest! {
        /// Whatever happens, each number belongs to one connection, and both tables agree.
        #[test]
        fn both_tables_agree(steps in prop::collection::vec((0u8..6, 0u16..8, 0u64..40), 1..200)) {
            let mut table = Table::new();
            let (mut now, mut numbers) = (0, Vec::new());
            for (step, port, seconds) in steps {
                now += seconds;
                let number = numbers.get(usize::from(port) % numbers.len().max(1)).copied();
                match (step, number) {
                    (0 | 1, _) => numbers.extend(table.begin(at(now), ends(port))),
                    (2, Some(number)) => drop(table.offer(number, ())),
                    (3, Some(number)) => drop(table.accept(number)),
                    (4, Some(number)) => table.withdraw(number),
                    (_, Some(number)) => drop(table.end(at(now), number)),
                    _ => {}
                }
                prop_assert_eq!(table.flows.len(), table.numbers.len());
                for (ends, number) in &table.numbers {
                    prop_assert_eq!(&table.flows[number].ends, ends);
                }
                let lingering = table.flows.values().filter(|flow| flow.stage == Stage::Ended);
                prop_assert!(lingering.count() <= table.ended.len());
            }
            // In the end, all are forgotten.
            for number in numbers {
                table.end(at(now), number);
            }
            table.forget(at(now + 200));
            table.forget(at(now + 400));
            prop_assert_eq!((table.flows.len(), table.ended.len()), (0, 0));
        }
    }
}

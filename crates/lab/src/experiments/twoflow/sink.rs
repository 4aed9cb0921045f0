//! Sink of a pipe: arrivals and their times.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, SessionId, StreamId};
use anabranch_session::Event;
use anabranch_sim::{App, Context};

/// Result of one flow.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Times at which data of a reliable flow were read, and the number of bytes read by then.
    pub(super) arrivals: Vec<(Instant, u64)>,
    pub(super) bytes: u64,
    /// Positions in the stream whose times are recorded, ascending, and these times.
    marks: Vec<u64>,
    pub(super) passed: Vec<Instant>,
    /// Time at which each part is needed, after the beginning of play; empty if delays are not measured.
    wanted: Vec<Duration>,
    plays_from: Instant,
    /// Largest delay of a part beyond the time at which it is shown.
    pub(super) delay_max: Duration,
}

impl Account {
    /// Account of a reliable flow: records the times at which these numbers of bytes had been read.
    pub(super) fn marking(marks: Vec<u64>) -> Self {
        Self {
            marks,
            ..Self::default()
        }
    }

    /// Account of a flow in real time: records the delay of parts that are shown at these times after the beginning of play.
    pub(super) fn timing(plays_from: Instant, wanted: Vec<Duration>) -> Self {
        Self {
            plays_from,
            wanted,
            ..Self::default()
        }
    }

    fn take(&mut self, now: Instant, sequence: u64, bytes: usize) {
        self.bytes += bytes as u64;
        if !self.marks.is_empty() {
            self.arrivals.push((now, self.bytes));
        }
        while self
            .marks
            .get(self.passed.len())
            .is_some_and(|&mark| mark <= self.bytes)
        {
            self.passed.push(now);
        }
        if let Some(&at) = self.wanted.get(sequence as usize) {
            self.delay_max = self.delay_max.max(now.since(self.plays_from + at));
        }
    }
}

/// Reads all streams of a connection, each into the account that its label numbers; one without a number uses the first.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) accounts: Vec<Account>,
    streams: BTreeMap<(SessionId, StreamId), usize>,
}

impl Sink {
    pub(super) fn new(accounts: Vec<Account>) -> Self {
        Self {
            accounts,
            streams: BTreeMap::new(),
        }
    }
}

impl App for Sink {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let key = match event {
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => {
                let number = spec.label.parse().unwrap_or(0);
                self.streams.insert((session, stream), number);
                (session, stream)
            }
            Event::Readable { session, stream } => (session, stream),
            _ => return,
        };
        let account = self.streams.get(&key).copied();
        let Some(account) = account.and_then(|number| self.accounts.get_mut(number)) else {
            return;
        };
        let now = context.now();
        while let Some(adu) = context.receive(key.0, key.1) {
            account.take(now, adu.sequence, adu.data.len());
        }
    }
}

//! Entries of a record.

use std::collections::BTreeMap;

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_net::PromiseReport;
use serde::{Deserialize, Serialize};

use crate::spec::words;

/// Event of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The stream waits for a promise.
    Waits,
    /// It was promised what it asks for.
    Promised,
    /// Its application was warned.
    Warned,
    /// The promise has lapsed.
    Withdrawn,
    /// Another decision.
    Changed,
    /// The stream is over, or asks for nothing any more.
    Closed,
}

/// An event of a promise, and the account of the stream at that time, or soon after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Time on the calendar, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Name of the peer.
    pub peer: String,
    /// Session, such as `session-0`; numbers begin anew with the node.
    pub session: String,
    /// Stream, such as `stream-4`.
    pub stream: String,
    /// Label of the stream.
    pub label: String,
    /// The demand, in words.
    pub asked: String,
    /// The event.
    pub kind: Kind,
    /// The decision in words.
    pub text: String,
    /// Windows in which the promise was kept so far.
    pub windows_kept: u64,
    /// Windows in which it was not.
    pub windows_broken: u64,
    /// Promises withdrawn so far.
    pub withdrawn: u64,
}

impl Kind {
    /// The event of a decision in words, and the rest of them.
    fn of(text: &str) -> (Self, &str) {
        let kinds = [
            ("waits: ", Self::Waits),
            ("promised: ", Self::Promised),
            ("warned: ", Self::Warned),
            ("withdrawn: ", Self::Withdrawn),
        ];
        let found = kinds
            .iter()
            .find_map(|(prefix, kind)| Some((*kind, text.strip_prefix(prefix)?)));
        found.unwrap_or((Self::Changed, text))
    }
}

/// Promises as they were last seen, and what is recorded of them.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// By stream: the time of the last decision recorded, and the last state.
    known: BTreeMap<(SessionId, StreamId), (Option<Instant>, Entry)>,
}

impl Follower {
    /// The entries that follow from the promises at `now`, which is `unix_ms` on the calendar.
    pub(super) fn follow(
        &mut self,
        unix_ms: u64,
        now: Instant,
        promises: &[PromiseReport],
        peers: &BTreeMap<NodeId, String>,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut before = std::mem::take(&mut self.known);
        for promise in promises {
            let explained = &promise.explanation;
            let key = (promise.session, explained.stream);
            let mut last = before.remove(&key).and_then(|(last, _)| last);
            let state = |kind: Kind, text: &str, unix_ms: u64| Entry {
                unix_ms,
                peer: peers.get(&promise.peer).cloned().unwrap_or_default(),
                session: promise.session.to_string(),
                stream: explained.stream.to_string(),
                label: promise.spec.label.clone(),
                asked: words(&explained.guarantee),
                kind,
                text: text.to_owned(),
                windows_kept: explained.account.kept,
                windows_broken: explained.account.broken,
                withdrawn: explained.account.withdrawn,
            };
            let fresh = explained.notes.iter();
            let fresh = fresh.filter(|note| last.is_none_or(|last| note.at > last));
            for note in fresh.clone() {
                let (kind, text) = Kind::of(&note.text);
                let ago_ms = now.since(note.at).as_millis() as u64;
                entries.push(state(kind, text, unix_ms.saturating_sub(ago_ms)));
            }
            last = fresh.map(|note| note.at).max().or(last);
            self.known
                .insert(key, (last, state(Kind::Closed, "", unix_ms)));
        }
        entries.extend(
            before
                .into_values()
                .map(|(_, entry)| closed(entry, unix_ms)),
        );
        entries
    }

    /// The entries for the end of all promises.
    pub(super) fn close_all(&mut self, unix_ms: u64) -> Vec<Entry> {
        let known = std::mem::take(&mut self.known);
        let ends = known.into_values();
        ends.map(|(_, entry)| closed(entry, unix_ms)).collect()
    }
}

/// The end of a promise whose last state is `entry`.
fn closed(entry: Entry, unix_ms: u64) -> Entry {
    Entry { unix_ms, ..entry }
}

/// An entry for tests.
#[cfg(test)]
pub(super) fn sample(unix_ms: u64) -> Entry {
    Entry {
        unix_ms,
        peer: "far".to_owned(),
        session: "session-0".to_owned(),
        stream: "stream-4".to_owned(),
        label: "video".to_owned(),
        asked: "6 Mbit/s".to_owned(),
        kind: Kind::Promised,
        text: "renewable".to_owned(),
        windows_kept: 5,
        windows_broken: 1,
        withdrawn: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_base::Rate;
    use anabranch_session::{
        Explanation, Guarantee, SecretKey, StreamSpec,
        promise::{Account, Note},
    };

    use super::*;

    fn report(stream: u64, notes: &[(u64, &str)], kept: u64) -> PromiseReport {
        let note = |&(ms, text): &(u64, &str)| Note {
            at: Instant::from_millis(ms),
            text: text.to_owned(),
        };
        let explanation = Explanation {
            stream: StreamId(stream),
            guarantee: Guarantee::rate(Rate::from_mbps(6), 0.95),
            wanted: None,
            term: None,
            until: None,
            is_warned: false,
            rank: 0,
            shares: Vec::new(),
            account: Account {
                kept,
                ..Account::default()
            },
            windows_known: 0,
            notes: notes.iter().map(note).collect(),
        };
        PromiseReport {
            session: SessionId(3),
            peer: SecretKey::from_seed([1; 32]).node_id(),
            spec: Arc::new(StreamSpec {
                label: "video".to_owned(),
                ..StreamSpec::default()
            }),
            explanation,
        }
    }

    #[test]
    fn every_decision_is_recorded_once_and_so_is_the_end() {
        let peer = SecretKey::from_seed([1; 32]).node_id();
        let peers = BTreeMap::from([(peer, "far".to_owned())]);
        let mut follower = Follower::default();
        let mut look = |ms: u64, promises: &[PromiseReport]| {
            let now = Instant::from_millis(ms);
            let entries = follower.follow(1_000_000 + ms, now, promises, &peers);
            let short = |entry: Entry| (entry.unix_ms - 1_000_000, entry.kind, entry.text);
            entries.into_iter().map(short).collect::<Vec<_>>()
        };
        let mut notes = vec![
            (100, "waits: too little is known"),
            (900, "promised: renewable"),
        ];
        let seen = look(1_000, &[report(4, &notes, 0)]);
        let expected = [
            (100, Kind::Waits, "too little is known".to_owned()),
            (900, Kind::Promised, "renewable".to_owned()),
        ];
        assert_eq!(seen, expected);
        assert_eq!(look(2_000, &[report(4, &notes, 1)]), []);
        let cause = "channel-0 was taken out of use by user 7; channel-1 provides less";
        let warned = format!("warned: {cause}");
        notes.push((2_500, warned.as_str()));
        notes.push((2_600, "demands another guarantee, which waits: why"));
        let seen = look(3_000, &[report(4, &notes, 2), report(8, &[], 0)]);
        let kinds: Vec<Kind> = seen.iter().map(|(_, kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::Warned, Kind::Changed]);
        assert_eq!(seen[0].2, cause, "the whole reason");
        let end = (4_000, Kind::Closed, String::new());
        assert_eq!(look(4_000, &[report(8, &[], 0)]), [end]);
        let ends = follower.close_all(9);
        assert_eq!(ends.len(), 1);
        assert_eq!((&*ends[0].peer, ends[0].unix_ms), ("far", 9));
    }

    /// What is recorded follows from the node's own time; the clock of the machine only dates it.
    #[test]
    fn a_clock_that_is_set_loses_and_repeats_no_decision() {
        let mut follower = Follower::default();
        let mut notes = Vec::new();
        // A year back, and a day ahead.
        let clocks = [1_000_000_000_000, 968_000_000_000, 1_000_086_400_000, 5];
        for (step, unix_ms) in clocks.into_iter().enumerate() {
            let now_ms = 1_000 * (step as u64 + 1);
            notes.push((now_ms - 100, "promised: renewable"));
            let now = Instant::from_millis(now_ms);
            let peers = BTreeMap::new();
            let entries = follower.follow(unix_ms, now, &[report(4, &notes, 0)], &peers);
            let dates: Vec<u64> = entries.iter().map(|entry| entry.unix_ms).collect();
            assert_eq!(dates, [unix_ms.saturating_sub(100)]);
        }
    }
}

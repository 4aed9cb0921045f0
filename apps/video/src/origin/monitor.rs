//! State of a running origin, for a console: counters since its start, and what each session plays.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anabranch::base::Rate;
use anabranch_media::{FrameType, Part};
use serde_json::{Value, json};

use super::{
    counters::FlowStats,
    play::{Due, Need},
};
use crate::{clock::Clock, counter::Counter, video::Video, wire::Essential};

/// Plays of a session that are listed; all are counted.
const LISTED: usize = 100;

/// View of a running origin.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    clock: Clock,
    begun: Instant,
    counters: Counters,
    next: AtomicU64,
    sessions: Mutex<BTreeMap<u64, SessionState>>,
}

/// Counters of all sessions so far.
#[derive(Debug, Default)]
struct Counters {
    sessions: Counter,
    plays: Counter,
    /// Plays refused because the session has too many.
    refused: Counter,
    /// Plays that ended because a video could not be read.
    failed: Counter,
    essential_bytes: Counter,
    enhanced_bytes: Counter,
    frames: [Counter; FrameType::ALL.len()],
    thinned: Counter,
    /// ADUs of enhanced frames that were lost in the network, and those that were not sent, or too late, for lack of capacity.
    lost_adus: Counter,
    dropped_adus: Counter,
}

/// State of a session that shows a ticket.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    pub(super) ticket: String,
    /// Name of the video and needs of each play.
    pub(super) plays: Vec<(String, Need)>,
    /// Rate that the pipe is held to.
    pub(super) held: Rate,
    /// Share of enhanced data that is sent.
    pub(super) part: f64,
    /// The last second.
    pub(super) seen: FlowStats,
}

impl Monitor {
    pub(super) fn new(clock: Clock) -> Self {
        Self(Arc::new(Inside {
            clock,
            begun: clock.now(),
            counters: Counters::default(),
            next: AtomicU64::new(0),
            sessions: Mutex::default(),
        }))
    }

    /// The state of now: an object with `kind`, `uptime_s`, `counters` of all sessions so far, and `proxies`: a row for each
    /// session, with the name of its ticket, its plays (the first 100), its rates of the
    /// last second. `trouble` is always null.
    pub fn state(&self) -> Value {
        let sessions = self.sessions();
        let sessions_json = sessions.iter();
        let proxies: Vec<Value> = sessions_json
            .map(|(number, session)| session.json(*number))
            .collect();
        drop(sessions);
        let counters = &self.0.counters;
        let frames = FrameType::ALL.into_iter().map(|frame| {
            let sent = counters.frames[frame as usize].get();
            (frame.letter().to_string(), json!({ "sent": sent }))
        });
        json!({
            "kind": "origin",
            "uptime_s": self.0.clock.since(self.0.begun).as_secs_f64(),
            "trouble": null,
            "proxies": proxies,
            "counters": {
                "sessions": counters.sessions.get(),
                "plays": counters.plays.get(),
                "refused": counters.refused.get(),
                "failed": counters.failed.get(),
                "essential_bytes": counters.essential_bytes.get(),
                "enhanced_bytes": counters.enhanced_bytes.get(),
                "frames": frames.collect::<serde_json::Map<_, _>>(),
                "thinned_frames": counters.thinned.get(),
                "lost_adus": counters.lost_adus.get(),
                "dropped_adus": counters.dropped_adus.get(),
            },
        })
    }

    /// The reporter of a session that has shown the ticket of this name.
    pub(super) fn session(&self, ticket: &str) -> Reporter {
        self.0.counters.sessions.add(1);
        let reporter = Reporter {
            monitor: self.clone(),
            ticket: ticket.to_owned(),
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
        };
        reporter.report(SessionState {
            part: 1.0,
            ..SessionState::default()
        });
        reporter
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u64, SessionState>> {
        self.0
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    fn json(&self, number: u64) -> Value {
        let plays = self.plays.iter().take(LISTED).map(|(video, need)| {
            json!({
                "video": video,
                "essential_bps": need.essential.as_bps(),
                "enhanced_bps": need.enhanced.as_bps(),
                "kept_fraction": need.kept,
                "pace": need.pace,
                "ahead_s": need.ahead.as_secs_f64(),
            })
        });
        let target: Rate = self
            .plays
            .iter()
            .map(|(_, need)| need.essential + need.enhanced * need.kept)
            .sum();
        json!({
            "session": number,
            "ticket": self.ticket,
            "running": self.plays.len(),
            "plays": plays.collect::<Vec<_>>(),
            "target_bps": target.as_bps(),
            "held_bps": self.held.as_bps(),
            "essential_rate_bps": self.seen.essential.as_bps(),
            "enhanced_rate_bps": self.seen.enhanced.as_bps(),
            "sent_fraction": self.part,
            "lost_fraction": self.seen.lost,
            "dropped_fraction": self.seen.dropped,
            "backlog_bytes": self.seen.backlog_bytes,
        })
    }
}

/// Reports for one session; its state goes when this is dropped.
#[derive(Debug)]
pub(super) struct Reporter {
    monitor: Monitor,
    ticket: String,
    number: u64,
}

impl Reporter {
    /// Replaces the state of the session.
    pub(super) fn report(&self, state: SessionState) {
        let state = SessionState {
            ticket: self.ticket.clone(),
            ..state
        };
        self.monitor.sessions().insert(self.number, state);
    }

    /// Counts a play that was begun, or refused.
    pub(super) fn played(&self, is_begun: bool) {
        let counters = &self.monitor.0.counters;
        match is_begun {
            true => counters.plays.add(1),
            false => counters.refused.add(1),
        }
    }

    /// Counts a play that ended because its video could not be read.
    pub(super) fn failed(&self) {
        self.monitor.0.counters.failed.add(1);
    }

    /// Counts the outcomes of an interval.
    pub(super) fn saw(&self, seen: &FlowStats) {
        // The shares are quotients of these counts.
        let count = |share: f64| (share * seen.outcomes as f64).round() as u64;
        let counters = &self.monitor.0.counters;
        counters.lost_adus.add(count(seen.lost));
        counters.dropped_adus.add(count(seen.dropped));
    }

    /// Counts what was handed to the session.
    pub(super) fn sent(&self, video: &Video, item: &Due) {
        let counters = &self.monitor.0.counters;
        match item {
            Due::Essential(Essential::Data {
                chunk,
                offset,
                total,
                data,
            }) => {
                let bytes = data.len() as u64;
                counters.essential_bytes.add(bytes);
                if u64::from(*offset) + bytes == u64::from(*total) {
                    for frame in video.frames(*chunk, Part::Essential) {
                        counters.frames[video.kind(frame) as usize].add(1);
                    }
                }
            }
            Due::Essential(Essential::Sent { left_out, .. }) => {
                counters.thinned.add(u64::from(*left_out));
            }
            Due::Enhanced(adu, _) => {
                counters.enhanced_bytes.add(adu.data.len() as u64);
                if let Some(kind) = video.ended_by(adu) {
                    counters.frames[kind as usize].add(1);
                }
            }
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.monitor.sessions().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::samples::film;

    #[test]
    fn a_session_is_shown_while_it_lasts() {
        let monitor = Monitor::new(Clock::system());
        let reporter = monitor.session("near");
        assert_eq!(monitor.state()["proxies"][0]["ticket"], "near");
        let need = Need {
            essential: Rate::from_kbps(200),
            enhanced: Rate::from_kbps(800),
            kept: 0.5,
            ..Need::default()
        };
        reporter.report(SessionState {
            plays: vec![("film".to_owned(), need)],
            part: 0.5,
            ..SessionState::default()
        });
        let state = monitor.state();
        let row = &state["proxies"][0];
        assert_eq!(row["target_bps"], 600_000);
        assert_eq!(row["plays"][0]["video"], "film");
        drop(reporter);
        let state = monitor.state();
        assert_eq!(state["proxies"], json!([]));
        assert_eq!(state["counters"]["sessions"], 1);
    }

    #[test]
    fn frames_are_counted_when_their_last_part_has_left() {
        let video = film(20);
        let monitor = Monitor::new(Clock::system());
        let reporter = monitor.session("near");
        let total = video.bytes(0, Part::Essential) as u32;
        let essential = video.frames(0, Part::Essential).count() as u64;
        let data = |offset: u32, bytes: u32| {
            Due::Essential(Essential::Data {
                chunk: 0,
                offset,
                total,
                data: Bytes::from(vec![0; bytes as usize]),
            })
        };
        let frames = || {
            let state = monitor.state();
            let frames = state["counters"]["frames"].as_object().unwrap().clone();
            let counts = frames.values().map(|count| count["sent"].as_u64().unwrap());
            counts.sum::<u64>()
        };
        reporter.sent(&video, &data(0, total - 1));
        assert_eq!(frames(), 0);
        reporter.sent(&video, &data(total - 1, 1));
        assert_eq!(frames(), essential);
        let left_out = Essential::Sent {
            chunk: 0,
            adus: 3,
            left_out: 2,
        };
        reporter.sent(&video, &Due::Essential(left_out));
        let outcomes = FlowStats {
            lost: 0.1,
            dropped: 0.3,
            outcomes: 10,
            ..FlowStats::default()
        };
        reporter.saw(&outcomes);
        let counters = &monitor.state()["counters"];
        assert_eq!(counters["essential_bytes"], total);
        assert_eq!(counters["thinned_frames"], 2);
        assert_eq!(
            (&counters["lost_adus"], &counters["dropped_adus"]),
            (&json!(1), &json!(3))
        );
    }
}

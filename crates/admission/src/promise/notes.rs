//! Last decisions about a promise, with their reasons.
//!
//! The decisions that follow from a path that is taken out of use name that as their cause.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anabranch_base::Instant;

use super::answer::{Grant, Reason, Refusal};

/// Decisions kept for an explanation.
const NOTES_MAX: usize = 16;
/// Time after a path was taken out in which decisions follow from it, although a placement was found meanwhile: the term of a
/// renewable promise.
const FOLLOWS: Duration = Duration::from_secs(10);

/// A decision about a promise, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Time.
    pub at: Instant,
    /// The decision.
    pub text: String,
}

/// A path taken out of use on which a promise depends.
#[derive(Debug)]
struct Cause {
    path: usize,
    at: Instant,
    text: Arc<str>,
    /// True if the promise was on this path; false if it was on others, where promises from this path may take its place.
    is_own: bool,
    /// True if the promise is to move to other paths.
    moves: bool,
}

/// Key: stream.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: VecDeque<Note>,
    cause: Option<Cause>,
}

impl Notes {
    /// The decisions, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Note> {
        self.last.iter()
    }

    pub(super) fn add(&mut self, at: Instant, text: String) {
        if self.last.len() == NOTES_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Note { at, text });
    }

    /// Adds a decision against the promise.
    pub(super) fn add_refusal(&mut self, at: Instant, decision: &str, refusal: &Refusal) {
        let is_taken = match &refusal.reason {
            Reason::Displaces(_) => true,
            Reason::TooLittle { taken, .. } => taken.as_bps() > 0,
            _ => false,
        };
        let text = match &self.cause {
            Some(cause) if cause.is_own || is_taken => {
                format!("{decision}: {}; {refusal}", cause.text)
            }
            _ => format!("{decision}: {refusal}"),
        };
        self.add(at, text);
    }

    /// Adds a promise: one that is new, or in place of the one that was on the path taken out.
    pub(super) fn add_grant(&mut self, at: Instant, grant: &Grant) {
        let text = match self.cause.as_mut().filter(|cause| cause.moves) {
            Some(cause) => {
                cause.moves = false;
                format!("promised: {}; {grant}", cause.text)
            }
            None => format!("promised: {grant}"),
        };
        self.add(at, text);
    }

    /// Notes that a path was taken out of use.
    pub(super) fn path_out(&mut self, at: Instant, (path, is_own): (usize, bool), text: &Arc<str>) {
        if is_own {
            self.add(at, text.to_string());
        } else if self.cause.is_some() {
            // One that it was on itself is the better reason.
            return;
        }
        self.cause = Some(Cause {
            path,
            at,
            text: text.clone(),
            is_own,
            moves: is_own,
        });
    }

    /// Notes that a path is used again.
    pub(super) fn path_in(&mut self, path: usize) {
        self.cause.take_if(|cause| cause.path == path);
    }

    /// Notes that a review found a place for the promise, on `paths` (in words).
    pub(super) fn placed(&mut self, now: Instant, paths: impl FnOnce() -> String) {
        let Some(cause) = &mut self.cause else {
            return;
        };
        let is_over = now.since(cause.at) >= FOLLOWS;
        if std::mem::take(&mut cause.moves) {
            let text = format!("now on {}: {}", paths(), cause.text);
            self.add(now, text);
        }
        self.cause.take_if(|_| is_over);
    }

    /// Notes that no promise is in force any more.
    pub(super) fn lapsed(&mut self) {
        self.cause = None;
    }

    /// Adds the decisions about an earlier demand of the stream before these.
    pub(super) fn inherit(&mut self, mut before: Self) {
        before.last.append(&mut self.last);
        self.last = before.last;
        let surplus = self.last.len().saturating_sub(NOTES_MAX);
        self.last.drain(..surplus);
        self.cause = self.cause.take().or(before.cause);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::{ChannelId, Rate, SessionId, StreamId};
    use anabranch_spec::{ChannelMask, Guarantee, StreamSpec};
    use anabranch_stats::joint::Cell;

    use super::super::{Notice, Promises, WINDOW};
    use super::*;

    const OUT: &str = "channel-0 was taken out of use by user 7";
    const CHANNELS: [Option<ChannelId>; 2] = [Some(ChannelId(0)), Some(ChannelId(1))];

    /// Promises over two paths, of 9 and of 2 Mbit/s.
    struct Paths {
        promises: Promises,
        now: Instant,
    }

    impl Paths {
        fn known() -> Self {
            let mut paths = Self {
                promises: Promises::new(SessionId(0), WINDOW),
                now: Instant::EPOCH,
            };
            paths.pass(60);
            paths
        }

        fn pass(&mut self, windows: u32) {
            for _ in 0..windows {
                self.now += WINDOW;
                let row = [Cell::Exact(9e6), Cell::Exact(2e6)];
                self.promises.observe(self.now, &row);
                let late = [Some(WINDOW); 2];
                let promises = &mut self.promises;
                promises.end_window(self.now, &CHANNELS, &late, |_| None);
            }
        }

        /// Promises a stream a rate on one path.
        fn open(&mut self, stream: u64, (kbps, probability): (u64, f64), path: usize) {
            let guarantee = Guarantee::rate(Rate::from_kbps(kbps), probability);
            let spec = StreamSpec::default().with_guarantee(guarantee);
            let demand = (&spec, ChannelMask::only(path));
            let opened = self
                .promises
                .open(self.now, StreamId(stream), demand, &CHANNELS);
            assert!(
                matches!(opened, Ok(Some(Notice::Promised(..)))),
                "{opened:?}"
            );
        }

        fn take_out(&mut self, stream: u64) {
            self.promises.path_out(self.now, 0, OUT);
            let left = ChannelMask::only(1);
            self.promises.permit(StreamId(stream), left);
        }

        /// Decisions about a stream after the first.
        fn decisions(&self, stream: u64) -> Vec<String> {
            let explained = self.promises.explain(StreamId(stream), &CHANNELS);
            let notes = explained.expect("it asked").notes.into_iter();
            notes.skip(1).map(|note| note.text).collect()
        }
    }

    #[test]
    fn a_promise_that_moves_to_another_path_says_why() {
        let mut paths = Paths::known();
        paths.open(1, (1_500, 0.95), 0);
        paths.take_out(1);
        paths.pass(1);
        let moved = format!("now on channel-1 with 1.53 Mbit/s: {OUT}");
        assert_eq!(paths.decisions(1), [OUT.to_owned(), moved.clone()]);
        paths.pass(40);
        assert_eq!(paths.decisions(1), [OUT.to_owned(), moved]);
    }

    #[test]
    fn a_promise_that_no_other_path_holds_is_warned_and_withdrawn_with_the_cause() {
        let mut paths = Paths::known();
        paths.open(1, (6_000, 0.95), 0);
        paths.take_out(1);
        paths.pass(20);
        let decisions = paths.decisions(1);
        assert_eq!(decisions.len(), 3, "{decisions:?}");
        assert_eq!(decisions[0], OUT);
        for (decision, word) in decisions[1..].iter().zip(["warned", "withdrawn"]) {
            let expected = format!("{word}: {OUT}; channel-1 provides");
            assert!(decision.starts_with(&expected), "{decision}");
        }
        let explained = paths.promises.explain(StreamId(1), &CHANNELS).unwrap();
        assert_eq!(explained.account.withdrawn, 1);
    }

    #[test]
    fn a_promise_that_gives_way_to_one_from_the_path_says_so() {
        let mut paths = Paths::known();
        paths.open(1, (1_500, 0.95), 0);
        paths.open(2, (1_000, 0.75), 1);
        paths.take_out(1);
        paths.pass(20);
        let decisions = paths.decisions(2);
        let warned = format!("warned: {OUT}; ");
        assert!(decisions[0].starts_with(&warned), "{decisions:?}");
    }

    #[test]
    fn what_happens_after_the_path_is_used_again_has_other_causes() {
        let mut paths = Paths::known();
        paths.open(1, (6_000, 0.95), 0);
        paths.take_out(1);
        paths.promises.path_in(0);
        // Another reason: its preferences change.
        paths.pass(20);
        let decisions = paths.decisions(1);
        assert!(decisions.len() == 3, "{decisions:?}");
        assert!(
            decisions[1].starts_with("warned: channel-1"),
            "{decisions:?}"
        );
        // And so has what follows long after.
        let mut paths = Paths::known();
        paths.open(1, (1_500, 0.95), 0);
        paths.take_out(1);
        paths.pass(12);
        paths.promises.permit(StreamId(1), ChannelMask::NONE);
        paths.pass(20);
        let decisions = paths.decisions(1);
        assert!(decisions[2].starts_with("warned: "), "{decisions:?}");
        assert!(!decisions[2].contains(OUT), "{decisions:?}");
    }
}

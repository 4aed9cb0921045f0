//! Choice of the next stream: strict priority, then weighted fair shares, then the earliest deadline.
//!
//! Every policy that decides only about channels uses this picker, so that they are compared on equal
//! terms. Fairness among equals is start-time fair queueing [Goyal et al., SIGCOMM 1996]: each stream
//! has a virtual finish time that advances by bytes over weight, and the smallest goes first. Of the
//! streams that have had no more than their share, which are all at the virtual time itself, the one
//! with the earliest deadline goes first, as in EEVDF [Stoica & Abdel-Wahab 1995]: a deadline comes
//! before other traffic, but not before the shares that the weights promise.
//!
//! [`Picker`] looks at all streams each time, and serves the policies that others are compared with;
//! `queue` keeps the same order from decision to decision, for the default.

mod heap;
mod queue;

use anabranch_base::{Instant, StreamId};

pub(crate) use self::queue::{Answer, FairQueue};
use crate::view::{StreamView, View};
use anabranch_spec::Priority;

/// Streams remembered before those that are no longer ahead of their share are forgotten.
const SERVED_MIN: usize = 64;

/// Remembers what each stream has been given. One per session.
#[derive(Clone, Debug)]
pub struct Picker {
    /// Virtual finish times, by stream, ascending. A stream that is not here is at `clock`.
    served: Vec<(StreamId, f64)>,
    /// Virtual time: the smallest finish time among streams served lately. A stream that was idle
    /// starts from here, so that silence is not saved up.
    clock: f64,
    /// Length of `served` at which to look for what can be forgotten.
    prune_at: usize,
}

impl Default for Picker {
    fn default() -> Self {
        Self {
            served: Vec::new(),
            clock: 0.0,
            prune_at: SERVED_MIN,
        }
    }
}

/// Precedence of a stream over others.
#[derive(Clone, Copy, Debug)]
struct Claim {
    priority: Priority,
    finish: f64,
    deadline: Option<Instant>,
}

impl Claim {
    /// True if this one goes first; of equal claims, the earlier in the view does.
    fn beats(&self, other: &Self) -> bool {
        if self.finish != other.finish {
            return self.finish < other.finish;
        }
        match (self.deadline, other.deadline) {
            (Some(mine), Some(theirs)) => mine < theirs,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

impl Picker {
    /// The next stream among those `eligible`, as an index into `view.streams`.
    ///
    /// O(streams in the view); streams that are not in it cost nothing.
    pub fn pick(&self, view: &View<'_>, eligible: impl Fn(&StreamView) -> bool) -> Option<usize> {
        self.pick_with(view, |index| eligible(&view.streams[index]).then_some(()))
            .map(|(index, ())| index)
    }

    /// The first stream in order for which `accept` has an answer, with the answer. A stream whose
    /// answer is `None` does not hold up others.
    ///
    /// O(streams in the view), and at most one call of `accept` for each; no allocation.
    pub fn pick_with<T>(
        &self,
        view: &View<'_>,
        mut accept: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let mut best: Option<(usize, T, Claim)> = None;
        let mut place = 0;
        for (index, stream) in view.streams.iter().enumerate() {
            if !stream.is_waiting() {
                continue;
            }
            let leader = best.as_ref().map(|(_, _, claim)| claim);
            if leader.is_some_and(|leader| stream.priority < leader.priority) {
                continue;
            }
            let claim = Claim {
                priority: stream.priority,
                finish: self.finish_time(stream.id, &mut place),
                deadline: stream.deadline,
            };
            let is_better = leader
                .is_none_or(|leader| stream.priority > leader.priority || claim.beats(leader));
            if is_better && let Some(answer) = accept(index) {
                best = Some((index, answer, claim));
            }
        }
        best.map(|(index, answer, _)| (index, answer))
    }

    /// The stream has been given `bytes`. O(log streams), but for a stream that is new here.
    pub fn charge(&mut self, stream: &StreamView, bytes: usize) {
        let start = self.finish_time(stream.id, &mut 0);
        self.clock = start;
        let finish = start + bytes as f64 / f64::from(stream.weight);
        match self.served.binary_search_by_key(&stream.id, |&(id, _)| id) {
            Ok(place) => self.served[place].1 = finish,
            Err(place) => {
                self.served.insert(place, (stream.id, finish));
                if self.served.len() >= self.prune_at {
                    self.prune();
                }
            }
        }
    }

    /// The stream is closed.
    pub fn forget(&mut self, stream: StreamId) {
        if let Ok(place) = self.served.binary_search_by_key(&stream, |&(id, _)| id) {
            self.served.remove(place);
        }
    }

    /// Bytes that the stream was given, over its weight, at least the virtual time. O(log streams).
    pub(crate) fn finish_of(&self, stream: StreamId) -> f64 {
        self.finish_time(stream, &mut 0)
    }

    /// Forgets streams that are not ahead of the virtual time: as if they had never been served.
    fn prune(&mut self) {
        let clock = self.clock;
        self.served.retain(|&(_, finish)| finish > clock);
        self.prune_at = (2 * self.served.len()).max(SERVED_MIN);
    }

    /// Looks at `place` first, and leaves there where the next stream is likely to be.
    fn finish_time(&self, stream: StreamId, place: &mut usize) -> f64 {
        let is_there = self.served.get(*place).is_some_and(|&(id, _)| id == stream);
        let found = if is_there {
            Ok(*place)
        } else {
            self.served.binary_search_by_key(&stream, |&(id, _)| id)
        };
        match found {
            Ok(at) => {
                *place = at + 1;
                self.served[at].1.max(self.clock)
            }
            Err(at) => {
                *place = at;
                self.clock
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use anabranch_base::Instant;
    use anabranch_spec::{ChannelChoice, Priority};

    pub(crate) fn stream(id: u64, priority: Priority, weight: u32, backlog: u64) -> StreamView {
        StreamView {
            id: StreamId(id),
            priority,
            weight,
            backlog_bytes: backlog,
            deadline: None,
            pinned: None,
            choice: ChannelChoice::default(),
            redundant: false,
            claim: None,
        }
    }

    fn shares(streams: &[StreamView], packets: usize) -> Vec<usize> {
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        };
        let mut picker = Picker::default();
        let mut counts = vec![0; streams.len()];
        for _ in 0..packets {
            let index = picker.pick(&view, |_| true).expect("a backlog");
            counts[index] += 1;
            picker.charge(&streams[index], 1400);
        }
        counts
    }

    #[test]
    fn equals_share_by_weight() {
        let streams = [
            stream(0, Priority::NORMAL, 100, 1),
            stream(2, Priority::NORMAL, 300, 1),
        ];
        assert_eq!(shares(&streams, 400), [100, 300]);
    }

    #[test]
    fn priority_goes_first() {
        let streams = [
            stream(0, Priority::BULK, 10_000, 1),
            stream(2, Priority::URGENT, 1, 1),
        ];
        assert_eq!(shares(&streams, 50), [0, 50]);
    }

    #[test]
    fn silence_is_not_saved_up() {
        let both = [
            stream(0, Priority::NORMAL, 100, 1),
            stream(2, Priority::NORMAL, 100, 1),
        ];
        let view = |streams| View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        };
        let mut picker = Picker::default();
        for _ in 0..1000 {
            let index = picker.pick(&view(&both[..1]), |_| true).expect("a backlog");
            picker.charge(&both[index], 1400);
        }
        let mut counts = [0, 0];
        for _ in 0..100 {
            let index = picker.pick(&view(&both), |_| true).expect("a backlog");
            counts[index] += 1;
            picker.charge(&both[index], 1400);
        }
        assert!(counts[0] >= 49, "{counts:?}");
    }

    #[test]
    fn of_equals_the_earliest_deadline_goes_first_within_its_share() {
        let mut streams = [0, 2, 4].map(|id| stream(id, Priority::NORMAL, 100, 1));
        streams[1].deadline = Some(Instant::from_millis(90));
        streams[2].deadline = Some(Instant::from_millis(80));
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams: &streams,
        };
        let mut picker = Picker::default();
        let mut order = Vec::new();
        for _ in 0..6 {
            let index = picker.pick(&view, |_| true).expect("a backlog");
            order.push(index);
            picker.charge(&streams[index], 1400);
        }
        assert_eq!(order, [2, 1, 0, 2, 1, 0]);
    }

    #[test]
    fn streams_that_were_served_long_ago_are_forgotten() {
        let mut picker = Picker::default();
        let busy = stream(0, Priority::NORMAL, 100, 1);
        for id in 1..10_000 {
            picker.charge(&stream(id, Priority::NORMAL, 100, 1), 100);
            picker.charge(&busy, 1400);
        }
        assert!(
            picker.served.len() < 2 * SERVED_MIN,
            "{}",
            picker.served.len()
        );
    }
}

//! Changes of a viewer's pipeline while it is subscribed: the time of each, and that of the first ADU by it.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_process::Pipeline;
use anabranch_processing::wire::Request;

/// Time between two changes: no multiple of a period, so that they come at all places between two frames.
const EVERY: Duration = Duration::from_millis(1_007);

/// A change of the pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    number: u32,
    asked: Instant,
    came: Option<Instant>,
    /// ADUs by earlier pipelines that came a round trip after it was asked for, or later.
    stale: u32,
}

/// Two pipelines in turn.
#[derive(Debug)]
pub(super) struct Changing {
    pipelines: [Pipeline; 2],
    due: Instant,
    round_trip: Duration,
    pub(super) changes: Vec<Change>,
}

impl Change {
    /// Time from the request to the first ADU that was derived by it; `None`: none came.
    pub(super) fn latency(&self) -> Option<Duration> {
        Some(self.came?.since(self.asked))
    }

    /// ADUs by earlier pipelines that came a round trip after it was asked for, or later.
    pub(super) fn stale(&self) -> u32 {
        self.stale
    }
}

impl Changing {
    /// Between these, from that time on, over a leg with this round trip.
    pub(super) fn new(pipelines: [Pipeline; 2], from: Instant, round_trip: Duration) -> Self {
        Self {
            pipelines,
            due: from,
            round_trip,
            changes: Vec::new(),
        }
    }

    /// Time of the next change.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The request, if it is time for one.
    pub(super) fn request(&mut self, now: Instant) -> Option<Request> {
        if now < self.due {
            return None;
        }
        self.due = now + EVERY;
        let number = self.changes.len() as u32 + 1;
        self.changes.push(Change {
            number,
            asked: now,
            came: None,
            stale: 0,
        });
        let pipeline = self.pipelines[(number % 2) as usize].to_string();
        Some(Request::Change { number, pipeline })
    }

    /// An ADU has come that was derived by the pipeline of this number.
    pub(super) fn came(&mut self, number: u32, at: Instant) {
        for change in self.changes.iter_mut().rev() {
            if change.number <= number {
                // One that is followed by another before an ADU of it came is seen by that.
                change.came.get_or_insert(at);
                break;
            }
            if at >= change.asked + self.round_trip {
                change.stale += 1;
            }
        }
    }
}

//! Promises without a session: for experiments and tools that have windows of capacity, and no packets.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::{
    StreamSpec,
    mapping::{Capacity, Request},
};
use anabranch_stats::joint::Cell;

use super::{Explanation, Grant, Notice, OVERHEAD, Promises, Refusal, WINDOW};

/// The same decisions as in a session (admission, renewal, notice, withdrawal), over paths whose capacity is told
/// window by window instead of measured. Path *i* is [`ChannelId`]`(i)`. A window is one second.
#[derive(Debug)]
pub struct AdmissionController {
    promises: Promises,
    now: Instant,
    channels: Vec<Option<ChannelId>>,
}

/// A stream that has a promise or waits for one, as the mapping sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What is mapped: its rate has headers added ([`AdmissionController::OVERHEAD`]), `before` is its placement.
    pub request: Request,
    /// A promise is in force.
    pub is_in_force: bool,
}

impl AdmissionController {
    /// The scheduling window.
    pub const WINDOW: Duration = WINDOW;
    /// What headers add to a stream's bytes, as a factor: a stream of rate r takes so much more of its paths.
    pub const OVERHEAD: f64 = OVERHEAD;

    /// Of which nothing is known, with paths 0 to `paths` − 1; at most 64.
    pub fn new(paths: usize) -> Self {
        Self {
            promises: Promises::new(WINDOW),
            now: Instant::EPOCH,
            channels: (0..paths.min(64) as u64)
                .map(|path| Some(ChannelId(path)))
                .collect(),
        }
    }

    /// The end of the last window.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What would be answered if a stream with this spec were opened now.
    ///
    /// # Errors
    /// The refusal, with what could be promised instead.
    pub fn admit(&mut self, spec: &StreamSpec) -> Result<Grant, Refusal> {
        self.promises.admit(self.now, spec, &self.channels)
    }

    /// Opens a stream; `None` when it waits, or asks for no guarantee.
    ///
    /// # Errors
    /// The refusal; then it is not open.
    pub fn open(&mut self, stream: StreamId, spec: &StreamSpec) -> Result<Option<Grant>, Refusal> {
        let notice = self.promises.open(self.now, stream, spec, &self.channels)?;
        self.hand_over();
        Ok(match notice {
            Some(Notice::Promised(_, grant)) => Some(grant),
            _ => None,
        })
    }

    /// An open stream asks for what `spec` says instead; the grant, when it is promised that at once.
    ///
    /// # Errors
    /// The refusal; then all is as it was.
    pub fn change(
        &mut self,
        stream: StreamId,
        spec: &StreamSpec,
    ) -> Result<Option<Grant>, Refusal> {
        let notice = self
            .promises
            .change(self.now, stream, spec, &self.channels)?;
        self.hand_over();
        Ok(match notice {
            Some(Notice::Promised(_, grant)) => Some(grant),
            _ => None,
        })
    }

    /// A stream is over.
    pub fn close(&mut self, stream: StreamId) {
        self.promises.close(stream);
        self.hand_over();
    }

    /// `bytes` of the stream arrived in the running window.
    pub fn arrived(&mut self, stream: StreamId, bytes: u64) {
        self.promises.acked(stream, bytes);
    }

    /// A window is over in which path i held `rates_bps[i]`, in bits per second, finite and at least 0.
    /// `is_behind` tells of a stream whether it had more to send than arrived.
    pub fn end_window(
        &mut self,
        rates_bps: &[f64],
        is_behind: impl Fn(StreamId) -> bool,
    ) -> Vec<Notice> {
        let row: Vec<Cell> = rates_bps.iter().map(|&bps| Cell::Exact(bps)).collect();
        self.promises.observe(&row);
        let began = self.now;
        self.now += WINDOW;
        // What is behind has been since the window began.
        let since = |stream| is_behind(stream).then_some(began);
        let late = WINDOW / 2;
        let notices = self
            .promises
            .end_window(self.now, &self.channels, late, since);
        self.hand_over();
        notices
    }

    /// In the order in which they are reviewed: those with a promise in force by precedence, then the others.
    pub fn candidates(&self) -> Vec<Candidate> {
        let candidate = |stream: StreamId| {
            let entry = self.promises.streams.get(&stream)?;
            Some(Candidate {
                request: entry.request(stream, &self.channels, OVERHEAD),
                is_in_force: entry.is_in_force(),
            })
        };
        let order = self.promises.order();
        order.into_iter().filter_map(candidate).collect()
    }

    /// What sets of paths hold, as far as is known: what promises are made from.
    pub fn capacity(&mut self) -> impl Capacity + '_ {
        self.promises.history.view(&self.channels)
    }

    /// Reason why a stream is promised what it is, or not; `None`: it never asked.
    pub fn explain(&self, stream: StreamId) -> Option<Explanation> {
        self.promises.explain(stream, &self.channels)
    }

    /// As a session hands the mapping to its scheduler, which settles ranks.
    fn hand_over(&mut self) {
        let _ = self.promises.take_plan(&self.channels);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_sched::{Guarantee, mapping::Term};

    use super::*;

    fn spec(kbps: u64, probability: f64) -> StreamSpec {
        let guarantee = Guarantee::rate(Rate::from_kbps(kbps), probability);
        StreamSpec::default().with_guarantee(guarantee.waiting())
    }

    #[test]
    fn a_desk_promises_what_paths_hold_and_keeps_account() {
        let mut controller = AdmissionController::new(2);
        assert!(
            controller.admit(&spec(1_000, 0.9)).is_err(),
            "nothing is known"
        );
        for _ in 0..60 {
            controller.end_window(&[4e6, 2e6], |_| false);
        }
        let stream = StreamId(1);
        let grant = controller
            .open(stream, &spec(3_000, 0.9))
            .expect("it waits");
        let grant = grant.expect("there is room");
        assert_eq!(grant.term, Term::Renewable);
        assert_eq!(grant.shares.len(), 1);
        let offer = controller
            .admit(&spec(5_000, 0.9))
            .expect_err("too much")
            .offer;
        assert!(offer.rate.is_some());
        let [candidate] = &controller.candidates()[..] else {
            panic!("one stream");
        };
        assert!(candidate.is_in_force);
        for window in 0..10 {
            let is_bad = window == 3;
            controller.arrived(stream, if is_bad { 1_000 } else { 375_000 });
            controller.end_window(&[4e6, 2e6], |_| is_bad);
        }
        let account = controller.explain(stream).expect("it asked").account;
        assert_eq!((account.kept, account.broken), (9, 1));
        controller.close(stream);
        assert!(controller.candidates().is_empty());
    }
}

//! Admission controller without a session, for experiments and tools that have windows of capacity and no packets.

use std::time::Duration;

use crate::mapping::{Capacity, Request};
use anabranch_base::{ChannelId, Instant, SessionId, StreamId};
use anabranch_spec::{ChannelMask, Shares, StreamSpec};
use anabranch_stats::joint::Cell;

use super::{Explanation, Grant, Notice, OVERHEAD, Promises, Refusal, WINDOW, beside::Beside};

/// The same decisions as in a session (admission, renewal, notice, withdrawal), over paths whose capacity is given
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
    /// Its request to the mapping: its rate includes headers ([`AdmissionController::OVERHEAD`]), `before` is its placement.
    pub request: Request,
    /// True if a promise is in force.
    pub is_in_force: bool,
}

impl AdmissionController {
    /// The scheduling window.
    pub const WINDOW: Duration = WINDOW;
    /// Overhead of headers, as a factor: a stream of rate r takes so much more of its paths.
    pub const OVERHEAD: f64 = OVERHEAD;

    /// Creates a controller with paths 0 to `paths` − 1, at most 64, of which nothing is known.
    pub fn new(paths: usize) -> Self {
        Self {
            promises: Promises::new(SessionId(0), WINDOW),
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

    /// The answer that a stream with this spec would get if it were opened now.
    ///
    /// # Errors
    /// The refusal, with what could be promised instead.
    pub fn admit(&mut self, spec: &StreamSpec) -> Result<Grant, Refusal> {
        self.promises
            .admit(self.now, (spec, ChannelMask::ALL), &self.channels)
    }

    /// Opens a stream; `None` when it waits, or demands no guarantee.
    ///
    /// # Errors
    /// The refusal; the stream is not opened.
    pub fn open(&mut self, stream: StreamId, spec: &StreamSpec) -> Result<Option<Grant>, Refusal> {
        let notice =
            self.promises
                .open(self.now, stream, (spec, ChannelMask::ALL), &self.channels)?;
        self.hand_over();
        Ok(match notice {
            Some(Notice::Promised(_, grant)) => Some(grant),
            _ => None,
        })
    }

    /// Changes the demand of an open stream to that of `spec`; returns the grant when it is promised at once.
    ///
    /// # Errors
    /// The refusal; nothing has changed.
    pub fn change(
        &mut self,
        stream: StreamId,
        spec: &StreamSpec,
    ) -> Result<Option<Grant>, Refusal> {
        let notice =
            self.promises
                .change(self.now, stream, (spec, ChannelMask::ALL), &self.channels)?;
        self.hand_over();
        Ok(match notice {
            Some(Notice::Promised(_, grant)) => Some(grant),
            _ => None,
        })
    }

    /// The answer that the demand of an open stream would get now; see [`Promises::admit_again`].
    ///
    /// # Errors
    /// The refusal, with what could be promised instead.
    pub fn admit_again(&mut self, stream: StreamId, spec: &StreamSpec) -> Result<Grant, Refusal> {
        self.promises
            .admit_again(self.now, stream, (spec, ChannelMask::ALL), &self.channels)
    }

    /// Sets the largest shares of tenants, for promises that are made or raised from now on.
    pub fn set_shares(&mut self, shares: Shares) {
        self.promises.set_shares(shares.into());
    }

    /// Closes a stream.
    pub fn close(&mut self, stream: StreamId) {
        self.promises.close(stream);
        self.hand_over();
    }

    /// Adds `bytes` of the stream that arrived in the current window.
    pub fn arrived(&mut self, stream: StreamId, bytes: u64) {
        self.promises.acked(stream, bytes);
    }

    /// Ends a window in which path i carried `rates_bps[i]`, in bits per second, finite and at least 0.
    /// `is_behind` returns whether a stream had more to send than arrived.
    pub fn end_window(
        &mut self,
        rates_bps: &[f64],
        is_behind: impl Fn(StreamId) -> bool,
    ) -> Vec<Notice> {
        let row: Vec<Cell> = rates_bps.iter().map(|&bps| Cell::Exact(bps)).collect();
        let began = self.now;
        self.now += WINDOW;
        self.promises.observe(self.now, &row);
        // A stream that is behind has been since the window began.
        let since = |stream| is_behind(stream).then_some(began);
        let late = vec![Some(WINDOW / 2); rates_bps.len()];
        let notices = self
            .promises
            .end_window(self.now, &self.channels, &late, since);
        self.hand_over();
        notices
    }

    /// Streams in the order of review: those with a promise in force by precedence, then the others.
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

    /// Known capacity of sets of paths, from which promises are made.
    pub fn capacity(&mut self) -> impl Capacity + '_ {
        self.promises.history.view(&self.channels, Beside::NOBODY)
    }

    /// Explanation of a stream's promise or refusal; `None`: it never demanded one.
    pub fn explain(&self, stream: StreamId) -> Option<Explanation> {
        self.promises.explain(stream, &self.channels)
    }

    /// Takes the plan as a session does for its scheduler, which assigns ranks.
    fn hand_over(&mut self) {
        let _ = self.promises.take_plan(&self.channels);
    }
}

#[cfg(test)]
mod tests {
    use crate::mapping::Term;
    use anabranch_base::Rate;
    use anabranch_spec::Guarantee;

    use super::*;

    fn spec(kbps: u64, probability: f64) -> StreamSpec {
        let guarantee = Guarantee::rate(Rate::from_kbps(kbps), probability);
        StreamSpec::default().with_guarantee(guarantee.waiting())
    }

    #[test]
    fn what_a_slow_path_holds_is_offered_however_much_was_demanded() {
        let mut controller = AdmissionController::new(1);
        for _ in 0..60 {
            controller.end_window(&[1e6], |_| false);
        }
        let refusal = controller.admit(&spec(100_000_000, 0.5));
        let offer = refusal.expect_err("too much").offer;
        let rate = offer.rate.expect("something is possible");
        assert!(
            rate > Rate::from_kbps(900) && rate < Rate::from_mbps(1),
            "{rate}"
        );
    }

    #[test]
    fn a_controller_promises_what_paths_hold_and_keeps_account() {
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
        let grant = grant.expect("there is capacity");
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

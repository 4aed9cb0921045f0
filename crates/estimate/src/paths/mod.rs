//! Measurements of a session's paths while it uses them.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | windows common to all paths, shared bottlenecks |
//! | `path` | the estimators of one path |
//! | `table` | places for paths, and what stays known when addresses change |
//!
//! A *path* is a pair of local socket and remote address; a channel that is lost and opened again on the
//! same path inherits the earlier measurements, and so does one on a path that takes its place. Bandwidth is counted in windows of equal length that all
//! paths share, so that one row of samples was measured at one time [DESIGN §5]. Windows run while
//! anything is sent, or waits for a path; idle time is not measured.

mod path;
mod table;

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_stats::{
    bottleneck::{Detector, Verdict, detector},
    joint::Cell,
};

use crate::{
    on_time::{self, Deliveries, Question},
    order::Settled,
    report::PathReport,
};
use path::{Path, RoundTrip};
use table::Table;

pub use table::{Ends, Kept, RECENT_WINDOWS, Replaced};

/// After a silence of this many windows, counting starts again.
const IDLE_WINDOWS: u32 = 2;
/// A host that evaluates windows so much later was suspended, or its clock jumped.
const STALLED: Duration = Duration::from_secs(2);
/// Noise that delayed acknowledgements (4 ms at most, unless configured) leave in the mean round-trip time
/// of a few packets: its deviation is 0.5 ms.
const NOISE: Duration = Duration::from_millis(1);
/// Time after which the outcome of a packet is known.
const HORIZON: Duration = Duration::from_secs(3);

/// Estimators of all paths of a session.
#[derive(Debug)]
pub(crate) struct Paths {
    window: Duration,
    /// Time at which the current window ends; `None` while nothing is sent.
    ends_at: Option<Instant>,
    used_at: Instant,
    /// Data waits; and it did all the time since the current window began.
    waits: bool,
    has_waited: bool,
    table: Table,
    /// Paths replaced since they were taken last.
    replaced: Vec<Replaced>,
    row: Vec<Cell>,
    deliveries: Deliveries,
    detector: Option<Detector>,
    advanced_at: Instant,
}

impl Paths {
    /// Creates measurements in windows of `window`, 100 ms to 1 s.
    pub(crate) fn new(window: Duration) -> Self {
        Self {
            window,
            ends_at: None,
            used_at: Instant::EPOCH,
            waits: false,
            has_waited: false,
            table: Table::default(),
            replaced: Vec::new(),
            row: Vec::new(),
            deliveries: Deliveries::default(),
            detector: None,
            advanced_at: Instant::EPOCH,
        }
    }

    /// Records that `channel` now uses this path.
    pub(crate) fn join(&mut self, channel: ChannelId, ends: Ends) {
        let count = self.table.paths.len();
        let Some((path, kept)) = self.table.place(channel, ends) else {
            return;
        };
        if path == count {
            self.widen();
        } else if kept < Kept::Everything {
            self.replace(path, kept);
        }
        if kept == Kept::Nothing
            && let Some(ends_at) = self.ends_at
        {
            // It missed a part of the current window.
            let path = &mut self.table.paths[path];
            path.begin(ends_at - self.window, self.window);
            path.ran_dry();
        }
    }

    /// The place of a path is that of another one now, or empty.
    fn replace(&mut self, path: usize, kept: Kept) {
        if let Some(detector) = &mut self.detector {
            let _ = detector.forget(path);
        }
        let replaced = Replaced { path, kept };
        self.deliveries.forget(path, replaced.windows_kept());
        self.replaced.push(replaced);
    }

    /// Paths that were replaced by others since the last call.
    pub(crate) fn take_replaced(&mut self) -> Vec<Replaced> {
        std::mem::take(&mut self.replaced)
    }

    /// Extends the shared state by one more path.
    fn widen(&mut self) {
        let count = self.table.paths.len();
        match &mut self.detector {
            // Beyond the detector's capacity, the new path is not examined.
            Some(detector) => {
                let _ = detector.add_channel();
            }
            None if count == 2 => {
                let config = detector::Config {
                    noise: NOISE,
                    ..detector::Config::new(count)
                };
                self.detector = Detector::new(config).ok();
            }
            None => {}
        }
    }

    /// The channel of each path, in the order of the cells of a row; `None` while a path has none.
    pub(crate) fn channels(&self) -> impl Iterator<Item = Option<ChannelId>> {
        self.table.paths.iter().map(Path::channel)
    }

    /// The local socket of each path, in the same order.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.table.paths.iter().map(|path| path.ends.socket)
    }

    fn index(&self, channel: ChannelId) -> Option<usize> {
        self.table.index(channel)
    }

    /// Records that a container of `bytes` was sent on `channel`.
    pub(crate) fn sent(&mut self, now: Instant, channel: ChannelId, bytes: usize) {
        let Some(index) = self.index(channel) else {
            return;
        };
        self.measure(now);
        if let Some(detector) = &mut self.detector {
            let _ = detector.observe_sent(index, now, u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Measures the current window, even if nothing is sent in it: data waits, and no path takes it.
    pub(crate) fn measure(&mut self, now: Instant) {
        if self.ends_at.is_none() {
            self.ends_at = Some(now + self.window);
            for path in &mut self.table.paths {
                path.begin(now, self.window);
            }
        }
        self.used_at = now;
    }

    /// Records that a container of `bytes`, sent at `sent_at`, was acknowledged after `rtt`.
    pub(crate) fn acked(
        &mut self,
        channel: ChannelId,
        bytes: u64,
        sent_at: Instant,
        rtt: Duration,
    ) {
        let Some(index) = self.index(channel) else {
            return;
        };
        self.table.paths[index].acked(bytes, sent_at, rtt);
        if let Some(detector) = &mut self.detector
            && let Some(youngest) = self.table.paths[index].youngest(RoundTrip { sent_at, rtt })
        {
            let delay_s = youngest.rtt.as_secs_f64();
            let _ = detector.observe_delay(index, youngest.sent_at, delay_s);
        }
    }

    /// Records that a container was lost.
    pub(crate) fn lost(&mut self, channel: ChannelId) {
        let Some(index) = self.index(channel) else {
            return;
        };
        self.table.paths[index].lost();
        if let Some(detector) = &mut self.detector {
            let _ = detector.observe_loss(index);
        }
    }

    /// Takes packets in the order of sending into the loss statistics.
    pub(crate) fn settle(&mut self, channel: ChannelId, settled: &[Settled]) {
        if let Some(index) = self.index(channel) {
            self.table.paths[index].settle(settled);
        }
    }

    /// Records whether data waits for the paths from now on.
    pub(crate) fn note_backlog(&mut self, is_there: bool) {
        self.waits = is_there;
        self.has_waited &= is_there;
    }

    /// Records that `channel` had capacity and there was nothing to send.
    pub(crate) fn ran_dry(&mut self, channel: ChannelId) {
        if let Some(index) = self.index(channel) {
            self.table.paths[index].ran_dry();
        }
    }

    /// Records that the channel is over; another one may use its path later.
    pub(crate) fn leave(&mut self, channel: ChannelId) {
        if let Some(emptied) = self.table.leave(channel) {
            self.replace(emptied, Kept::Nothing);
        }
    }

    /// Time at which [`Paths::advance`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.ends_at
    }

    /// Evaluates the windows that have ended by `now`, and passes the row of each to `row`.
    pub(crate) fn advance(&mut self, now: Instant, mut row: impl FnMut(&[Cell])) {
        if self.ends_at.is_some_and(|at| now.since(at) >= STALLED) {
            // What happened meanwhile was not observed.
            self.ends_at = None;
        }
        while let Some(ends_at) = self.ends_at.filter(|&at| at <= now) {
            self.end_window(ends_at);
            self.deliveries.push(&self.row, self.has_waited);
            self.has_waited = self.waits;
            row(&self.row);
            let is_idle = ends_at.since(self.used_at) >= self.window * IDLE_WINDOWS;
            self.ends_at = (!is_idle).then_some(ends_at + self.window);
        }
        if let Some(detector) = &mut self.detector
            && now.since(self.advanced_at) >= self.window
        {
            self.advanced_at = now;
            detector.advance(now - HORIZON.min(now.since_epoch()));
        }
    }

    fn end_window(&mut self, now: Instant) {
        self.row.clear();
        for path in &mut self.table.paths {
            self.row.push(path.end_window(now));
        }
    }

    /// Place of a channel's path in a row.
    pub(crate) fn place(&self, channel: ChannelId) -> Option<usize> {
        self.index(channel)
    }

    /// Probability that so many packets are sent without a loss on the path in this place.
    pub(crate) fn loss_free(&self, place: usize, packets: usize) -> f64 {
        let path = self.table.paths.get(place);
        path.map_or(1.0, |path| path.loss_free(packets))
    }

    /// Answer to a question that is asked at `now`.
    pub(crate) fn on_time(&self, now: Instant, question: Question<'_>) -> Option<f64> {
        let left = self.ends_at.map_or(self.window, |at| at.since(now));
        let passed = self.window.saturating_sub(left);
        let question = Question {
            phase: passed.as_secs_f64() / self.window.as_secs_f64(),
            window: self.window,
            ..question
        };
        on_time::on_time(&self.deliveries, &question)
    }

    /// True if two channels are found to share a bottleneck.
    pub(crate) fn share_bottleneck(&self, one: ChannelId, other: ChannelId) -> bool {
        let (Some(one), Some(other)) = (self.index(one), self.index(other)) else {
            return false;
        };
        self.detector
            .as_ref()
            .is_some_and(|detector| detector.verdict(one, other) == Ok(Verdict::Shared))
    }

    /// State of the path of `channel`; `None` before anything was measured.
    pub(crate) fn report(&mut self, channel: ChannelId) -> Option<PathReport> {
        let index = self.index(channel)?;
        let mut report = self.table.paths[index].report(self.window)?;
        if let Some(detector) = &self.detector {
            // Each pair by its own evidence: if sharing were transitive, one error would cause several.
            let shares = |other: usize| {
                other != index && detector.verdict(index, other) == Ok(Verdict::Shared)
            };
            report.shares_with = (0..self.table.paths.len())
                .filter(|&other| shares(other))
                .filter_map(|other| self.table.paths[other].channel())
                .collect();
        }
        Some(report)
    }
}

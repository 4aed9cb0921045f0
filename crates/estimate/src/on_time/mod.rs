//! Probability that data sent now arrives in time, from what the paths carried in earlier windows.
//!
//! Bytes are acknowledged in the order of sending on each path. Let a path have F bytes in flight and a shortest round trip ρ. Data
//! that is sent on it from now on has arrived by the time t if its acknowledgement comes by T = t + ρ/2, which is after those F
//! bytes, and a round trip from now at the earliest. So the path delivers at most
//!
//! ```text
//! min( A(0, T) − F,  A(ρ, T) )
//! ```
//!
//! bytes of it in time, where A(a, b) is what is acknowledged between a and b from now, if there is always something to send.
//! The data is in time if the sum over its paths reaches the bytes ahead of it and its own. Bytes ahead that have a deadline of
//! their own are given up then, as far as they were not sent: the data can be in time if it is sent from that deadline d on, behind
//! what is in flight. Until d the paths are kept full, so that this is F at least, and the sum is that of min( A(d, T) − F, A(d + ρ, T) ).
//!
//! A is not known yet; its distribution is that of earlier times. Each earlier window takes the place of the present one, at the same
//! phase, with weight by how near the rate just before was to the rate just now; the probability is the weight of those in
//! which the sum is reached, as a share of those that tell. A window in which the sender did not fill the paths tells if they
//! carried enough even so, or could have at their present rate. Windows whose end has not come yet tell if what has come suffices.
//!
//! The weights and the set of windows do not depend on the time and the bytes asked for, and a window is never less on time with
//! more time or fewer bytes: so the probability rises with the one and falls with the other.

mod deliveries;
mod losses;

use std::time::Duration;

pub use self::{
    deliveries::{Carried, Deliveries},
    losses::loss_free,
};

/// Fewest windows for an answer: ten seconds of 200 ms.
const ROWS_MIN: usize = 50;
/// Least weight of the windows that tell, in windows like the present one.
const WEIGHT_MIN: f64 = 4.0;
/// Least share of the weight that they must have.
const SHARE_MIN: f64 = 0.5;
/// Standard deviation of the logarithm of the rate within which windows count as similar.
const SIMILAR: f64 = 0.15;
/// Weight of the least similar ones.
const WEIGHT_LEAST: f64 = 0.02;
/// Rate below which a path stands still, in bytes per second, for comparisons.
const STILL: f64 = 1_000.0;

/// A path that the data may take, as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathNow {
    /// Its place in a row of [`Deliveries`].
    pub path: usize,
    /// Bytes in flight on it, at least 0.
    pub in_flight_bytes: f64,
    /// Its shortest round-trip time.
    pub rtt_min: Duration,
    /// The rate that it is known to deliver at present, in bytes per second; 0 while unknown. Windows that were not filled count
    /// with at least this.
    pub bytes_per_s: f64,
    /// Rate of data that goes before on it and has not been handed over yet, in bytes per second.
    pub reserved_bytes_per_s: f64,
}

/// The data of a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question<'a> {
    /// The paths that it may take.
    pub paths: &'a [PathNow],
    /// Bytes that have to arrive, headers included: those ahead of it and its own.
    pub bytes: f64,
    /// Time from now within which they must.
    pub within: Duration,
    /// Bytes ahead of it that are given up after `expires`, as far as they have not been sent.
    pub expiring_bytes: f64,
    /// Time from now until they are.
    pub expires: Duration,
    /// Every path carries all of it; otherwise they share it.
    pub is_redundant: bool,
    /// Part of the current window that has passed; 0 to 1.
    pub phase: f64,
    /// Length of a window.
    pub window: Duration,
}

/// Probability that the data arrives in time if nothing of it is lost, within [0, 1]; `None` while too little is known.
/// O(windows · paths · n), where n is the number of windows in which the data is carried, or has to be.
pub fn on_time(deliveries: &Deliveries, question: &Question<'_>) -> Option<f64> {
    let rows = deliveries.rows();
    if rows < ROWS_MIN || question.paths.is_empty() {
        return None;
    }
    if question
        .paths
        .iter()
        .all(|path| path.rtt_min / 2 > question.within)
    {
        return Some(0.0);
    }
    let now = rate_before(deliveries, question.paths, rows);
    let (mut reached, mut missed, mut open) = (0.0, 0.0, 0.0);
    for start in 2..rows {
        let weight = similarity(rate_before(deliveries, question.paths, start), now);
        match is_reached(deliveries, question, start) {
            Some(true) => reached += weight,
            Some(false) => missed += weight,
            None => open += weight,
        }
    }
    let tell = reached + missed;
    let is_known = tell >= WEIGHT_MIN && tell >= SHARE_MIN * (tell + open);
    // Half a window each way: nothing is certain.
    is_known.then(|| (reached + 0.5) / (tell + 1.0))
}

/// Rate of the paths together just before the window `start`, in bytes per second: the mean of the two windows before it.
fn rate_before(deliveries: &Deliveries, paths: &[PathNow], start: usize) -> f64 {
    let rate = |path: &PathNow| {
        let both = [start - 1, start - 2].map(|row| capacity(deliveries, path, row).0);
        f64::midpoint(both[0], both[1])
    };
    paths.iter().map(rate).sum()
}

/// Rate that a path could have carried in a window, in bytes per second, and whether that is exact.
fn capacity(deliveries: &Deliveries, path: &PathNow, row: usize) -> (f64, bool) {
    match deliveries.get(row, path.path) {
        Some(carried) if carried.is_exact => (carried.bytes_per_s, true),
        Some(carried) => (carried.bytes_per_s.max(path.bytes_per_s), false),
        None => (path.bytes_per_s, false),
    }
}

/// Weight of a window before which the rate was `then`, while it is `now`.
fn similarity(then: f64, now: f64) -> f64 {
    let distance = ((then + STILL) / (now + STILL)).ln() / SIMILAR;
    (-0.5 * distance * distance).exp().max(WEIGHT_LEAST)
}

/// True if the data would have been in time, had the present been at the window `start`; `None` if that window does not tell.
fn is_reached(deliveries: &Deliveries, question: &Question<'_>, start: usize) -> Option<bool> {
    let all = question.bytes + question.expiring_bytes;
    let (delivered, mut is_exact) = delivered(deliveries, question, (Duration::ZERO, all), start);
    if delivered >= all {
        return Some(true);
    }
    if question.expiring_bytes > 0.0 && question.expires < question.within {
        let own = (question.expires, question.bytes);
        let (delivered, is_own_exact) = self::delivered(deliveries, question, own, start);
        if delivered >= question.bytes {
            return Some(true);
        }
        is_exact &= is_own_exact;
    }
    is_exact.then_some(false)
}

/// Bytes of new data, sent from a time on, that the paths would have delivered in time, and whether it could not have been more.
/// More than `enough` is not counted.
fn delivered(
    deliveries: &Deliveries,
    question: &Question<'_>,
    (from, enough): (Duration, f64),
    start: usize,
) -> (f64, bool) {
    let (mut delivered, mut is_exact) = (0.0, true);
    for path in question.paths {
        let (bytes, is_path_exact) =
            delivered_by(deliveries, question, path, (from, enough), start);
        delivered = match question.is_redundant {
            true => bytes.max(delivered),
            false => delivered + bytes,
        };
        is_exact &= is_path_exact;
    }
    (delivered, is_exact)
}

/// The same of one path.
fn delivered_by(
    deliveries: &Deliveries,
    question: &Question<'_>,
    path: &PathNow,
    (from, enough): (Duration, f64),
    start: usize,
) -> (f64, bool) {
    let window_s = question.window.as_secs_f64();
    let after = |time: Duration| {
        start as f64 + question.phase.clamp(0.0, 1.0) + time.as_secs_f64() / window_s
    };
    let begin = after(from);
    let first = after(from.saturating_add(path.rtt_min));
    let end = after(question.within.saturating_add(path.rtt_min / 2));
    let (mut all, mut new, mut is_exact) = (0.0, 0.0, true);
    let mut row = begin as usize;
    // More than this is not asked for: a long time costs no more than the data takes.
    let enough = enough + path.in_flight_bytes;
    while (row as f64) < end && (new < enough || all < enough) {
        if row >= deliveries.rows() {
            is_exact = false;
            break;
        }
        let overlap = |from: f64| {
            let (low, high) = (from.max(row as f64), end.min((row + 1) as f64));
            (high - low).max(0.0) * window_s
        };
        let (rate, is_row_exact) = capacity(deliveries, path, row);
        let left = (rate - path.reserved_bytes_per_s).max(0.0);
        all += rate * overlap(begin);
        new += left * overlap(first);
        is_exact &= is_row_exact;
        row += 1;
    }
    (new.min(all - path.in_flight_bytes).max(0.0), is_exact)
}

#[cfg(test)]
mod tests;

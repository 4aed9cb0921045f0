//! Capacity that the promises of other sessions leave of a set of paths, window by window (see `beside`).

use anabranch_spec::ChannelMask;
use anabranch_stats::{
    durable::Durable,
    joint::{Cell, JointWindow},
};

use super::{
    beside::{Beside, Sharing, Standing},
    history::{WINDOWS_MIN, sum},
};

/// Capacity of one set beside the promises that count.
#[derive(Clone, Debug)]
pub(super) struct Left {
    set: ChannelMask,
    /// The promises that count: those that go before this one; `None`: all.
    before: Option<Standing>,
    /// By window, oldest first, in bits per second.
    sums: Vec<f64>,
    /// Those in which the paths were full, or, while these are few, all; ascending.
    sorted: Vec<f64>,
}

fn cell(row: &[Cell], path: usize) -> Cell {
    row.get(path).copied().unwrap_or_default()
}

/// Rate that others carried on the uplink of a path, in bits per second, by their row of the same window.
fn carried(others: Option<&[Cell]>, path: usize) -> f64 {
    match others.map(|row| cell(row, path)) {
        Some(Cell::Exact(bps)) => bps,
        _ => 0.0,
    }
}

/// Rows, each with that of other sessions of the same window, if there were any.
fn with_others<'a>(
    rows: &'a JointWindow,
    others: Option<&'a JointWindow>,
) -> impl Iterator<Item = (&'a [Cell], Option<&'a [Cell]>)> {
    let others = others.into_iter().flat_map(JointWindow::iter).map(Some);
    rows.iter().zip(others.chain(std::iter::repeat(None)))
}

/// True unless the windows contradict that a path shares capacity with the other sessions on its uplink.
pub(super) fn is_shared(rows: &JointWindow, others: Option<&JointWindow>, path: usize) -> bool {
    let windows = with_others(rows, others);
    let windows = windows.map(|(row, others)| (cell(row, path), carried(others, path)));
    Sharing::of(&windows.collect::<Vec<_>>()).is_assumed()
}

impl Left {
    /// What is left of `set` in the windows of `rows`; `others` has the rates of other sessions in the same windows.
    pub(super) fn of(
        rows: &JointWindow,
        others: Option<&JointWindow>,
        set: ChannelMask,
        beside: Beside<'_>,
    ) -> Self {
        let shares = |path: usize| is_shared(rows, others, path);
        let reserved: Vec<(ChannelMask, f64)> = (beside.reserved(set))
            .filter(|(paths, _)| paths.iter().any(shares))
            .collect();
        let mut sums = Vec::with_capacity(rows.rows());
        let mut full = Vec::with_capacity(rows.rows());
        for (row, others) in with_others(rows, others) {
            let Some(all) = sum(row, set) else {
                continue;
            };
            let taken = reserved.iter().map(|&(paths, bps)| {
                let own = sum(row, paths).map_or(0.0, |sample| sample.bps());
                let by_others = paths.iter().map(|path| carried(others, path));
                own.min((bps - by_others.fold(0.0, f64::max)).max(0.0))
            });
            let left = (all.bps() - taken.sum::<f64>()).max(0.0);
            sums.push(left);
            if !all.is_censored() {
                full.push(left);
            }
        }
        // Windows in which the session had little to send say little about what it could have sent.
        let mut sorted = if full.len() >= WINDOWS_MIN {
            full
        } else {
            sums.clone()
        };
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            set,
            before: beside.before,
            sums,
            sorted,
        }
    }

    /// True if it answers this question.
    pub(super) fn is_of(&self, set: ChannelMask, beside: Beside<'_>) -> bool {
        self.set == set && self.before == beside.before
    }
    /// Rate that a share `probability` of the windows reach; `None`: too few are known.
    pub(super) fn quantile(&self, probability: f64) -> Option<f64> {
        let missed = ((1.0 - probability) * self.sorted.len() as f64 + 1e-9) as usize;
        let is_known = self.sorted.len() >= WINDOWS_MIN;
        is_known.then(|| self.sorted[missed.min(self.sorted.len() - 1)])
    }

    /// The same for a durable promise.
    pub(super) fn durable(&self, probability: f64) -> Option<f64> {
        let durable = Durable::of(&self.sums, probability).ok()?;
        durable.is_steady().then_some(durable.rate)
    }

    /// Mean of what the windows lack of `need_bps`.
    pub(super) fn shortfall(&self, need_bps: f64) -> Option<f64> {
        let missing: f64 = self.sums.iter().map(|sum| (need_bps - sum).max(0.0)).sum();
        (self.sums.len() >= WINDOWS_MIN).then(|| missing / self.sums.len() as f64)
    }
}

//! Traffic of other sessions in the windows of the sample history, and what follows from it for the capacity of sets of paths.

use anabranch_base::Rate;
use anabranch_spec::ChannelMask;
use anabranch_stats::{
    bandwidth::Sample,
    joint::{Cell, JointWindow},
};

use super::{
    beside::{self, Beside, Sharing},
    history::{Known, ROWS, SETS_MAX, sum},
    left::Left,
};

/// Rate of other sessions on the uplink of a path in a sub-window, in bits per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Neighbour {
    /// All of it.
    pub(super) bps: f64,
    /// The part that would yield to this session's promises.
    pub(super) yielding_bps: f64,
}

/// Traffic of others. Key: session.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    /// In the sub-window that is added next, by path.
    next: Vec<Neighbour>,
    /// In the current window: sums of the sub-windows' rates, by path.
    partial_bps: Vec<f64>,
    /// The first path on the same uplink as each path.
    uplinks: Vec<usize>,
    /// By window and path, with the rows of the history: the rate of the path and of all others on its uplink, in bits per second, exact
    /// where the path was full. `None`: there never were any others.
    whole: Option<JointWindow>,
    /// Forecasters of sets of paths together with all others on their uplinks.
    sets: Vec<Known>,
    /// Answers since the last window.
    left: Vec<Left>,
    sharing: Vec<(usize, Sharing)>,
    /// The windows of one path, while it is judged.
    full: Vec<Option<(f64, f64)>>,
}

/// A window of the history, with that of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a> {
    pub(super) row: &'a [Cell],
    whole: &'a [Cell],
}

pub(super) fn bps(cell: Cell) -> f64 {
    match cell {
        Cell::Exact(bps) | Cell::AtLeast(bps) => bps,
        Cell::Missing => 0.0,
    }
}

fn cell(row: &[Cell], path: usize) -> Cell {
    row.get(path).copied().unwrap_or_default()
}

impl Window<'_> {
    /// Rate of others on the uplink of a path, in bits per second.
    pub(super) fn carried(&self, path: usize) -> f64 {
        (bps(cell(self.whole, path)) - bps(cell(self.row, path))).max(0.0)
    }

    /// The rate of the path if it was full, and that of the others on its uplink.
    fn full(&self, path: usize) -> Option<(f64, f64)> {
        let is_full = matches!(cell(self.whole, path), Cell::Exact(_));
        is_full.then(|| (bps(cell(self.row, path)), self.carried(path)))
    }
}

impl Others {
    /// Adds the rates of the sub-window that the history adds next; `uplinks` is the first path on the same uplink as each path.
    pub(super) fn push(&mut self, uplinks: &[usize], rates: impl Iterator<Item = Neighbour>) {
        self.uplinks.clear();
        self.uplinks.extend_from_slice(uplinks);
        self.next.clear();
        self.next.extend(rates);
        if self.partial_bps.len() < self.next.len() {
            self.partial_bps.resize(self.next.len(), 0.0);
        }
        for (partial, next) in self.partial_bps.iter_mut().zip(&self.next) {
            *partial += next.bps;
        }
    }

    /// True if a path that carries `cell` in the sub-window is full of data which would yield: it is not at its limit.
    pub(super) fn would_yield(&self, path: usize, cell: Cell) -> bool {
        let next = self.next.get(path).copied().unwrap_or_default();
        matches!(cell, Cell::Exact(bps) if beside::is_busy(next.yielding_bps, bps))
    }

    /// Ends a sub-window.
    pub(super) fn take_part(&mut self) {
        self.next.clear();
    }

    /// Ends a window of `parts` sub-windows, whose `row` is the last of `rows`; `full`: the paths that were full.
    pub(super) fn end_window(
        &mut self,
        parts: u32,
        (rows, row): (&JointWindow, &[Cell]),
        full: &[bool],
    ) {
        let mut partial_bps = std::mem::take(&mut self.partial_bps);
        self.left.clear();
        self.sharing.clear();
        if self.whole.is_none() {
            if partial_bps.iter().all(|&bps| bps <= 0.0) {
                return;
            }
            self.whole = JointWindow::new(rows.channels(), ROWS).ok();
            let mut before: Vec<Vec<Cell>> = rows.iter().map(<[Cell]>::to_vec).collect();
            before.pop();
            for row in before {
                let _ = self.whole.as_mut().map(|whole| whole.push(&row));
            }
        }
        partial_bps.resize(row.len(), 0.0);
        let with_others = row
            .iter()
            .zip(&partial_bps)
            .zip(full)
            .map(|((own, others), full)| {
                let whole = bps(*own) + others / f64::from(parts);
                match own {
                    Cell::Missing => Cell::Missing,
                    _ if *full => Cell::Exact(whole),
                    _ => Cell::AtLeast(whole),
                }
            });
        let whole: Vec<Cell> = with_others.collect();
        if let Some(rows) = &mut self.whole {
            let _ = rows.push(&whole);
        }
        let window = Window { row, whole: &whole };
        for known in &mut self.sets {
            if let Some(total) = total(window, known.set, &self.uplinks) {
                known.forecaster.observe(total);
            }
        }
    }

    /// Adds space for more paths.
    pub(super) fn widen(&mut self, rows: Option<JointWindow>) {
        self.whole = rows;
        self.left.clear();
        self.sharing.clear();
    }

    /// The rows, to be widened.
    pub(super) fn whole(&self) -> Option<&JointWindow> {
        self.whole.as_ref()
    }

    /// Forgets a path in all windows but the last `keep`.
    pub(super) fn forget(&mut self, path: usize, keep: usize) {
        if let Some(whole) = self.whole.as_mut().filter(|o| path < o.channels()) {
            whole.forget(path, keep);
        }
        self.sets.retain(|known| !known.set.contains(path));
        self.left.clear();
        self.sharing.clear();
    }

    /// Forgets what the promises of others leave: they changed.
    pub(super) fn forget_left(&mut self) {
        self.left.clear();
    }

    /// The rows with those of others.
    fn windows<'a>(
        whole: Option<&'a JointWindow>,
        rows: &'a JointWindow,
    ) -> impl Iterator<Item = Window<'a>> {
        let whole = whole.into_iter().flat_map(JointWindow::iter).map(Some);
        let whole = whole.chain(std::iter::repeat(None));
        rows.iter().zip(whole).map(|(row, whole)| Window {
            row,
            whole: whole.unwrap_or(row),
        })
    }

    /// Measurements of whether a path shares capacity with the other sessions on its uplink; `None`: there never were any. O(windows)
    /// once a window.
    fn sharing(&mut self, rows: &JointWindow, path: usize) -> Option<Sharing> {
        let whole = self.whole.as_ref()?;
        if let Some(&(_, sharing)) = self.sharing.iter().find(|(known, _)| *known == path) {
            return Some(sharing);
        }
        self.full.clear();
        let windows = Self::windows(Some(whole), rows);
        self.full.extend(windows.map(|window| window.full(path)));
        let sharing = Sharing::of(&self.full);
        self.sharing.push((path, sharing));
        Some(sharing)
    }

    /// True unless the windows contradict that a path shares capacity with the other sessions on its uplink.
    pub(super) fn is_shared(&mut self, rows: &JointWindow, path: usize) -> bool {
        let sharing = self.sharing(rows, path);
        sharing.is_none_or(Sharing::is_assumed)
    }

    /// True if they show it.
    fn is_evident(&mut self, rows: &JointWindow, path: usize) -> bool {
        self.sharing(rows, path).is_some_and(Sharing::is_evident)
    }

    /// Capacity that the promises of others leave of `set`; `None`: they take nothing of it. O(windows · paths) once a window.
    pub(super) fn left(
        &mut self,
        rows: &JointWindow,
        set: ChannelMask,
        beside: Beside<'_>,
    ) -> Option<&mut Left> {
        beside.reserved(set).next()?;
        if let Some(at) = self.left.iter().position(|left| left.is_of(set, beside)) {
            return self.left.get_mut(at);
        }
        let shared = set.iter().filter(|&path| self.is_shared(rows, path));
        let shared = shared.fold(ChannelMask::NONE, ChannelMask::with);
        let windows: Vec<Window<'_>> = Self::windows(self.whole.as_ref(), rows).collect();
        let left = Left::of(&windows, shared, set, beside);
        if self.left.len() == SETS_MAX {
            self.left.remove(0);
        }
        self.left.push(left);
        self.left.last_mut()
    }

    /// The forecaster of a set together with all others on its uplinks, if they evidently share their capacity. Created from the rows
    /// at the first query.
    pub(super) fn whole_of(&mut self, rows: &JointWindow, set: ChannelMask) -> Option<&Known> {
        self.whole.as_ref()?;
        for path in set.iter() {
            if !self.is_evident(rows, path) {
                return None;
            }
        }
        let at = match self.sets.iter().position(|known| known.set == set) {
            Some(at) => at,
            None => {
                let windows = Self::windows(self.whole.as_ref(), rows);
                let totals = windows.map(|window| total(window, set, &self.uplinks));
                let known = Known::of(set, totals.flatten())?;
                if self.sets.len() == SETS_MAX {
                    self.sets.remove(0);
                }
                self.sets.push(known);
                self.sets.len() - 1
            }
        };
        self.sets.get(at)
    }
}

/// Rate of a set and of all others on its uplinks; exact if all its paths were full.
fn total(window: Window<'_>, set: ChannelMask, uplinks: &[usize]) -> Option<Sample> {
    let whole = |path: usize| matches!(cell(window.whole, path), Cell::Exact(_));
    let own = sum(window.row, set)?;
    let uplink = |path: usize| uplinks.get(path).copied().unwrap_or(path);
    // Of several paths on one uplink, the first stands for the others' traffic.
    let is_first = |&path: &usize| !set.iter().any(|p| p < path && uplink(p) == uplink(path));
    let others: f64 = set
        .iter()
        .filter(is_first)
        .map(|path| window.carried(path))
        .sum();
    let rate = Rate::from_bps((own.bps() + others) as u64);
    Some(if set.iter().all(whole) {
        Sample::exact(rate)
    } else {
        Sample::at_least(rate)
    })
}

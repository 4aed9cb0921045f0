//! What sets of paths hold in one scheduling window.
//!
//! Rows of simultaneous samples of all paths, one a window; and a calibrated forecaster for each set of paths
//! that anyone asked about, fed with the sum over the set, so that what is promised of several paths together
//! is calibrated on their joint behaviour.

use std::time::Duration;

use anabranch_base::{ChannelId, Rate};
use anabranch_sched::{
    ChannelMask,
    mapping::{Capacity, Term},
};
use anabranch_stats::{
    bandwidth::Sample,
    forecast::{Config, Forecaster, Judged},
    joint::{Cell, JointWindow},
    standing::Standing,
};

use super::Channels;

/// Windows remembered.
const ROWS: usize = 500;
/// Windows that a standing promise needs to rest on.
const STANDING_ROWS: usize = 300;
/// Windows for which a forecast is calibrated: a renewable promise stands for as long.
const TERM_WINDOWS: usize = 10;
/// Sets of paths with a forecaster of their own.
const SETS_MAX: usize = 24;
/// What a path must have kept to be steady enough for a bound on late packets.
const STEADY_PROBABILITY: f64 = 0.95;
/// Fewest windows for a promise without a forecast.
const WINDOWS_MIN: usize = 20;
/// Probabilities for which forecasts are calibrated, ascending.
const LEVELS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
/// The same, as offers try them.
const LEVELS_DOWN: [f64; 5] = [0.99, 0.95, 0.9, 0.75, 0.5];

/// Key: session.
#[derive(Debug)]
pub(crate) struct Book {
    /// Sub-windows in a window.
    parts: u32,
    filled: u32,
    /// The running window, by path.
    partial: Vec<Partial>,
    rows: Option<JointWindow>,
    sets: Vec<Known>,
    standing: Vec<(ChannelMask, f64, Option<f64>)>,
    row: Vec<Cell>,
    sums: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    bps: f64,
    is_censored: bool,
    measured: u32,
}

/// A set of paths with its forecaster.
#[derive(Debug)]
struct Known {
    set: ChannelMask,
    forecaster: Forecaster,
    asked_at: u64,
}

impl Partial {
    fn add(&mut self, cell: Cell) {
        match cell {
            Cell::Missing => return,
            Cell::Exact(bps) => self.bps += bps,
            Cell::AtLeast(bps) => {
                self.bps += bps;
                self.is_censored = true;
            }
        }
        self.measured += 1;
    }

    fn take(&mut self, parts: u32) -> Cell {
        let partial = std::mem::take(self);
        let mean = partial.bps / f64::from(parts);
        if partial.measured == 0 {
            Cell::Missing
        } else if partial.is_censored || partial.measured < parts {
            Cell::AtLeast(mean)
        } else {
            Cell::Exact(mean)
        }
    }
}

/// The sum over a set: exact when all its parts are; `None` when nothing of it was measured.
fn sum(row: &[Cell], set: ChannelMask) -> Option<Sample> {
    let (mut total, mut is_exact, mut is_measured) = (0.0, true, false);
    for path in set.iter() {
        match row.get(path).copied().unwrap_or_default() {
            Cell::Missing => is_exact = false,
            Cell::Exact(bps) => {
                total += bps;
                is_measured = true;
            }
            Cell::AtLeast(bps) => {
                total += bps;
                is_exact = false;
                is_measured = true;
            }
        }
    }
    let rate = Rate::from_bps(total as u64);
    is_measured.then(|| {
        if is_exact {
            Sample::exact(rate)
        } else {
            Sample::at_least(rate)
        }
    })
}

impl Known {
    fn new(set: ChannelMask, rows: Option<&JointWindow>) -> Option<Self> {
        let config = Config {
            levels: LEVELS.to_vec(),
            hold: TERM_WINDOWS,
            judged: Judged::Each,
        };
        let mut forecaster = Forecaster::new(&config).ok()?;
        for row in rows.into_iter().flat_map(JointWindow::iter) {
            if let Some(sample) = sum(row, set) {
                forecaster.observe(sample);
            }
        }
        Some(Self {
            set,
            forecaster,
            asked_at: 0,
        })
    }
}

impl Book {
    /// Of windows of `window`, whose samples come in parts of `measured`.
    pub(crate) fn new(window: Duration, measured: Duration) -> Self {
        let parts = window
            .as_nanos()
            .div_ceil(measured.as_nanos().max(1))
            .max(1);
        Self {
            parts: u32::try_from(parts).unwrap_or(u32::MAX),
            filled: 0,
            partial: Vec::new(),
            rows: None,
            sets: Vec::new(),
            standing: Vec::new(),
            row: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Windows known.
    pub(crate) fn rows(&self) -> usize {
        self.rows.as_ref().map_or(0, JointWindow::rows)
    }

    /// Takes a sub-window's samples, by path; whether a window is complete.
    pub(crate) fn push(&mut self, row: &[Cell]) -> bool {
        if row.len() > self.partial.len() {
            self.partial.resize(row.len(), Partial::default());
            self.widen();
        }
        for (partial, cell) in self.partial.iter_mut().zip(row) {
            partial.add(*cell);
        }
        self.filled += 1;
        if self.filled < self.parts {
            return false;
        }
        self.filled = 0;
        self.row.clear();
        for partial in &mut self.partial {
            self.row.push(partial.take(self.parts));
        }
        let Some(rows) = &mut self.rows else {
            return true;
        };
        if self.row.iter().any(|cell| *cell != Cell::Missing) {
            // The row has a cell for every path, and rates are not negative.
            let _ = rows.push(&self.row);
            for known in &mut self.sets {
                if let Some(sample) = sum(&self.row, known.set) {
                    known.forecaster.observe(sample);
                }
            }
            self.standing.clear();
        }
        true
    }

    /// Makes room for more paths; what was known of those before stays known.
    fn widen(&mut self) {
        let count = self.partial.len();
        let mut rows = JointWindow::new(count, ROWS).ok();
        if let (Some(rows), Some(before)) = (&mut rows, &self.rows) {
            for row in before.iter() {
                self.row.clear();
                self.row.extend_from_slice(row);
                self.row.resize(count, Cell::Missing);
                let _ = rows.push(&self.row);
            }
        }
        self.rows = rows;
        // What paths hold on their own is asked at every admission.
        for path in 0..count {
            self.know(ChannelMask::only(path));
        }
    }

    /// The forecaster of a set, made from the rows when nobody asked for it before.
    fn know(&mut self, set: ChannelMask) -> Option<&Known> {
        let newest = self.sets.iter().map(|known| known.asked_at).max();
        let at = match self.sets.iter().position(|known| known.set == set) {
            Some(at) => at,
            None => {
                if self.sets.len() >= SETS_MAX {
                    // Single paths are always asked for again.
                    let oldest = (0..self.sets.len())
                        .filter(|&at| self.sets[at].set.iter().count() > 1)
                        .min_by_key(|&at| self.sets[at].asked_at)?;
                    self.sets.swap_remove(oldest);
                }
                self.sets.push(Known::new(set, self.rows.as_ref())?);
                self.sets.len() - 1
            }
        };
        self.sets[at].asked_at = newest.unwrap_or(0) + 1;
        self.sets.get(at)
    }

    /// The book as the mapping reads it; paths without a channel hold nothing.
    pub(crate) fn view<'a>(&'a mut self, channels: Channels<'a>) -> View<'a> {
        View {
            book: self,
            channels,
        }
    }

    fn renewable(&mut self, set: ChannelMask, probability: f64) -> Option<f64> {
        let forecast = self
            .know(set)?
            .forecaster
            .promise(probability)
            .map(|rate| rate.as_bps() as f64);
        // Before the forecaster knows enough, or while the sender never filled the path: what so many
        // windows held at least.
        forecast.or_else(|| self.quantile(set, probability, WINDOWS_MIN))
    }

    /// What a share `probability` of the remembered windows reach, lower bounds taken as they are.
    fn quantile(&mut self, set: ChannelMask, probability: f64, least: usize) -> Option<f64> {
        self.collect(set)?;
        let count = self.sums.len();
        if count < least || (count as f64) * (1.0 - probability) < 1.0 {
            return None;
        }
        let missed = ((1.0 - probability) * count as f64 + 1e-9) as usize;
        let (_, value, _) = self
            .sums
            .select_nth_unstable_by(missed.min(count - 1), f64::total_cmp);
        Some(*value)
    }

    /// Puts the sums of all windows into `sums`, oldest first.
    fn collect(&mut self, set: ChannelMask) -> Option<()> {
        let rows = self.rows.as_ref()?;
        self.sums.clear();
        let sums = rows.iter().filter_map(|row| sum(row, set));
        self.sums.extend(sums.map(|sample| sample.bps()));
        Some(())
    }

    /// With a margin, on paths whose past would have kept it.
    fn standing(&mut self, set: ChannelMask, probability: f64) -> Option<f64> {
        let known = self
            .standing
            .iter()
            .find(|(s, p, _)| *s == set && *p == probability);
        if let Some((.., value)) = known {
            return *value;
        }
        let value = self.steady(set, probability).map(|standing| standing.rate);
        self.standing.push((set, probability, value));
        value
    }

    /// The standing promise of a set, if what is remembered of it would have kept such promises.
    fn steady(&mut self, set: ChannelMask, probability: f64) -> Option<Standing> {
        self.collect(set)?;
        if self.sums.len() < STANDING_ROWS {
            return None;
        }
        let standing = Standing::of(&self.sums, probability).ok()?;
        standing.is_steady().then_some(standing)
    }

    fn shortfall(&mut self, set: ChannelMask, need_bps: f64) -> Option<f64> {
        self.collect(set)?;
        if self.sums.len() < WINDOWS_MIN {
            return None;
        }
        let missing: f64 = self.sums.iter().map(|sum| (need_bps - sum).max(0.0)).sum();
        Some(missing / self.sums.len() as f64)
    }
}

/// See [`Book::view`].
pub(crate) struct View<'a> {
    book: &'a mut Book,
    channels: Channels<'a>,
}

impl View<'_> {
    pub(super) fn rows(&self) -> usize {
        self.book.rows()
    }

    /// The paths of a set that are there.
    fn present(&self, set: ChannelMask) -> Option<ChannelMask> {
        let is_there = |path: usize| {
            let channel: Option<ChannelId> = self.channels.get(path).copied().flatten();
            channel.is_some()
        };
        let present = set
            .iter()
            .filter(|&path| is_there(path))
            .fold(ChannelMask::NONE, ChannelMask::with);
        (!present.is_empty()).then_some(present)
    }
}

impl Capacity for View<'_> {
    fn paths(&self) -> usize {
        self.channels.len().min(64)
    }

    fn holds(&mut self, set: ChannelMask, probability: f64, term: Term) -> Option<f64> {
        let set = self.present(set)?;
        match term {
            Term::Standing => self.book.standing(set, probability),
            Term::Renewable => self.book.renewable(set, probability),
        }
    }

    fn shortfall(&mut self, set: ChannelMask, need_bps: f64, term: Term) -> Option<f64> {
        let set = self.present(set)?;
        match term {
            // Lemma 2 on the past; a margin like that of a rate: half of what is bearable is allowed.
            Term::Standing => {
                self.book.steady(set, STEADY_PROBABILITY)?;
                Some(2.0 * self.book.shortfall(set, need_bps)?)
            }
            Term::Renewable => self.book.shortfall(set, need_bps),
        }
    }

    fn probabilities(&self) -> &[f64] {
        &LEVELS_DOWN
    }
}

//! Sample history: the capacity of sets of paths in one scheduling window.
//!
//! Rows of simultaneous samples of all paths, one per window; and a calibrated forecaster for each set of paths
//! that was queried, fed with the sum over the set, so that promises on several paths together
//! are calibrated on their joint behaviour.

use std::time::Duration;

use crate::{
    guarantee::{Scale, late::rate_for_late},
    mapping::{Capacity, Term},
};
use anabranch_base::{ChannelId, Instant, Rate};
use anabranch_spec::{ChannelMask, Demand};
use anabranch_stats::{
    bandwidth::Sample,
    durable::Durable,
    forecast::{Config, Forecaster, Judged},
    joint::{Cell, JointWindow},
    order,
};

use super::{
    Channels,
    ages::{Ages, SEEN, STALE, aged},
    beside::Beside,
    early::EarlyEvidence,
    left::Left,
    others::{Neighbour, Others},
    partial::Partial,
    prior::{self, Steadiness},
    probabilities::{PROBABILITIES, value_at},
};

/// Windows kept.
pub(super) const ROWS: usize = 500;
/// Fewest windows for a durable promise.
const DURABLE_ROWS: usize = 300;
/// Windows for which a forecast is calibrated: the term of a renewable promise.
const TERM_WINDOWS: usize = 10;
/// Sets of several paths with a forecaster of their own; single paths are as many as a session has.
pub(super) const SETS_MAX: usize = 24;
/// Probability of the promises that a path must have kept to be steady enough for a bound on late packets.
const STEADY_PROBABILITY: f64 = 0.95;
/// Fewest windows for a promise without a forecast.
pub(super) const WINDOWS_MIN: usize = 20;
/// The same in the order in which offers try them.
const LEVELS_DOWN: [f64; 5] = [0.99, 0.95, 0.9, 0.75, 0.5];
/// The highest probability of a renewable promise: no forecast is calibrated beyond.
const SUREST: f64 = LEVELS_DOWN[0];
/// A durable promise is made at half the allowed failure rate, and one window at least must be allowed to fail.
const DURABLE_FAILURES: f64 = 2.0;
/// Step by which one window moves the logarithm of the share of the bound that is used in Lemma 2, the most that a window
/// counts, in bounds, and the least share that is used [`lab run violation-bound`, `calibrated`].
pub(super) const LATE_GAIN: f64 = 0.02;
pub(super) const LATE_WORST: f64 = 10.0;
const LATE_LEAST: f64 = 1e-4;
/// Part of the failures that a promise may have which are left to the forecast where elastic data of others has to yield to it: that takes
/// time.
const YIELDS_TO: f64 = 0.5;
/// The highest probability that is promised in reliance on it.
const YIELDED_MAX: f64 = 0.95;
/// Scale of packets of one byte in windows of a second.
const IN_BYTES: Scale = Scale {
    packet_bytes: 1,
    window: Duration::from_secs(1),
};

/// Number of windows that must be known before `demand` can be promised for `term`.
pub(super) fn needed(term: Term, demand: &Demand) -> usize {
    let least = match term {
        Term::Durable => DURABLE_ROWS,
        Term::Renewable => WINDOWS_MIN,
    };
    let failures = match term {
        Term::Durable => DURABLE_FAILURES,
        Term::Renewable => 1.0,
    };
    match demand {
        // 1/(1 − 0.99) is 99.999… in floating point, or 100.000…
        Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
            least.max((failures / (1.0 - probability) - 1e-6).ceil() as usize)
        }
        Demand::Late { .. } => least,
    }
}

/// The highest probability that can be promised for `term`, however long the paths are known.
pub(super) fn highest(term: Term) -> f64 {
    match term {
        Term::Durable => 1.0 - DURABLE_FAILURES / ROWS as f64,
        Term::Renewable => SUREST,
    }
}

/// Key: session.
#[derive(Clone, Debug)]
pub(crate) struct SampleHistory {
    window: Duration,
    /// Sub-windows in a window.
    parts: u32,
    filled: u32,
    /// The current window, by path.
    partial: Vec<Partial>,
    rows: Option<JointWindow>,
    sets: Vec<Known>,
    durable: Vec<(ChannelMask, f64, Option<f64>)>,
    /// Results of `allowed`: set, bound, and allowed shortfall, both in bits per second.
    allowed: Vec<(ChannelMask, f64, f64)>,
    row: Vec<Cell>,
    sums: Vec<f64>,
    /// For each of the sums, true if it is a lower bound of the set's capacity.
    are_bounds: Vec<bool>,
    others: Others,
    /// Evidence of the last seconds.
    early: EarlyEvidence,
    ages: Ages,
}

/// A set of paths with its forecaster.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) set: ChannelMask,
    pub(super) forecaster: Forecaster,
    asked_at: u64,
}

/// The sum over a set: exact when all its parts are; `None` when no part was measured.
pub(super) fn sum(row: &[Cell], set: ChannelMask) -> Option<Sample> {
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

/// The rows with space for `count` paths.
fn widened(before: Option<&JointWindow>, count: usize) -> Option<JointWindow> {
    let mut rows = JointWindow::new(count, ROWS).ok()?;
    let mut wide = Vec::with_capacity(count);
    for row in before.into_iter().flat_map(JointWindow::iter) {
        wide.clear();
        wide.extend_from_slice(row);
        wide.resize(count, Cell::Missing);
        let _ = rows.push(&wide);
    }
    Some(rows)
}

/// True if a set has more than one path.
fn is_several(set: ChannelMask) -> bool {
    set.iter().nth(1).is_some()
}

impl Known {
    /// The forecaster of a set with these samples, oldest first.
    pub(super) fn of(set: ChannelMask, samples: impl Iterator<Item = Sample>) -> Option<Self> {
        let config = Config {
            levels: PROBABILITIES.to_vec(),
            hold: TERM_WINDOWS,
            judged: Judged::Each,
        };
        let mut forecaster = Forecaster::new(&config).ok()?;
        samples.for_each(|sample| forecaster.observe(sample));
        Some(Self {
            set,
            forecaster,
            asked_at: 0,
        })
    }

    fn new(set: ChannelMask, rows: Option<&JointWindow>) -> Option<Self> {
        let rows = rows.into_iter().flat_map(JointWindow::iter);
        Self::of(set, rows.filter_map(|row| sum(row, set)))
    }
}

impl SampleHistory {
    /// Creates a history of windows of `window`, whose samples come in parts of `measured`.
    pub(crate) fn new(window: Duration, measured: Duration) -> Self {
        let parts = window
            .as_nanos()
            .div_ceil(measured.as_nanos().max(1))
            .max(1);
        Self {
            window,
            parts: u32::try_from(parts).unwrap_or(u32::MAX),
            filled: 0,
            partial: Vec::new(),
            rows: None,
            sets: Vec::new(),
            durable: Vec::new(),
            allowed: Vec::new(),
            row: Vec::new(),
            sums: Vec::new(),
            are_bounds: Vec::new(),
            others: Others::default(),
            early: EarlyEvidence::default(),
            ages: Ages::default(),
        }
    }

    /// The evidence of the last seconds.
    pub(super) fn early(&mut self) -> &mut EarlyEvidence {
        &mut self.early
    }

    /// Shares of its level that a path kept in the windows known, and the number of windows; `None` if they are too few.
    pub(super) fn shares_kept(&mut self, path: usize) -> Option<(Steadiness, usize)> {
        self.collect(ChannelMask::only(path))?;
        let mut are_bounds = self.are_bounds.iter();
        self.sums.retain(|_| are_bounds.next() == Some(&false));
        Some((prior::shares_of(&self.sums)?, self.sums.len()))
    }

    /// Windows known.
    pub(crate) fn rows(&self) -> usize {
        self.rows.as_ref().map_or(0, JointWindow::rows)
    }

    /// Adds a sub-window's samples, by path; returns whether a window is complete.
    pub(crate) fn push(&mut self, row: &[Cell]) -> bool {
        if row.len() > self.partial.len() {
            self.partial.resize(row.len(), Partial::default());
            self.widen();
        }
        for (path, (partial, cell)) in self.partial.iter_mut().zip(row).enumerate() {
            partial.add(*cell);
            partial.is_yielded_to |= self.others.would_yield(path, *cell);
        }
        self.others.take_part();
        self.filled += 1;
        if self.filled < self.parts {
            return false;
        }
        self.end_window();
        true
    }

    /// Adds the rates of other sessions on the uplink of each path in the sub-window that [`Self::push`] adds next; `uplinks` is the
    /// first path on the same uplink as each path.
    pub(super) fn push_others(
        &mut self,
        uplinks: &[usize],
        rates: impl Iterator<Item = Neighbour>,
    ) {
        self.others.push(uplinks, rates);
    }

    /// Forgets what the promises of other sessions leave: they changed.
    pub(crate) fn forget_left(&mut self) {
        self.others.forget_left();
    }

    /// Part of the current window that has passed; `None`: nothing.
    pub(super) fn passed(&self) -> Option<Duration> {
        (self.filled > 0).then(|| self.window * self.filled / self.parts)
    }

    /// Rate that all paths together may carry to the end of the current window, estimated from its last two parts, in
    /// bits per second.
    pub(super) fn recent_bps(&self) -> f64 {
        self.partial.iter().map(Partial::recent_bps).sum()
    }

    /// Ends the current window as if each path continued as in the better of its last two parts.
    pub(super) fn end_early(&mut self) {
        let left = self.parts - self.filled;
        for partial in &mut self.partial {
            if partial.measured > 0 {
                partial.bps += partial.recent_bps() * f64::from(left);
                partial.measured += left;
            }
        }
        self.end_window();
    }

    fn end_window(&mut self) {
        self.filled = 0;
        self.row.clear();
        let full: Vec<bool> = (self.partial.iter())
            .map(|partial| partial.is_full(self.parts))
            .collect();
        for partial in &mut self.partial {
            self.row.push(partial.take(self.parts));
        }
        self.ages.end_window(self.early.now(), &self.row, &full);
        if self.row.iter().all(|cell| *cell == Cell::Missing) {
            return;
        }
        // The capacity of single paths is queried at every admission.
        for path in 0..self.row.len() {
            if self.row[path] != Cell::Missing {
                self.know(ChannelMask::only(path));
            }
        }
        if let Some(rows) = &mut self.rows {
            // The row has a cell for every path, and rates are not negative.
            let _ = rows.push(&self.row);
        }
        if let Some(rows) = &self.rows {
            let last = (rows, &self.row[..]);
            self.others.end_window(self.parts, last, &full);
        }
        for known in &mut self.sets {
            if let Some(sample) = sum(&self.row, known.set) {
                known.forecaster.observe(sample);
            }
        }
        self.durable.clear();
        self.allowed.clear();
    }

    /// Adds space for more paths; the samples of earlier paths are kept.
    fn widen(&mut self) {
        let count = self.partial.len();
        self.rows = widened(self.rows.as_ref(), count);
        let whole = self.others.whole();
        let whole = whole.and_then(|whole| widened(Some(whole), count));
        self.others.widen(whole);
    }

    /// Forgets a path in all windows but the last `keep`: its samples are those of another path from now on.
    pub(crate) fn forget(&mut self, path: usize, keep: usize) {
        if let Some(partial) = self.partial.get_mut(path) {
            *partial = Partial::default();
        }
        if let Some(rows) = self.rows.as_mut().filter(|rows| path < rows.channels()) {
            rows.forget(path, keep);
        }
        self.early.forget(path, keep);
        self.ages.forget(path, keep);
        self.others.forget(path, keep);
        self.sets.retain(|known| !known.set.contains(path));
        self.durable.clear();
        self.allowed.clear();
    }

    /// The forecaster of a set, created from the rows at the first query.
    fn know(&mut self, set: ChannelMask) -> Option<&Known> {
        let newest = self.sets.iter().map(|known| known.asked_at).max();
        let at = match self.sets.iter().position(|known| known.set == set) {
            Some(at) => at,
            None => {
                let several = self.sets.iter().filter(|known| is_several(known.set));
                if is_several(set) && several.count() >= SETS_MAX {
                    let oldest = (0..self.sets.len())
                        .filter(|&at| is_several(self.sets[at].set))
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

    /// The history as the mapping reads it: paths without a channel carry nothing, and what others were promised is theirs.
    pub(crate) fn view<'a>(&'a mut self, channels: Channels<'a>, beside: Beside<'a>) -> View<'a> {
        View {
            history: self,
            channels,
            beside,
            answers: Vec::new(),
        }
    }

    /// True unless the windows contradict that a path shares capacity with the other sessions on its uplink.
    pub(super) fn is_shared(&mut self, path: usize) -> bool {
        let rows = self.rows.as_ref();
        rows.is_none_or(|rows| self.others.is_shared(rows, path))
    }

    /// Capacity that the promises of others leave of `set`; `None`: they take nothing of it.
    fn left(&mut self, set: ChannelMask, beside: Beside<'_>) -> Option<&mut Left> {
        self.others.left(self.rows.as_ref()?, set, beside)
    }

    /// Rate that `set` reaches beside the data of others, less what they were promised and do not use.
    fn beside_all(
        &mut self,
        set: ChannelMask,
        probability: f64,
        beside: Beside<'_>,
    ) -> Option<f64> {
        let known = self.by_windows(set, probability, beside);
        if self.ages.are_enough(set) && self.age(set) < STALE {
            return known;
        }
        let reserved: f64 = beside.reserved(set).map(|(_, bps)| bps).sum();
        let early = self.early.holds(set, probability, beside.are_all);
        let early = early.map(|bps| (bps - reserved).max(0.0));
        known.into_iter().chain(early).reduce(f64::max)
    }

    /// The same by whole windows only.
    fn by_windows(
        &mut self,
        set: ChannelMask,
        probability: f64,
        beside: Beside<'_>,
    ) -> Option<f64> {
        let whole = self.renewable(set, probability)?;
        match self.left(set, beside) {
            Some(left) => Some(left.quantile(probability)?.min(whole)),
            None => Some(whole),
        }
    }

    /// Rate that `set` reaches if elastic data of others yields, less what they were promised; `None`: it is not evident that it would.
    fn with_others(
        &mut self,
        set: ChannelMask,
        probability: f64,
        beside: Beside<'_>,
    ) -> Option<f64> {
        if probability > YIELDED_MAX + 1e-9 {
            return None;
        }
        let whole = self.others.whole_of(self.rows.as_ref()?, set)?;
        let judged = 1.0 - YIELDS_TO * (1.0 - probability);
        let holds = forecast(&whole.forecaster, judged)?;
        let reserved: f64 = beside.reserved(set).map(|(_, bps)| bps).sum();
        Some((holds - reserved).max(0.0))
    }

    /// Time since the paths of `set` were full.
    fn age(&self, set: ChannelMask) -> Duration {
        self.ages.of(set, self.early.now())
    }

    /// True if probes of the path would show more: it is neither known from traffic that filled it, nor from probes. While a promise is
    /// wanted (`is_wanted`), old windows are not enough.
    pub(super) fn needs_probes(&mut self, now: Instant, path: usize, is_wanted: bool) -> bool {
        let set = ChannelMask::only(path);
        let is_old = is_wanted && self.ages.of(set, now) >= STALE;
        (is_old || !self.ages.are_enough(set)) && self.early.may_learn(now, path)
    }

    fn renewable(&mut self, set: ChannelMask, probability: f64) -> Option<f64> {
        let holds = self.forecast(set, probability)?;
        let asked = aged(probability, self.age(set));
        if asked <= probability {
            return Some(holds);
        }
        // What was seen lately to carry as much as an old forecast is, holds it as well as a new one, and not more.
        let seen = self.early.level(set).filter(|_| self.age(set) >= STALE);
        let still = match seen {
            Some(level) => level,
            None => {
                let still = self.forecast(set, asked).unwrap_or(0.0);
                still.max(self.carried(set).unwrap_or(0.0))
            }
        };
        Some(holds.min(still))
    }

    /// The smallest rate of the last windows of `set`; `None` unless it is in use.
    fn carried(&mut self, set: ChannelMask) -> Option<f64> {
        if !self.ages.is_in_use(set, self.early.now()) {
            return None;
        }
        self.collect(set)?;
        let from = self.sums.len().checked_sub(SEEN)?;
        self.sums[from..].iter().copied().reduce(f64::min)
    }

    /// Rate that the windows known support with `probability`, however old they are.
    fn forecast(&mut self, set: ChannelMask, probability: f64) -> Option<f64> {
        let forecast = forecast(&self.know(set)?.forecaster, probability);
        // Before the forecaster has enough samples, or while the sender never filled the path: a lower bound
        // that this share of windows reached.
        forecast.or_else(|| self.quantile(set, probability, WINDOWS_MIN))
    }

    /// Rate that a share `probability` of the windows reach in which the paths were full. While there are fewer than `least` of
    /// these, all windows count, and their lower bounds as exact: what an idle sender leaves unused says little of the paths.
    fn quantile(&mut self, set: ChannelMask, probability: f64, least: usize) -> Option<f64> {
        self.collect(set)?;
        let full = self.are_bounds.iter().filter(|is_bound| !**is_bound);
        if full.count() >= least {
            let mut are_bounds = self.are_bounds.iter();
            self.sums.retain(|_| are_bounds.next() == Some(&false));
        }
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
        self.are_bounds.clear();
        for sample in rows.iter().filter_map(|row| sum(row, set)) {
            self.sums.push(sample.bps());
            self.are_bounds.push(sample.is_censored());
        }
        Some(())
    }

    /// Shortfall by Lemma 2 that is allowed for a rate on `set`, so that the actual one does not exceed `late_bps`, in bits per
    /// second: `late_bps` itself, or less where such promises, renewed throughout the history, would have
    /// been broken.
    ///
    /// After each known window, the logarithm of the used share moves by 0.02·(1 − Z/z); lower bounds below the
    /// rate are skipped. O(N log N) for N windows, once for a set, bound and window.
    fn allowed(&mut self, set: ChannelMask, late_bps: f64) -> Option<f64> {
        let known = self
            .allowed
            .iter()
            .find(|(s, late, _)| *s == set && *late == late_bps);
        if let Some((.., allowed)) = known {
            return Some(*allowed);
        }
        self.collect(set)?;
        let mut seen = order::Window::new(ROWS);
        let mut asked = 1.0f64;
        let mut rate_bps = None;
        for (index, (&bps, &is_bound)) in self.sums.iter().zip(&self.are_bounds).enumerate() {
            let since = index.checked_sub(WINDOWS_MIN);
            if since.is_some_and(|since| since.is_multiple_of(TERM_WINDOWS)) {
                rate_bps = rate_for_late(&seen, asked * late_bps / 8.0, IN_BYTES);
            }
            if let Some(rate_bps) = rate_bps.filter(|rate| *rate <= bps || !is_bound) {
                let late = (rate_bps - bps).max(0.0) / late_bps;
                let step = LATE_GAIN * (1.0 - late.min(LATE_WORST));
                asked = (asked * step.exp()).clamp(LATE_LEAST, 1.0);
            }
            // Rates are finite.
            let _ = seen.push(bps);
        }
        self.allowed.push((set, late_bps, asked * late_bps));
        Some(asked * late_bps)
    }

    /// Rate of a durable promise: with a margin, on paths whose history would have kept it.
    fn durable(&mut self, set: ChannelMask, probability: f64) -> Option<f64> {
        let known = self
            .durable
            .iter()
            .find(|(s, p, _)| *s == set && *p == probability);
        if let Some((.., value)) = known {
            return *value;
        }
        let value = self.steady(set, probability).map(|durable| durable.rate);
        self.durable.push((set, probability, value));
        value
    }

    /// The durable promise of a set, if its history would have kept such promises.
    fn steady(&mut self, set: ChannelMask, probability: f64) -> Option<Durable> {
        self.collect(set)?;
        let demand = Demand::Rate {
            rate: Rate::ZERO,
            probability,
        };
        if self.sums.len() < needed(Term::Durable, &demand) {
            return None;
        }
        let durable = Durable::of(&self.sums, probability).ok()?;
        debug_assert!(
            self.sums.iter().any(|measured| durable.rate <= *measured),
            "a durable promise is no more than was measured"
        );
        durable.is_steady().then_some(durable)
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

/// View of the sample history for the mapping; see [`SampleHistory::view`].
pub(crate) struct View<'a> {
    history: &'a mut SampleHistory,
    channels: Channels<'a>,
    beside: Beside<'a>,
    /// Answers of [`Capacity::holds`]: nothing that they depend on changes while this view exists, and most streams ask the same.
    answers: Vec<(Question, Option<f64>)>,
}

/// Paths, probability and term.
type Question = (ChannelMask, f64, Term);

/// Answers that are kept: beyond that it is cheaper to compute another one than to look for it.
const ANSWERS_MAX: usize = 32;

impl View<'_> {
    /// See [`Capacity::holds`]; all paths of the set have channels.
    fn compute(&mut self, (set, probability, term): Question) -> Option<f64> {
        match term {
            Term::Durable => {
                let whole = self.history.durable(set, probability)?;
                match self.history.left(set, self.beside) {
                    Some(left) => Some(left.durable(probability)?.min(whole)),
                    None => Some(whole),
                }
            }
            Term::Renewable => {
                let own = self.history.beside_all(set, probability, self.beside);
                let yielded = self.history.with_others(set, probability, self.beside);
                own.into_iter().chain(yielded).reduce(f64::max)
            }
        }
    }

    /// Windows known of the path that was measured longest, of those that a stream may use.
    pub(super) fn known(&mut self, permitted: ChannelMask) -> usize {
        let mut longest = 0;
        for path in (0..self.paths()).filter(|&path| permitted.contains(path)) {
            if let Some(set) = self.present(ChannelMask::only(path))
                && self.history.collect(set).is_some()
            {
                longest = longest.max(self.history.sums.len());
            }
        }
        longest
    }

    /// The paths of a set that have a channel.
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
        let question = (self.present(set)?, probability, term);
        let known = self.answers.iter().find(|(asked, _)| *asked == question);
        if let Some(&(_, answer)) = known {
            if is_several(question.0) && term == Term::Renewable {
                // The set stays among those that were asked last.
                self.history.know(question.0);
            }
            return answer;
        }
        let answer = self.compute(question);
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push((question, answer));
        }
        answer
    }

    fn shortfall(&mut self, set: ChannelMask, need_bps: f64, term: Term) -> Option<f64> {
        let set = self.present(set)?;
        // Lemma 2 on the past; a margin like that of a rate: half of the bound is allowed.
        let margin = match term {
            Term::Durable => {
                self.history.steady(set, STEADY_PROBABILITY)?;
                2.0
            }
            Term::Renewable => 1.0,
        };
        let whole = self.history.shortfall(set, need_bps)?;
        let missing = match self.history.left(set, self.beside) {
            Some(left) => left.shortfall(need_bps)?.max(whole),
            None => whole,
        };
        Some(margin * missing)
    }

    fn allowed(&mut self, set: ChannelMask, late_bps: f64, _term: Term) -> Option<f64> {
        let set = self.present(set)?;
        self.history.allowed(set, late_bps)
    }

    fn probabilities(&self) -> &[f64] {
        &LEVELS_DOWN
    }
}

/// Rate that `forecaster` promises with `probability`.
fn forecast(forecaster: &Forecaster, probability: f64) -> Option<f64> {
    value_at(probability, |at| {
        Some(forecaster.promise(PROBABILITIES[at])?.as_bps() as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::super::early::Measured;
    use super::*;

    #[test]
    fn a_path_in_place_of_another_is_judged_by_what_stays() {
        let window = Duration::from_secs(1);
        let channels: Vec<_> = (0..2).map(|path| Some(ChannelId(path))).collect();
        let mut history = SampleHistory::new(window, window);
        for _ in 0..100 {
            history.push(&[Cell::Exact(8e6), Cell::Exact(2e6)]);
        }
        let both = ChannelMask::only(0).with(1);
        let holds = |history: &mut SampleHistory, set: ChannelMask| {
            history
                .view(&channels, Beside::NOBODY)
                .holds(set, 0.9, Term::Renewable)
        };
        assert!(holds(&mut history, both).unwrap() > 9e6);
        history.forget(0, 30);
        assert!(holds(&mut history, ChannelMask::only(0)).unwrap() > 7e6);
        history.forget(0, 0);
        assert_eq!(holds(&mut history, ChannelMask::only(0)), None);
        // What the other path carried alone is the least that both do.
        let least = holds(&mut history, both).unwrap();
        assert!((1.9e6..=2e6).contains(&least), "{least}");
        // A path of which there is no row yet.
        history.forget(7, 0);
    }

    #[test]
    fn old_windows_hold_less_unless_the_path_still_carries_as_much() {
        let window = Duration::from_secs(1);
        let channels = [Some(ChannelId(0))];
        let set = ChannelMask::only(0);
        let holds = |history: &mut SampleHistory, now_s: u64| {
            history.early().set_now(Instant::from_secs(now_s));
            let mut view = history.view(&channels, Beside::NOBODY);
            view.holds(set, 0.9, Term::Renewable).unwrap()
        };
        let mut history = SampleHistory::new(window, window);
        for at in 1..=100 {
            history.early().set_now(Instant::from_secs(at));
            history.push(&[Cell::Exact(1e6 * (4 + at % 10) as f64)]);
        }
        let new = holds(&mut history, 104);
        let minute = holds(&mut history, 160);
        let hour = holds(&mut history, 3_700);
        assert!(
            minute < 0.95 * new && hour < minute,
            "{new} {minute} {hour}"
        );
        // A minute of data that does not fill the path shows that it carries as much still.
        let mut in_use = history.clone();
        for at in 101..=160 {
            in_use.early().set_now(Instant::from_secs(at));
            in_use.push(&[Cell::AtLeast(0.98 * new)]);
        }
        let carried = holds(&mut in_use, 160);
        assert!(carried > 0.97 * new, "{new} {carried}");
        // Probes show that it does not.
        for at in 3_700..3_710 {
            let now = Instant::from_secs(at);
            history.early().push(now, 0, Measured::Exactly(1e6));
        }
        assert!(holds(&mut history, 3_710) <= 1e6);
    }

    #[test]
    fn forty_paths_and_more_sets_have_forecasts() {
        let window = Duration::from_secs(1);
        let channels: Vec<_> = (0..48).map(|path| Some(ChannelId(path))).collect();
        let mut history = SampleHistory::new(window, window);
        for _ in 0..60 {
            history.push(&[Cell::Exact(1e6); 48]);
        }
        for path in 0..48 {
            let set = ChannelMask::only(path);
            for set in [set, set.with((path + 1) % 48)] {
                let found =
                    history
                        .view(&channels, Beside::NOBODY)
                        .holds(set, 0.9, Term::Renewable);
                assert!(found.is_some(), "{set:?}");
            }
        }
        assert_eq!(history.sets.len(), 48 + SETS_MAX);
    }

    #[test]
    fn between_levels_a_forecast_is_interpolated_on_the_failure_probability() {
        let config = Config {
            levels: PROBABILITIES.to_vec(),
            hold: TERM_WINDOWS,
            judged: Judged::Each,
        };
        let mut forecaster = Forecaster::new(&config).unwrap();
        for number in 0..2_000_u64 {
            let rate = Rate::from_kbps(1_000 + 7_919 * number % 4_000);
            forecaster.observe(Sample::exact(rate));
        }
        let at = |probability| forecast(&forecaster, probability).unwrap();
        for pair in PROBABILITIES.windows(2) {
            let (low, high) = (pair[0], pair[1]);
            assert!(at(high) < at(low), "{low} {high}");
            // In the middle of both on a logarithmic scale.
            let failure = ((1.0 - low) * (1.0 - high)).sqrt();
            let middle = (at(low) + at(high)) / 2.0;
            assert!((at(1.0 - failure) - middle).abs() < 1.0, "{low} {high}");
        }
        // Beyond the last, as from the last two: one more step of the same ratio, not below nothing.
        let beyond = 1.0 - (1.0 - PROBABILITIES[4]).powi(2) / (1.0 - PROBABILITIES[3]);
        let step = at(PROBABILITIES[3]) - at(PROBABILITIES[4]);
        assert!((at(beyond) - (at(PROBABILITIES[4]) - step).max(0.0)).abs() < 1.0);
    }
}

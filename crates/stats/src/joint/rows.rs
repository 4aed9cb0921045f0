//! Simultaneous samples of all channels, and questions about them.

use crate::{
    evidence::{EstimateError, enough, level, non_negative, within},
    growing,
};

/// Most channels of a window.
pub const CHANNELS_MAX: usize = 64;

/// A sample of one channel in one sub-window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Cell {
    /// Not measured. A channel that was down was measured: `Exact(0.0)`.
    #[default]
    Missing,
    /// Measured, for example bits per second; finite, at least 0.
    Exact(f64),
    /// The channel held at least this much; the sender had no more to send (right-censored).
    AtLeast(f64),
}

/// The last rows of simultaneous samples: shape (row, channel), oldest first, all of one unit.
///
/// `push`: O(channels). Questions: O(rows · channels). Neither allocates once the window was full.
#[derive(Debug, Clone, PartialEq)]
pub struct JointWindow {
    /// By row; grows until the window is full.
    cells: Vec<Cell>,
    channels: usize,
    capacity: usize,
    rows: usize,
    /// Row that the next push overwrites.
    next: usize,
    scratch: Vec<f64>,
}

/// The share of rows for which something holds. Censored and missing cells leave some rows open, so it is
/// an interval: the guarantee is the low end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Share of rows for which it certainly holds.
    pub low: f64,
    /// Share of rows for which it is not certain that it fails.
    pub high: f64,
    /// Rows in the window.
    pub rows: usize,
}

/// Rate that a combination of channels keeps with a given probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The largest value reached in at least the asked share of the rows; censored cells count with their
    /// lower bound, so the truth is at least this.
    pub value: f64,
    /// Rows on which it is based: those without a missing cell among the channels asked.
    pub rows: usize,
    /// Of these, rows that hold a lower bound only.
    pub censored: usize,
}

impl JointWindow {
    /// Creates a window of the last `rows` rows of `channels` channels.
    ///
    /// # Errors
    /// `channels` outside 1 to 64, no rows.
    pub fn new(channels: usize, rows: usize) -> Result<Self, EstimateError> {
        let sane = (1..=CHANNELS_MAX).contains(&channels);
        within("channels", channels as f64, "1 to 64", sane)?;
        within("rows", rows as f64, "at least 1", rows >= 1)?;
        Ok(Self {
            cells: Vec::new(),
            channels,
            capacity: rows,
            rows: 0,
            next: 0,
            scratch: Vec::new(),
        })
    }

    /// Takes the row of the next sub-window, one cell a channel; the oldest row leaves when full.
    ///
    /// # Errors
    /// A wrong number of cells, or a value that is negative or not finite; nothing is taken then.
    pub fn push(&mut self, row: &[Cell]) -> Result<(), EstimateError> {
        self.matches("row", row.len())?;
        for cell in row {
            if let Cell::Exact(value) | Cell::AtLeast(value) = *cell {
                non_negative("sample", value)?;
            }
        }
        let start = self.next * self.channels;
        if start == self.cells.len() {
            growing::reserve(&mut self.cells, row.len(), self.capacity * self.channels);
            self.cells.extend_from_slice(row);
        } else {
            self.cells[start..start + self.channels].copy_from_slice(row);
        }
        self.next = (self.next + 1) % self.capacity;
        self.rows = (self.rows + 1).min(self.capacity);
        Ok(())
    }

    /// Forgets what was measured of one channel in all rows but the last `keep`. O(rows).
    ///
    /// # Panics
    /// There is no such channel.
    pub fn forget(&mut self, channel: usize, keep: usize) {
        assert!(channel < self.channels, "the channel has a column");
        let oldest = (self.next + self.capacity - self.rows) % self.capacity;
        for offset in 0..self.rows.saturating_sub(keep) {
            let row = (oldest + offset) % self.capacity;
            self.cells[row * self.channels + channel] = Cell::Missing;
        }
    }

    /// Rows in the window.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Channels of a row.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The rows, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[Cell]> {
        let oldest = (self.next + self.capacity - self.rows) % self.capacity;
        (0..self.rows).map(move |offset| {
            let start = (oldest + offset) % self.capacity * self.channels;
            &self.cells[start..start + self.channels]
        })
    }

    /// P(every channel holds at least its threshold at once): P(b₁ ≥ x₁ and b₂ ≥ x₂ and …). A threshold of 0
    /// does not ask the channel. This is the probability that a split with these rates is kept.
    ///
    /// # Errors
    /// A wrong number of thresholds, one that is negative or not finite; no rows.
    pub fn all_at_least(&self, thresholds: &[f64]) -> Result<Share, EstimateError> {
        self.matches("thresholds", thresholds.len())?;
        for &threshold in thresholds {
            non_negative("threshold", threshold)?;
        }
        self.share(|row| {
            let mut verdict = Some(true);
            for (cell, &threshold) in row.iter().zip(thresholds) {
                match (reaches(*cell, threshold), verdict) {
                    // One certain failure decides the row whatever the others are.
                    (Some(false), _) => return Some(false),
                    (None, _) => verdict = None,
                    (Some(true), _) => {}
                }
            }
            verdict
        })
    }

    /// P(the channels with `members` set hold at least `total` together).
    ///
    /// # Errors
    /// A wrong number of members or none set, `total` negative or not finite; no rows.
    pub fn sum_at_least(&self, members: &[bool], total: f64) -> Result<Share, EstimateError> {
        self.asked("members", members.len(), members.iter().any(|&m| m))?;
        non_negative("total", total)?;
        self.share(|row| {
            let (mut sum, mut is_open) = (0.0, false);
            for (cell, _) in row.iter().zip(members).filter(|(_, m)| **m) {
                match *cell {
                    Cell::Exact(value) => sum += value,
                    Cell::AtLeast(value) => {
                        sum += value;
                        is_open = true;
                    }
                    Cell::Missing => is_open = true,
                }
            }
            if sum >= total {
                Some(true)
            } else if is_open {
                None
            } else {
                Some(false)
            }
        })
    }

    /// The total that the channels with `members` set keep together with probability `p`.
    ///
    /// # Errors
    /// A wrong number of members or none set, `p` not strictly between 0 and 1, fewer than 1/(1 − p)
    /// complete rows.
    pub fn sum_level(&mut self, members: &[bool], p: f64) -> Result<Level, EstimateError> {
        self.asked("members", members.len(), members.iter().any(|&m| m))?;
        self.level(p, "level of the sum", |row| {
            combine(
                row,
                members.iter().map(|&m| f64::from(u8::from(m))),
                0.0,
                |sum, value, weight| sum + value * weight,
            )
        })
    }

    /// The largest rate r such that the split with `shares` is kept with probability `p`:
    /// P(b_i ≥ shares_i · r for all i) ≥ p. Shares of 0 do not use the channel; they need not sum to 1.
    ///
    /// # Errors
    /// A wrong number of shares, a negative one or none above 0, `p` not strictly between 0 and 1, fewer
    /// than 1/(1 − p) complete rows.
    pub fn split_level(&mut self, shares: &[f64], p: f64) -> Result<Level, EstimateError> {
        for &share in shares {
            non_negative("share", share)?;
        }
        self.asked("shares", shares.len(), shares.iter().any(|&s| s > 0.0))?;
        self.level(p, "level of the split", |row| {
            combine(
                row,
                shares.iter().copied(),
                f64::INFINITY,
                |least: f64, value, share| least.min(value / share),
            )
        })
    }

    fn matches(&self, name: &'static str, have: usize) -> Result<(), EstimateError> {
        let need = self.channels;
        if have == need {
            Ok(())
        } else {
            Err(EstimateError::Length { name, have, need })
        }
    }

    fn asked(&self, name: &'static str, have: usize, any: bool) -> Result<(), EstimateError> {
        self.matches(name, have)?;
        within(name, 0.0, "set for at least one channel", any).map(|_| ())
    }

    fn share(&self, holds: impl Fn(&[Cell]) -> Option<bool>) -> Result<Share, EstimateError> {
        enough("joint share", self.rows, 1)?;
        let (mut certain, mut possible) = (0usize, 0usize);
        for row in self.iter() {
            let verdict = holds(row);
            certain += usize::from(verdict == Some(true));
            possible += usize::from(verdict != Some(false));
        }
        let rows = self.rows;
        Ok(Share {
            low: certain as f64 / rows as f64,
            high: possible as f64 / rows as f64,
            rows,
        })
    }

    fn level(
        &mut self,
        p: f64,
        what: &'static str,
        value: impl Fn(&[Cell]) -> Option<(f64, bool)>,
    ) -> Result<Level, EstimateError> {
        level("p", p)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        growing::reserve(&mut scratch, self.rows, self.capacity);
        let mut censored = 0;
        for (value, is_bound) in self.iter().filter_map(value) {
            scratch.push(value);
            censored += usize::from(is_bound);
        }
        let rows = scratch.len();
        let need = (1.0 / (1.0 - p) - 1e-9).ceil() as usize;
        let found = enough(what, rows, need).map(|()| {
            // The largest v with #(value ≥ v) ≥ p·rows is the order statistic with (1 − p)·rows below it.
            let below = ((1.0 - p) * rows as f64 + 1e-9) as usize;
            let (_, value, _) = scratch.select_nth_unstable_by(below.min(rows - 1), f64::total_cmp);
            Level {
                value: *value,
                rows,
                censored,
            }
        });
        self.scratch = scratch;
        found
    }
}

/// True if the cell reaches the threshold; `None` when that is open.
fn reaches(cell: Cell, threshold: f64) -> Option<bool> {
    match cell {
        _ if threshold <= 0.0 => Some(true),
        Cell::Missing => None,
        Cell::Exact(value) => Some(value >= threshold),
        Cell::AtLeast(value) => (value >= threshold).then_some(true),
    }
}

/// Folds the cells whose weight is above 0; `None` when one of them is missing. The flag states whether one
/// of them was a lower bound.
fn combine(
    row: &[Cell],
    weights: impl Iterator<Item = f64>,
    start: f64,
    fold: impl Fn(f64, f64, f64) -> f64,
) -> Option<(f64, bool)> {
    let (mut value, mut is_bound) = (start, false);
    for (cell, weight) in row.iter().zip(weights).filter(|(_, w)| *w > 0.0) {
        match *cell {
            Cell::Missing => return None,
            Cell::Exact(sample) => value = fold(value, sample, weight),
            Cell::AtLeast(sample) => {
                value = fold(value, sample, weight);
                is_bound = true;
            }
        }
    }
    Some((value, is_bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(rows: &[[Cell; 2]]) -> JointWindow {
        let mut window = JointWindow::new(2, rows.len().max(1)).unwrap();
        rows.iter().for_each(|row| window.push(row).unwrap());
        window
    }

    #[test]
    fn a_forgotten_channel_leaves_its_latest_samples() {
        let mut window = JointWindow::new(2, 4).unwrap();
        for number in 0..6 {
            let cell = Cell::Exact(f64::from(number));
            window.push(&[cell, cell]).unwrap();
        }
        window.forget(1, 3);
        let exact = Cell::Exact;
        let expected = [
            [exact(2.0), Cell::Missing],
            [exact(3.0), exact(3.0)],
            [exact(4.0), exact(4.0)],
            [exact(5.0), exact(5.0)],
        ];
        assert!(window.iter().eq(expected.iter().map(|row| &row[..])));
        window.forget(1, 9);
        assert!(window.iter().eq(expected.iter().map(|row| &row[..])));
        window.forget(0, 0);
        assert!(window.iter().all(|row| row[0] == Cell::Missing));
    }

    /// Two channels that never dip together, and the same two dipping together: equal single quantiles,
    /// different joint answers (the erratum to [IQ-Paths] Theorem 1).
    #[test]
    fn single_quantiles_do_not_tell() {
        let cell = |dips: bool| Cell::Exact(if dips { 1.0 } else { 10.0 });
        let apart: Vec<_> = (0..100)
            .map(|i| [cell(i % 10 == 0), cell(i % 10 == 5)])
            .collect();
        let together: Vec<_> = (0..100)
            .map(|i| [cell(i % 10 == 0), cell(i % 10 == 0)])
            .collect();
        let (mut apart, mut together) = (window(&apart), window(&together));
        assert_eq!(apart.all_at_least(&[10.0, 10.0]).unwrap().low, 0.8);
        assert_eq!(together.all_at_least(&[10.0, 10.0]).unwrap().low, 0.9);
        assert_eq!(apart.sum_level(&[true, true], 0.95).unwrap().value, 11.0);
        assert_eq!(together.sum_level(&[true, true], 0.95).unwrap().value, 2.0);
        assert_eq!(apart.split_level(&[0.5, 0.5], 0.8).unwrap().value, 20.0);
        assert_eq!(apart.split_level(&[0.5, 0.5], 0.85).unwrap().value, 2.0);
        assert_eq!(apart.split_level(&[1.0, 0.0], 0.9).unwrap().value, 10.0);
    }

    #[test]
    fn open_rows_widen_the_answer() {
        use Cell::{AtLeast, Exact, Missing};
        let mut window = window(&[
            [Exact(5.0), Exact(5.0)],
            [AtLeast(5.0), Exact(5.0)],
            [AtLeast(2.0), Exact(5.0)],
            [Missing, Exact(5.0)],
            [Missing, Exact(1.0)],
        ]);
        let share = window.all_at_least(&[4.0, 4.0]).unwrap();
        assert_eq!((share.low, share.high, share.rows), (0.4, 0.8, 5));
        let share = window.sum_at_least(&[true, true], 8.0).unwrap();
        assert_eq!((share.low, share.high), (0.4, 1.0));
        let level = window.sum_level(&[true, true], 0.5).unwrap();
        assert_eq!((level.rows, level.censored), (3, 2));
        assert_eq!(level.value, 10.0);
        assert_eq!(
            window.all_at_least(&[0.0, 4.0]).unwrap().low,
            0.8,
            "threshold 0 does not ask"
        );
    }

    #[test]
    fn bad_and_little_input() {
        let mut window = JointWindow::new(2, 10).unwrap();
        assert!(matches!(
            window.all_at_least(&[1.0, 1.0]),
            Err(EstimateError::TooFew { .. })
        ));
        let good = Cell::Exact(1.0);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(window.push(&[Cell::Exact(bad), good]).is_err());
            assert!(window.push(&[good, Cell::AtLeast(bad)]).is_err());
        }
        assert!(window.push(&[good]).is_err());
        assert_eq!(window.rows(), 0);
        (0..10).for_each(|_| window.push(&[good, good]).unwrap());
        assert!(matches!(
            window.sum_level(&[true, true], 0.95),
            Err(EstimateError::TooFew {
                have: 10,
                need: 20,
                ..
            })
        ));
        assert!(window.sum_level(&[true, true], 0.9).is_ok());
        assert!(window.sum_level(&[false, false], 0.5).is_err());
        assert!(window.split_level(&[0.0, 0.0], 0.5).is_err());
        assert!(window.split_level(&[1.0, f64::NAN], 0.5).is_err());
        assert!(window.sum_level(&[true, true], 1.0).is_err());
        assert!(JointWindow::new(0, 10).is_err() && JointWindow::new(2, 0).is_err());
    }

    proptest! {
        #[test]
        fn agrees_with_counting(
            rows in prop::collection::vec((0u8..9, 0u8..9), 1..80),
            capacity in 1usize..60, x in 0.0..9.0f64, y in 0.0..9.0f64, p in 0.05..0.95f64,
        ) {
            let mut window = JointWindow::new(2, capacity).unwrap();
            for &(a, b) in &rows {
                window.push(&[Cell::Exact(f64::from(a)), Cell::Exact(f64::from(b))]).unwrap();
            }
            let kept = &rows[rows.len().saturating_sub(capacity)..];
            let n = kept.len() as f64;
            let count = |holds: &dyn Fn(f64, f64) -> bool| {
                kept.iter().filter(|&&(a, b)| holds(f64::from(a), f64::from(b))).count() as f64 / n
            };
            let share = window.all_at_least(&[x, y]).unwrap();
            prop_assert_eq!(share.low, count(&|a, b| a >= x && b >= y));
            prop_assert_eq!(share.low, share.high);
            prop_assert_eq!(window.sum_at_least(&[true, true], x + y).unwrap().low, count(&|a, b| a + b >= x + y));
            if let Ok(level) = window.sum_level(&[true, true], p) {
                prop_assert!(count(&|a, b| a + b >= level.value) >= p - 1e-9);
                prop_assert!(count(&|a, b| a + b > level.value) < p + 1e-9);
            }
            if let Ok(level) = window.split_level(&[0.3, 0.7], p) {
                let holds = |r: f64| count(&|a, b| a / 0.3 >= r && b / 0.7 >= r);
                prop_assert!(holds(level.value) >= p - 1e-9 && holds(level.value + 1e-9) < p + 1e-9);
            }
        }
    }
}

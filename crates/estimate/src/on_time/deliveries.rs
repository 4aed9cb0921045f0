//! Deliveries of all paths in the last windows: the evidence of a prediction.

use anabranch_stats::joint::Cell;

/// Windows kept: two minutes of 200 ms.
const ROWS_MAX: usize = 600;

/// Delivery of a path in one window, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// The rate; a lower bound unless `is_exact`.
    pub bytes_per_s: f64,
    /// The sender filled the path, so that it could not have carried more.
    pub is_exact: bool,
}

/// The last windows, oldest first: shape (window, path), bytes per second.
///
/// `push`: O(paths); allocates while it grows to 600 windows, and when paths come. 4 bytes for each cell.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// Rates in bytes per second; negative (−0.0 included): a lower bound; not a number: not measured.
    cells: Vec<f32>,
    paths: usize,
    /// Row that the next push overwrites, once all rows are in use.
    next: usize,
}

impl Deliveries {
    /// Windows known.
    pub fn rows(&self) -> usize {
        self.cells.len().checked_div(self.paths).unwrap_or(0)
    }

    /// Paths of a window.
    pub fn paths(&self) -> usize {
        self.paths
    }

    /// Adds a window: samples of all paths in bits per second, finite and at least 0. Later windows have as many paths or more. If data
    /// waited all the time, what the paths carried is all that they had for it: slots that were left unused were of no use.
    pub fn push(&mut self, row: &[Cell], has_waited: bool) {
        if row.len() > self.paths {
            self.widen(row.len());
        }
        let encode = |cell: &Cell| match *cell {
            Cell::Missing if has_waited => 0.0,
            Cell::Missing => f32::NAN,
            Cell::AtLeast(bps) if !has_waited => -((bps / 8.0) as f32),
            Cell::Exact(bps) | Cell::AtLeast(bps) => (bps / 8.0) as f32,
        };
        let missing = self.paths.saturating_sub(row.len());
        let cells = row.iter().map(encode);
        let cells = cells.chain(std::iter::repeat_n(f32::NAN, missing));
        if self.rows() < ROWS_MAX {
            self.cells.extend(cells);
            return;
        }
        let start = self.next * self.paths;
        for (cell, value) in self.cells[start..].iter_mut().zip(cells) {
            *cell = value;
        }
        self.next = (self.next + 1) % ROWS_MAX;
    }

    /// Makes room for more paths, of which nothing was measured in earlier windows.
    fn widen(&mut self, paths: usize) {
        let before = std::mem::take(self);
        self.paths = paths;
        for row in 0..before.rows() {
            let start = before.place(row) * before.paths;
            self.cells
                .extend(&before.cells[start..start + before.paths]);
            self.cells.resize((row + 1) * paths, f32::NAN);
        }
    }

    /// Forgets what was measured of one path in all windows but the last `keep`.
    pub fn forget(&mut self, path: usize, keep: usize) {
        if path >= self.paths {
            return;
        }
        for row in 0..self.rows().saturating_sub(keep) {
            let place = self.place(row) * self.paths + path;
            self.cells[place] = f32::NAN;
        }
    }

    /// Index of a row, counted from the oldest, in the memory.
    fn place(&self, row: usize) -> usize {
        (self.next + row) % self.rows().max(1)
    }

    /// The cell of a path in a window, counted from the oldest; `None`: not measured.
    pub fn get(&self, row: usize, path: usize) -> Option<Carried> {
        if row >= self.rows() || path >= self.paths {
            return None;
        }
        let cell = self.cells[self.place(row) * self.paths + path];
        (!cell.is_nan()).then(|| Carried {
            bytes_per_s: f64::from(cell.abs()),
            is_exact: cell.is_sign_positive(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(bytes_per_s: f64) -> Option<Carried> {
        Some(Carried {
            bytes_per_s,
            is_exact: true,
        })
    }

    #[test]
    fn the_last_windows_are_kept_and_paths_may_come() {
        let mut deliveries = Deliveries::default();
        assert_eq!((deliveries.rows(), deliveries.get(0, 0)), (0, None));
        for window in 0..700 {
            deliveries.push(&[Cell::Exact(8.0 * f64::from(window))], false);
        }
        assert_eq!(deliveries.rows(), 600);
        assert_eq!(deliveries.get(0, 0), exact(100.0));
        deliveries.push(&[Cell::AtLeast(0.0), Cell::Exact(80.0)], false);
        assert_eq!((deliveries.rows(), deliveries.paths()), (600, 2));
        assert_eq!(deliveries.get(0, 0), exact(101.0));
        assert_eq!(deliveries.get(0, 1), None);
        assert_eq!(deliveries.get(599, 1), exact(10.0));
        let bound = deliveries.get(599, 0).unwrap();
        assert_eq!((bound.bytes_per_s, bound.is_exact), (0.0, false));
        deliveries.push(&[Cell::Missing], false);
        assert_eq!(
            (deliveries.get(599, 0), deliveries.get(599, 1)),
            (None, None)
        );
        deliveries.forget(0, 100);
        assert_eq!(deliveries.get(499, 0), None);
        assert_eq!(deliveries.get(500, 0), exact(602.0));
    }
}

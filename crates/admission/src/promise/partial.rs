//! The window that runs now, of one path.

use anabranch_stats::joint::Cell;

/// Measurements of it so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Partial {
    pub(super) bps: f64,
    /// Rates of the last two sub-windows that were measured.
    recent_bps: [f64; 2],
    is_censored: bool,
    /// It was full of data that would yield.
    pub(super) is_yielded_to: bool,
    pub(super) measured: u32,
}

impl Partial {
    pub(super) fn add(&mut self, cell: Cell) {
        match cell {
            Cell::Missing => return,
            Cell::Exact(bps) => self.add_bps(bps),
            Cell::AtLeast(bps) => {
                self.add_bps(bps);
                self.is_censored = true;
            }
        }
        self.measured += 1;
    }

    fn add_bps(&mut self, bps: f64) {
        self.bps += bps;
        self.recent_bps = if self.measured == 0 {
            [bps; 2]
        } else {
            [self.recent_bps[1], bps]
        };
    }

    /// Rate at which the path could continue: the better of the last two sub-windows.
    pub(super) fn recent_bps(&self) -> f64 {
        self.recent_bps[0].max(self.recent_bps[1])
    }

    /// True if it was full all the time.
    pub(super) fn is_full(&self, parts: u32) -> bool {
        !self.is_censored && self.measured == parts
    }

    pub(super) fn take(&mut self, parts: u32) -> Cell {
        let is_full = self.is_full(parts);
        let partial = std::mem::take(self);
        let mean = partial.bps / f64::from(parts);
        if partial.measured == 0 {
            Cell::Missing
        } else if partial.is_yielded_to || !is_full {
            Cell::AtLeast(mean)
        } else {
            Cell::Exact(mean)
        }
    }
}

//! Windows of paths as a capacity: of the past, or, for the clairvoyant, of the future.

use anabranch_admission::mapping::{Capacity, Term};
use anabranch_spec::ChannelMask;
use anabranch_stats::durable::kept_rate;

/// Levels tried in offers.
const LEVELS: [f64; 5] = [0.99, 0.95, 0.9, 0.75, 0.5];

/// Capacities of paths in some windows, in bits per second: rows are windows, columns are paths.
#[derive(Clone, Debug)]
pub struct Rows {
    rows: Vec<Vec<f64>>,
    sums: Vec<f64>,
}

impl Rows {
    /// Rows of at least one window; all have the same length.
    pub fn new(rows: Vec<Vec<f64>>) -> Self {
        Self {
            rows,
            sums: Vec::new(),
        }
    }

    /// Sums over a set, window by window.
    fn collect(&mut self, set: ChannelMask) {
        self.sums.clear();
        let sum = |row: &Vec<f64>| set.iter().filter_map(|path| row.get(path)).sum::<f64>();
        self.sums.extend(self.rows.iter().map(sum));
    }
}

impl Capacity for Rows {
    fn paths(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    fn holds(&mut self, set: ChannelMask, probability: f64, _: Term) -> Option<f64> {
        self.collect(set);
        kept_rate(&mut self.sums, probability)
    }

    fn shortfall(&mut self, set: ChannelMask, need_bps: f64, _: Term) -> Option<f64> {
        self.collect(set);
        let missing: f64 = self.sums.iter().map(|sum| (need_bps - sum).max(0.0)).sum();
        (!self.sums.is_empty()).then(|| missing / self.sums.len() as f64)
    }

    fn probabilities(&self) -> &[f64] {
        &LEVELS
    }
}

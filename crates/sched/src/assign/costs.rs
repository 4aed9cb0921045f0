//! Cost matrix, by row and column.

use super::Utility;

/// Entries by which a line is longer than it needs to be.
const PADDING: usize = 8;

/// Negatives of utilities, row by row. Rows read along; a column's costs are gathered from all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    values: Vec<Utility>,
    rows: usize,
    columns: usize,
    /// Capacity of a row: at least the number of columns.
    stride: usize,
}

impl Costs {
    /// Of a row.
    pub(super) fn row(&self, row: usize) -> &[Utility] {
        &self.values[row * self.stride..][..self.columns]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [Utility] {
        &mut self.values[row * self.stride..][..self.columns]
    }

    /// Of a column.
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = Utility> + '_ {
        let lines = self.values.chunks(self.stride.max(1));
        lines.take(self.rows).map(move |line| line[column])
    }

    pub(super) fn set(&mut self, row: usize, column: usize, cost: Utility) {
        self.values[row * self.stride + column] = cost;
    }

    /// Adds a row of zeros.
    pub(super) fn push_row(&mut self) {
        self.rows += 1;
        self.values.resize(self.rows * self.stride, 0);
    }

    /// Adds a column, in which all is unknown.
    pub(super) fn push_column(&mut self) {
        self.columns += 1;
        if self.columns <= self.stride {
            return;
        }
        // Not a power of two: a column's entries would share a few lines of the processor's cache.
        let stride = self.columns.next_power_of_two() + PADDING;
        let mut values = vec![0; self.rows * stride];
        if self.stride > 0 {
            let lines = self.values.chunks_exact(self.stride);
            for (line, old) in values.chunks_exact_mut(stride).zip(lines) {
                line[..self.stride].copy_from_slice(old);
            }
        }
        (self.values, self.stride) = (values, stride);
    }

    /// Removes a row; the last one takes its place.
    pub(super) fn swap_remove_row(&mut self, row: usize) {
        self.rows -= 1;
        let last = self.rows * self.stride..(self.rows + 1) * self.stride;
        self.values.copy_within(last.clone(), row * self.stride);
        self.values.truncate(last.start);
    }

    /// Removes a column; the last one takes its place.
    pub(super) fn swap_remove_column(&mut self, column: usize) {
        let last = self.columns - 1;
        for row in 0..self.rows {
            let line = self.row_mut(row);
            line[column] = line[last];
        }
        self.columns = last;
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        (self.rows, self.columns) = (0, 0);
    }
}

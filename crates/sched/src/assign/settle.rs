//! Many changes of an assignment at once.
//!
//! Rows and columns come, go and change without being looked at; then one call finds the best assignment again. It
//! begins from the prices and pairs that were best before: what changed gets prices that all others allow, pairs
//! that those no longer bear are parted, and only rows and columns that have no mate then, and would pay for one, look for
//! their places. Few changes cost little; if everything is new, it is the Hungarian method from the beginning.

use super::{
    Utility,
    matching::{Matching, augment},
    side::NONE,
};

/// Of so many columns, one that changed is looked at alone; if more changed, all rows are.
const COLUMNS_EACH: usize = 4;
/// Side of the squares in which costs are copied from one side to the other.
const TILE: usize = 16;

impl Matching {
    /// Adds a row and returns its index. Until [`write_row`](Self::write_row) says what it is worth, nothing is known of it; until
    /// [`settle`](Self::settle), it is left out. O(1), but for memory.
    pub fn push_row(&mut self, left_out: Utility) -> usize {
        let row = self.push(left_out);
        self.rows.widen(self.columns());
        self.loosen_row(row);
        row
    }

    /// Adds a column and returns its index; until [`write`](Self::write) has said of each row what it is worth there, or
    /// `write_row`, nothing is known of it. O(1), but for memory.
    pub fn push_column(&mut self) -> usize {
        self.rows.widen(self.columns() + 1);
        let column = self.columns.push(0);
        self.columns.widen(self.rows());
        self.columns.is_loose[column] = true;
        column
    }

    /// Removes a row; the last row takes its index. Its column is empty until [`settle`](Self::settle). O(columns).
    ///
    /// # Panics
    /// There is no such row.
    pub fn drop_row(&mut self, row: usize) {
        self.take_row(row);
    }

    /// Removes a column; the last column takes its index. Its row is left out until [`settle`](Self::settle). O(rows).
    ///
    /// # Panics
    /// There is no such column.
    pub fn drop_column(&mut self, column: usize) {
        self.take_column(column);
    }

    /// What a row is worth in a column.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn worth(&self, row: usize, column: usize) -> Utility {
        -self.rows.line(row, self.columns())[column]
    }

    /// What a row is worth in each column from now on, within ± [`UTILITY_MAX`](super::UTILITY_MAX). O(columns).
    ///
    /// # Panics
    /// There is no such row.
    pub fn write_row(&mut self, row: usize, in_column: impl Iterator<Item = Utility>) {
        let columns = self.columns();
        let line = self.rows.line_mut(row, columns);
        let mut has_changed = false;
        for (cost, utility) in line.iter_mut().zip(in_column) {
            has_changed |= *cost != -utility;
            *cost = -utility;
        }
        // What is the same may yet be news to a column that has just come.
        self.stale[row] = true;
        self.rows.is_loose[row] |= has_changed;
    }

    /// What a row is worth in each column from now on, by what it was worth before. As `write_row`.
    ///
    /// # Panics
    /// There is no such row.
    pub fn change_row(&mut self, row: usize, worth: impl Fn(usize, Utility) -> Utility) {
        self.loosen_row(row);
        let columns = self.columns();
        let line = self.rows.line_mut(row, columns);
        for (column, cost) in line.iter_mut().enumerate() {
            *cost = -worth(column, -*cost);
        }
    }

    /// What a row is worth in one column from now on; for few columns. O(1).
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn write(&mut self, row: usize, column: usize, utility: Utility) {
        self.columns.is_loose[column] = true;
        self.rows.set(row, column, -utility);
        self.columns.set(column, row, -utility);
    }

    /// Finds the best assignment after changes. Rows that have no place look for one in the `order` given, in which each is named
    /// once; it decides between equals.
    ///
    /// O(rows that changed × columns + columns that changed × rows), and for each that finds its place anew, as
    /// [`add_row`](Self::add_row).
    pub fn settle(&mut self, order: impl IntoIterator<Item = usize>) {
        let all = self.price_columns();
        self.price_rows(all);
        for row in order {
            let is_loose = all || self.rows.is_loose[row];
            let would_pay = is_loose || self.rows.price[row] < self.rows.out[row];
            if self.rows.mate[row] == NONE && would_pay {
                augment(&mut self.rows, &mut self.columns, row, &mut self.search);
            }
        }
        for column in 0..self.columns() {
            // An empty column is worth nothing; with a price it still pays for the row that it lost.
            if self.columns.mate[column] == NONE && self.columns.price[column] < 0 {
                self.catch_up();
                augment(&mut self.columns, &mut self.rows, column, &mut self.search);
            }
        }
        self.rows.is_loose.fill(false);
        self.columns.is_loose.fill(false);
    }

    /// Gives columns that changed the greatest price that rows which did not change allow; true: too many changed,
    /// rows have to look at all of them.
    fn price_columns(&mut self) -> bool {
        let (rows, columns) = (&self.rows, &mut self.columns);
        let loose = columns.is_loose.iter().filter(|is_loose| **is_loose);
        if loose.count() * COLUMNS_EACH > columns.len() {
            return true;
        }
        let others = columns.len();
        for column in 0..others {
            if columns.is_loose[column] {
                let firm = (0..rows.len()).filter(|&row| !rows.is_loose[row]);
                let slack = firm.map(|row| rows.line(row, others)[column] - rows.price[row]);
                columns.price[column] = slack.min().unwrap_or(0).min(0);
            }
        }
        false
    }

    /// Gives rows that changed the greatest price that columns allow, and parts pairs that are not the best any more.
    fn price_rows(&mut self, all: bool) {
        let (rows, columns) = (&mut self.rows, &mut self.columns);
        let others = columns.len();
        for row in 0..rows.len() {
            let mate = rows.mate[row];
            if mate == NONE {
                continue;
            }
            let line = rows.line(row, others);
            let is_loose = all || rows.is_loose[row];
            let pair = line[mate] - columns.price[mate];
            if is_loose {
                rows.price[row] = least(line, &columns.price).min(rows.out[row]);
            } else if !columns.is_loose[mate] {
                continue;
            }
            if pair != rows.price[row] {
                rows.mate[row] = NONE;
                columns.mate[mate] = NONE;
            }
        }
    }

    fn loosen_row(&mut self, row: usize) {
        self.rows.is_loose[row] = true;
        self.stale[row] = true;
    }

    /// Copies the costs of rows that were written to the lines of the columns.
    pub(super) fn catch_up(&mut self) {
        let stale = self.stale.iter().filter(|is_stale| **is_stale).count();
        if stale == 0 {
            return;
        }
        let others = self.columns();
        self.columns.widen(self.rows());
        // Square by square, so that both sides stay in the processor's cache.
        for first in (0..self.rows()).step_by(TILE) {
            let rows = first..(first + TILE).min(self.rows());
            if !self.stale[rows.clone()].contains(&true) {
                continue;
            }
            for from in (0..others).step_by(TILE) {
                let columns = from..(from + TILE).min(others);
                for row in rows.clone().filter(|&row| self.stale[row]) {
                    let line = self.rows.line(row, others);
                    for column in columns.clone() {
                        self.columns.set(column, row, line[column]);
                    }
                }
            }
        }
        self.stale.fill(false);
    }
}

/// The least of what columns cost, their prices taken off.
#[inline(never)]
fn least(line: &[Utility], price: &[Utility]) -> Utility {
    let slack = line.iter().zip(price).map(|(cost, price)| cost - price);
    slack.min().unwrap_or(Utility::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::assign::{
        UTILITY_MAX,
        matching::tests::{best, check},
    };

    #[derive(Clone, Debug)]
    enum Change {
        PushRow(Utility, Vec<Utility>),
        PushColumn(Vec<Utility>),
        DropRow(usize),
        DropColumn(usize),
        WriteRow(usize, Vec<Utility>),
        WriteColumn(usize, Vec<Utility>),
        /// All, by one line each.
        WriteAll(Vec<Utility>),
    }

    const MOST: usize = 6;

    fn change() -> impl Strategy<Value = Change> {
        let value = || {
            prop_oneof![
                -3..8_i64,
                Just(-1_000_000),
                Just(UTILITY_MAX),
                Just(-UTILITY_MAX)
            ]
        };
        let line = move || prop::collection::vec(value(), MOST);
        let at = 0..MOST;
        prop_oneof![
            3 => (-2..4_i64, line()).prop_map(|(out, line)| Change::PushRow(out, line)),
            3 => line().prop_map(Change::PushColumn),
            1 => at.clone().prop_map(Change::DropRow),
            1 => at.clone().prop_map(Change::DropColumn),
            2 => (at.clone(), line()).prop_map(|(at, line)| Change::WriteRow(at, line)),
            2 => (at, line()).prop_map(|(at, line)| Change::WriteColumn(at, line)),
            1 => line().prop_map(Change::WriteAll),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_assignment_is_the_best_after_many_changes(
            batches in prop::collection::vec(prop::collection::vec(change(), 0..8), 0..12)
        ) {
            let mut matching = Matching::new();
            let mut rows: Vec<(Utility, Vec<Utility>)> = Vec::new();
            let mut columns = 0;
            for (number, batch) in batches.into_iter().enumerate() {
                for change in batch {
                    match change {
                        Change::PushRow(out, line) if rows.len() < MOST => {
                            let row = matching.push_row(out);
                            prop_assert_eq!(row, rows.len());
                            matching.write_row(row, line.iter().copied());
                            rows.push((out, line[..columns].to_vec()));
                        }
                        Change::PushColumn(line) if columns < MOST => {
                            prop_assert_eq!(matching.push_column(), columns);
                            for (row, (_, values)) in rows.iter_mut().enumerate() {
                                matching.write(row, columns, line[row]);
                                values.push(line[row]);
                            }
                            columns += 1;
                        }
                        Change::DropRow(at) if at < rows.len() => {
                            matching.drop_row(at);
                            rows.swap_remove(at);
                        }
                        Change::DropColumn(at) if at < columns => {
                            matching.drop_column(at);
                            columns -= 1;
                            for (_, values) in &mut rows {
                                values.swap_remove(at);
                            }
                        }
                        Change::WriteRow(at, line) if at < rows.len() => {
                            matching.write_row(at, line.iter().copied());
                            rows[at].1.copy_from_slice(&line[..columns]);
                        }
                        Change::WriteColumn(at, line) if at < columns => {
                            for (row, (_, values)) in rows.iter_mut().enumerate() {
                                matching.write(row, at, line[row]);
                                values[at] = line[row];
                            }
                        }
                        Change::WriteAll(line) => {
                            for (row, (_, values)) in rows.iter_mut().enumerate() {
                                for (column, value) in values.iter_mut().enumerate() {
                                    *value = line[(row + column * 5) % MOST];
                                }
                                matching.write_row(row, values.iter().copied());
                            }
                        }
                        _ => continue,
                    }
                }
                let count = rows.len();
                matching.settle((0..count).map(|place| (place + number) % count));
                prop_assert_eq!(matching.utility(), best(&rows, 0));
                prop_assert_eq!((matching.rows(), matching.columns()), (rows.len(), columns));
                // What the other ways of changing need, and what they leave.
                if number % 3 == 0 && columns > 0 && columns < MOST {
                    matching.change_column(0, |row| row as Utility);
                    matching.add_column(|row| 2 * row as Utility);
                    columns += 1;
                    for (row, (_, values)) in rows.iter_mut().enumerate() {
                        values[0] = row as Utility;
                        values.push(2 * row as Utility);
                    }
                    prop_assert_eq!(matching.utility(), best(&rows, 0));
                }
                matching.catch_up();
                check(&matching);
            }
        }
    }
}

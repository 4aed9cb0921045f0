//! Many changes of an assignment at once.
//!
//! Rows and columns come, go and change without being looked at; then one call finds the best assignment again. It
//! begins from the prices and pairs that were best before: what changed gets prices that all others allow, pairs
//! that those no longer bear are parted, and only rows and columns that have no mate then, and would pay for one, look for
//! their places. Few changes cost little; if everything is new, it is the Hungarian method from the beginning.

use super::{
    Utility,
    matching::Matching,
    side::{NONE, Side},
};

/// Of so many columns, one that changed is looked at alone; if more changed, all rows are.
const COLUMNS_EACH: usize = 4;
/// If more rows changed than one of so many, all columns are priced anew.
const ROWS_EACH: usize = 2;
/// Bids for each row that waits, on average, before it searches.
const BIDS_EACH: usize = 4;

impl Matching {
    /// Adds a row and returns its index. Until [`write_row`](Self::write_row) sets its worth, nothing is known of it; until
    /// [`settle`](Self::settle), it is left out. O(1), but for memory.
    pub fn push_row(&mut self, left_out: Utility) -> usize {
        let row = self.push(left_out);
        self.rows.is_loose[row] = true;
        row
    }

    /// Adds a column and returns its index; until [`write`](Self::write) has set the worth of each row there, or
    /// `write_row`, nothing is known of it. O(1), but for memory.
    pub fn push_column(&mut self) -> usize {
        let column = self.push_open_column();
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

    /// Worth of a row in a column.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn worth(&self, row: usize, column: usize) -> Utility {
        -self.costs.row(row)[column]
    }

    /// Sets the worth of a row in each column, within ± [`UTILITY_MAX`](super::UTILITY_MAX). O(columns).
    ///
    /// # Panics
    /// There is no such row.
    pub fn write_row(&mut self, row: usize, in_column: impl Iterator<Item = Utility>) {
        let line = self.costs.row_mut(row);
        let mut has_changed = false;
        let costs = line.iter_mut().zip(&self.columns.is_loose);
        for ((cost, is_loose), utility) in costs.zip(in_column) {
            // A column that has just come is new to every row.
            has_changed |= (*cost != -utility) & !is_loose;
            *cost = -utility;
        }
        self.rows.is_loose[row] |= has_changed;
    }

    /// Sets the worth of a row in each column, by its worth before. As `write_row`.
    ///
    /// # Panics
    /// There is no such row.
    pub fn change_row(&mut self, row: usize, worth: impl Fn(usize, Utility) -> Utility) {
        self.rows.is_loose[row] = true;
        for (column, cost) in self.costs.row_mut(row).iter_mut().enumerate() {
            *cost = -worth(column, -*cost);
        }
    }

    /// Sets the worth of a row in one column; for few columns. O(1).
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn write(&mut self, row: usize, column: usize, utility: Utility) {
        self.columns.is_loose[column] = true;
        self.costs.set(row, column, -utility);
    }

    /// Finds the best assignment after changes. Rows that have no place look for one in the `order` given, in which each is named
    /// once; it decides between equals.
    ///
    /// O(rows that changed × columns + columns that changed × rows), and for each that finds its place anew, as
    /// [`add_row`](Self::add_row).
    pub fn settle(&mut self, order: impl IntoIterator<Item = usize>) {
        let all = self.price_columns();
        self.price_rows(all);
        self.price_free_columns(all);
        self.waiting.clear();
        for row in order {
            let is_loose = all || self.rows.is_loose[row];
            let would_pay = is_loose || self.rows.price[row] < self.rows.out[row];
            if self.rows.mate[row] == NONE && would_pay {
                self.waiting.push(row);
            }
        }
        self.bid();
        for place in 0..self.waiting.len() {
            let row = self.waiting[place];
            self.place_row(row);
        }
        for column in 0..self.columns() {
            // An empty column is worth nothing; with a price it still pays for the row that it lost.
            if self.columns.mate[column] == NONE && self.columns.price[column] < 0 {
                self.place_column(column);
            }
        }
        self.rows.is_loose.fill(false);
        self.columns.is_loose.fill(false);
    }

    /// Gives columns that changed the greatest price that rows with a place allow, at what those paid; true: too many
    /// changed, rows have to look at all of them.
    fn price_columns(&mut self) -> bool {
        let loose = self.columns.is_loose.iter().enumerate();
        let loose = loose.filter(|(_, is_loose)| **is_loose);
        self.free.clear();
        self.free.extend(loose.map(|(column, _)| (column, 0)));
        let rows = self.rows.is_loose.iter().filter(|is_loose| **is_loose);
        if self.free.len() * COLUMNS_EACH > self.columns() || rows.count() * ROWS_EACH > self.rows()
        {
            self.price_all_columns();
            return true;
        }
        // Whoever changed prices itself anew; but it will hardly pay very much less.
        self.lower(|rows, row| rows.mate[row] != NONE || !rows.is_loose[row]);
        false
    }

    /// The same for all columns.
    fn price_all_columns(&mut self) {
        let (rows, columns) = (&self.rows, &mut self.columns);
        columns.price.fill(0);
        for row in 0..rows.len() {
            if rows.mate[row] != NONE || !rows.is_loose[row] {
                undercut(self.costs.row(row), rows.price[row], &mut columns.price);
            }
        }
    }

    /// Lowers the prices of `free` to what such rows allow.
    fn lower(&mut self, is_settled: impl Fn(&Side, usize) -> bool) {
        let (rows, columns) = (&self.rows, &mut self.columns);
        if self.free.is_empty() {
            return;
        }
        for row in (0..rows.len()).filter(|&row| is_settled(rows, row)) {
            let line = self.costs.row(row);
            for (column, price) in &mut self.free {
                *price = (*price).min(line[*column] - rows.price[row]);
            }
        }
        for &(column, price) in &self.free {
            columns.price[column] = price;
        }
    }

    /// Gives rows that changed the greatest price that columns allow, and parts pairs that are not the best any more.
    fn price_rows(&mut self, all: bool) {
        let (rows, columns) = (&mut self.rows, &mut self.columns);
        for row in 0..rows.len() {
            let mate = rows.mate[row];
            if mate == NONE {
                continue;
            }
            let line = self.costs.row(row);
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

    /// Gives columns that lost their rows the greatest price that those rows allow which have a place, or need none.
    fn price_free_columns(&mut self, all: bool) {
        let columns = &self.columns;
        let is_free = |&column: &usize| columns.mate[column] == NONE && columns.price[column] < 0;
        let free = (0..columns.len()).filter(is_free);
        self.free.clear();
        self.free.extend(free.map(|column| (column, 0)));
        self.lower(|rows, row| rows.mate[row] != NONE || !all && !rows.is_loose[row]);
    }

    /// Rows that wait take what is best for them, and pay so much that the second best is as good; whoever is pushed
    /// out goes on ("augmenting row reduction", Jonker & Volgenant). Much cheaper than a search, it places most of
    /// them; the others wait still.
    fn bid(&mut self) {
        let (rows, columns) = (&mut self.rows, &mut self.columns);
        let mut left = BIDS_EACH * self.waiting.len();
        for place in 0..self.waiting.len() {
            let mut row = self.waiting[place];
            while left > 0 {
                left -= 1;
                let (best, second, column) = best_two(self.costs.row(row), &columns.price);
                let second = second.min(rows.out[row]);
                // Of equals, a search decides.
                if best >= second {
                    break;
                }
                columns.price[column] -= second - best;
                rows.price[row] = second;
                rows.mate[row] = column;
                let before = std::mem::replace(&mut columns.mate[column], row);
                if before == NONE {
                    row = NONE;
                    break;
                }
                rows.mate[before] = NONE;
                row = before;
            }
            self.waiting[place] = row;
        }
        self.waiting.retain(|&row| row != NONE);
    }
}

/// Lowers prices to what a row that pays so much allows.
#[inline(never)]
fn undercut(line: &[Utility], paid: Utility, price: &mut [Utility]) {
    for (price, cost) in price.iter_mut().zip(line) {
        *price = (*price).min(cost - paid);
    }
}

/// The least that a column costs, its price taken off; the least of all others, and which column it is.
#[inline(never)]
fn best_two(line: &[Utility], price: &[Utility]) -> (Utility, Utility, usize) {
    let (mut best, mut second, mut at) = (Utility::MAX, Utility::MAX, NONE);
    for (column, (cost, price)) in line.iter().zip(price).enumerate() {
        let slack = cost - price;
        second = second.min(slack.max(best));
        at = if slack < best { column } else { at };
        best = best.min(slack);
    }
    (best, second, at)
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
                check(&matching);
            }
        }
    }
}

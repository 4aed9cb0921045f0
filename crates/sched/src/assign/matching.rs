//! The best assignment of rows to columns, kept while rows and columns come, change and go.
//!
//! The Hungarian method by shortest augmenting paths [Jonker & Volgenant, Computing 38, 1987], on both sides: a
//! row that comes looks for its best place and may push others along; a column that comes looks for the row
//! that gains most by it; a row or column that goes frees its mate, which then looks again. Dual prices are kept from
//! one change to the next, so that a change costs one augmentation rather than a new solution.
//!
//! In terms of minimal cost, with prices `u` of rows and `v` of columns, what always holds is: `cost ≥ u + v`
//! everywhere, with equality for pairs; no price above what being left out costs, with equality for those who
//! are. By linear duality the assignment is then optimal.

use super::{
    UTILITY_MAX, Utility,
    costs::Costs,
    side::{NONE, Side},
};

/// Rows are what is to be placed (ADUs), columns are places (slots). A column takes one row or stays empty, which
/// is worth nothing; a row that is left out is worth the amount given when it was added.
///
/// Indices are dense: when a row or column goes, the last one takes its index.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    pub(super) rows: Side,
    pub(super) columns: Side,
    pub(super) costs: Costs,
    pub(super) search: Search,
    /// Memory of [`settle`](Self::settle): rows that look for a place, and empty columns with their prices.
    pub(super) waiting: Vec<usize>,
    pub(super) free: Vec<(usize, Utility)>,
}

/// Costs more than being left out ever does.
const ABSENT: Utility = 4 * UTILITY_MAX;

/// Shorter than every path.
const DONE: Utility = Utility::MIN;

/// Memory of [`augment`].
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Length of the shortest path to each node of the other side; [`DONE`] when it is reached for certain.
    distance: Vec<Utility>,
    /// The node of this side from which that path comes.
    before: Vec<usize>,
    /// Nodes of the other side that are reached for certain, in order, with the length.
    reached: Vec<(usize, Utility)>,
    /// Costs of one node of this side.
    line: Vec<Utility>,
}

/// The side that searches for partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seeker {
    Rows,
    Columns,
}

impl Matching {
    /// Nothing to place, and no places.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The column of a row; `None`: the row is left out.
    ///
    /// # Panics
    /// There is no such row.
    pub fn column_of(&self, row: usize) -> Option<usize> {
        Some(self.rows.mate[row]).filter(|&mate| mate != NONE)
    }

    /// The row in a column; `None`: the column is empty.
    ///
    /// # Panics
    /// There is no such column.
    pub fn row_of(&self, column: usize) -> Option<usize> {
        Some(self.columns.mate[column]).filter(|&mate| mate != NONE)
    }

    /// Utility of the assignment: of its pairs, and of the rows that are left out. O(rows).
    pub fn utility(&self) -> Utility {
        let of = |row: usize| match self.column_of(row) {
            Some(column) => -self.costs.row(row)[column],
            None => -self.rows.out[row],
        };
        (0..self.rows()).map(of).sum()
    }

    /// Adds a row and returns its index: `left_out` is the utility of leaving it out, `in_column` that of
    /// each column, both within ± [`UTILITY_MAX`]. O(rows × columns), most often O(columns).
    pub fn add_row(&mut self, left_out: Utility, in_column: impl Fn(usize) -> Utility) -> usize {
        let row = self.push(left_out);
        self.set_row(row, in_column);
        self.place_row(row);
        row
    }

    /// Adds a column and returns its index. As [`add_row`](Self::add_row).
    pub fn add_column(&mut self, of_row: impl Fn(usize) -> Utility) -> usize {
        let column = self.push_open_column();
        self.set_column(column, of_row);
        self.place_column(column);
        column
    }

    /// Removes a row; the last row takes its index. O(rows × columns), most often O(columns).
    ///
    /// # Panics
    /// There is no such row.
    pub fn remove_row(&mut self, row: usize) {
        let freed = self.take_row(row);
        if freed != NONE {
            self.place_column(freed);
        }
    }

    /// Removes a column; the last column takes its index. As [`remove_row`](Self::remove_row).
    ///
    /// # Panics
    /// There is no such column.
    pub fn remove_column(&mut self, column: usize) {
        let freed = self.take_column(column);
        if freed != NONE {
            self.place_row(freed);
        }
    }

    /// A column is worth something else now. Two augmentations, one if it was empty.
    ///
    /// # Panics
    /// There is no such column.
    pub fn change_column(&mut self, column: usize, of_row: impl Fn(usize) -> Utility) {
        let freed = std::mem::replace(&mut self.columns.mate[column], NONE);
        if freed != NONE {
            // The row that it had finds its place as if there were no such column.
            self.set_column(column, |_| -ABSENT);
            self.columns.price[column] = 0;
            self.place_row(freed);
        }
        self.set_column(column, of_row);
        self.place_column(column);
    }

    /// Forgets everything but its memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.columns.clear();
        self.costs.clear();
    }

    /// Adds a row without costs or a place.
    pub(super) fn push(&mut self, left_out: Utility) -> usize {
        self.costs.push_row();
        self.rows.push(-left_out)
    }

    /// Adds a column without costs or a row.
    pub(super) fn push_open_column(&mut self) -> usize {
        self.costs.push_column();
        self.columns.push(0)
    }

    /// Finds the best place for a row that has none.
    pub(super) fn place_row(&mut self, row: usize) {
        self.place(Seeker::Rows, row);
    }

    /// Finds the best row for a column that has none.
    pub(super) fn place_column(&mut self, column: usize) {
        self.place(Seeker::Columns, column);
    }

    fn place(&mut self, seeker: Seeker, node: usize) {
        let (side, other) = match seeker {
            Seeker::Rows => (&mut self.rows, &mut self.columns),
            Seeker::Columns => (&mut self.columns, &mut self.rows),
        };
        augment((seeker, &self.costs), side, other, node, &mut self.search);
    }

    /// Removes a row; its column is left alone, and returned.
    pub(super) fn take_row(&mut self, row: usize) -> usize {
        let freed = self.rows.mate[row];
        self.rows.swap_remove(row);
        self.costs.swap_remove_row(row);
        renumber(&self.rows, &mut self.columns, row, freed);
        freed
    }

    /// Removes a column; its row is left alone, and returned.
    pub(super) fn take_column(&mut self, column: usize) -> usize {
        let freed = self.columns.mate[column];
        self.columns.swap_remove(column);
        self.costs.swap_remove_column(column);
        renumber(&self.columns, &mut self.rows, column, freed);
        freed
    }

    fn set_row(&mut self, row: usize, in_column: impl Fn(usize) -> Utility) {
        let line = self.costs.row_mut(row).iter_mut().enumerate();
        line.for_each(|(column, cost)| *cost = -in_column(column));
    }

    fn set_column(&mut self, column: usize, of_row: impl Fn(usize) -> Utility) {
        for row in 0..self.rows() {
            self.costs.set(row, column, -of_row(row));
        }
    }
}

/// After `node`, which had `freed`, was removed from `side`: its mate is alone, and the mate of the node that has
/// its index now learns of it.
fn renumber(side: &Side, other: &mut Side, node: usize, freed: usize) {
    if freed != NONE {
        other.mate[freed] = NONE;
    }
    if node < side.len() && side.mate[node] != NONE {
        other.mate[side.mate[node]] = node;
    }
}

/// Finds the best place for a node of `side` that has no mate, pushing others along where that is better, and adjusts
/// the prices.
fn augment(
    (seeker, costs): (Seeker, &Costs),
    side: &mut Side,
    other: &mut Side,
    node: usize,
    search: &mut Search,
) {
    let Search {
        distance,
        before,
        reached,
        line,
    } = search;
    let others = other.len();
    let tight = costs_of((seeker, costs), node, line)
        .iter()
        .zip(&other.price);
    let tight = tight.map(|(cost, price)| cost - price);
    side.price[node] = side.out[node].min(tight.min().unwrap_or(Utility::MAX));
    side.mate[node] = NONE;
    if side.price[node] == side.out[node] {
        return;
    }
    distance.clear();
    distance.resize(others, Utility::MAX);
    before.clear();
    before.resize(others, NONE);
    reached.clear();

    // Dijkstra's algorithm from `node`. The path ends at a node of the other side without a mate, or at one of
    // this side that is left out.
    let (mut from, mut length) = (node, 0);
    let (mut leaver, mut shortest) = (node, side.out[node] - side.price[node]);
    let end = loop {
        let least = relax(
            from,
            length - side.price[from],
            costs_of((seeker, costs), from, line),
            &other.price,
            distance,
            before,
        );
        if least >= shortest {
            break None;
        }
        length = least;
        // Of equally near ones, one without a mate: it ends the search.
        let mut nearest = NONE;
        for (to, &mate) in other.mate.iter().enumerate() {
            if distance[to] == least && (nearest == NONE || mate == NONE) {
                nearest = to;
                if mate == NONE {
                    break;
                }
            }
        }
        let to = nearest;
        if other.mate[to] == NONE {
            shortest = length;
            break Some(to);
        }
        distance[to] = DONE;
        reached.push((to, length));
        from = other.mate[to];
        let left_out = length + side.out[from] - side.price[from];
        if left_out < shortest {
            (leaver, shortest) = (from, left_out);
        }
    };

    for &(to, distance) in reached.iter() {
        let gain = shortest - distance;
        other.price[to] -= gain;
        side.price[other.mate[to]] += gain;
    }
    side.price[node] += shortest;

    // Everybody on the path moves on by one.
    let mut to = match end {
        Some(to) => to,
        None if leaver == node => return,
        None => std::mem::replace(&mut side.mate[leaver], NONE),
    };
    loop {
        let mover = before[to];
        let next = std::mem::replace(&mut side.mate[mover], to);
        other.mate[to] = mover;
        if mover == node {
            return;
        }
        to = next;
    }
}

/// Costs of a node of the side that looks for places.
fn costs_of<'c>(
    (seeker, costs): (Seeker, &'c Costs),
    node: usize,
    line: &'c mut Vec<Utility>,
) -> &'c [Utility] {
    match seeker {
        Seeker::Rows => costs.row(node),
        Seeker::Columns => {
            line.clear();
            line.extend(costs.column(node));
            line
        }
    }
}

/// Shortens paths that become shorter through a node at `length`, its price taken off; the length of the shortest that is
/// not [`DONE`]. All slices are as long as `distance`. Apart, so that it is compiled to code without branches.
#[inline(never)]
fn relax(
    from: usize,
    length: Utility,
    line: &[Utility],
    price: &[Utility],
    distance: &mut [Utility],
    before: &mut [usize],
) -> Utility {
    let mut least = Utility::MAX;
    for (((distance, before), cost), price) in distance.iter_mut().zip(before).zip(line).zip(price)
    {
        let through = length + cost - price;
        let is_shorter = through < *distance;
        *distance = if is_shorter { through } else { *distance };
        *before = if is_shorter { from } else { *before };
        let open = if *distance == DONE {
            Utility::MAX
        } else {
            *distance
        };
        least = least.min(open);
    }
    least
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The greatest utility, by trying everything.
    pub(in crate::assign) fn best(rows: &[(Utility, Vec<Utility>)], taken: u32) -> Utility {
        let Some(((left_out, values), rest)) = rows.split_first() else {
            return 0;
        };
        let free = |column: &usize| taken >> column & 1 == 0;
        (0..values.len())
            .filter(free)
            .map(|column| values[column] + best(rest, taken | 1 << column))
            .chain([left_out + best(rest, taken)])
            .max()
            .expect("being left out is always possible")
    }

    /// The property of the result, and the conditions that imply it.
    pub(in crate::assign) fn check(matching: &Matching) {
        let (rows, columns) = (&matching.rows, &matching.columns);
        for row in 0..rows.len() {
            for column in 0..columns.len() {
                let cost = matching.costs.row(row)[column];
                let slack = cost - rows.price[row] - columns.price[column];
                let is_pair = rows.mate[row] == column;
                assert_eq!(is_pair, columns.mate[column] == row);
                assert!(slack >= 0 && (!is_pair || slack == 0), "{slack}");
            }
        }
        for side in [rows, columns] {
            for node in 0..side.len() {
                assert!(side.price[node] <= side.out[node]);
                assert!(side.mate[node] != NONE || side.price[node] == side.out[node]);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        AddRow(Utility, Vec<Utility>),
        AddColumn(Vec<Utility>),
        RemoveRow(usize),
        RemoveColumn(usize),
        Revalue(usize, Vec<Utility>),
    }

    const MOST: usize = 6;

    fn change() -> impl Strategy<Value = Change> {
        // Few different values, so that there are ties; some far apart.
        let value = || prop_oneof![-3..8_i64, Just(-1_000_000), Just(UTILITY_MAX)];
        let line = move || prop::collection::vec(value(), MOST);
        prop_oneof![
            3 => (-2..4_i64, line()).prop_map(|(out, line)| Change::AddRow(out, line)),
            3 => line().prop_map(Change::AddColumn),
            1 => (0..MOST).prop_map(Change::RemoveRow),
            1 => (0..MOST).prop_map(Change::RemoveColumn),
            2 => (0..MOST, line()).prop_map(|(at, line)| Change::Revalue(at, line)),
        ]
    }

    proptest! {
        #[test]
        fn the_assignment_is_the_best_after_every_change(
            changes in prop::collection::vec(change(), 0..40)
        ) {
            let mut matching = Matching::new();
            let mut rows: Vec<(Utility, Vec<Utility>)> = Vec::new();
            let mut columns = 0;
            for change in changes {
                match change {
                    Change::AddRow(out, line) if rows.len() < MOST => {
                        prop_assert_eq!(matching.add_row(out, |column| line[column]), rows.len());
                        rows.push((out, line[..columns].to_vec()));
                    }
                    Change::AddColumn(line) if columns < MOST => {
                        prop_assert_eq!(matching.add_column(|row| line[row]), columns);
                        columns += 1;
                        for (row, (_, values)) in rows.iter_mut().enumerate() {
                            values.push(line[row]);
                        }
                    }
                    Change::RemoveRow(at) if at < rows.len() => {
                        matching.remove_row(at);
                        rows.swap_remove(at);
                    }
                    Change::RemoveColumn(at) if at < columns => {
                        matching.remove_column(at);
                        columns -= 1;
                        for (_, values) in &mut rows {
                            values.swap_remove(at);
                        }
                    }
                    Change::Revalue(at, line) if at < columns => {
                        matching.change_column(at, |row| line[row]);
                        for (row, (_, values)) in rows.iter_mut().enumerate() {
                            values[at] = line[row];
                        }
                    }
                    _ => continue,
                }
                check(&matching);
                prop_assert_eq!(matching.rows(), rows.len());
                prop_assert_eq!(matching.columns(), columns);
                prop_assert_eq!(matching.utility(), best(&rows, 0));
            }
        }
    }

    #[test]
    fn a_row_is_left_out_rather_than_put_where_it_does_harm() {
        let mut matching = Matching::new();
        matching.add_column(|_| 0);
        let row = matching.add_row(0, |_| -1);
        assert_eq!(matching.column_of(row), None);
        assert_eq!(matching.row_of(0), None);
        let eager = matching.add_row(-5, |_| -1);
        assert_eq!(matching.column_of(eager), Some(0));
        assert_eq!(matching.utility(), -1);
        matching.clear();
        assert_eq!((matching.rows(), matching.columns()), (0, 0));
        assert_eq!(matching.utility(), 0);
    }
}

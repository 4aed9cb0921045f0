//! Tables: columns that are as wide as their cells, within the width of a terminal.

use anabranch::base::{Rate, text::printable};
use serde_json::Value;

/// Characters of a line without a terminal, unless all columns are asked for.
pub(crate) const COLUMNS_MAX: usize = 100;
/// Characters to which a cell is shortened, and where that is not enough.
const CELL_MIN: [usize; 2] = [12, 5];
/// Characters of a line on a terminal that states fewer, or none.
const WIDTH_MIN: usize = 40;
/// Space between columns.
const GAP: &str = "  ";

/// Characters of a line: those of the terminal, at least [`WIDTH_MIN`]; without one, [`COLUMNS_MAX`].
pub(crate) fn width() -> usize {
    terminal_width().unwrap_or(COLUMNS_MAX)
}

/// Characters of a line of the terminal; `None`: standard output is none.
fn terminal_width() -> Option<usize> {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map(|(width, _)| usize::from(width.0).max(WIDTH_MIN))
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    head: &'static str,
    is_number: bool,
}

impl Column {
    /// Of words, aligned at the left.
    pub(crate) const fn text(head: &'static str) -> Self {
        let is_number = false;
        Self { head, is_number }
    }

    /// Of numbers, aligned at the right.
    pub(crate) const fn number(head: &'static str) -> Self {
        let is_number = true;
        Self { head, is_number }
    }
}

/// A table with or without headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a row for each of `rows`, which have a cell for each column.
    pub(crate) fn new(columns: Vec<Column>, rows: impl Iterator<Item = Vec<String>>) -> Self {
        let clean = |row: Vec<String>| {
            let cells = row.iter().map(|cell| printable(cell, usize::MAX));
            cells.collect()
        };
        let rows = rows.map(clean).collect();
        Self { columns, rows }
    }

    /// A list of pairs, without headings.
    pub(crate) fn list(rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self::new([Column::text(""); 2].to_vec(), rows.into_iter())
    }

    /// True if it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table. Where they would be longer than `width` characters, cells of the widest columns of words are shortened.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let heads: Vec<String> = (self.columns.iter())
            .map(|column| column.head.to_owned())
            .collect();
        let has_heads = heads.iter().any(|head| !head.is_empty());
        let all = has_heads.then_some(&heads).into_iter().chain(&self.rows);
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let padded: Vec<String> = cells
                .map(|((cell, column), &width)| {
                    let cell = shortened(cell, width);
                    match column.is_number {
                        true => format!("{cell:>width$}"),
                        false => format!("{cell:<width$}"),
                    }
                })
                .collect();
            padded.join(GAP).trim_end().to_owned()
        };
        all.map(line).collect()
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let of_column = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].chars().count());
            cells.chain([self.columns[index].head.len()]).max()
        };
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|index| of_column(index).unwrap_or_default())
            .collect();
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        for cell_min in CELL_MIN {
            while widths.iter().sum::<usize>() + gaps > width {
                let words = (0..widths.len()).filter(|&index| !self.columns[index].is_number);
                let widest = words
                    .filter(|&index| widths[index] > cell_min)
                    .max_by_key(|&index| widths[index]);
                match widest {
                    Some(widest) => widths[widest] -= 1,
                    None => break,
                }
            }
        }
        widths
    }
}

/// Lines of rows of which the first one has the headings; they fit the terminal.
pub(crate) fn headed(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let table = Table::new(vec![Column::text(""); columns], rows.iter().cloned());
    table.lines(terminal_width().unwrap_or(usize::MAX))
}

/// A cell in so many characters: the middle, which tells least, makes room.
fn shortened(cell: &str, width: usize) -> String {
    let count = cell.chars().count();
    if count <= width {
        return cell.to_owned();
    }
    let kept = width.saturating_sub(1);
    let front: String = cell.chars().take(kept - kept / 2).collect();
    let back: String = cell.chars().skip(count - kept / 2).collect();
    format!("{front}…{back}")
}

/// Rate of a field in bits per second; `-` if it is not known.
pub(crate) fn rate(row: &Value, key: &str) -> String {
    match row[key].as_u64() {
        Some(bps) => Rate::from_bps(bps).to_string(),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[[&str; 2]]) -> Vec<Vec<String>> {
        let row = |row: &[&str; 2]| row.iter().map(|&cell| cell.to_owned()).collect();
        cells.iter().map(row).collect()
    }

    #[test]
    fn numbers_are_aligned_at_the_right() {
        let columns = vec![Column::text("NAME"), Column::number("SENT")];
        let rows = rows(&[["a", "1 kB"], ["long name", "10.5 kB"]]);
        let lines = Table::new(columns, rows.into_iter()).lines(80);
        assert_eq!(
            lines,
            [
                "NAME          SENT",
                "a             1 kB",
                "long name  10.5 kB"
            ]
        );
    }

    #[test]
    fn the_widest_column_makes_room() {
        let columns = vec![Column::text("NAME"), Column::text("PLACE")];
        let long = "x".repeat(50);
        let rows = rows(&[["short", &long]]);
        let lines = Table::new(columns, rows.into_iter()).lines(30);
        assert_eq!(
            lines[1],
            format!("short  {}…{}", "x".repeat(11), "x".repeat(11))
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let table = Table::list(rows(&[["a\u{1b}[2J", "b"]]));
        assert!(!table.lines(80)[0].contains('\u{1b}'));
    }
}

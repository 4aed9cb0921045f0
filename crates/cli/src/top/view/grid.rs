//! Tables: the columns that fit, in the order of their importance.

use super::text::{GAP, Line, Piece, padded, width};
use super::theme::Tone;

/// Cells to which a column of words is shortened.
const WORDS_MAX: usize = 28;

/// A column and its importance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) is_number: bool,
    /// Columns with a higher rank are left out first.
    pub(super) rank: usize,
}

/// The head and the rows, which have a cell for each column.
pub(super) fn lines(columns: &[Column], rows: &[Vec<Piece>], cells: usize) -> (Line, Vec<Line>) {
    let wide = |index: usize| {
        let own = rows.iter().map(|row| width(&row[index].text));
        let widest = own.chain([width(columns[index].head)]).max();
        match columns[index].is_number {
            true => widest.unwrap_or_default(),
            false => widest.unwrap_or_default().min(WORDS_MAX),
        }
    };
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&index| columns[index].rank);
    let mut widths = vec![0; columns.len()];
    let mut left = cells;
    for index in order {
        let space = if left == cells { 0 } else { GAP };
        let wanted = wide(index).max(1);
        // The first one is never left out, but makes room for the second.
        let wanted = match left == cells {
            true => wanted.min((cells / 2).max(1)),
            false => wanted,
        };
        if wanted + space <= left {
            widths[index] = wanted;
            left -= wanted + space;
        }
    }
    let line = |pieces: &mut dyn Iterator<Item = (usize, &str, Tone)>| {
        let mut line = Line::new();
        for (index, text, tone) in pieces.filter(|(index, ..)| widths[*index] > 0) {
            if !line.is_empty() {
                line.push(Piece::new(" ".repeat(GAP), Tone::Plain));
            }
            let text = padded(text, widths[index], columns[index].is_number);
            line.push(Piece::new(text, tone));
        }
        line
    };
    let head = line(
        &mut columns
            .iter()
            .enumerate()
            .map(|(index, column)| (index, column.head, Tone::Head)),
    );
    let row = |row: &Vec<Piece>| {
        let pieces = row.iter().enumerate();
        line(&mut pieces.map(|(index, piece)| (index, piece.text.as_str(), piece.tone)))
    };
    (head, rows.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_least_is_left_out_first() {
        let column = |head, is_number, rank| Column {
            head,
            is_number,
            rank,
        };
        let columns = [
            column("Stream", false, 0),
            column("Peer", false, 2),
            column("Late", true, 1),
        ];
        let row = ["telemetry", "studio", "7"].map(|text| Piece::new(text, Tone::Plain));
        let shown = |cells| {
            let (head, rows) = lines(&columns, &[row.to_vec()], cells);
            [head, rows[0].clone()].map(|line| {
                let texts = line.iter().map(|piece| piece.text.as_str());
                texts.collect::<String>()
            })
        };
        assert_eq!(
            shown(40),
            ["Stream     Peer    Late", "telemetry  studio     7"]
        );
        assert_eq!(shown(20), ["Stream     Late", "telemetry     7"]);
        assert_eq!(shown(10), ["Stre…", "tele…"]);
    }
}

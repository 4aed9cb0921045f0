//! Lines of marked text in the width of the terminal.

use anabranch::base::text::printable;
use ratatui_core::text::Span;

use super::theme::Tone;

/// Space between pieces of a line.
pub(super) const GAP: usize = 2;

/// Text with one meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// A line; pieces follow one another without space.
pub(super) type Line = Vec<Piece>;

impl Piece {
    /// A piece. Characters that a terminal would obey are written out.
    pub(super) fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        let text = printable(text.as_ref(), usize::MAX);
        Self { text, tone }
    }
}

/// Cells of a terminal that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The beginning of a text in so many cells; `…` stands for what is left out.
pub(super) fn fitted(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        shown.push(c);
        if width(&shown) + 1 > cells {
            shown.pop();
            break;
        }
    }
    if cells > 0 {
        shown.push('…');
    }
    shown
}

/// A text, filled up with spaces to so many cells.
pub(super) fn padded(text: &str, cells: usize, is_number: bool) -> String {
    let text = fitted(text, cells);
    let space = " ".repeat(cells - width(&text).min(cells));
    match is_number {
        true => space + &text,
        false => text + &space,
    }
}

/// Lines of pieces with space between them: as many to a line as fit. One that is longer than a line is divided between words.
pub(super) fn flowed(pieces: impl IntoIterator<Item = Piece>, cells: usize) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    let mut used = 0;
    for piece in pieces {
        for (index, text) in divided(&piece.text, cells).into_iter().enumerate() {
            let long = width(&text);
            if index > 0 || (used > 0 && used + GAP + long > cells) {
                lines.push(Line::new());
                used = 0;
            }
            let tone = piece.tone;
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(Piece::new(" ".repeat(GAP), Tone::Plain));
                    used += GAP;
                }
                line.push(Piece { text, tone });
            }
            used += long;
        }
    }
    lines
}

/// Parts of a text of so many cells at most, divided between words where that is possible.
fn divided(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(2);
    let mut parts = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest = word.to_owned();
        while let Some(last) = parts.last_mut() {
            let joint = usize::from(!last.is_empty());
            if width(last) + joint + width(&rest) <= cells {
                *last += &" ".repeat(joint);
                *last += &rest;
                break;
            }
            if !last.is_empty() {
                parts.push(String::new());
                continue;
            }
            // A word that is longer than a line.
            for (index, c) in rest.clone().char_indices() {
                last.push(c);
                if width(last) > cells {
                    last.pop();
                    rest = rest.split_off(index);
                    break;
                }
            }
            parts.push(String::new());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        let text = |line: &Line| line.iter().map(|piece| piece.text.as_str()).collect();
        lines.iter().map(text).collect()
    }

    #[test]
    fn wide_characters_take_two_cells() {
        assert_eq!(width("文字"), 4);
        assert_eq!(fitted("文字文字", 5), "文字…");
        assert_eq!(padded("文", 4, false), "文  ");
        assert_eq!(padded("12", 4, true), "  12");
        assert_eq!(fitted("long", 0), "");
    }

    #[test]
    fn pieces_go_on_in_the_next_line() {
        let pieces =
            ["one two", "three", "four five six"].map(|text| Piece::new(text, Tone::Plain));
        let lines = flowed(pieces, 9);
        assert_eq!(texts(&lines), ["one two", "three", "four five", "six"]);
    }

    #[test]
    fn a_word_longer_than_a_line_is_divided() {
        for (text, parts) in [
            ("abcdefgh", vec!["abcd", "efgh"]),
            ("ab abcdefghi", vec!["ab", "abcd", "efgh", "i"]),
        ] {
            assert_eq!(texts(&flowed([Piece::new(text, Tone::Plain)], 4)), parts);
        }
    }
}

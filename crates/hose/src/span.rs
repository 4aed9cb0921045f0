//! Spans and positions in a text.

use std::fmt;

/// A range of bytes of a text, `start..end`; on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

/// Line and column for display: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
}

impl Span {
    /// The span `start..end`. A text is at most [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX) long, so 32 bits are enough.
    pub const fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The smallest span that contains both.
    pub fn to(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The empty span at the end.
    pub fn after(self) -> Self {
        Self {
            start: self.end,
            end: self.end,
        }
    }

    /// Text within the span; empty if the span does not lie in `text`.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// Position of the start. O(length of the text).
    pub fn position(self, text: &str) -> Position {
        let before = text.get(..self.start as usize).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position {
            line: count(before.bytes().filter(|&byte| byte == b'\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a\n  éx\n";
        let x = text.find('x').unwrap();
        let at = Span::new(x, x + 1).position(text);
        assert_eq!((at.line, at.column), (2, 4));
        assert_eq!(Span::new(0, 0).position("").to_string(), "1:1");
        assert_eq!(Span::new(8, 8).position(text).to_string(), "3:1");
        assert_eq!(Span::new(90, 95).of(text), "");
    }
}

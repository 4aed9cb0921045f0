//! Precedence of operators, by two tables that must agree.
//!
//! The thesis puts `&&` and `||` on the level of `*` and `/`, above additions and comparisons [Horde §B.2.5]; C, to which
//! it refers in the same paragraph, puts them below comparisons. An expression is accepted if both tables parse it alike,
//! and needs parentheses otherwise.

use super::ast::BinaryOp;

/// Order of two successive operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The left one applies first: its level is higher, or equal (operators of a level apply from left to
    /// right).
    LeftFirst,
    /// The right one applies first.
    RightFirst,
    /// The two tables differ.
    Ambiguous,
}

/// Order in which `a LEFT b RIGHT c` is parsed.
pub(super) fn reading(left: BinaryOp, right: BinaryOp) -> Reading {
    let by_thesis = thesis(left) >= thesis(right);
    let by_c = c(left) >= c(right);
    match (by_thesis, by_c) {
        (true, true) => Reading::LeftFirst,
        (false, false) => Reading::RightFirst,
        _ => Reading::Ambiguous,
    }
}

/// True if C applies the left one first; a text that needs parentheses is parsed so for further checks.
pub(super) fn c_left_first(left: BinaryOp, right: BinaryOp) -> bool {
    c(left) >= c(right)
}

/// Level in the table of [Horde §B.2.5]; higher applies first.
fn thesis(op: BinaryOp) -> u8 {
    use BinaryOp as B;
    match op {
        B::And | B::Or | B::Multiply | B::Divide => 3,
        B::Add | B::Subtract => 2,
        B::Equal | B::NotEqual | B::LessEqual | B::GreaterEqual | B::Less | B::Greater => 1,
    }
}

/// Level in C; higher applies first.
fn c(op: BinaryOp) -> u8 {
    use BinaryOp as B;
    match op {
        B::Multiply | B::Divide => 6,
        B::Add | B::Subtract => 5,
        B::LessEqual | B::GreaterEqual | B::Less | B::Greater => 4,
        B::Equal | B::NotEqual => 3,
        B::And => 2,
        B::Or => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BinaryOp as B;

    #[test]
    fn arithmetic_and_comparison_read_as_everywhere() {
        assert_eq!(reading(B::Add, B::Multiply), Reading::RightFirst);
        assert_eq!(reading(B::Multiply, B::Add), Reading::LeftFirst);
        assert_eq!(reading(B::Subtract, B::Subtract), Reading::LeftFirst);
        assert_eq!(reading(B::Less, B::Add), Reading::RightFirst);
        assert_eq!(reading(B::Add, B::Less), Reading::LeftFirst);
        assert_eq!(reading(B::And, B::Or), Reading::LeftFirst);
    }

    #[test]
    fn differences_between_the_tables_are_ambiguous() {
        for (left, right) in [
            (B::Equal, B::And),
            (B::And, B::Equal),
            (B::Less, B::Or),
            (B::Or, B::GreaterEqual),
            (B::Or, B::And),
            (B::And, B::Multiply),
            (B::Add, B::Or),
            (B::Equal, B::Less),
        ] {
            assert_eq!(
                reading(left, right),
                Reading::Ambiguous,
                "{left:?} {right:?}"
            );
        }
    }
}

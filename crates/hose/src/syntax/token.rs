//! Tokens of the language.

use crate::span::Span;

/// A token, and its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters, digits, `_`; a `?` may end it. Digits alone are a number.
    Word,
    /// Digits.
    Whole,
    /// Digits, a point, digits.
    Fraction,
    /// A string; the span includes its quotation marks.
    Text,
    BraceOpen,
    BraceClose,
    ParenOpen,
    ParenClose,
    Comma,
    Colon,
    Scope,
    Plus,
    Minus,
    Star,
    Slash,
    Equal,
    NotEqual,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    And,
    Or,
    Not,
    /// End of the text; always the last token.
    End,
}

impl Kind {
    /// Name for error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Word => "a word",
            Self::Whole | Self::Fraction => "a number",
            Self::Text => "a string",
            Self::BraceOpen => "'{'",
            Self::BraceClose => "'}'",
            Self::ParenOpen => "'('",
            Self::ParenClose => "')'",
            Self::Comma => "','",
            Self::Colon => "':'",
            Self::Scope => "'::'",
            Self::Plus => "'+'",
            Self::Minus => "'-'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Equal => "'=='",
            Self::NotEqual => "'!='",
            Self::LessEqual => "'<='",
            Self::GreaterEqual => "'>='",
            Self::Less => "'<'",
            Self::Greater => "'>'",
            Self::And => "'&&'",
            Self::Or => "'||'",
            Self::Not => "'!'",
            Self::End => "the end of the text",
        }
    }
}

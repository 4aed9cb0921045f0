//! Lexer: text to tokens. One pass, O(length).

use super::{
    NAME_BYTES_MAX,
    token::{Kind, Token},
};
use crate::{
    diagnostic::{Diagnostic, Findings},
    span::Span,
};

/// Marks around strings in other languages, and in texts changed by a word processor.
const OTHER_QUOTES: [char; 4] = ['\'', '“', '”', '„'];

/// Result of the lexer.
pub(super) struct Lexed {
    /// Tokens; the last is [`Kind::End`].
    pub(super) tokens: Vec<Token>,
    /// `// …` to the end of the line, without the line break; in order.
    pub(super) comments: Vec<Span>,
}

/// Splits `text` into tokens. Anything else is reported and left out.
pub(super) fn lex(text: &str, findings: &mut Findings) -> Lexed {
    let mut lexer = Lexer {
        text,
        at: 0,
        findings,
    };
    let mut lexed = Lexed {
        tokens: Vec::with_capacity(text.len() / 4),
        comments: Vec::new(),
    };
    loop {
        lexer.skip_while(|byte| byte.is_ascii_whitespace());
        let start = lexer.at;
        if lexer.rest().starts_with("//") {
            lexer.skip_while(|byte| byte != b'\n');
            let end = start + text[start..lexer.at].trim_end().len();
            lexed.comments.push(Span::new(start, end));
        } else if let Some(kind) = lexer.token() {
            let span = Span::new(start, lexer.at);
            lexed.tokens.push(Token { kind, span });
            if kind == Kind::End {
                return lexed;
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    findings: &'a mut Findings,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips bytes that `keep` accepts. ASCII only, so that `at` stays on a character boundary.
    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        let bytes = &self.text.as_bytes()[self.at..];
        self.at += bytes
            .iter()
            .position(|&byte| !keep(byte))
            .unwrap_or(bytes.len());
    }

    /// The next token; `None`, with a report, if there is no valid token here.
    fn token(&mut self) -> Option<Kind> {
        let Some(first) = self.peek() else {
            return Some(Kind::End);
        };
        match first {
            b'"' => Some(self.string()),
            _ if self.rest().starts_with(OTHER_QUOTES) => Some(self.foreign_string()),
            _ if is_name(first) => Some(self.word()),
            _ => self.sign(),
        }
    }

    fn string(&mut self) -> Kind {
        let start = self.at;
        match self.rest()[1..].find('"') {
            Some(length) => self.at += length + 2,
            None => {
                self.skip_while(|byte| byte != b'\n');
                let span = Span::new(start, self.at);
                self.findings.error(|| {
                    Diagnostic::error(span, "this string is not closed")
                        .help("close it with a quotation mark")
                });
            }
        }
        Kind::Text
    }

    /// Reads `'I'` or `“I”` as a string: to the next mark of the line, as intended.
    fn foreign_string(&mut self) -> Kind {
        let start = self.at;
        let mut marks = self.rest().char_indices().skip(1);
        let end = marks.find(|&(_, c)| c == '\n' || c == '"' || OTHER_QUOTES.contains(&c));
        self.at += match end {
            Some((at, '\n')) => at,
            Some((at, c)) => at + c.len_utf8(),
            None => self.rest().len(),
        };
        let span = Span::new(start, self.at);
        self.findings.error(|| {
            Diagnostic::error(span, "strings must be in straight quotation marks")
                .help("write \"I\"")
        });
        Kind::Text
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        self.skip_while(is_name);
        let word = &self.text[start..self.at];
        let kind = if word.bytes().all(|byte| byte.is_ascii_digit()) {
            let mut after = self.rest().bytes();
            if after.next() == Some(b'.') && after.next().is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
                return Kind::Fraction;
            }
            Kind::Whole
        } else {
            if self.peek() == Some(b'?') {
                self.at += 1;
            }
            Kind::Word
        };
        if self.at - start > NAME_BYTES_MAX {
            let span = Span::new(start, self.at);
            self.findings.error(|| {
                Diagnostic::error(
                    span,
                    format!("a name has at most {NAME_BYTES_MAX} characters"),
                )
            });
        }
        kind
    }

    fn sign(&mut self) -> Option<Kind> {
        const SIGNS: &[(&str, Kind)] = &[
            ("::", Kind::Scope),
            ("==", Kind::Equal),
            ("!=", Kind::NotEqual),
            ("<=", Kind::LessEqual),
            (">=", Kind::GreaterEqual),
            ("&&", Kind::And),
            ("||", Kind::Or),
            ("{", Kind::BraceOpen),
            ("}", Kind::BraceClose),
            ("(", Kind::ParenOpen),
            (")", Kind::ParenClose),
            (",", Kind::Comma),
            (":", Kind::Colon),
            ("+", Kind::Plus),
            ("-", Kind::Minus),
            ("*", Kind::Star),
            ("/", Kind::Slash),
            ("<", Kind::Less),
            (">", Kind::Greater),
            ("!", Kind::Not),
        ];
        let start = self.at;
        if let Some((sign, kind)) = SIGNS.iter().find(|(sign, _)| self.rest().starts_with(sign)) {
            self.at += sign.len();
            return Some(*kind);
        }
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        let span = Span::new(start, self.at);
        // The intention is clear for some of these; the others are left out.
        let (kind, meant) = match c {
            '=' => (Some(Kind::Equal), "equality is written '=='"),
            '&' => (Some(Kind::And), "'and' is written '&&'"),
            '|' => (Some(Kind::Or), "'or' is written '||'"),
            '–' | '−' => (Some(Kind::Minus), "minus is written '-'"),
            ';' => (None, "only '}' ends a section"),
            '#' => (None, "comments begin with '//'"),
            '.' => (
                None,
                "fields follow '::', and a fraction has digits before its point: 0.5",
            ),
            _ => (
                None,
                "only strings and comments may contain non-ASCII characters",
            ),
        };
        self.findings.error(|| {
            Diagnostic::error(span, format!("unexpected character '{}'", c.escape_debug()))
                .help(meant)
        });
        kind
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<Kind>, usize) {
        let mut findings = Findings::default();
        let lexed = lex(text, &mut findings);
        let kinds = lexed.tokens.iter().map(|token| token.kind).collect();
        (kinds, findings.errors())
    }

    #[test]
    fn words_numbers_and_signs() {
        use Kind::{End, Fraction, Minus, Scope, Whole, Word};
        assert_eq!(
            kinds("a::lost? 2nd 17 0.5 -1"),
            (
                vec![Word, Scope, Word, Word, Whole, Fraction, Minus, Whole, End],
                0
            )
        );
        let (all, errors) = kinds("{ } ( ) , : :: + - * / == != <= >= < > && || !");
        assert_eq!((all.len(), errors), (21, 0));
        let names: std::collections::BTreeSet<_> = all.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), 21, "each is another");
    }

    #[test]
    fn comments_are_kept_aside() {
        let mut findings = Findings::default();
        let text = "1 // one \"\n2 / 3 // \n//";
        let lexed = lex(text, &mut findings);
        let comments: Vec<_> = lexed.comments.iter().map(|span| span.of(text)).collect();
        assert_eq!(comments, ["// one \"", "//", "//"]);
        assert_eq!((lexed.tokens.len(), findings.errors()), (5, 0));
    }

    #[test]
    fn strings_may_hold_anything_but_quotation_marks() {
        assert_eq!(kinds("\"é\n//{\""), (vec![Kind::Text, Kind::End], 0));
        assert_eq!(
            kinds("\"open\n1"),
            (vec![Kind::Text, Kind::Whole, Kind::End], 1)
        );
    }

    #[test]
    fn intended_tokens_are_recognised() {
        assert_eq!(kinds("a = 1").0[1], Kind::Equal);
        assert_eq!(
            kinds("a & b"),
            (vec![Kind::Word, Kind::And, Kind::Word, Kind::End], 1)
        );
        assert_eq!(kinds("é\u{0}#.5").1, 4);
        assert_eq!(
            kinds("“I” 'P' '"),
            (vec![Kind::Text, Kind::Text, Kind::Text, Kind::End], 3)
        );
    }
}

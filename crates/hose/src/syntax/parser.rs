//! Parser of items and sections: tokens to a [`File`]. After an error it resumes behind the enclosing section or item, so
//! that several errors of a text are found at once.

use super::{
    TEXT_BYTES_MAX,
    ast::{
        Binding, Expr, Field, File, Gain, Item, Level, Name, Objective, Rate, Section, VariableKind,
    },
    lexer::{Lexed, lex},
    token::{Kind, Token},
};
use crate::{
    builtin,
    diagnostic::{Diagnostic, Findings},
    span::Span,
};

/// Marker of a syntax error that has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported;

pub(super) type Parsed<T> = Result<T, Reported>;

pub(super) struct Parser<'a, 'f> {
    pub(super) text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    level: Level,
    findings: &'f mut Findings,
    /// Number of open braces.
    braces: usize,
    /// Current nesting of expressions.
    pub(super) nesting: u16,
    /// Place of the operator that was last reported as ambiguous.
    pub(super) ambiguous_at: Option<Span>,
}

/// Parses a text. Erroneous parts are left out of the file and reported in `findings`. O(length of the text).
pub(crate) fn parse<'a>(text: &'a str, findings: &mut Findings) -> File<'a> {
    if text.len() > TEXT_BYTES_MAX {
        findings.error(|| {
            Diagnostic::error(
                Span::default(),
                format!(
                    "a text has at most {TEXT_BYTES_MAX} bytes; this one has {}",
                    text.len()
                ),
            )
        });
        return File {
            version: None,
            items: Vec::new(),
            comments: Vec::new(),
        };
    }
    let Lexed { tokens, comments } = lex(text, findings);
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        level: Level::Published,
        findings,
        braces: 0,
        nesting: 0,
        ambiguous_at: None,
    };
    let version = parser.version();
    let mut items = Vec::new();
    while parser.peek().kind != Kind::End {
        parser.braces = 0;
        match parser.item() {
            Ok(item) => items.push(item),
            Err(Reported) => parser.skip_to_item(),
        }
    }
    File {
        version,
        items,
        comments,
    }
}

impl<'a> Parser<'a, '_> {
    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        let end = Token {
            kind: Kind::End,
            span: Span::new(self.text.len(), self.text.len()),
        };
        self.tokens.get(self.at + ahead).copied().unwrap_or(end)
    }

    pub(super) fn bump(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len());
        match token.kind {
            Kind::BraceOpen => self.braces += 1,
            Kind::BraceClose => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        token
    }

    /// Span of the previous token.
    pub(super) fn last_span(&self) -> Span {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(Span::default(), |token| token.span)
    }

    pub(super) fn error(&mut self, make: impl FnOnce() -> Diagnostic) -> Reported {
        self.findings.error(make);
        Reported
    }

    /// Reports the current token, where `wanted` was expected.
    pub(super) fn unexpected(&mut self, wanted: &str) -> Reported {
        let token = self.peek();
        let found = match token.kind {
            Kind::Word | Kind::Whole | Kind::Fraction => format!("'{}'", token.span.of(self.text)),
            kind => kind.name().to_owned(),
        };
        self.error(|| Diagnostic::error(token.span, format!("expected {wanted}, found {found}")))
    }

    pub(super) fn expect(&mut self, kind: Kind, why: &str) -> Parsed<Token> {
        if self.peek().kind == kind {
            return Ok(self.bump());
        }
        Err(self.unexpected(&format!("{} {why}", kind.name())))
    }

    /// Reports the use of the extension `what`, unless the text has enabled extensions.
    pub(super) fn extension(&mut self, span: Span, what: &str) {
        if self.level == Level::Published {
            self.error(|| {
                Diagnostic::error(
                    span,
                    format!("{what} is an extension of the published language"),
                )
                .help("begin the text with the line 'hose 2' to use extensions")
            });
        }
    }

    fn word(&self) -> &'a str {
        match self.peek().kind {
            Kind::Word => self.peek().span.of(self.text),
            _ => "",
        }
    }

    pub(super) fn take_name(&mut self) -> Name<'a> {
        let span = self.bump().span;
        Name {
            text: span.of(self.text),
            span,
        }
    }

    /// Parses any name; reserved words depend on the position.
    pub(super) fn name(&mut self, what: &str) -> Parsed<Name<'a>> {
        match self.peek().kind {
            Kind::Word | Kind::Whole => Ok(self.take_name()),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Parses the name of a new variable, objective or field.
    fn new_name(&mut self, what: &str) -> Parsed<Name<'a>> {
        let name = self.name(&format!("the name of {what}"))?;
        if builtin::is_reserved(name.text, self.level) || name.text.ends_with('?') {
            self.error(|| {
                Diagnostic::error(name.span, format!("'{}' cannot name {what}", name.text))
                    .help("this word is reserved by the language; choose another")
            });
        }
        Ok(name)
    }

    /// Parses the version line.
    fn version(&mut self) -> Option<(Level, Span)> {
        if self.word() != "hose" {
            return None;
        }
        let start = self.bump().span;
        let number = self.peek();
        let span = start.to(number.span);
        match (number.kind, number.span.of(self.text)) {
            (Kind::Whole, "1") => self.level = Level::Published,
            (Kind::Whole, "2") => self.level = Level::Extended,
            _ => {
                self.unexpected("1 (the published language) or 2 (with extensions) after 'hose'");
                self.skip_to_item();
                return None;
            }
        }
        self.bump();
        Some((self.level, span))
    }

    fn item(&mut self) -> Parsed<Item<'a>> {
        let word = self.word();
        let span = self.peek().span;
        match word {
            "objective" => Ok(Item::Objective(self.objective()?)),
            "rate" => {
                self.extension(span, "a rate");
                Ok(Item::Rate(self.rate()?))
            }
            "field" => {
                self.extension(span, "the declaration of a field");
                Ok(Item::Field(self.field_item()?))
            }
            _ => Err(match crate::diagnostic::nearest(word, ["objective"]) {
                Some(meant) => self.error(|| {
                    Diagnostic::error(span, format!("expected 'objective', found '{word}'"))
                        .help(format!("did you mean '{meant}'?"))
                }),
                None => self.unexpected("'objective'"),
            }),
        }
    }

    fn item_name(&mut self, what: &str) -> Parsed<Option<Name<'a>>> {
        if !matches!(self.peek().kind, Kind::Word | Kind::Whole) {
            return Ok(None);
        }
        let name = self.new_name(what)?;
        self.extension(name.span, "a name for this");
        Ok(Some(name))
    }

    fn objective(&mut self) -> Parsed<Objective<'a>> {
        let start = self.bump().span;
        let name = self.item_name("an objective")?;
        self.expect(Kind::BraceOpen, "to begin the objective")?;
        let context = self.section("context", Self::bindings);
        let goal = self.next_section(context.is_ok(), "goal", Self::expression);
        let utility = self.next_section(goal.is_ok(), "utility", Self::gains);
        let (context, goal, utility) = (context?, goal?, utility?);
        let close = self.expect(Kind::BraceClose, "to end the objective")?;
        Ok(Objective {
            name,
            context,
            goal,
            utility,
            span: start.to(close.span),
        })
    }

    fn rate(&mut self) -> Parsed<Rate<'a>> {
        let start = self.bump().span;
        let name = self.item_name("a rate")?;
        self.expect(Kind::BraceOpen, "to begin the rate")?;
        let context = self.section("context", Self::bindings)?;
        let clauses = self.gains()?;
        let close = self.expect(Kind::BraceClose, "to end the rate")?;
        Ok(Rate {
            name,
            context,
            clauses,
            span: start.to(close.span),
        })
    }

    /// Parses `field NAME: TYPE` or `field channel::NAME: TYPE`.
    fn field_item(&mut self) -> Parsed<Field<'a>> {
        let start = self.bump().span;
        let of_channel = self.word() == "channel" && self.peek_at(1).kind == Kind::Scope;
        if of_channel {
            self.bump();
            self.bump();
        }
        let name = self.new_name("a field")?;
        self.expect(
            Kind::Colon,
            "and its type, as in 'field frame_type: string'",
        )?;
        let type_name = self.name("a type: numeric, boolean or string")?;
        Ok(Field {
            of_channel,
            name,
            type_name,
            span: start.to(type_name.span),
        })
    }

    /// Parses `WORD { body }`. If the body fails, resumes behind its `}`; if the keyword is another, here.
    fn section<T>(
        &mut self,
        word: &str,
        body: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<Section<T>> {
        let outside = self.braces;
        if self.word() != word {
            return Err(self.unexpected(&format!("the section '{word}'")));
        }
        let start = self.bump().span;
        let parsed = self
            .expect(Kind::BraceOpen, &format!("after '{word}'"))
            .and_then(|_| body(self))
            .and_then(|body| {
                Ok((
                    body,
                    self.expect(Kind::BraceClose, &format!("to end '{word}'"))?,
                ))
            });
        match parsed {
            Ok((body, close)) => Ok(Section {
                body,
                span: start.to(close.span),
            }),
            Err(Reported) => {
                self.skip_block(outside);
                Err(Reported)
            }
        }
    }

    /// Parses the section after one that was parsed; after a failed one, only if it is here.
    fn next_section<T>(
        &mut self,
        was_read: bool,
        word: &str,
        body: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<Section<T>> {
        if was_read || self.word() == word {
            self.section(word, body)
        } else {
            Err(Reported)
        }
    }

    fn bindings(&mut self) -> Parsed<Vec<Binding<'a>>> {
        let mut bindings = Vec::new();
        while self.peek().kind != Kind::BraceClose {
            bindings.push(self.binding()?);
        }
        Ok(bindings)
    }

    fn binding(&mut self) -> Parsed<Binding<'a>> {
        let kind = match self.word() {
            "adu" => VariableKind::Adu,
            "stream" => VariableKind::Stream,
            _ => return Err(self.unexpected("'adu:NAME { … }', 'stream:NAME { … }' or '}'")),
        };
        let start = self.bump().span;
        let example = format!("and a name, as in '{}:foo'", kind.word());
        self.expect(Kind::Colon, &example)?;
        let name = self.new_name("a variable")?;
        self.expect(Kind::BraceOpen, "to begin the filter")?;
        let filter = self.expression()?;
        let close = self.expect(Kind::BraceClose, "to end the filter")?;
        Ok(Binding {
            kind,
            name,
            filter,
            span: start.to(close.span),
        })
    }

    /// Parses one or more of `NAME { EXPRESSION }`.
    fn gains(&mut self) -> Parsed<Vec<Gain<'a>>> {
        let mut gains = Vec::new();
        while gains.is_empty() || self.peek().kind != Kind::BraceClose {
            let name = self.name("'NAME { EXPRESSION }'")?;
            self.expect(Kind::BraceOpen, &format!("after '{}'", name.text))?;
            let value: Expr<'a> = self.expression()?;
            let close = self.expect(Kind::BraceClose, "to end the expression")?;
            gains.push(Gain {
                name,
                value,
                span: name.span.to(close.span),
            });
        }
        Ok(gains)
    }

    /// Skips behind the `}` after which only `outside` braces are open, or to the next section or item.
    fn skip_block(&mut self, outside: usize) {
        while self.peek().kind != Kind::End {
            let word = self.word();
            let is_next = is_section(word) && self.peek_at(1).kind == Kind::BraceOpen;
            if is_next || is_item(word) {
                return;
            }
            if self.bump().kind == Kind::BraceClose && self.braces <= outside {
                return;
            }
        }
    }

    /// Skips to the next item.
    fn skip_to_item(&mut self) {
        let start = self.at;
        while self.peek().kind != Kind::End {
            let named = self.peek_at(1).kind == Kind::Word && self.word() == "field";
            let braced = self.peek_at(1).kind == Kind::BraceOpen && self.word() == "rate";
            if self.at > start && (self.word() == "objective" || named || braced) {
                return;
            }
            self.bump();
        }
    }
}

/// True if the word begins an item at any position.
fn is_item(word: &str) -> bool {
    word == "objective"
}

fn is_section(word: &str) -> bool {
    matches!(word, "context" | "goal" | "utility")
}

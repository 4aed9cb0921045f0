//! Formatter: one canonical layout, with only the parentheses that the language requires. Formatting is idempotent, and
//! the result has the meaning of the text.
//!
//! Comments are kept: before the part that they preceded or were in, or behind the part that they followed on its line.

use std::fmt::Write;

use super::{
    ast::{Binding, Expr, ExprKind, Field, File, Gain, Item, Name, Objective, Rate, Section},
    parse,
    precedence::{Reading, reading},
};
use crate::{Report, diagnostic::Findings, span::Span};

/// Longest line in characters, where possible.
const WIDTH: usize = 100;
const INDENT: &str = "  ";

/// Formats the text in canonical layout. It is parsed, not checked: names and types may be wrong. A list of
/// [named objectives](crate::library) is checked, and left as it is.
///
/// # Errors
/// Syntax errors of the text; names and parameters of a list that are wrong.
pub fn format(text: &str) -> Result<String, Report> {
    if crate::library::is_named(text) {
        return crate::library::expand(text, &crate::Vocabulary::default())
            .map(|_| text.to_owned());
    }
    let mut findings = Findings::default();
    let file = parse(text, &mut findings);
    let report = Report::new(text, findings);
    if report.has_errors() {
        return Err(report);
    }
    Ok(print(&file, text))
}

fn print(file: &File<'_>, text: &str) -> String {
    let mut printer = Printer {
        text,
        comments: &file.comments,
        out: String::with_capacity(text.len()),
        depth: 0,
    };
    if let Some((level, span)) = file.version {
        printer.comments_before(span.start);
        if printer.follows_blank(span.start) {
            printer.blank();
        }
        printer.entry(span, &format!("hose {}", level.number()));
    }
    let mut after_field = false;
    for item in &file.items {
        let is_field = matches!(item, Item::Field(_));
        if !(is_field && after_field) {
            printer.blank();
        }
        after_field = is_field;
        printer.item(item);
    }
    printer.comments_before(u32::MAX);
    printer.out
}

struct Printer<'t> {
    text: &'t str,
    /// Comments not printed yet.
    comments: &'t [Span],
    out: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, words: &str) {
        for _ in 0..self.depth {
            self.out.push_str(INDENT);
        }
        self.out.push_str(words);
        self.out.push('\n');
    }

    /// Prints an empty line, unless there is one or a block begins here.
    fn blank(&mut self) {
        let out = &self.out;
        if !(out.is_empty() || out.ends_with("\n\n") || out.ends_with("{\n")) {
            self.out.push('\n');
        }
    }

    /// True if there is an empty line in the text right before `at`.
    fn follows_blank(&self, at: u32) -> bool {
        let before = &self.text[..at as usize];
        let space = &before[before.trim_end().len()..];
        space.bytes().filter(|&byte| byte == b'\n').count() > 1
    }

    /// Prints the comments that begin before `end`, each on a line of its own.
    fn comments_before(&mut self, end: u32) {
        while let Some((&comment, rest)) = self.comments.split_first()
            && comment.start < end
        {
            self.comments = rest;
            if self.follows_blank(comment.start) {
                self.blank();
            }
            self.line(comment.of(self.text));
        }
    }

    /// Prints the comment that follows `span` on its line, if there is one.
    fn comment_behind(&mut self, span: Span) {
        if let Some((&comment, rest)) = self.comments.split_first()
            && comment.start >= span.end
            && Span::new(span.end as usize, comment.start as usize)
                .of(self.text)
                .trim_matches([' ', '\t'])
                .is_empty()
        {
            self.comments = rest;
            self.out.pop();
            self.out.push(' ');
            self.out.push_str(comment.of(self.text));
            self.out.push('\n');
        }
    }

    /// Prints one line for the part at `span`, with its comments.
    fn entry(&mut self, span: Span, words: &str) {
        self.comments_before(span.end);
        self.line(words);
        self.comment_behind(span);
    }

    fn item(&mut self, item: &Item<'_>) {
        self.comments_before(item.span().start);
        if self.follows_blank(item.span().start) {
            self.blank();
        }
        match item {
            Item::Objective(objective) => self.objective(objective),
            Item::Rate(rate) => self.rate(rate),
            Item::Field(field) => self.field(field),
        }
    }

    fn open(&mut self, word: &str, name: Option<Name<'_>>) {
        let name = name.map_or(String::new(), |name| format!(" {}", name.text));
        self.line(&format!("{word}{name} {{"));
        self.depth += 1;
    }

    fn close(&mut self, span: Span) {
        self.comments_before(span.end);
        self.depth -= 1;
        self.line("}");
        self.comment_behind(span);
    }

    fn objective(&mut self, objective: &Objective<'_>) {
        self.open("objective", objective.name);
        self.section("context", &objective.context, binding);
        let goal = Section {
            body: vec![&objective.goal.body],
            span: objective.goal.span,
        };
        self.section("goal", &goal, |goal| (goal.span, expression(goal)));
        self.section("utility", &objective.utility, gain);
        self.close(objective.span);
    }

    fn rate(&mut self, rate: &Rate<'_>) {
        self.open("rate", rate.name);
        self.section("context", &rate.context, binding);
        for clause in &rate.clauses {
            let (span, words) = gain(clause);
            self.entry(span, &words);
        }
        self.close(rate.span);
    }

    fn field(&mut self, field: &Field<'_>) {
        let of = if field.of_channel { "channel::" } else { "" };
        let words = format!("field {of}{}: {}", field.name.text, field.type_name.text);
        self.entry(field.span, &words);
    }

    /// Prints a section on one line if it has one part, fits and contains no comment; else with its parts below each
    /// other.
    fn section<T>(
        &mut self,
        word: &str,
        section: &Section<Vec<T>>,
        part: impl Fn(&T) -> (Span, String),
    ) {
        let parts: Vec<(Span, String)> = section.body.iter().map(part).collect();
        self.comments_before(section.span.start);
        let has_comment = self
            .comments
            .first()
            .is_some_and(|comment| comment.start < section.span.end);
        if !has_comment && let [(_, words)] = parts.as_slice() {
            let line = format!("{word} {{ {words} }}");
            if self.depth * INDENT.len() + line.chars().count() <= WIDTH {
                return self.entry(section.span, &line);
            }
        }
        self.open(word, None);
        for (span, words) in &parts {
            self.entry(*span, words);
        }
        self.close(section.span);
    }
}

fn binding(binding: &Binding<'_>) -> (Span, String) {
    let (kind, name) = (binding.kind.word(), binding.name.text);
    let words = format!("{kind}:{name} {{ {} }}", expression(&binding.filter));
    (binding.span, words)
}

fn gain(gain: &Gain<'_>) -> (Span, String) {
    let words = format!("{} {{ {} }}", gain.name.text, expression(&gain.value));
    (gain.span, words)
}

/// An expression on one line.
fn expression(expr: &Expr<'_>) -> String {
    let mut out = String::new();
    write(&mut out, expr);
    out
}

fn write(out: &mut String, expr: &Expr<'_>) {
    match &expr.kind {
        ExprKind::Boolean(value) => {
            let _ = write!(out, "{value}");
        }
        // Rust prints numbers without exponent, and so that they are read back unchanged.
        ExprKind::Number(value) => {
            let _ = write!(out, "{value}");
        }
        ExprKind::Text(text) => {
            let _ = write!(out, "\"{text}\"");
        }
        ExprKind::Name(name) => out.push_str(name.text),
        ExprKind::Field { variable, field } => {
            let _ = write!(out, "{}::{}", variable.text, field.text);
        }
        ExprKind::Attribute {
            variable,
            attribute,
        } => {
            let _ = write!(out, "{}::channel::{}", variable.text, attribute.text);
        }
        ExprKind::Call {
            function,
            arguments,
        } => {
            out.push_str(function.text);
            out.push('(');
            for (index, argument) in arguments.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(out, argument);
            }
            out.push(')');
        }
        ExprKind::Unary { op, operand } => {
            out.push_str(op.sign());
            let needs = matches!(operand.kind, ExprKind::Binary { .. });
            parenthesised(out, operand, needs);
        }
        ExprKind::Binary {
            op, left, right, ..
        } => {
            let left_needs = matches!(&left.kind, ExprKind::Binary { op: inner, .. }
                if reading(*inner, *op) != Reading::LeftFirst);
            let right_needs = matches!(&right.kind, ExprKind::Binary { op: inner, .. }
                if reading(*op, *inner) != Reading::RightFirst);
            parenthesised(out, left, left_needs);
            let _ = write!(out, " {} ", op.sign());
            parenthesised(out, right, right_needs);
        }
        // Invalid expressions are not printed.
        ExprKind::Invalid => {}
    }
}

fn parenthesised(out: &mut String, expr: &Expr<'_>, needs: bool) {
    out.push_str(if needs { "(" } else { "" });
    write(out, expr);
    out.push_str(if needs { ")" } else { "" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn formats(text: &str, expected: &str) {
        let once = format(text).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(once, expected);
        assert_eq!(
            format(&once).unwrap(),
            once,
            "formatting twice changes nothing"
        );
    }

    #[test]
    fn layout() {
        formats(
            "objective{context{adu:a{stream_id==1}adu:b{(stream_id==2)&&(stream_seq==a::stream_seq+1)}}
             goal{true}utility{a{-(1+2)}}}",
            "\
objective {
  context {
    adu:a { stream_id == 1 }
    adu:b { (stream_id == 2) && (stream_seq == a::stream_seq + 1) }
  }
  goal { true }
  utility { a { -(1 + 2) } }
}
",
        );
    }

    #[test]
    fn comments_stay() {
        formats(
            "// head\n\nhose 2 // ours\n// of fields\nfield x:numeric//x\nfield y:string
objective { // why
context { adu:a { // inside
true } // behind
}
// before the goal
goal { true } utility { a { 1 } // last
} } // end\n\n// tail",
            "\
// head

hose 2 // ours

// of fields
field x: numeric //x
field y: string

objective {
  // why
  context {
    // inside
    adu:a { true } // behind
  }
  // before the goal
  goal { true }
  utility {
    a { 1 } // last
  }
} // end

// tail
",
        );
    }

    #[test]
    fn only_parentheses_that_are_needed() {
        let text = |goal: &str| {
            format!(
                "objective {{ context {{ adu:a {{ true }} }} goal {{ {goal} }} utility {{ a {{ 1 }} }} }}"
            )
        };
        for (given, expected) in [
            ("((a::x + (1 * 2))) < 3", "a::x + 1 * 2 < 3"),
            ("a::x - (1 - 2) == 3", "a::x - (1 - 2) == 3"),
            ("(a::x == 1) && (a::y == 2)", "(a::x == 1) && (a::y == 2)"),
            ("((true && false) || true)", "true && false || true"),
            ("true || (false && true)", "true || (false && true)"),
            ("!(a::x == 1)", "!(a::x == 1)"),
            ("!!true", "!!true"),
            ("- -1 < +2", "--1 < 2"),
            ("a::x == 0010", "a::x == 10"),
        ] {
            let once = format(&text(given)).unwrap();
            assert!(once.contains(&format!("goal {{ {expected} }}\n")), "{once}");
            assert_eq!(format(&once).unwrap(), once);
        }
    }

    #[test]
    fn long_sections_are_broken() {
        let name = "x".repeat(60);
        let text = format!(
            "objective {{ context {{ adu:a {{ true }} }} goal {{ a::{name} < a::{name} }} utility {{ a {{ 1 }} }} }}"
        );
        let once = format(&text).unwrap();
        assert!(once.contains("goal {\n    a::x"), "{once}");
        assert_eq!(format(&once).unwrap(), once);
    }
}

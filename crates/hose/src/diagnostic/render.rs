//! Rendering of findings for a terminal.

use std::fmt::Write;

use super::{Diagnostic, Report, Severity};

/// Number of characters of a long line that are shown.
const EXCERPT_MAX: usize = 100;
/// Number of characters shown before the place, if a long line is cut there.
const LEAD: usize = 40;

pub(super) fn report(report: &Report, name: &str) -> String {
    let mut out = String::new();
    for diagnostic in report.diagnostics() {
        one(&mut out, report, diagnostic, name);
    }
    if report.dropped > 0 {
        let _ = writeln!(out, "and {} more", report.dropped);
    }
    out
}

fn one(out: &mut String, report: &Report, diagnostic: &Diagnostic, name: &str) {
    let position = report.position(diagnostic);
    let kind = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let number = position.line.to_string();
    let margin = " ".repeat(number.len());
    let (line, lead, marks) = excerpt(&report.text, diagnostic, position.column as usize);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{kind}: {}", diagnostic.message);
    let _ = writeln!(out, "{margin}--> {name}:{position}");
    let _ = writeln!(out, "{margin} |");
    let _ = writeln!(out, "{number} | {line}");
    let _ = writeln!(out, "{margin} | {}{}", " ".repeat(lead), "^".repeat(marks));
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{margin} = help: {help}");
    }
    out.push('\n');
}

/// The line (or the part of it that fits), the number of characters before the marks, and the number of marks.
fn excerpt(text: &str, diagnostic: &Diagnostic, column: usize) -> (String, usize, usize) {
    let at = diagnostic.span.start as usize;
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let lead = column - 1;
    let marked = diagnostic.span.of(text);
    let marks = marked.lines().next().unwrap_or_default().chars().count();
    let skip = if line.chars().nth(EXCERPT_MAX).is_none() {
        0
    } else {
        lead.saturating_sub(LEAD)
    };
    // Control characters would shift the marks or affect the terminal.
    let shown: String = line
        .chars()
        .skip(skip)
        .take(EXCERPT_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let lead = lead - skip;
    (
        shown,
        lead,
        marks.clamp(1, EXCERPT_MAX - lead.min(EXCERPT_MAX - 1)),
    )
}

#[cfg(test)]
mod tests {
    use crate::{
        diagnostic::{Diagnostic, Findings, Report},
        span::Span,
    };

    fn report(text: &str, span: Span) -> Report {
        let mut findings = Findings::default();
        findings.error(|| Diagnostic::error(span, "not so").help("so"));
        Report::new(text, findings)
    }

    #[test]
    fn the_place_is_marked() {
        let text = "one\n\ttwo é three\n";
        let start = text.find("three").unwrap();
        let rendered = report(text, Span::new(start, start + 5)).render("x.hose");
        let expected = "\
error: not so
 --> x.hose:2:8
  |
2 |  two é three
  |        ^^^^^
  = help: so

";
        assert_eq!(rendered, expected);
    }

    #[test]
    fn the_end_of_a_text_can_be_marked() {
        let rendered = report("ab", Span::new(2, 2)).render("x");
        assert!(rendered.contains("1 | ab\n  |   ^\n"), "{rendered}");
        let rendered = report("ab\n", Span::new(3, 3)).render("x");
        assert!(rendered.contains("2 | \n  | ^\n"), "{rendered}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}HERE{}", "a".repeat(10_000), "b".repeat(10_000));
        let rendered = report(&text, Span::new(10_000, 10_004)).render("x");
        let line = rendered.lines().nth(3).unwrap();
        assert!(line.contains("HERE") && line.len() < 120, "{line}");
        let marks = rendered.lines().nth(4).unwrap();
        assert_eq!(line.find("HERE"), marks.find("^^^^"));
    }
}

//! Lines of an explained schedule: utility, objectives with their contexts, ADUs.

use anabranch_hose::explain::{Bound, Context, Explanation, Scored};

pub(super) fn of(explanation: &Explanation) -> Vec<String> {
    let mut lines = vec![format!("utility {}", number(explanation.utility))];
    for scored in &explanation.objectives {
        lines.push(String::new());
        objective(&mut lines, scored);
    }
    let touched = |worth: &&anabranch_hose::explain::Worth| worth.utility != 0.0 || !worth.is_sent;
    let mut adus = explanation.adus.iter().filter(touched).peekable();
    if adus.peek().is_some() {
        lines.push(String::new());
        lines.push("by ADU:".to_owned());
    }
    for worth in adus {
        let which = adu(worth.stream_id, worth.stream_seq);
        let gained = if worth.is_sent {
            number(worth.utility)
        } else {
            "not sent".to_owned()
        };
        lines.push(format!("  {which}: {gained}"));
    }
    lines
}

fn objective(lines: &mut Vec<String>, scored: &Scored) {
    lines.push(format!(
        "{}: {}; its goal is met in {} of {} contexts",
        scored.name,
        number(scored.utility),
        scored.contexts_met,
        scored.contexts
    ));
    for fault in &scored.faults {
        lines.push(format!("  note: it {fault}"));
    }
    for context in &scored.first {
        lines.push(format!("  {}", context_line(context)));
    }
    let left = scored.contexts.saturating_sub(scored.first.len() as u64);
    if left > 0 && !scored.first.is_empty() {
        lines.push(format!("  and {left} more contexts; see --contexts"));
    }
}

fn context_line(context: &Context) -> String {
    let bindings: Vec<String> = context.bindings.iter().map(bound).collect();
    let mut why: Vec<String> = Vec::new();
    for test in &context.tests {
        let verdict = if test.holds { "" } else { "not " };
        why.push(match test.values {
            Some([left, right]) => format!(
                "{verdict}{} ({}, {})",
                test.text,
                number(left),
                number(right)
            ),
            None => format!("{verdict}{}", test.text),
        });
    }
    for gain in &context.gains {
        let value = number(gain.value);
        why.push(format!("{} gains {value} = {}", gain.variable, gain.text));
    }
    let sum = number(context.utility);
    format!("{}: {sum}; {}", bindings.join(", "), why.join("; "))
}

fn bound(bound: &Bound) -> String {
    format!(
        "{} = {}",
        bound.variable,
        adu(bound.stream_id, bound.stream_seq)
    )
}

/// Formats an ADU as `stream 3 #17`, or a stream as `stream 3`.
pub(super) fn adu(stream: Option<u64>, sequence: Option<u64>) -> String {
    let part = |id: Option<u64>| id.map_or("?".to_owned(), |id| id.to_string());
    match sequence {
        Some(_) => format!("stream {} #{}", part(stream), part(sequence)),
        None => format!("stream {}", part(stream)),
    }
}

/// Formats a number with at most three decimals.
pub(super) fn number(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    // The addition turns minus zero into zero.
    format!("{}", rounded + 0.0)
}

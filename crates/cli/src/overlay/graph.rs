//! Graph of the overlay for Graphviz.

use anabranch::base::text::printable;
use serde_json::Value;

use super::table::{of, text};
use crate::table::rate;

/// Quotes a name as a string of the DOT language.
fn quoted(name: &str) -> String {
    let name = printable(name, usize::MAX);
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(super) fn lines(rows: &[Value]) -> Vec<String> {
    let mut lines = vec!["digraph overlay {".to_owned()];
    for row in of(rows, "member") {
        let style = match text(row, "state") {
            "alive" => "solid",
            "suspect" => "dashed",
            _ => "dotted",
        };
        lines.push(format!("  {} [style={style}];", quoted(text(row, "name"))));
    }
    for row in of(rows, "link") {
        let delay = row["delay_min_ms"].as_f64().unwrap_or_default();
        let label = format!("{}, {delay:.0} ms", rate(row, "bandwidth_bps"));
        let (from, to) = (quoted(text(row, "from")), quoted(text(row, "to")));
        lines.push(format!("  {from} -> {to} [label={}];", quoted(&label)));
    }
    lines.push("}".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn names_are_quoted() {
        let rows = [json!({"kind": "member", "name": "a\"b", "state": "down"})];
        assert_eq!(super::lines(&rows)[1], "  \"a\\\"b\" [style=dotted];");
    }
}

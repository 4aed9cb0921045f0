//! Rows of experiments as tables that fit the terminal.

use anabranch_lab::{
    Outcome as Results, Row,
    kit::streams::show::{FRAME, WINDOW},
};
use serde_json::Value;

/// Space between columns.
const GAP: &str = "  ";
/// Columns of words at the beginning of a row that say which one it is; each part of a table repeats them.
const NAMES_MAX: usize = 3;

/// Characters of a line of the terminal; `None`: standard output is none.
pub(super) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// One line a row, one column a field; fields that a row lacks are left empty. What does not fit `width` characters follows below, in
/// tables of the other columns.
pub(super) fn of(results: &[Results], width: Option<usize>) -> String {
    let rows = results.iter().flat_map(|result| &result.rows);
    // Rows that are there for plots would drown the others.
    let (hidden, rows): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| {
        row.get("kind")
            .is_some_and(|kind| kind == WINDOW || kind == FRAME)
    });
    let mut fields: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(|row| row.keys()) {
        if !fields.contains(&key.as_str()) {
            fields.push(key);
        }
    }
    let columns: Vec<Vec<String>> = fields.iter().map(|field| column(&rows, field)).collect();
    let is_name = |field: &&&str| {
        rows.iter()
            .all(|row| row.get(**field).is_none_or(Value::is_string))
    };
    let names = fields.iter().take(NAMES_MAX).take_while(is_name).count();
    let tables: Vec<String> = parts(&columns, names, width.unwrap_or(usize::MAX))
        .into_iter()
        .map(|part| lines(&part))
        .collect();
    let mut text = tables.join("\n\n");
    if !hidden.is_empty() {
        let count = hidden.len();
        text +=
            &format!("\nand {count} rows of single windows and frames; --json and --out show them");
    }
    text
}

/// A column: its head, and a cell for each row.
fn column(rows: &[&Row], field: &str) -> Vec<String> {
    let cell = |row: &&Row| match row.get(field) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let cells = rows.iter().map(cell);
    std::iter::once(field.to_owned()).chain(cells).collect()
}

fn width_of(column: &[String]) -> usize {
    let widths = column.iter().map(|cell| cell.chars().count());
    widths.max().unwrap_or_default()
}

/// The columns in parts of at most so many characters, each with the first `names` columns before its own; a part has one of its own at
/// least.
fn parts(columns: &[Vec<String>], names: usize, width: usize) -> Vec<Vec<&[String]>> {
    let (names, others) = columns.split_at(names);
    let space = |column: &[String]| width_of(column) + GAP.len();
    let named: usize = names.iter().map(|column| space(column)).sum();
    let head = || names.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let mut parts = vec![head()];
    let mut used = named;
    for column in others {
        let is_first = parts.last().is_none_or(|part| part.len() == names.len());
        if !is_first && used + width_of(column) > width {
            parts.push(head());
            used = named;
        }
        used += space(column);
        parts.last_mut().expect("there is one").push(column);
    }
    parts
}

fn lines(part: &[&[String]]) -> String {
    let widths: Vec<usize> = part.iter().map(|column| width_of(column)).collect();
    let count = part.first().map_or(0, |column| column.len());
    let line = |row: usize| {
        let cells = part.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(column, width)| format!("{:width$}", column[row]))
            .collect();
        padded.join(GAP).trim_end().to_owned()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results() -> Vec<Results> {
        let row = |policy: &str, rate: u64| {
            let row = json!({"policy": policy, "rate_bps": rate, "lost_fraction": 0.25, "note": "as planned"});
            row.as_object().expect("it is one").clone()
        };
        vec![Results {
            experiment: "test",
            version: "",
            seed: 1,
            traces: Vec::new(),
            rows: vec![row("assign", 1_000_000), row("default", 900)],
        }]
    }

    #[test]
    fn a_table_that_is_too_wide_goes_on_below_with_the_names_of_its_rows() {
        let whole = "policy   rate_bps  lost_fraction  note\n\
                     assign   1000000   0.25           as planned\n\
                     default  900       0.25           as planned";
        assert_eq!(of(&results(), None), whole);
        assert_eq!(of(&results(), Some(44)), whole, "it just fits");
        let parts = "policy   rate_bps  lost_fraction\n\
                     assign   1000000   0.25\n\
                     default  900       0.25\n\
                     \n\
                     policy   note\n\
                     assign   as planned\n\
                     default  as planned";
        assert_eq!(of(&results(), Some(43)), parts);
        // A column each, however narrow the terminal is.
        assert_eq!(of(&results(), Some(1)).matches("policy").count(), 3);
        assert_eq!(of(&[], Some(80)), "");
    }
}

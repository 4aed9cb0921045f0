//! Rows as CSV (RFC 4180).

use serde_json::Value;

use crate::Row;

/// Rows as text: one line a row; one column for every field that any row has, in order of first appearance.
pub fn to_csv(rows: &[Row]) -> String {
    let mut fields: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(|row| row.keys()) {
        if !fields.contains(&key.as_str()) {
            fields.push(key);
        }
    }
    let mut text = fields
        .iter()
        .map(|name| quote(name))
        .collect::<Vec<_>>()
        .join(",");
    text.push('\n');
    for row in rows {
        let cells = fields.iter().map(|field| match row.get(*field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(words)) => quote(words),
            Some(value) => value.to_string(),
        });
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn quote(words: &str) -> String {
    if words.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", words.replace('"', "\"\""))
    } else {
        words.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_cells_are_quoted_where_needed() {
        let row = |value: Value| value.as_object().expect("an object").clone();
        let rows = [
            row(json!({"a": 1.5, "b": "x, \"y\""})),
            row(json!({"b": "z", "c,d": true})),
        ];
        assert_eq!(
            to_csv(&rows),
            "a,b,\"c,d\"\n1.5,\"x, \"\"y\"\"\",\n,z,true\n"
        );
    }
}

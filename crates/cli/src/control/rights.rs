//! Output of `anabranch rights` and `anabranch reload`.

use serde_json::Value;

use crate::{
    show::peer_named,
    table::{self, Column, Table},
};

/// Terms of a right: its folder, its services, its exports, its targets.
fn terms(row: &Value) -> String {
    let part = |key: &str, before: &str| {
        let text = row[key].as_str().filter(|text| !text.is_empty())?;
        Some(format!("{before}{text}"))
    };
    let parts = [
        part("folder", "into "),
        part("updates", "may "),
        part("services", ""),
        part("exports", ""),
        part("to", "to "),
        part("listen", "at "),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// A line for each right.
pub(crate) fn list(rows: &[Value]) -> Vec<String> {
    let columns = ["PEER", "RIGHT", "TERMS"].map(Column::text).to_vec();
    let cells = |row: &Value| {
        vec![
            peer_named(row["node"].as_str(), row["name"].as_str()),
            row["right"].as_str().unwrap_or("-").to_owned(),
            terms(row),
        ]
    };
    Table::new(columns, rows.iter().map(cells)).lines(table::width())
}

/// Changes made by a reload.
pub(crate) fn reloaded(rows: &[Value]) -> Vec<String> {
    let mut lines = vec!["reloaded".to_owned()];
    for row in rows {
        for (key, words) in [
            ("gained_rights", "have more rights"),
            ("lost_rights", "have fewer rights"),
            ("needs_restart", "take effect at the next start"),
        ] {
            if let Some(names) = row[key].as_str().filter(|names| !names.is_empty()) {
                lines.push(format!("{words}: {names}"));
            }
        }
        if let Some(key) = row["key"].as_str() {
            let value = |key: &str| row[key].as_str().unwrap_or("none");
            lines.push(format!("{key}: {} → {}", value("before"), value("now")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_right_is_a_line() {
        let id = "a".repeat(52);
        let rows = [
            json!({"kind": "right", "name": "ship", "node": id, "right": "call", "folder": null, "services": null}),
            json!({"kind": "right", "name": id, "node": id, "right": "send-files", "folder": "ship", "updates": "update, delete", "services": null}),
            json!({"kind": "right", "name": "ship", "node": id, "right": "read-export", "exports": "era, log-*"}),
            json!({"kind": "right", "name": "ship", "node": id, "right": "forward", "to": "127.0.0.1:5432", "listen": "[::1]:80"}),
        ];
        assert_eq!(
            list(&rows),
            [
                "PEER       RIGHT        TERMS",
                "ship       call",
                "aaaaaaaa…  send-files   into ship; may update, delete",
                "ship       read-export  era, log-*",
                "ship       forward      to 127.0.0.1:5432; at [::1]:80",
            ]
        );
    }

    #[test]
    fn a_reload_says_what_changed() {
        let rows = [
            json!({"kind": "reloaded", "lost_rights": "", "gained_rights": "ship", "needs_restart": "receive"}),
            json!({"kind": "change", "key": "receive", "before": null, "now": "\"/srv\""}),
        ];
        assert_eq!(
            reloaded(&rows),
            [
                "reloaded",
                "have more rights: ship",
                "take effect at the next start: receive",
                "receive: none → \"/srv\"",
            ]
        );
    }
}

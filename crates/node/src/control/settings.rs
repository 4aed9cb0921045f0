//! Report of the configuration in force.

use serde_json::{Value, json};

use super::rights::configured;
use crate::{
    config::{Origin, Settings},
    daemon::Core,
};

/// Every setting with the source of its value.
pub(super) async fn list(node: Option<&Core>) -> Result<Vec<Value>, String> {
    let settings = configured(node)?.settings().await;
    Ok(rows(&settings))
}

/// A row for each setting.
pub fn rows(settings: &Settings) -> Vec<Value> {
    let file = settings.file();
    let rows = settings.iter().map(|setting| {
        let (source, line) = match setting.origin {
            Origin::Flag => ("flag", None),
            Origin::Environment(_) => ("environment", None),
            Origin::File { line } => ("file", Some(line)),
            Origin::Default => ("default", None),
        };
        json!({
            "kind": "setting",
            "key": setting.path(),
            "value": setting.value().to_string(),
            "source": source,
            "line": line,
            "from": setting.origin_in(file),
            "table": setting.table,
            "entry": setting.entry.as_ref().map(|(number, _)| number),
            "name": setting.key,
            "file": file.map(|file| file.display().to_string()),
        })
    });
    rows.collect()
}

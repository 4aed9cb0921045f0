//! Report of the rights in force, and their change.

use serde_json::{Value, json};

use super::{NAME_CHARS, printable};
use crate::daemon::Core;

pub(super) async fn answer(node: Option<&Core>, show: &str) -> Result<Vec<Value>, String> {
    let node = node.ok_or(
        "this process runs by no configuration, so there is none to read again; ask a node of `anabranch node`",
    )?;
    match show {
        "rights" => Ok(rows(node)),
        _ => reload(node).await,
    }
}

fn rows(node: &Core) -> Vec<Value> {
    let table = node.rights().table();
    let mut rows = Vec::new();
    for (id, rights) in table.iter() {
        for (right, terms) in rights {
            rows.push(json!({
                "kind": "right",
                "name": printable(&node.name(id), NAME_CHARS),
                "node": id.to_string(),
                "right": right.name(),
                "folder": terms.folder.as_ref().map(|folder| folder.display().to_string()),
            }));
        }
    }
    rows
}

async fn reload(node: &Core) -> Result<Vec<Value>, String> {
    let reloaded = node.reload().await.map_err(|error| error.to_string())?;
    let names = |nodes: &[anabranch_base::NodeId]| {
        let names: Vec<String> = nodes.iter().map(|id| node.name(id)).collect();
        printable(&names.join(", "), 20 * NAME_CHARS)
    };
    Ok(vec![json!({
        "kind": "reloaded",
        "lost_rights": names(&reloaded.reduced),
        "gained_rights": names(&reloaded.extended),
        "needs_restart": reloaded.restart.join(", "),
    })])
}

//! Report of the rights in force, and their change.

use serde_json::{Value, json};

use super::{NAME_CHARS, printable};
use crate::{daemon::Core, rights::Targets, transfer::Updates};

/// The node of a process that runs by a configuration.
pub(super) fn configured(node: Option<&Core>) -> Result<&Core, String> {
    node.ok_or_else(|| {
        "this process has no configuration that could be read again; send the request to a node of `anabranch node`"
            .to_owned()
    })
}

/// Rights in force.
pub(super) fn list(node: Option<&Core>) -> Result<Vec<Value>, String> {
    configured(node).map(rows)
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
                "updates": updates(terms.updates),
                "services": (!terms.services.is_empty()).then(|| printable(&terms.services.join(", "), 20 * NAME_CHARS)),
                "exports": (!terms.exports.is_empty()).then(|| printable(&terms.exports.join(", "), 20 * NAME_CHARS)),
                "to": texts(&terms.to),
                "listen": texts(&terms.listen),
            }));
        }
    }
    rows
}

/// Updates as words; `None` if there are none.
fn updates(updates: Updates) -> Option<&'static str> {
    match updates {
        Updates::Refused => None,
        Updates::Permitted => Some("update"),
        Updates::WithDeletion => Some("update, delete"),
    }
}

/// Targets as one line; `None` if there are none.
fn texts(targets: &Targets) -> Option<String> {
    let texts: Vec<String> = targets.texts().collect();
    (!texts.is_empty()).then(|| printable(&texts.join(", "), 20 * NAME_CHARS))
}

/// Reads the configuration again.
pub(super) async fn reload(node: Option<&Core>) -> Result<Vec<Value>, String> {
    let node = configured(node)?;
    let reloaded = node.reload().await.map_err(|error| error.to_string())?;
    let names = |nodes: &[anabranch_base::NodeId]| {
        let names: Vec<String> = nodes.iter().map(|id| node.name(id)).collect();
        printable(&names.join(", "), 20 * NAME_CHARS)
    };
    let mut rows = vec![json!({
        "kind": "reloaded",
        "lost_rights": names(&reloaded.reduced),
        "gained_rights": names(&reloaded.extended),
        "needs_restart": reloaded.restart.join(", "),
    })];
    rows.extend(reloaded.changes.iter().map(|change| {
        json!({
            "kind": "change",
            "key": printable(&change.key, NAME_CHARS),
            "before": change.before.as_deref().map(|text| printable(text, 20 * NAME_CHARS)),
            "now": change.now.as_deref().map(|text| printable(text, 20 * NAME_CHARS)),
        })
    }));
    Ok(rows)
}

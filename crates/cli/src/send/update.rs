//! Flags of an update, and the report of what it changes.

use anabranch::{
    base::text,
    transfer::{Changes, Completed, Update},
};
use serde_json::json;

use crate::{
    bytes, events,
    exit::{Outcome, print_line},
};

/// Longest path that is shown.
const PATH_CHARS: usize = 4096;

#[derive(Debug, clap::Args)]
pub(super) struct UpdateFlags {
    /// Update what the receiver has under the same name: only what differs is sent, by content, and each file takes its place in one step
    /// when all have arrived. The receiver must permit it (`recv --update`).
    #[arg(long)]
    update: bool,
    /// With --update: delete at the receiver, in the directory of the same name, what the source does not have. What --exclude leaves out
    /// stays. The receiver must permit it (`recv --update --delete`).
    #[arg(long, requires = "update")]
    delete: bool,
    /// With --update: print what would be added, replaced and deleted, and change nothing.
    #[arg(short = 'n', long, requires = "update", conflicts_with = "quiet")]
    dry_run: bool,
}

impl UpdateFlags {
    /// The update that is asked for.
    pub(super) fn update(&self) -> Option<Update> {
        self.update.then_some(Update {
            delete: self.delete,
            dry_run: self.dry_run,
        })
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// Reports what an update would change.
pub(super) fn report_plan(done: &Completed, is_json: bool) -> Outcome {
    let Some(changes) = &done.changes else {
        return Ok(());
    };
    for (action, list) in [("add", &changes.added), ("replace", &changes.replaced)] {
        for change in list {
            if is_json {
                events::print(&json!({
                    "kind": "change", "action": action, "path": change.path, "bytes": change.bytes,
                }))?;
            } else {
                print_line(&format!(
                    "{action:<8}{} ({})",
                    shown(&change.path),
                    bytes::text(change.bytes)
                ))?;
            }
        }
    }
    for path in &changes.deleted {
        if is_json {
            events::print(&json!({"kind": "change", "action": "delete", "path": path}))?;
        } else {
            print_line(&format!("{:<8}{}", "delete", shown(path)))?;
        }
    }
    if is_json {
        return events::print(&json!({
            "kind": "planned",
            "name": done.name,
            "files": done.files,
            "bytes": done.bytes,
            "bytes_to_send": changes.bytes(),
            "changes": events::changes(done),
            "left_out": done.left_out.count,
        }));
    }
    print_line(&format!(
        "would send {} of {} ({}); nothing was changed",
        bytes::text(changes.bytes()),
        bytes::text(done.bytes),
        numbers(changes)
    ))
}

/// A path on one line, whatever is in it.
fn shown(path: &str) -> String {
    text::printable(path, PATH_CHARS)
}

/// Numbers of an update in words.
fn numbers(changes: &Changes) -> String {
    format!(
        "{} added, {} replaced, {} deleted",
        changes.added.len(),
        changes.replaced.len(),
        changes.deleted.len()
    )
}

/// End of the report of an update; empty of another transfer.
pub(crate) fn suffix(done: &Completed) -> String {
    let changes = done.changes.as_ref();
    changes.map_or_else(String::new, |changes| format!("; {}", numbers(changes)))
}

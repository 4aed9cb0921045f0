//! Events of a transfer as lines of JSON (`--json`), and what was skipped.

use std::time::Duration;

use anabranch::{
    base::Rate,
    transfer::{Completed, LeftOut, Progress},
};
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome, note, print_line};

/// Interval between two events of progress.
const EVERY: Duration = Duration::from_secs(1);
/// Paths that are named on standard error; `--json` names up to 1,000.
const NAMED_MAX: usize = 20;

/// Prints an event.
pub(crate) fn print(event: &Value) -> Outcome {
    print_line(&event.to_string())
}

/// Prints the progress while it changes; does not return.
pub(crate) async fn follow(progress: &Progress) {
    let mut before = progress.snapshot();
    loop {
        tokio::time::sleep(EVERY).await;
        let now = progress.snapshot();
        if now == before {
            continue;
        }
        let moved = now.bytes_done.saturating_sub(before.bytes_done);
        let event = json!({
            "kind": "progress",
            "name": now.name,
            "bytes_total": (now.bytes_total > 0).then_some(now.bytes_total),
            "bytes_moved": now.bytes_done,
            "bytes_present_before": now.bytes_resumed,
            "bytes_durable": now.bytes_durable,
            "files_total": now.files_total,
            "files_durable": now.files_done,
            "rate_bps": Rate::from_bytes_per(moved, EVERY).as_bps(),
        });
        // A closed standard output ends the command at its next event.
        let _ = print(&event);
        before = now;
    }
}

/// Event for a transfer that is complete.
pub(crate) fn completed(kind: &str, done: &Completed, progress: &Progress) -> Value {
    let left: Vec<Value> = done
        .left_out
        .named
        .iter()
        .map(|left| json!({"path": left.path, "reason": left.reason}))
        .collect();
    json!({
        "kind": kind,
        "name": done.name,
        "path": done.path.as_ref().map(|path| path.display().to_string()),
        "files": done.files,
        "bytes": done.bytes,
        "bytes_present_before": progress.snapshot().bytes_resumed,
        "blake3": done.blake3,
        "changes": changes(done),
        "left_out": done.left_out.count,
        "left_out_paths": left,
    })
}

/// Numbers of what an update changed; null of another transfer.
pub(crate) fn changes(done: &Completed) -> Value {
    done.changes.as_ref().map_or(Value::Null, |changes| {
        json!({
            "added": changes.added.len(),
            "replaced": changes.replaced.len(),
            "deleted": changes.deleted.len(),
        })
    })
}

/// Prints the event for a command that failed.
pub(crate) fn failed(failure: &Failure) {
    let event = json!({"kind": "failed", "code": failure.code(), "message": failure.message()});
    // The failure itself is reported on standard error.
    let _ = print(&event);
}

/// Names what was skipped on standard error.
pub(crate) fn note_left_out(left_out: &LeftOut) {
    for left in left_out.named.iter().take(NAMED_MAX) {
        note(&format!("skipped: {} ({})", left.path, left.reason));
    }
    let shown = left_out.named.len().min(NAMED_MAX) as u64;
    if left_out.count > shown {
        note(&format!("skipped: {} more", left_out.count - shown));
    }
}

/// Text for a summary; empty if nothing was skipped.
pub(crate) fn left_out_text(left_out: &LeftOut) -> String {
    match left_out.count {
        0 => String::new(),
        count => format!("; {count} skipped"),
    }
}

/// Fails if something was skipped and `is_strict`.
pub(crate) fn judge(left_out: &LeftOut, is_strict: bool) -> Outcome {
    match left_out.count {
        1 if is_strict => Err(Failure::left_out(
            "complete, but 1 path was skipped (--strict)",
        )),
        count if is_strict && count > 0 => Err(Failure::left_out(format!(
            "complete, but {count} paths were skipped (--strict)"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_that_was_skipped_is_no_plural() {
        let judged = |count: u64, is_strict: bool| {
            let left_out = LeftOut {
                count,
                ..LeftOut::default()
            };
            let failure = judge(&left_out, is_strict).err()?;
            Some((failure.code(), failure.message().to_owned()))
        };
        for (count, words) in [(1, "1 path was skipped"), (2, "2 paths were skipped")] {
            let text = format!("complete, but {words} (--strict)");
            assert_eq!(judged(count, true), Some((7, text)));
            assert_eq!(judged(count, false), None);
        }
        assert_eq!(judged(0, true), None);
    }
}

//! Common to the demonstrations: their result, and their end.

use std::fs;

use serde_json::Value;

use crate::harness::{Running, command, limited, private_folder};

/// Result of a demonstration with these arguments, which succeeds.
pub(crate) fn result(name: &str, arguments: &[&str]) -> Value {
    let folder = private_folder();
    let output = limited(folder.path(), 400)
        .args([name, "--json"])
        .args(arguments)
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{seen}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a demonstration until it prints a line with these words, and ends it as Ctrl-C does: nothing of it is left.
pub(crate) fn ends_by_ctrl_c(name: &str, words: &str) {
    let folder = private_folder();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut demo = command(folder.path());
    let mut demo = Running::start(demo.arg(name).env("TMPDIR", &temporary));
    while !demo.line().contains(words) {}
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1);
    assert_eq!(demo.interrupt(), Some(130));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

//! Common to the demonstrations: their end.

use std::fs;

use crate::harness::{Running, command, private_folder};

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

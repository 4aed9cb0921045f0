//! Tickets of an origin, one for each proxy, from the command line.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::harness::Killed;

fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments);
    for name in ["ANABRANCH_ORIGIN", "ANABRANCH_TICKET", "ANABRANCH_KEY"] {
        command.env_remove(name);
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A library with one video, and its origin.
fn origin(folder: &Path) -> (Killed, String) {
    std::fs::create_dir(folder.join("films")).unwrap();
    let film = Path::new(env!("CARGO_MANIFEST_DIR")).join("../media/tests/data/bikes.mp4");
    std::fs::copy(film, folder.join("films/bikes.mp4")).unwrap();
    let child = anabranch(&["video", "origin", "--quiet", "--listen", "127.0.0.1:0"])
        .args(["--library", "films", "--key", "key"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Killed(child);
    let mut line = String::new();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    (running, line.trim().to_owned())
}

/// A ticket created while the origin runs gives access to its library, from a file, a variable or standard input, until it is
/// revoked.
#[test]
fn a_ticket_is_made_used_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let (_origin, first) = origin(folder.path());
    let ticket = |arguments: &[&str]| {
        anabranch(&["video", "ticket"])
            .args(arguments)
            .args(["--library", "films", "--key", "key"])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let made = ticket(&["new", "near"]);
    assert!(made.status.success(), "{made:?}");
    let near = text(&made);
    std::fs::write(folder.path().join("near"), &near).unwrap();
    assert_eq!(text(&ticket(&["ls"])), "default\nnear\n");
    assert!(!ticket(&["new", "near"]).status.success(), "there is one");
    assert!(!ticket(&["new", "no name"]).status.success());

    let ls = || {
        let mut command = anabranch(&["video", "ls", "--bind", "127.0.0.1:0", "--key", "viewer"]);
        command.current_dir(folder.path());
        command
    };
    let mut by_file = ls();
    by_file.args(["--ticket-file", "near"]);
    let mut by_variable = ls();
    by_variable.env("ANABRANCH_TICKET", near.trim());
    let mut by_argument = ls();
    by_argument.arg(first.trim());
    for command in [&mut by_file, &mut by_variable, &mut by_argument] {
        let listed = command.output().unwrap();
        assert!(text(&listed).contains("bikes"), "{listed:?}");
    }
    let mut typed = ls()
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    typed
        .stdin
        .take()
        .unwrap()
        .write_all(near.as_bytes())
        .unwrap();
    let listed = typed.wait_with_output().unwrap();
    assert!(text(&listed).contains("bikes"), "{listed:?}");

    assert!(ticket(&["revoke", "near"]).status.success());
    assert!(!ticket(&["revoke", "near"]).status.success(), "it is gone");
    assert_eq!(text(&ticket(&["ls"])), "default\n");
    // The origin reads the tickets each second.
    let is_refused = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let listed = by_file.output().unwrap();
        !listed.status.success()
    });
    assert!(is_refused, "a revoked ticket is good still");
    let listed = by_argument.output().unwrap();
    assert!(text(&listed).contains("bikes"), "{listed:?}");
}

//! Updates by `anabranch send --update`: permission, dry runs, deletion, and receivers that are killed.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{
    harness::{Killed, command},
    trees::{Receiver, sends},
};

/// Content of every file below a path.
fn contents(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            let name = path.strip_prefix(root).unwrap().to_owned();
            all.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    all
}

fn plant(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

#[test]
fn a_receiver_permits_updates_and_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    plant(
        &folder.join("tree"),
        &[("a", "new"), ("b", "same"), ("d/c", "more")],
    );
    let old = [
        ("a", "old"),
        ("b", "same"),
        ("gone/x", "x"),
        ("kept.log", "log"),
    ];
    plant(&folder.join("in/tree"), &old);
    let before = contents(&folder.join("in"));

    let receiver = Receiver::start(folder, &["in"]);
    let ticket = receiver.ticket.clone();
    sends(
        folder,
        &["tree", &ticket, "--update"],
        4,
        &["recv --update"],
    );
    sends(folder, &["tree", &ticket], 4, &["exists already"]);
    drop(receiver);

    let receiver = Receiver::start(folder, &["in", "--update"]);
    let ticket = receiver.ticket.clone();
    let delete = ["tree", &ticket, "--update", "--delete"];
    sends(folder, &delete, 4, &["recv --update --delete"]);
    assert_eq!(contents(&folder.join("in")), before);
    sends(folder, &["tree", &ticket, "--delete"], 2, &["--update"]);
    sends(folder, &["-", &ticket, "--update"], 2, &["standard input"]);
    drop(receiver);

    let mut receiver = Receiver::start(folder, &["in", "--update", "--delete"]);
    let ticket = receiver.ticket.clone();
    let update = [
        "tree",
        &ticket,
        "--update",
        "--delete",
        "--exclude",
        "*.log",
    ];
    let planned = sends(folder, &[&update[..], &["--dry-run"]].concat(), 0, &[]);
    let lines: Vec<&str> = planned.lines().collect();
    assert_eq!(
        lines,
        [
            "add     tree/d/c (4 B)",
            "replace tree/a (3 B)",
            "delete  tree/gone",
            "delete  tree/gone/x",
            "would send 7 B of 11 B (1 added, 1 replaced, 2 deleted); nothing was changed",
        ]
    );
    assert_eq!(contents(&folder.join("in")), before);
    let planned = sends(folder, &[&update[..], &["-n", "--json"]].concat(), 0, &[]);
    let last: Value = serde_json::from_str(planned.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["kind"], &last["bytes_to_send"]),
        (&"planned".into(), &7.into())
    );

    // The same ticket.
    let out = sends(folder, &update, 0, &[]);
    assert!(out.contains("of which 4 B were there already"), "{out}");
    assert!(out.contains("1 added, 1 replaced, 2 deleted"), "{out}");
    let received = receiver.event("received");
    assert_eq!(received["changes"]["deleted"], 2);
    assert_eq!(received["bytes_present_before"], 4);
    assert_eq!(receiver.code(), Some(0));
    let mut expected = contents(&folder.join("tree"));
    expected.insert("kept.log".into(), "log".into());
    assert_eq!(contents(&folder.join("in/tree")), expected);
    assert_eq!(fs::read_dir(folder.join("in")).unwrap().count(), 1);

    // A file alone.
    let receiver = Receiver::start(folder, &["in/tree", "--update"]);
    plant(folder, &[("a", "newer")]);
    sends(folder, &["a", &receiver.ticket, "--update"], 0, &[]);
    assert_eq!(receiver.code(), Some(0));
    assert_eq!(fs::read(folder.join("in/tree/a")).unwrap(), b"newer");
}

/// The receiver is killed (SIGKILL) while it takes files, and while it puts them into their places: every file is old or new at any time,
/// and in the end new.
#[test]
fn a_receiver_that_is_killed_leaves_every_file_old_or_new() {
    const FILES: usize = 600;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = |n: usize| format!("d{}/f{n}", n % 7);
    let old = |n: usize| format!("old {n}").repeat(50);
    let new = |n: usize| format!("new {n}").repeat(n % 90);
    for n in 0..FILES {
        plant(folder, &[(&format!("tree/{}", name(n)), &new(n))]);
        // Every third one is not there, and as many are not at the sender.
        let at = if n % 3 == 0 {
            format!("gone{n}")
        } else {
            name(n)
        };
        plant(folder, &[(&format!("in/tree/{at}"), &old(n))]);
    }
    let probe = folder.join("in/tree").join(name(1));
    for kill in 0..4 {
        let (mut receiver, ticket) = start(folder);
        let arguments = [
            "send", "-q", "tree", &ticket, "--update", "--delete", "--retry", "0 s",
        ];
        let sender = command(folder).args(arguments).spawn().unwrap();
        let mut sender = Killed(sender);
        // As soon as the first files wait, or one of them is in its place.
        let is_time = || match kill < 2 {
            true => work(folder).is_some_and(|work| work.join("data/tree").join(name(1)).exists()),
            false => fs::read_to_string(&probe).unwrap() == new(1),
        };
        while sender.0.try_wait().unwrap().is_none() && !is_time() {
            std::thread::sleep(Duration::from_micros(100));
        }
        receiver.0.kill().unwrap();
        receiver.0.wait().unwrap();
        let _ = sender.0.wait();
        for n in 0..FILES {
            let now = fs::read_to_string(folder.join("in/tree").join(name(n)));
            let is_whole = match now {
                Ok(now) => now == new(n) || (now == old(n) && n % 3 != 0),
                Err(_) => n % 3 == 0,
            };
            assert!(is_whole, "file {n} after kill {kill}");
        }
    }
    let (mut receiver, ticket) = start(folder);
    sends(folder, &["tree", &ticket, "--update", "--delete"], 0, &[]);
    assert!(receiver.0.wait().unwrap().success());
    assert_eq!(
        contents(&folder.join("in/tree")),
        contents(&folder.join("tree"))
    );
    let left = fs::read_dir(folder.join("in")).unwrap().count();
    assert_eq!(left, 1, "no folder of a transfer is left");
}

/// The folder of a transfer under way.
fn work(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder.join("in")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().contains(".anabranch-"))
}

/// A receiver that is no other process's child, so that it can be killed; its ticket.
fn start(folder: &Path) -> (Killed, String) {
    let arguments = [
        "recv",
        "-q",
        "in",
        "--update",
        "--delete",
        "--bind",
        "127.0.0.1:0",
        "--key",
        "r.key",
    ];
    let mut child = command(folder).args(arguments).spawn().unwrap();
    let mut ticket = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut ticket)
        .unwrap();
    (Killed(child), ticket.trim().to_owned())
}

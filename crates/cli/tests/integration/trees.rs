//! Trees of files from `anabranch send` to `recv`: what is skipped, names that exist, limits, and events.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Output},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::{Killed, limited, signal};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    limited(folder, 60).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `send`; checks its exit code, and that standard error contains these words.
#[track_caller]
pub(crate) fn sends(folder: &Path, arguments: &[&str], code: i32, words: &[&str]) -> String {
    let output = run(folder, &[&["send"], arguments].concat());
    let seen = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{seen}");
    for word in words {
        assert!(seen.contains(word), "'{word}' is missing in: {seen}");
    }
    text(&output.stdout)
}

/// A receiver that prints events, and its ticket.
pub(crate) struct Receiver {
    child: Killed,
    out: BufReader<Box<dyn Read>>,
    pub(crate) ticket: String,
}

impl Receiver {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let own = ["recv", "--json", "--bind", "127.0.0.1:0", "--key", "r.key"];
        let mut child: Child = limited(folder, 60)
            .args(own)
            .args(arguments)
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let mut receiver = Self {
            child: Killed(child),
            out: BufReader::new(Box::new(out)),
            ticket: String::new(),
        };
        let event = receiver.event("ticket");
        receiver.ticket = event["ticket"].as_str().unwrap().to_owned();
        receiver
    }

    /// The next event of this kind; those of progress are skipped.
    #[track_caller]
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            self.out.read_line(&mut line).unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["kind"] != "progress" {
                assert_eq!(event["kind"], kind, "{event}");
                return event;
            }
        }
    }

    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.0.wait().unwrap().code()
    }
}

fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("tree/build/deep")).unwrap();
    for name in ["a", "b.tmp", "build/x", "build/deep/y"] {
        fs::write(folder.join("tree").join(name), name).unwrap();
    }
    symlink("a", folder.join("tree/inside")).unwrap();
    symlink("/etc/hostname", folder.join("tree/outside")).unwrap();
}

#[test]
fn what_is_left_out_is_named_and_with_strict_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tree(folder);
    // The directory is made.
    let receiver = Receiver::start(folder, &["new/in"]);
    let words = ["skipped: tree/outside (its target is an absolute path)"];
    let out = sends(folder, &["tree", &receiver.ticket], 0, &words);
    assert!(out.contains("1 skipped"), "{out}");
    assert_eq!(receiver.code(), Some(0));
    let inside = fs::read_link(folder.join("new/in/tree/inside")).unwrap();
    assert_eq!(inside, Path::new("a"));

    let mut receiver = Receiver::start(folder, &["strict"]);
    let arguments = ["tree", &receiver.ticket, "--strict", "--json"];
    let out = sends(folder, &arguments, 7, &["--strict"]);
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_kind = |kind: &str| events.iter().find(|event| event["kind"] == kind).unwrap();
    let sent = of_kind("sent");
    assert_eq!((&sent["files"], &sent["left_out"]), (&4.into(), &1.into()));
    assert_eq!(sent["left_out_paths"][0]["path"], "tree/outside");
    assert_eq!(of_kind("failed")["code"], 7);
    let received = receiver.event("received");
    assert_eq!(
        (&received["files"], &received["left_out"]),
        (&4.into(), &0.into())
    );
    assert!(received["path"].as_str().unwrap().ends_with("strict/tree"));
    assert_eq!(receiver.code(), Some(0));

    let receiver = Receiver::start(folder, &["some"]);
    let exclude = [
        "--exclude",
        "*.tmp",
        "--exclude",
        "build/deep",
        "--exclude",
        "outside",
    ];
    let more = ["--strict", "--name", "other"];
    sends(
        folder,
        &[&["tree", &receiver.ticket], &exclude[..], &more].concat(),
        0,
        &[],
    );
    assert_eq!(receiver.code(), Some(0));
    let at = |path: &str| folder.join("some/other").join(path).exists();
    assert_eq!(
        ["a", "build/x", "b.tmp", "build/deep"].map(at),
        [true, true, false, false]
    );
    sends(
        folder,
        &["tree", "t", "--exclude", "../x"],
        2,
        &["--exclude", "'../x'"],
    );
}

/// A clash costs that transfer: the receiver goes on, and takes the same ticket for another name.
#[test]
fn a_name_that_exists_costs_the_transfer_and_not_the_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("in")).unwrap();
    fs::write(folder.join("in/film"), "old").unwrap();
    fs::write(folder.join("film"), "new").unwrap();
    let receiver = Receiver::start(folder, &["in"]);
    sends(folder, &["film", &receiver.ticket], 4, &["exists already"]);
    sends(
        folder,
        &["film", &receiver.ticket, "--name", "second"],
        0,
        &[],
    );
    assert_eq!(receiver.code(), Some(0));
    let read = |name: &str| fs::read_to_string(folder.join("in").join(name)).unwrap();
    assert_eq!((&*read("film"), &*read("second")), ("old", "new"));

    let mut receiver = Receiver::start(folder, &["in", "--rename"]);
    sends(folder, &["film", &receiver.ticket], 0, &[]);
    let path = receiver.event("received")["path"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(path.ends_with("in/film (2)"), "{path}");
    assert_eq!(receiver.code(), Some(0));

    let receiver = Receiver::start(folder, &["in", "--overwrite"]);
    sends(folder, &["film", &receiver.ticket], 0, &[]);
    assert_eq!(receiver.code(), Some(0));
    assert_eq!(read("film"), "new");
    assert_eq!(fs::read_dir(folder.join("in")).unwrap().count(), 3);
}

/// The limit is kept: a lower bound of the time, which a busy machine can only lengthen.
#[test]
fn a_limit_is_kept_and_progress_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("film"), vec![7; 500_000]).unwrap();
    let receiver = Receiver::start(folder, &["in"]);
    let start = Instant::now();
    let arguments = ["film", &receiver.ticket, "--limit", "2 Mbit/s", "--json"];
    let out = sends(folder, &arguments, 0, &[]);
    assert!(
        start.elapsed() >= Duration::from_millis(1900),
        "{:?}",
        start.elapsed()
    );
    let progress = out
        .lines()
        .find(|line| line.contains("\"progress\""))
        .unwrap();
    let progress: Value = serde_json::from_str(progress).unwrap();
    assert_eq!(
        (&progress["bytes_total"], &progress["files_total"]),
        (&500_000.into(), &1.into())
    );
    assert!(progress["bytes_moved"].as_u64().unwrap() < 500_000);
    assert!(progress["bytes_durable"].as_u64().unwrap() < 500_000);
    assert_eq!(receiver.code(), Some(0));
    for (rate, words) in [
        ("20M", &["20 Mbit/s", "160 Mbit/s"][..]),
        ("0 Mbit/s", &["zero"]),
        ("2", &["unit"]),
    ] {
        sends(folder, &["film", "t", "--limit", rate], 2, words);
    }
    let promise = ["film", "t", "--rate", "20M", "--probability", "95%"];
    sends(folder, &promise, 2, &["20 Mbit/s", "160 Mbit/s"]);
}

/// Several sources under one ticket; the one that exists is named, and the others arrive. The receiver ends with the last.
#[test]
fn several_sources_arrive_and_one_that_fails_keeps_none_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tree(folder);
    fs::create_dir(folder.join("in")).unwrap();
    for name in ["one", "two", "three", "in/two"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let mut receiver = Receiver::start(folder, &["in"]);
    let sources = ["one", "two", "tree", "three", &receiver.ticket];
    sends(folder, &sources, 4, &["two exists already"]);
    for name in ["one", "tree", "three"] {
        assert_eq!(receiver.event("received")["name"], name);
    }
    assert_eq!(receiver.code(), Some(0));
    let read = |name: &str| fs::read_to_string(folder.join("in").join(name)).unwrap();
    assert_eq!(
        ["one", "two", "three"].map(read),
        ["one", "in/two", "three"]
    );
    assert!(folder.join("in/tree/build/deep/y").exists());
    // Nothing else is left.
    assert_eq!(fs::read_dir(folder.join("in")).unwrap().count(), 4);

    let receiver = Receiver::start(folder, &["from-file"]);
    fs::write(folder.join("ticket"), &receiver.ticket).unwrap();
    sends(folder, &["one", "two", "--ticket-file", "ticket"], 0, &[]);
    assert_eq!(receiver.code(), Some(0));
    assert_eq!(fs::read_dir(folder.join("from-file")).unwrap().count(), 2);

    sends(folder, &["one", "two", "t", "--name", "x"], 2, &["--name"]);
    sends(folder, &["one", "-", "t"], 2, &["standard input"]);
    let both = ["one", "anabranch1:x", "--ticket-file", "ticket"];
    sends(folder, &both, 2, &["cannot be used"]);
}

#[test]
fn the_last_of_several_ends_the_receiver_even_if_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("in")).unwrap();
    for name in ["one", "two", "in/two"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let mut receiver = Receiver::start(folder, &["in"]);
    let sources = ["one", "two", &receiver.ticket];
    sends(folder, &sources, 4, &["two exists already"]);
    assert_eq!(receiver.event("received")["name"], "one");
    assert_eq!(receiver.code(), Some(0));
    assert_eq!(fs::read_to_string(folder.join("in/two")).unwrap(), "in/two");
}

/// The same command again, after the sender was killed between two sources.
#[test]
fn several_sources_are_continued_by_the_same_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("one"), "one").unwrap();
    fs::write(folder.join("two"), vec![7; 2_000_000]).unwrap();
    let mut receiver = Receiver::start(folder, &["in"]);
    // At this rate the second takes half a minute.
    let arguments = [
        "send",
        "one",
        "two",
        &receiver.ticket,
        "--limit",
        "500 kbit/s",
    ];
    let sender = limited(folder, 60).args(arguments).spawn().unwrap();
    let mut sender = Killed(sender);
    assert_eq!(receiver.event("received")["name"], "one");
    signal(sender.0.id(), "TERM");
    sender.0.wait().unwrap();
    sends(folder, &["one", "two", &receiver.ticket], 0, &[]);
    assert_eq!(receiver.event("received")["name"], "one");
    assert_eq!(receiver.event("received")["name"], "two");
    assert_eq!(receiver.code(), Some(0));
    assert_eq!(fs::read(folder.join("in/one")).unwrap(), b"one");
    assert_eq!(fs::read(folder.join("in/two")).unwrap().len(), 2_000_000);
    assert_eq!(fs::read_dir(folder.join("in")).unwrap().count(), 2);
}

#[test]
fn an_interrupted_receiver_says_so_as_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start(folder.path(), &["in"]);
    signal(receiver.child.0.id(), "INT");
    assert_eq!(receiver.event("failed")["code"], 130);
    assert_eq!(receiver.code(), Some(130));
}

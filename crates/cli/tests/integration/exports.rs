//! `anabranch ls` and `anabranch get`: exported directories of a peer, through the running node and without one.

use std::{fs, net::SocketAddr, path::Path, process::Output, thread, time::Duration};

use serde_json::Value;

use crate::harness::{Killed, Running, command, free_port, limited, private_folder};
use crate::numbered::{id, key, start};

const FILE_BYTES: u32 = 6_000_000;
/// Part of the file that has arrived before the command is killed.
const SOME_BYTES: u64 = 1_000_000;
/// At this rate the file takes 8 s, and its first part 3 s: what remains is far longer than a busy machine needs to end a process.
const SLOW: &str = "[channel]\ncontroller = \"fixed 6 Mbit/s\"\n";

/// A node that exports a directory to two others.
fn exporter(folder: &Path, listen: SocketAddr, more: &str) -> Running {
    let data = folder.join("data");
    fs::create_dir_all(data.join("sub")).unwrap();
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|n| (n / 3 * 41) as u8).collect();
    fs::write(data.join("film"), bytes).unwrap();
    fs::write(data.join("words"), "some words").unwrap();
    let may = r#"may = ["call", { right = "read-export", exports = ["data"] }]"#;
    let peer = |own: u8| {
        format!(
            "[[peer]]\nname = \"n{own}\"\nnode = \"{}\"\n{may}\n",
            id(own)
        )
    };
    let export = format!("[[export]]\nname = \"data\"\npath = {data:?}\n");
    let more = format!("{export}{}{}{more}", peer(1), peer(3));
    start(folder, 2, &[listen], &more)
}

fn reader(folder: &Path, far: SocketAddr) -> Running {
    let peer = format!(
        "[[peer]]\nname = \"far\"\nnode = \"{}\"\nmay = []\naddresses = [\"{far}\"]\n",
        id(2)
    );
    start(folder, 1, &[free_port()], &peer)
}

/// Exit code, output and errors.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = limited(folder, 60).args(arguments).output().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn rows(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_peer_lists_and_copies_what_is_exported() {
    let folder = private_folder();
    let at = folder.path();
    let far = free_port();
    let _far = exporter(at, far, "");
    let _near = reader(at, far);
    let ls = |place: &str| run(at, &["ls", place, "--local", "1.local"]);
    let (code, out, err) = ls("far:");
    assert_eq!(
        (code, out.trim_end().ends_with("data/")),
        (Some(0), true),
        "{out}{err}"
    );
    let (code, out, err) = ls("far:/data");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 3), "{out}{err}");
    assert!(
        lines[0].contains("6.00 MB") && lines[0].ends_with("film"),
        "{out}"
    );
    assert!(lines[1].ends_with("sub/"), "{out}");
    let (_, out, _) = run(
        at,
        &["ls", "far:/data/words", "--json", "--local", "1.local"],
    );
    let row = &rows(&out)[0];
    assert_eq!(
        (&row["name"], &row["size_bytes"]),
        (&"words".into(), &10.into())
    );

    let get = |words: &[&str]| run(at, &[&["get", "--local", "1.local"], words].concat());
    let (code, out, err) = get(&["far:/data/film"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("film: 6.00 MB"), "{out}");
    let same =
        |copy: &str| fs::read(at.join(copy)).unwrap() == fs::read(at.join("data/film")).unwrap();
    assert!(same("film"));
    let modified = |path: &str| fs::metadata(at.join(path)).unwrap().modified().unwrap();
    assert_eq!(modified("film"), modified("data/film"));
    let (code, _, err) = get(&["far:/data/film"]);
    assert_eq!((code, err.contains("--force")), (Some(6), true), "{err}");
    let (code, out, _) = get(&["far:/data/film", "film", "--force", "--json"]);
    let events = rows(&out);
    let got = events.last().unwrap();
    assert_eq!(
        (code, &got["kind"], &got["bytes"]),
        (Some(0), &"got".into(), &FILE_BYTES.into())
    );
    for (place, expected, words) in [
        ("far:/data/none", 4, "nothing there"),
        ("far:/other/x", 4, "nothing there"),
        ("far:/data/sub", 2, "is a directory"),
        ("far:/data/../x", 2, "not valid"),
        ("nobody:/data/x", 2, "nobody"),
        ("far:", 2, "anabranch ls"),
    ] {
        let (code, _, err) = get(&[place, "other"]);
        assert_eq!(
            (code, err.contains(words)),
            (Some(expected), true),
            "{place}: {err}"
        );
    }
    // Nothing incomplete is left.
    let left = fs::read_dir(at).unwrap().flatten();
    let left = left.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(".anabranch-")
    });
    assert_eq!(left.count(), 0);

    // From nodes of the commands' own: one with the right, and one without.
    let (with, without) = (key(at, 3), key(at, 4));
    let place = format!("{}@{far}:/data/words", id(2));
    let own = |key: &Path| {
        let key = key.to_str().unwrap();
        run(at, &["get", &place, "words", "--key", key, "--force"])
    };
    let (code, _, err) = own(&with);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(fs::read_to_string(at.join("words")).unwrap(), "some words");
    let (code, _, err) = own(&without);
    assert_eq!(code, Some(4), "{err}");
}

#[test]
fn an_interrupted_copy_goes_on_unless_the_file_has_changed() {
    let folder = private_folder();
    let at = folder.path();
    let far = free_port();
    let _far = exporter(at, far, SLOW);
    let _near = reader(at, far);
    let arguments = ["get", "far:/data/film", "copy", "--local", "1.local"];
    let partial = || {
        let entries = fs::read_dir(at).unwrap().flatten();
        let is_one = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".anabranch-get-");
        let sizes = entries
            .filter(|entry| is_one(&entry.file_name()))
            .map(|entry| entry.metadata().map_or(0, |found| found.len()));
        sizes.collect::<Vec<u64>>()
    };
    let interrupted = || {
        let mut child = Killed(command(at).args(arguments).spawn().unwrap());
        while partial().iter().sum::<u64>() < SOME_BYTES {
            let ended = child.0.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before: {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    interrupted();
    assert!(!at.join("copy").exists());
    let (code, out, err) = run(at, &arguments);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("were here before"), "{out}");
    assert!(fs::read(at.join("copy")).unwrap() == fs::read(at.join("data/film")).unwrap());
    assert!(partial().is_empty());

    fs::remove_file(at.join("copy")).unwrap();
    interrupted();
    fs::write(at.join("data/film"), "new").unwrap();
    let (code, out, err) = run(at, &arguments);
    assert_eq!(
        (code, out.contains("before")),
        (Some(0), false),
        "{out}{err}"
    );
    assert_eq!(fs::read_to_string(at.join("copy")).unwrap(), "new");
    assert!(partial().is_empty());
}

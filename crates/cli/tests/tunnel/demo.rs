//! `anabranch demo-tunnel`: its result, its end by Ctrl-C, and the missing right.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    harness::isolate,
    namespace::namespaces_with_tun,
    process::Process,
    stage::{skip, until},
};

/// Namespaces of the demonstration of a process that remain.
fn remaining(process: u32) -> Vec<String> {
    let entries = fs::read_dir("/var/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let prefix = format!("anabdemo-{process}-");
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// State, and number of the parent, of a process; `None`: there is none.
fn state_and_parent(process: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|&number| state_and_parent(number).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// True if the machine lets this test make namespaces and devices.
fn is_possible() -> bool {
    namespaces_with_tun::<1>().is_some()
}

/// The demonstration checks every byte itself.
#[test]
fn the_demonstration_shows_what_it_measured_and_cleans_up() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["demo-tunnel", "--megabytes", "8"];
    let process = Process::start(folder.path(), &arguments, None);
    let id = process.id();
    let ended = process.ended().is(0, &[]);
    for line in [
        "path wifi       rate=40 Mbit/s",
        "without the tunnel the host sees 10.95.0.1, and is not reached over IPv6",
        "the tunnel is up at anabranch0: 10.77.0.2/24, fd77:616e::2/64",
        "in the tunnel the host sees 10.77.0.2 and fd77:616e::2",
        "wifi is cut",
        "wifi is back",
        "download   8 MB over IPv4 by ",
        "download   2 MB over IPv6 by ",
        "every byte right, longest stall ",
        "messages   IPv4 round trips, alone: median ",
        "messages   IPv6 round trips, alone: median ",
        "takes routes and rules back: the host sees 10.95.0.1, and is not",
    ] {
        assert!(
            ended.out.contains(line),
            "'{line}' is missing: {}",
            ended.out
        );
    }
    assert_eq!(remaining(id), Vec::<String>::new());
}

#[test]
fn its_result_as_json_has_all_paths_and_both_families() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["demo-tunnel", "--json", "--megabytes", "8"];
    let ended = Process::start(folder.path(), &arguments, None).ended();
    let result: Value = serde_json::from_str(&ended.is(0, &[]).out).unwrap();
    assert_eq!(
        result["source"]["tunnel"],
        serde_json::json!(["10.77.0.2", "fd77:616e::2"])
    );
    assert_eq!(result["source"]["after"], result["source"]["before"]);
    let list = |key: &str| result[key].as_array().unwrap().clone();
    let has = |key: &str, field: &str| list(key).iter().all(|row| row[field].as_f64() > Some(0.0));
    assert!(has("downloads", "mbps"), "{result}");
    assert!(has("messages_alone", "p50_ms"), "{result}");
    assert!(has("messages_beside", "answered"), "{result}");
    assert_eq!(list("paths").len(), 3);
    assert!(has("paths", "bytes"), "{result}");
}

/// Starts a long demonstration, and waits until it downloads; returns its own processes, too: the server, the client, and a program
/// that downloads, if there is one.
#[track_caller]
fn downloading(folder: &Path) -> (Process, Vec<u32>) {
    let out = folder.join("out");
    let arguments = ["demo-tunnel", "--megabytes", "150"];
    let mut process = Process::start(folder, &arguments, Some(&out));
    until("the download has begun", || {
        assert!(process.is_running(), "it ended early");
        fs::read_to_string(&out).unwrap().contains("% | wifi")
    });
    let processes = children(process.id());
    assert!(processes.len() >= 2, "{processes:?}");
    assert_eq!(remaining(process.id()).len(), 3);
    (process, processes)
}

fn is_over(process: &u32) -> bool {
    state_and_parent(*process).is_none_or(|(state, _)| state == "Z")
}

#[test]
fn ctrl_c_leaves_no_namespace_and_no_process() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (process, processes) = downloading(folder.path());
    let id = process.id();
    process.signal("INT");
    process.ended().is(130, &["stopped"]);
    assert_eq!(remaining(id), Vec::<String>::new());
    until("its processes end", || processes.iter().all(is_over));
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_one() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (process, processes) = downloading(folder.path());
    let id = process.id();
    process.signal("KILL");
    // Standard error stays open in the processes that are left.
    drop(process);
    let next = Process::start(folder.path(), &["demo-tunnel", "--megabytes", "4"], None);
    next.ended().is(0, &[]);
    assert_eq!(remaining(id), Vec::<String>::new());
    until("its processes end", || processes.iter().all(is_over));
}

/// Without root, or for root without any right.
#[test]
fn without_the_right_it_says_what_it_needs_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_anabranch");
    let run = |command: &mut Command| {
        let command = isolate(command, Path::new(folder.path()));
        let output = command.arg("demo-tunnel").output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), output.stdout, err)
    };
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    let (code, out, err) = match is_root {
        true => {
            let words = "exec setpriv --bounding-set=-all \"$@\"";
            run(Command::new("sh").args(["-c", words, "sh", program]))
        }
        false => run(&mut Command::new(program)),
    };
    if err.contains("setpriv") {
        skip("setpriv is not installed, or may not take rights away");
        return;
    }
    assert_eq!((code, out), (Some(1), Vec::new()), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        err.contains("needs root") && err.contains("run it with sudo"),
        "{err}"
    );
}

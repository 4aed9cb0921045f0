//! Objectives of the library by name, where a command takes objectives.

use std::{fs, io::Write, path::Path, process::Output};

use serde_json::Value;

use crate::harness::{Running, command, private_folder};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

/// A receiver into the folder `in`, and its ticket.
fn receiver(folder: &Path) -> (Running, String) {
    fs::create_dir(folder.join("in")).unwrap();
    let words = ["recv", "-q", "--bind", "127.0.0.1:0", "--key", "r.key"];
    let mut receiver = Running::start(command(folder).args(words).arg("in"));
    let ticket = receiver.line();
    assert!(ticket.starts_with("anabranch1:"), "{ticket}");
    (receiver, ticket)
}

/// Names and policies of the objectives that are in force.
fn in_force(folder: &Path) -> Vec<(String, String)> {
    let list = ["objective", "list", "--json", "--control", "s.sock"];
    let answer: Value = serde_json::from_slice(&run(folder, &list).stdout).unwrap_or_default();
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let both = |row: &Value| (word(row, "name"), word(row, "policy"));
    rows.iter().map(both).collect()
}

/// The transfer comes from a pipe, which stays open until its objectives have been seen.
#[test]
fn a_transfer_follows_objectives_by_name_and_more_are_added() {
    let folder = private_folder();
    let at = folder.path();
    let (mut receiver, ticket) = receiver(at);
    let mut sending = command(at);
    sending.args([
        "send",
        "-",
        &ticket,
        "--key",
        "s.key",
        "--control",
        "s.sock",
    ]);
    sending.args(["--name", "film", "--objectives", "avoid_metered", "--quiet"]);
    let (mut sending, mut input) = Running::start_writing(&mut sending);
    input.write_all(&[7; 100_000]).unwrap();
    // Objectives are of a session, which opens a moment later.
    let mut seen = in_force(at);
    for _ in 0..1_200 {
        if !seen.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        seen = in_force(at);
    }
    let row = |name: &str| (name.to_owned(), "assign".to_owned());
    assert_eq!(seen, [row("avoid_metered")]);
    let add = |names: &str| run(at, &["objective", "add", names, "--control", "s.sock"]);
    let added = add("newest_first(position); low_latency(voice, 150)");
    let said = String::from_utf8(added.stdout).unwrap();
    assert!(said.contains("objective 2: in force"), "{said}");
    let all = ["avoid_metered", "newest_first", "low_latency"].map(row);
    assert_eq!(in_force(at), all);
    let wrong = add("low_latncy(voice, 150)");
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(
        said.contains("did you mean 'low_latency(label, ms)'?"),
        "{said}"
    );
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(in_force(at), all);
    drop(input);
    while !sending.line().is_empty() {}
    while !receiver.line().is_empty() {}
    assert_eq!(fs::read(at.join("in/film")).unwrap(), [7; 100_000]);
}

#[test]
fn a_transfer_whose_objectives_cannot_be_followed_does_not_begin() {
    let folder = private_folder();
    let at = folder.path();
    fs::write(at.join("film"), "film").unwrap();
    let (_receiver, ticket) = receiver(at);
    let fails = |target: &str, names: &str| {
        let send = ["send", "film", target, "--objectives"];
        let output = run(at, &[&send[..], &[names]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    for (target, names, code, words) in [
        (
            &*ticket,
            "low_latncy(voice, 150)",
            2,
            "did you mean 'low_latency(label, ms)'?",
        ),
        (&*ticket, "none.hose", 6, "cannot read objectives none.hose"),
        // Sessions of a running node have the objectives of its configuration.
        (
            "ship:",
            "avoid_metered",
            2,
            "--objectives is for a transfer without a running node",
        ),
    ] {
        let (seen, said) = fails(target, names);
        assert!(seen == code && said.contains(words), "{seen}: {said}");
    }
    assert_eq!(fs::read_dir(at.join("in")).unwrap().count(), 0);
}

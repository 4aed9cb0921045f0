//! `anabranch top` in a pseudo-terminal.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
};

use serde_json::{Value, json};

use crate::{
    harness::{Running, command, configure, free_port, limited, signal},
    terminal::Terminal,
};

fn top(folder: &Path, control: &str) -> Terminal {
    Terminal::start(folder, &["top", "--control", control])
}

fn node(folder: &Path) -> Running {
    Running::start(command(folder).args(["node", "--config", "far.toml"]))
}

#[test]
fn a_node_is_shown_while_it_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(
        folder,
        free_port(),
        &"a".repeat(52),
        "{ right = \"use-service\", services = [\"*\"] }",
    );
    let mut terminal = top(folder, "far.sock");
    terminal.wait_for("NO NODE YET");
    let running = node(folder);
    terminal.wait_for("No session is open, so there are no paths.");
    terminal.wait_for("0 sessions");
    for (key, words) in [
        ("\t", "No stream is open."),
        ("\x1b[C", "[3 Promises]"),
        ("\x1b[Z", "[2 Streams]"),
        ("1", "[1 Paths]"),
        ("/xyz", "Filter: xyz_"),
        ("\r", "filter 'xyz'"),
    ] {
        terminal.press(key);
        terminal.wait_for(words);
    }
    terminal.resize(40, 12);
    terminal.wait("a narrow view", |text| {
        text.contains("[1 Paths] 2 Streams  3 Promises") && text.lines().all(|line| line.len() < 60)
    });
    running.interrupt();
    terminal.wait_for("NO ANSWER for");
    let _again = node(folder);
    terminal.wait("the new node", |text| !text.contains("NO ANSWER"));
    let once = limited(folder, 60)
        .args(["top", "--once", "--control", "far.sock"])
        .output()
        .unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(
        once.status.success() && text.contains("\nStreams\nNo stream is open.\n"),
        "{text}"
    );
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn the_terminal_is_given_back_whatever_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for end in ["\x03", "TERM", "INT"] {
        let mut terminal = top(folder, "nobody");
        terminal.wait_for("NO NODE YET");
        assert!(!terminal.is_given_back());
        match end {
            "\x03" => terminal.press(end),
            name => signal(terminal.id(), name),
        }
        assert_eq!(terminal.ended(), Some(0), "{end}");
    }
    // Ctrl-Z, by key and by signal.
    for by_key in [true, false] {
        let mut terminal = top(folder, "nobody");
        terminal.wait_for("NO NODE YET");
        let id = terminal.id();
        match by_key {
            true => terminal.press("\x1a"),
            false => signal(id, "TSTP"),
        }
        terminal.wait("the terminal given back", |_| terminal.is_given_back());
        signal(id, "CONT");
        terminal.wait("the screen taken again", |text| {
            !terminal.is_given_back() && text.contains("NO NODE YET")
        });
        terminal.press("q");
        assert_eq!(terminal.ended(), Some(0));
    }
}

#[test]
fn without_a_terminal_the_error_names_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = limited(folder.path(), 60)
        .args(["top", "--control", "nobody"])
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        words.contains("needs a terminal") && words.contains("--once"),
        "{words}"
    );
    let output = limited(folder.path(), 60)
        .args(["top", "--once", "--control", "nobody"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
}

/// A node with many streams, whose labels a terminal would obey.
fn many(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut line = String::new();
            let reading = OwnedFd::from(connection.try_clone().unwrap());
            BufReader::new(File::from(reading))
                .read_line(&mut line)
                .unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            let rows: Vec<Value> = match request["show"].as_str().unwrap() {
                "status" => vec![json!({"kind": "node", "node": "n", "uptime_s": 5, "sessions": 1})],
                "streams" => (0..1000)
                    .map(|number| {
                        json!({"session": "session-0", "peer": "p", "peer_name": "far\u{1b}]0;x\u{7}", "stream": format!("stream-{number}"),
                            "label": format!("\u{1b}[2J\u{1b}[31m<b>{number}\u{202e}")})
                    })
                    .collect(),
                _ => Vec::new(),
            };
            // A client may have ended.
            let _ = writeln!(
                connection,
                "{}",
                json!({"version": "9", "rows": rows, "rows_left_out": 7})
            );
        }
    });
}

#[test]
fn labels_of_a_thousand_streams_do_the_terminal_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    many(&folder.path().join("many"));
    let mut terminal = top(folder.path(), "many");
    terminal.press("2");
    terminal.wait_for("1 of 1001");
    terminal.wait_for("\\u001b[2J\\u001b[31m<b>0");
    assert!(
        terminal.text().starts_with("anabranch  9"),
        "{}",
        terminal.text()
    );
    terminal.press("G");
    terminal.wait_for("and 7 more, which the node does not list");
    terminal.wait_for("far\\u001b]0;x\\u0007");
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

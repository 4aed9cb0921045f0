//! Events of commands as lines of JSON (`docs/operations.md`).

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{ChildStdout, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{Killed, limited, signal};

/// Output of a command that ends, a value a line.
#[track_caller]
fn events(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = limited(folder, 60).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// A command that goes on.
struct Running(Killed, Lines<BufReader<ChildStdout>>);

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = limited(folder, 60);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(Killed(child), out.lines())
    }

    fn next(&mut self) -> Value {
        let line = self.1.next().expect("there is another line").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

#[test]
fn keygen_says_whose_key_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let made = events(folder.path(), &["keygen", "--key", "a.key", "--json"]);
    let shown = events(
        folder.path(),
        &["keygen", "--key", "a.key", "--show", "--json"],
    );
    let [made, shown] = [&made[..], &shown[..]].map(|events| {
        assert_eq!(events.len(), 1);
        events[0].clone()
    });
    assert_eq!(made["node"].as_str().unwrap().len(), 52);
    let expected = |is_new: bool| json!({"kind": "key", "node": made["node"], "file": "a.key", "is_new": is_new});
    assert_eq!((&made, &shown), (&expected(true), &expected(false)));
}

#[test]
fn emulate_reports_paths_commands_rates_and_totals() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["emulate", "--json", "--target", "127.0.0.1:9", "--path"];
    let arguments = [
        &arguments[..],
        &["slow: rate=2 Mbit/s", "--path", "delay=1 ms"],
    ]
    .concat();
    let mut running = Running::start(folder.path(), &arguments);
    for name in ["slow", "path2"] {
        let event = running.next();
        let at: std::net::SocketAddr = event["at"].as_str().unwrap().parse().unwrap();
        assert_ne!(at.port(), 0);
        assert_eq!(
            event,
            json!({"kind": "listening", "path": name, "at": event["at"], "to": "127.0.0.1:9"})
        );
    }
    running.say("rates");
    let rates = |path: &str, is_up: bool, bps: Option<u64>| json!({"kind": "rates", "path": path, "is_up": is_up, "forward_bps": bps, "backward_bps": bps});
    assert_eq!(running.next(), rates("slow", true, Some(2_000_000)));
    assert_eq!(running.next(), rates("path2", true, None));
    running.say("down path2");
    assert_eq!(running.next()["kind"], "changed");
    running.say("down path9");
    let refused = running.next();
    assert_eq!(refused["kind"], "refused");
    assert!(
        refused["text"].as_str().unwrap().contains("'path9'"),
        "{refused}"
    );
    running.say("rates");
    assert_eq!(running.next(), rates("slow", true, Some(2_000_000)));
    assert_eq!(running.next(), rates("path2", false, Some(0)));
    signal(running.0.0.id(), "INT");
    for (path, direction) in [
        ("slow", "forward"),
        ("slow", "backward"),
        ("path2", "forward"),
        ("path2", "backward"),
    ] {
        let event = running.next();
        assert_eq!(
            event,
            json!({
                "kind": "totals", "path": path, "direction": direction,
                "delivered_packets": 0, "delivered_bytes": 0, "dropped_packets": 0,
                "queue_full_packets": 0, "lost_packets": 0, "down_packets": 0,
            })
        );
    }
    assert!(running.1.next().is_none());
}

#[test]
fn origin_tickets_and_proxy_say_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("films")).unwrap();
    let film = Path::new(env!("CARGO_MANIFEST_DIR")).join("../media/tests/data/bikes.mp4");
    std::fs::copy(film, folder.join("films/bikes.mp4")).unwrap();
    let whose = ["--library", "films", "--key", "key", "--json"];
    let origin = [&["video", "origin", "--listen", "127.0.0.1:0"], &whose[..]].concat();
    let mut origin = Running::start(folder, &origin);
    let serving = origin.next();
    assert_eq!(
        (&serving["kind"], &serving["videos"]),
        (&json!("serving"), &json!(1))
    );
    assert!(
        serving["library"].as_str().unwrap().contains("films"),
        "{serving}"
    );
    let node = serving["node"].as_str().unwrap();
    let address = serving["addresses"][0].as_str().unwrap();
    let first = serving["ticket"].as_str().unwrap();
    assert!(first.contains(node) && first.contains(address), "{serving}");

    let ticket = |what: &[&str]| events(folder, &[&["video", "ticket"], what, &whose].concat());
    let made = ticket(&["new", "near"]);
    let near = made[0]["ticket"].as_str().unwrap();
    assert_eq!(
        made,
        [json!({"kind": "ticket", "name": "near", "ticket": near})]
    );
    let listed = ["default", "near"].map(|name| json!({"kind": "ticket", "name": name}));
    assert_eq!(ticket(&["ls"]), listed);

    let proxy = [
        "video",
        "proxy",
        "--json",
        "--http",
        "127.0.0.1:0",
        "--cache",
        "cache",
    ];
    let proxy = [&proxy[..], &["--key", "other", "--origin", near]].concat();
    let mut proxy = Running::start(folder, &proxy);
    let serving = proxy.next();
    let http = serving["http"].as_str().unwrap();
    assert!(http.starts_with("http://127.0.0.1:"), "{serving}");
    assert_eq!(
        serving,
        json!({"kind": "serving", "http": http, "origin": node})
    );

    assert_eq!(
        ticket(&["revoke", "near"]),
        [json!({"kind": "revoked", "name": "near"})]
    );
    for mut running in [proxy, origin] {
        signal(running.0.0.id(), "TERM");
        assert!(running.1.next().is_none());
        assert_eq!(running.0.0.wait().unwrap().code(), Some(0));
    }
}

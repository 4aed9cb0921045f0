//! `anabranch stream`: two nodes, and commands that are attached to them.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use anabranch::{Client, SecretKey};

use crate::harness::{Terminated, free_port, limited, signal};

fn anabranch(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = limited(folder, 120);
    command.args(arguments).stdin(Stdio::piped());
    command
}

/// Starts a node with this number that knows the other one; waits until it runs.
fn node(folder: &Path, own: u8, port: u16, peer: u8, more: &str) -> Terminated {
    node_with(folder, own, port, peer, more, &[])
}

/// As [`node`], with these environment variables.
fn node_with(
    folder: &Path,
    own: u8,
    port: u16,
    peer: u8,
    more: &str,
    variables: &[(&str, &str)],
) -> Terminated {
    let key = folder.join(format!("{own}.key"));
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, owner_only).unwrap();
    let config = folder.join(format!("{own}.toml"));
    let text = format!(
        "key = {key:?}\nlisten = [\"127.0.0.1:{port}\"]\ncontrol = \"{own}.sock\"\nlocal = \"{own}.local\"\n\
         [[peer]]\nname = \"other\"\nnode = \"{}\"\n{more}\n",
        SecretKey::from_seed([peer; 32]).node_id()
    );
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let mut child = anabranch(folder, &["node", "--config", config])
        .envs(variables.iter().copied())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("node "), "{line}");
    Terminated(child)
}

fn pair(folder: &Path) -> [Terminated; 2] {
    let (near, far) = (free_port().port(), free_port().port());
    let dials = format!("may = []\naddresses = [\"127.0.0.1:{far}\"]");
    let serves = r#"may = ["call", { right = "use-service", services = ["echo", "log"] }]"#;
    let far = node(folder, 2, far, 1, serves);
    [node(folder, 1, near, 2, &dials), far]
}

/// Starts `stream accept` at the far node; waits until it is registered.
pub(crate) fn accept(folder: &Path, arguments: &[&str]) -> Terminated {
    let mut all = vec!["stream", "accept", "--local", "2.local"];
    all.extend(arguments);
    let mut child = anabranch(folder, &all).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("accepting"), "{line}");
    Terminated(child)
}

fn read(running: &mut Terminated) -> Vec<u8> {
    let mut out = Vec::new();
    let pipe = running.0.stdout.as_mut().unwrap();
    pipe.read_to_end(&mut out).unwrap();
    out
}

/// Runs `stream open` at the near node with this input; returns its exit code, its output and its errors.
fn open(folder: &Path, arguments: &[&str], input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let mut all = vec!["stream", "open", "--local", "1.local"];
    all.extend(arguments);
    let mut child = anabranch(folder, &all).spawn().unwrap();
    // A command that fails early closes its end.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.stdout, errors)
}

#[test]
fn lines_frames_and_records_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _nodes = pair(folder);
    let record: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7 * 31) as u8).collect();
    let frames = [&[0, 0, 0, 2, b'a', b'\n'][..], &[0, 0, 0, 1, b'b']].concat();
    for (form, input) in [
        ("lines", &b"21.5 C\n21.6 C\n"[..]),
        ("frames", &frames),
        ("record", &record),
    ] {
        let mut accepting = accept(folder, &["log", "--as", form]);
        // The command waits until the other one has written everything.
        let (code, _, errors) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(&mut accepting));
            let ended = open(folder, &["other", "log", "--as", form], input);
            assert!(reading.join().unwrap() == input, "{form}: {}", ended.2);
            ended
        });
        assert_eq!(code, Some(0), "{errors}");
        assert!(accepting.0.wait().unwrap().success());
    }
    // Both directions.
    let mut accepting = accept(folder, &["echo"]);
    accepting
        .0
        .stdin
        .take()
        .unwrap()
        .write_all(b"answer\n")
        .unwrap();
    let (code, output, errors) = open(folder, &["other", "echo", "--duplex"], b"question\n");
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(output, b"answer\n");
    assert_eq!(read(&mut accepting), b"question\n");
}

#[test]
fn exit_codes_say_what_was_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fails = |arguments: &[&str], expected: i32, word: &str| {
        let (code, _, errors) = open(folder, arguments, b"x\n");
        assert_eq!(code, Some(expected), "{arguments:?}: {errors}");
        assert!(errors.contains(word), "{arguments:?}: {errors}");
    };
    fails(&["other", "log"], 3, "anabranch up");
    let _nodes = pair(folder);
    fails(&["nobody", "log"], 2, "'nobody'");
    fails(&["other", "log", "--lifetime", "soon"], 2, "lifetime");
    fails(&["other", "log", "--as", "words"], 2, "frames");
    fails(&["other", "log", "--spec", "none.toml"], 6, "none.toml");
    fails(&["other", "anabranch-x"], 2, "the node itself");
    let rate = ["--rate", "900 Gbit/s", "--probability", "95 %"];
    fails(&[&["other", "log"][..], &rate].concat(), 4, "not promised");
    // Nobody accepts it.
    fails(&["other", "log"], 4, "stopped");
}

/// Messages that a cap does not let out within the lifetime have the probability 0, whatever is known of the paths, so that nothing has to be measured.
#[test]
fn messages_that_would_be_late_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _nodes = pair(folder);
    let capped = ["other", "log", "--cap", "8 kbit/s", "--lifetime", "1 s"];
    let opened = |more: &[&str], input: &str, form: &str| {
        let mut accepting = accept(folder, &["log"]);
        let arguments = [&capped[..], &["--as", form], more].concat();
        let (code, _, errors) = open(folder, &arguments, input.as_bytes());
        assert_eq!(code, Some(0), "{errors}");
        (read(&mut accepting), errors)
    };
    let long = "x".repeat(3_000);
    let lines = format!("one\n{long}\ntwo\n");
    for least in ["90%", "0.9"] {
        let (arrived, errors) = opened(&["--least-on-time", least], &lines, "lines");
        assert_eq!(String::from_utf8_lossy(&arrived), "one\ntwo\n", "{errors}");
        let expected = "1 of 3 messages were not sent, less than 90 % likely to be in time";
        assert!(errors.contains(expected), "{errors}");
    }
    let objects = format!("{{\"data\": \"one\"}}\n{{\"data\": \"{long}\"}}\n");
    let (arrived, errors) = opened(&["--least-on-time", "50%"], &objects, "json");
    assert_eq!(arrived, b"one\n", "{errors}");
    let report = errors
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    let report: serde_json::Value = report.unwrap_or_else(|| panic!("{errors}"));
    let expected =
        serde_json::json!({"messages_sent": 1, "messages_not_sent": 1, "least_on_time": 0.5});
    assert_eq!(report, expected);
    // 0 is reached by all, and without a lifetime there is no time to be in.
    let (_, errors) = opened(&["--least-on-time", "0"], "one\n", "lines");
    assert!(errors.contains("0 of 1 messages"), "{errors}");
    for (arguments, word) in [
        (
            &["other", "log", "--least-on-time", "90%"][..],
            "--lifetime",
        ),
        (&["other", "log", "--least-on-time", "90"], "90%"),
    ] {
        let (code, _, errors) = open(folder, arguments, b"x\n");
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

/// The exit code of what the node test `what_an_application_makes_of_the_data_reaches_the_opener` checks in every order.
#[test]
fn a_refusal_of_the_application_is_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _nodes = pair(folder);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let service = runtime.block_on(async {
        let client = Client::attach(folder.join("2.local"), "test").await;
        client.unwrap().register("log").await.unwrap()
    });
    let refusing = runtime.spawn(async move {
        loop {
            let (_, stream) = service.accept().await.unwrap();
            stream.stop(7).unwrap();
        }
    });
    for _ in 0..5 {
        let (code, _, errors) = open(folder, &["other", "log"], b"x\n");
        assert_eq!(code, Some(4), "{errors}");
        assert!(errors.contains("stopped the stream (code 7)"), "{errors}");
    }
    refusing.abort();
}

/// Runs `anabranch send` with the near node's local interface.
fn send(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut all = vec!["send", "--local", "1.local"];
    all.extend(arguments);
    let output = anabranch(folder, &all).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn files_go_through_the_running_node_to_a_peer_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (near, far) = (free_port().port(), free_port().port());
    let dials = format!("may = []\naddresses = [\"127.0.0.1:{far}\"]");
    let takes = "may = [\"call\", \"send-files\"]";
    fs::create_dir(folder.join("to")).unwrap();
    let receive = folder.join("to");
    let receive = ("ANABRANCH_RECEIVE", receive.to_str().unwrap());
    let _far = node_with(folder, 2, far, 1, takes, &[receive]);
    let _near = node(folder, 1, near, 2, &dials);
    fs::write(folder.join("film"), vec![7; 3_000_000]).unwrap();
    let (code, out, errors) = send(folder, &["film", "other"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("sent film (1 file, 3.00 MB)"), "{out}");
    assert!(out.contains("of the running node"), "{out}");
    assert!(fs::read(folder.join("to/film")).unwrap() == vec![7; 3_000_000]);
    // A ticket of a peer that the node knows leads there, too, without the addresses of the ticket.
    fs::write(folder.join("more"), "more").unwrap();
    let peer = SecretKey::from_seed([2; 32]).node_id();
    let ticket = format!("anabranch1:{peer}::192.0.2.1:9");
    let (code, out, errors) = send(folder, &["more", &ticket]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("of the running node"), "{out}");
    assert_eq!(fs::read(folder.join("to/more")).unwrap(), b"more");
    // What it refuses has the reason and the code of a refusal.
    let (code, _, errors) = send(folder, &["film", "other"]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.contains("exists"), "{errors}");
    for (arguments, word) in [
        (&["film", "nobody"][..], "'nobody'"),
        (&["film", "other", "--direct"], "--direct"),
        (&["film", "other", "--bind", "127.0.0.1:0"], "--bind"),
    ] {
        let (code, _, errors) = send(folder, arguments);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

/// A stream to the log of node 2 that waits for a promise.
const OPEN_PROMISED: [&str; 11] = [
    "stream",
    "open",
    "other",
    "log",
    "--local",
    "1.local",
    "--rate",
    "1 Mbit/s",
    "--probability",
    "95 %",
    "--wait",
];

/// Starts node 2, which serves a log; and what starts node 1, which calls it, with environment variables.
fn near_of_a_log(folder: &Path) -> (Terminated, impl Fn(&[(&str, &str)]) -> Terminated) {
    let (near_port, far_port) = (free_port().port(), free_port().port());
    let dials = format!("may = []\naddresses = [\"127.0.0.1:{far_port}\"]");
    let serves = r#"may = ["call", { right = "use-service", services = ["log"] }]"#;
    let far = node(folder, 2, far_port, 1, serves);
    let near =
        move |variables: &[(&str, &str)]| node_with(folder, 1, near_port, 2, &dials, variables);
    (far, near)
}

/// The record of promises has what happened to a stream, and outlives the node.
#[test]
fn the_record_of_promises_outlives_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_far, start_near) = near_of_a_log(folder);
    let state = [("XDG_STATE_HOME", folder.to_str().unwrap())];
    let near = start_near(&state);
    let _log = accept(folder, &["log"]);
    let history = |more: &[&str]| {
        let asked = ["explain", "--history", "--control", "1.sock"];
        let all = [&asked[..], more].concat();
        let output = anabranch(folder, &all).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(history(&[]).contains("no promise was asked for"));
    let mut open = anabranch(folder, &OPEN_PROMISED).spawn().unwrap();
    let input = open.stdin.take().unwrap();
    let until = |words: &str| {
        for _ in 0..300 {
            if history(&["log"]).contains(words) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("never '{words}': {}", history(&[]));
    };
    until("waits");
    drop(input);
    assert!(open.wait().unwrap().success());
    until("closed");
    drop(near);
    let _near = start_near(&state);
    let text = history(&["--last", "1 h"]);
    assert!(text.contains("waits") && text.contains("closed"), "{text}");
    assert!(text.contains("stream-") && text.contains("'log'"), "{text}");
    assert!(history(&["another"]).contains("no promise was asked for"));
}

/// Events of promises are shown as they happen, until the node ends.
#[test]
fn events_of_promises_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_far, start_near) = near_of_a_log(folder);
    let near = start_near(&[]);
    let watch = |more: &[&str]| {
        let asked = [&["watch", "--control", "1.sock"], more].concat();
        let mut watch = anabranch(folder, &asked).spawn().unwrap();
        let lines = std::io::BufReader::new(watch.stdout.take().unwrap()).lines();
        (watch, lines.map(Result::unwrap))
    };
    let (mut all, mut of_all) = watch(&["--json"]);
    let (mut other, mut of_other) = watch(&["another"]);
    // A watcher shows what happens from its first answer on.
    let mut shown = None;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| of_all.next());
        while !first.is_finished() {
            // It accepts one stream.
            let _log = accept(folder, &["log"]);
            let mut open = anabranch(folder, &OPEN_PROMISED).spawn().unwrap();
            // The node looks at its promises once a second.
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            drop(open.stdin.take());
            let ended = open.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{}: {errors}", ended.status);
        }
        shown = first.join().unwrap();
    });
    let event: serde_json::Value = serde_json::from_str(&shown.unwrap()).unwrap();
    assert_eq!(event["kind"], "promise_event");
    assert_eq!(event["label"], "log");
    assert!(event["peer"] == "other", "{event}");
    drop(near);
    for watch in [&mut all, &mut other] {
        assert_eq!(watch.wait().unwrap().code(), Some(3));
    }
    assert_eq!(of_other.next(), None);
}

/// A recording of a session ends after its time or with Ctrl-C, and its file is the owner's alone; without one there is nothing to
/// fetch.
#[test]
fn a_session_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _nodes = pair(folder);
    let first = accept(folder, &["log"]);
    let record = |arguments: &[&str]| {
        let all = [&["record", "--control", "1.sock"], arguments].concat();
        anabranch(folder, &all)
    };
    let (code, _, errors) = open(folder, &["other", "log"], b"a first line\n");
    assert_eq!(code, Some(0), "{errors}");
    drop(first);
    let output = record(&["--last", "a.transcript"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("no transcript is kept"),
        "{errors}"
    );
    assert!(!folder.join("a.transcript").exists());

    let mut recording = record(&["--json", "a.transcript"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it has begun there is no transcript to fetch.
    let begun = |name: &str| record(&["--last", name]).output().unwrap().status.success();
    while !begun("b.transcript") {
        assert!(recording.try_wait().unwrap().is_none(), "it goes on");
    }
    // `accept` takes one stream.
    let _second = accept(folder, &["log"]);
    let secret = "the contents of a message\n".repeat(40);
    let (code, _, errors) = open(folder, &["other", "log"], secret.as_bytes());
    assert_eq!(code, Some(0), "{errors}");
    signal(recording.id(), "INT");
    let output = recording.wait_with_output().unwrap();
    assert!(output.status.success());
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = fs::read(folder.join("a.transcript")).unwrap();
    assert_eq!(line["bytes"], file.len());
    let metadata = fs::metadata(folder.join("a.transcript")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let replayed = anabranch::net::session::transcript::replay(&file).unwrap();
    assert_eq!(replayed.broken, None);
    assert!(!replayed.is_from_start);
    let (differ, same) = replayed.warm_up;
    assert!(differ == 0 && same + replayed.same > 0, "{replayed:?}");
    assert!(!file.windows(8).any(|window| window == b"contents"));

    // A file that cannot be written is refused at once: the recording would be lost.
    let output = record(&["none/a.transcript"]).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("none/a.transcript") && !errors.contains("recording"),
        "{errors}"
    );

    let output = record(&["--for", "1 ms", "--memory", "1 B", "c.transcript"])
        .output()
        .unwrap();
    assert!(!output.status.success());
}

#[test]
fn a_format_of_the_log_that_does_not_exist_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = anabranch(folder.path(), &["status"])
        .env("ANABRANCH_LOG_FORMAT", "xml")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("neither 'text' nor 'json'"), "{errors}");
}

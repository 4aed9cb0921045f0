//! Transfers that are refused or impossible: the cause is reported at once, with its exit code.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::UdpSocket,
    path::Path,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use crate::harness::{Killed, configure, free_port, keygen, limited, node, private_folder, signal};

/// The commands take a second at most; before causes were known, they took 30 s.
const SOON: Duration = Duration::from_secs(20);

fn send(folder: &Path, ticket: &str, flags: &[&str]) -> Output {
    fs::write(folder.join("note"), "a few words").unwrap();
    let begun = Instant::now();
    let output = limited(folder, 120)
        .args(["send", "note", ticket, "--key", "mine.key", "--direct"])
        .args(flags)
        .output()
        .unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    output
}

#[track_caller]
fn fails(output: &Output, code: i32, words: &[&str]) {
    let seen = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{seen}");
    for word in words {
        assert!(seen.contains(word), "'{word}' is missing in: {seen}");
    }
}

/// A receiver, and its ticket in parts: id, secret, address.
fn receiver(folder: &Path) -> (Killed, BufReader<impl Read + use<>>, [String; 3]) {
    fs::create_dir(folder.join("in")).unwrap();
    let mut child = limited(folder, 120)
        .args(["recv", "-q", "in", "--key", "receiver.key"])
        .args(["--bind", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let mut parts = line.trim().splitn(4, ':').skip(1).map(str::to_owned);
    let mut next = || parts.next().unwrap();
    (Killed(child), out, [next(), next(), next()])
}

fn ticket([id, secret, address]: &[String; 3]) -> String {
    format!("anabranch1:{id}:{secret}:{address}")
}

/// Ends a receiver at once: `timeout` would pass on no SIGKILL.
fn kill(receiver: &Killed) {
    let children = format!("/proc/{0}/task/{0}/children", receiver.0.id());
    let child = fs::read_to_string(children).unwrap();
    signal(child.trim().parse().unwrap(), "KILL");
}

#[test]
fn a_wrong_port_is_refused() {
    let folder = private_folder();
    let (_receiver, _out, mut parts) = receiver(folder.path());
    parts[2] = free_port().to_string();
    let output = send(folder.path(), &ticket(&parts), &[]);
    fails(
        &output,
        3,
        &[
            "cannot reach the receiver",
            &parts[2],
            "nothing listens on this port",
        ],
    );
}

#[test]
fn another_node_at_the_address_is_named() {
    let folder = private_folder();
    let (_receiver, _out, mut parts) = receiver(folder.path());
    let there = std::mem::replace(&mut parts[0], keygen(folder.path()));
    let output = send(folder.path(), &ticket(&parts), &[]);
    fails(
        &output,
        3,
        &[&parts[2], "another node answers there", &there],
    );
}

#[test]
fn a_receiver_that_was_killed_is_no_mystery() {
    let folder = private_folder();
    let (receiver, _out, parts) = receiver(folder.path());
    kill(&receiver);
    drop(receiver);
    let output = send(folder.path(), &ticket(&parts), &[]);
    fails(&output, 3, &[&parts[2], "nothing listens on this port"]);
}

#[test]
fn of_two_addresses_the_wrong_one_does_no_harm() {
    let folder = private_folder();
    let (mut receiver, _out, mut parts) = receiver(folder.path());
    parts[2] = format!("{},{}", free_port(), parts[2]);
    let output = send(folder.path(), &ticket(&parts), &[]);
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{seen}");
    // The summary has the path that carried the data, by its interface, and no other.
    let paths: Vec<&str> = seen
        .lines()
        .filter(|line| line.contains("of the bytes"))
        .collect();
    assert_eq!(paths.len(), 1, "{seen}");
    let good = parts[2].rsplit(',').next().unwrap();
    assert!(paths[0].contains(&format!("lo → {good}: 100 %")), "{seen}");
    assert!(receiver.0.wait().unwrap().success());
}

#[test]
fn a_ticket_may_name_the_host() {
    let folder = private_folder();
    let (mut receiver, _out, mut parts) = receiver(folder.path());
    parts[2] = parts[2].replace("127.0.0.1", "localhost");
    let output = send(folder.path(), &ticket(&parts), &[]);
    let seen = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{seen}");
    assert!(receiver.0.wait().unwrap().success());
    parts[2] = parts[2].replace("localhost", "nobody.invalid");
    let output = send(folder.path(), &ticket(&parts), &[]);
    fails(&output, 3, &["nobody.invalid", "cannot be resolved"]);
}

#[test]
fn a_stranger_is_answered_and_the_node_writes_it_down() {
    let folder = private_folder();
    let folder = folder.path();
    let id = keygen(folder);
    let listen = free_port();
    // Somebody else is listed.
    let other = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    configure(folder, listen, other, "");
    let mut far = limited(folder, 120)
        .args(["node", "--config", "far.toml"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(far.stdout.take().unwrap());
    let far = Killed(far);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let far_id = line.trim().trim_start_matches("node ").to_owned();
    let output = send(folder, &format!("anabranch1:{far_id}::{listen}"), &[]);
    fails(&output, 4, &["the receiver refused", &id]);
    let mut far = far;
    signal(far.0.id(), "TERM");
    let mut log = String::new();
    far.0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&id)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("refused") && lines[0].contains("127.0.0.1"),
        "{log}"
    );
}

#[test]
fn a_node_that_receives_no_files_says_so() {
    let folder = private_folder();
    let id = keygen(folder.path());
    configure(folder.path(), free_port(), &id, "");
    let (_node, ticket) = node(folder.path());
    let output = send(folder.path(), &ticket, &[]);
    fails(&output, 4, &["takes no files", "send-files"]);
}

/// The first note comes after three seconds; nothing answers at this address, and nothing refuses.
#[test]
fn silence_is_noted_with_the_addresses() {
    let folder = private_folder();
    let folder = folder.path();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let id = keygen(folder);
    fs::write(folder.join("note"), "a few words").unwrap();
    let mut sending = limited(folder, 60)
        .args(["send", "note", "--direct", "--key", "other.key"])
        .arg(format!("anabranch1:{id}::{address}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(sending.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    assert!(line.contains("has not answered yet"), "{line}");
    assert!(line.contains(&format!("s from {address}")), "{line}");
    signal(sending.id(), "TERM");
    assert_eq!(sending.wait().unwrap().code(), Some(130));
}

/// Starts a transfer that takes long, and waits until some of it has arrived.
fn long_transfer(folder: &Path, parts: &[String; 3], retry: &str) -> Killed {
    // A hole would be through at once.
    fs::write(folder.join("long"), vec![7; 20_000_000]).unwrap();
    let sending = limited(folder, 120)
        .args([
            "send",
            "long",
            &ticket(parts),
            "--direct",
            "--key",
            "mine.key",
        ])
        .args(["--retry", retry, "--limit", "1 Mbit/s"])
        .spawn()
        .unwrap();
    let mut sending = Killed(sending);
    let has_begun = || {
        let mut inside = fs::read_dir(folder.join("in"))
            .into_iter()
            .flatten()
            .flatten();
        inside.any(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(".anabranch-")
        })
    };
    while !has_begun() {
        assert!(sending.0.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    sending
}

#[test]
fn without_retries_the_transfer_ends_with_the_receiver() {
    let folder = private_folder();
    let (receiver, _out, parts) = receiver(folder.path());
    let mut sending = long_transfer(folder.path(), &parts, "0 s");
    kill(&receiver);
    let begun = Instant::now();
    assert_eq!(sending.0.wait().unwrap().code(), Some(5));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn a_sender_that_is_stopped_says_goodbye() {
    for name in ["TERM", "INT"] {
        let folder = private_folder();
        let (mut receiver, _out, parts) = receiver(folder.path());
        let mut sending = long_transfer(folder.path(), &parts, "1 min");
        signal(sending.0.id(), name);
        assert_eq!(sending.0.wait().unwrap().code(), Some(130));
        let mut seen = String::new();
        let mut err = BufReader::new(receiver.0.stderr.take().unwrap());
        err.read_line(&mut seen).unwrap();
        assert!(seen.contains("the sender disconnected"), "{seen}");
        signal(receiver.0.id(), "INT");
        assert_eq!(receiver.0.wait().unwrap().code(), Some(130));
    }
}

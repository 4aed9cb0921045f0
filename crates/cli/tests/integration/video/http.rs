//! A client that tries to exhaust the file descriptors of a proxy.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use crate::harness::Killed;

/// Timeout of every wait; durations below it are not checked.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A ticket of an origin that does not answer.
fn ticket() -> String {
    let node = anabranch::keys::generate().unwrap().node_id();
    let secret = anabranch::ticket::Secret([7; 16]);
    let ticket = anabranch::Ticket {
        hosts: Vec::new(),
        via: None,
        node,
        secret: Some(secret),
        addresses: vec![([127, 0, 0, 1], 9).into()],
    };
    ticket.to_string()
}

fn get(address: &str) -> Option<String> {
    let mut player = TcpStream::connect(address).ok()?;
    player.set_read_timeout(Some(TIMEOUT)).ok()?;
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    player.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    player.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Incomplete requests would take more descriptors than there are; a complete one is answered nevertheless.
#[test]
fn incomplete_requests_do_not_block_the_proxy() {
    const DESCRIPTORS: usize = 128;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let child = Command::new("sh")
        .args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$@\"")])
        .args(["sh", env!("CARGO_BIN_EXE_anabranch")])
        .args(["video", "proxy", "--quiet", "--http", "127.0.0.1:0"])
        .args(["--cache", &at("cache"), "--key", &at("key")])
        .args(["--origin", &ticket()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Killed(child);
    let mut line = String::new();
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://");
    let address = address.trim_end_matches('/').to_owned();
    assert!(get(&address).is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
    let mut incomplete = Vec::new();
    for _ in 0..2 * DESCRIPTORS {
        let mut player = TcpStream::connect(&address).unwrap();
        // The proxy may have closed the connection already.
        let _ = player.write_all(b"GET / HTTP/1.1\r\nHost: loc");
        incomplete.push(player);
    }
    let answer = get(&address).unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
}

//! A proxy whose descriptors somebody wants to use up.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use super::Running;

/// Longest that anything may take; nothing is asserted about how long it takes within it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A ticket of an origin that does not answer.
fn ticket() -> String {
    let node = anabranch::keys::generate().unwrap().node_id();
    let secret = anabranch::ticket::Secret([7; 16]);
    let ticket = anabranch::Ticket {
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

/// Half requests want every descriptor that there is, and more; a whole one is answered.
#[test]
fn half_requests_do_not_block_the_proxy() {
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
    let mut running = Running(child);
    let mut line = String::new();
    let mut told = BufReader::new(running.0.stdout.take().unwrap());
    told.read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://");
    let address = address.trim_end_matches('/').to_owned();
    assert!(get(&address).is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
    let mut halves = Vec::new();
    for _ in 0..2 * DESCRIPTORS {
        let mut half = TcpStream::connect(&address).unwrap();
        // It may have been sent away already.
        let _ = half.write_all(b"GET / HTTP/1.1\r\nHost: loc");
        halves.push(half);
    }
    let answer = get(&address).unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
}

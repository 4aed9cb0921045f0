//! A side that is killed and does not come back: connections end at the other one, long before the session does.

use std::{io::ErrorKind, path::Path};

use super::*;

/// Writes the configurations of a node and of a command whose connections outlast an outage of 2 s.
fn configured(folder: &Path, right: &str) {
    configure(folder, free_port(), &keygen(folder), right);
    let gateway = "[gateway]\noutage_timeout = \"2 s\"\n";
    let far = fs::read_to_string(folder.join("far.toml")).unwrap();
    let channel = "[channel]\nidle_timeout = \"3 s\"\n";
    fs::write(folder.join("far.toml"), far + gateway + channel).unwrap();
    fs::write(folder.join("own.toml"), gateway).unwrap();
}

fn forward(folder: &Path, mappings: &[&str], ticket: &str) -> Running {
    let own = ["--json", "--key", "mine.key", "--config", "own.toml"];
    let mut command = command(folder);
    command.arg("forward").args(mappings).args(own).arg(ticket);
    Running::start(&mut command)
}

/// Connections through a forward, each with its end at the target.
fn pairs(at: SocketAddr, target: &TcpListener, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        let mut near = connect(at);
        let (mut far, _) = target.accept().unwrap();
        far.set_read_timeout(Some(LIMIT)).unwrap();
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        pairs.push((near, far));
    }
    pairs
}

fn is_reset(stream: &mut TcpStream) {
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[test]
fn a_node_that_is_killed_and_stays_away_ends_a_hundred_connections() {
    let folder = private_folder();
    let folder = folder.path();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target.local_addr().unwrap();
    configured(
        folder,
        &format!("{{ right = \"forward\", to = [\"{to}\"] }}"),
    );
    let (killed, ticket) = node(folder);
    let mut forward = forward(folder, &[&format!("-L0:{to}")], &ticket);
    let mut open = pairs(forward.listening(), &target, 100);
    drop(killed);
    // Something is on its way, so that the silence shows at once.
    open[0].0.write_all(b"y").unwrap();
    for (near, _) in &mut open {
        is_reset(near);
    }
    forward.event("outage");
}

#[test]
fn the_target_does_not_wait_for_a_command_that_was_killed() {
    let folder = private_folder();
    let folder = folder.path();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target.local_addr().unwrap();
    configured(
        folder,
        &format!("{{ right = \"forward\", to = [\"{to}\"] }}"),
    );
    let (_node, ticket) = node(folder);
    let mut killed = forward(folder, &[&format!("-L0:{to}")], &ticket);
    let mut open = pairs(killed.listening(), &target, 100);
    // All of them are idle.
    drop(killed);
    for (_, far) in &mut open {
        is_reset(far);
    }
}

#[test]
fn connections_end_in_a_long_outage_and_the_session_goes_on() {
    let folder = private_folder();
    let folder = folder.path();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target.local_addr().unwrap();
    configured(
        folder,
        &format!("{{ right = \"forward\", to = [\"{to}\"] }}"),
    );
    let (far, ticket) = node(folder);
    let mappings = [&format!("-L0:{to}"), "-L0:127.0.0.1:1"];
    let mut forward = forward(folder, &mappings, &ticket);
    let (at, not_allowed) = (forward.listening(), forward.listening());
    let mut open = pairs(at, &target, 1).remove(0);
    signal(far.id(), "STOP");
    open.0.write_all(b"y").unwrap();
    is_reset(&mut open.0);
    forward.event("outage");
    signal(far.id(), "CONT");
    // The byte from before may come first.
    let error = open.1.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    // New connections use the same session: another one would be an event before this one.
    drop(pairs(at, &target, 1));
    let _refused = connect(not_allowed);
    let event: Value = serde_json::from_str(&forward.line()).unwrap();
    assert_eq!(event["kind"], "failed", "{event}");
    assert_eq!(forward.interrupt(), Some(0));
}

#[test]
fn a_listener_of_a_command_that_was_killed_is_free_again() {
    let folder = private_folder();
    let folder = folder.path();
    let target = echo();
    configured(
        folder,
        "{ right = \"forward\", listen = [\"127.0.0.1:*\"] }",
    );
    let (_node, ticket) = node(folder);
    let at = {
        let mut killed = forward(folder, &[&format!("-R0:{target}")], &ticket);
        killed.listening()
    };
    while TcpStream::connect(at).is_ok() {
        thread::sleep(Duration::from_millis(100));
    }
    let mapping = format!("-R{at}:{target}");
    let mut again = forward(folder, &[&mapping], &ticket);
    assert_eq!(again.listening(), at);
    echoes(connect(at), b"again");
    assert_eq!(again.interrupt(), Some(0));
}

#[test]
fn a_listener_that_an_outage_has_ended_is_asked_for_again() {
    let folder = private_folder();
    let folder = folder.path();
    let target = echo();
    configured(
        folder,
        "{ right = \"forward\", listen = [\"127.0.0.1:*\"] }",
    );
    let (_node, ticket) = node(folder);
    let mapping = format!("-R{}:{target}", free_port());
    let mut forward = forward(folder, &[&mapping], &ticket);
    let at = forward.listening();
    signal(forward.id(), "STOP");
    while TcpStream::connect(at).is_ok() {
        thread::sleep(Duration::from_millis(100));
    }
    signal(forward.id(), "CONT");
    assert_eq!(forward.listening(), at);
    echoes(connect(at), b"again");
    assert_eq!(forward.interrupt(), Some(0));
}

//! A peer that is silent: new connections fail in time, open ones outlast the silence.

use std::io::ErrorKind;

use super::*;

#[test]
fn new_connections_fail_with_their_cause_and_open_ones_outlast_the_silence() {
    let folder = private_folder();
    let folder = folder.path();
    let target = echo();
    let listen = free_port();
    let right = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
    configure(folder, listen, &keygen(folder), &right);
    let (far, ticket) = node(folder);
    fs::write(
        folder.join("own.toml"),
        "[gateway]\nconnect_timeout = \"2 s\"\n",
    )
    .unwrap();
    let start = |arguments: &[&str]| {
        let common = [
            "--json", "--key", "mine.key", "--config", "own.toml", &ticket,
        ];
        Running::start(command(folder).args([arguments, &common[..]].concat()))
    };
    let mut forward = start(&["forward", "-L", &format!("0:{target}")]);
    let mut socks = start(&["socks", "0"]);
    let (at, proxy) = (forward.listening(), socks.listening());
    let mut open = connect(at);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    // The command for SOCKS has a session, too.
    socks.event("connected");

    signal(far.id(), "STOP");
    // It waits for the peer meanwhile.
    open.write_all(b"later").unwrap();
    let mut new = connect(at);
    new.write_all(b"new").unwrap();
    let error = new.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    let event = forward.event("failed");
    assert_eq!(event["code"], "timed out", "{event}");
    assert!(
        event["text"].as_str().unwrap().contains("does not answer"),
        "{event}"
    );
    let mut stream = connect(proxy);
    let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(
        answer[..4],
        [5, 0, 5, 6],
        "TTL expired, the reply for a timeout"
    );

    signal(far.id(), "CONT");
    let mut back = [0; 5];
    open.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"later");
    echoes(connect(at), b"and new ones work again");
}

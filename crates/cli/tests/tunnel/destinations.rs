//! Destinations that a server allows to its clients, without a firewall.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    process::Command,
};

use crate::{
    namespace::Namespace,
    programs::{connect, serve, source},
    stage::{CLIENT, HOST, SERVER, Stage},
};

/// An address that is reachable from everywhere.
pub(crate) const GLOBAL: &str = "11.22.33.44";
/// Documentation addresses of IPv6, which are not.
const HOST_V6: &str = "2001:db8:f::1";

/// Error of a connection to an address where nobody listens, or which is prohibited.
pub(crate) fn refusal(namespace: &Namespace, to: &str) -> ErrorKind {
    let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 9);
    namespace.run(|| connect(to)).unwrap_err().kind()
}

/// A host that the server does not allow is answered for at once, whatever is there.
#[track_caller]
pub(crate) fn assert_prohibited(namespace: &Namespace, to: &str) {
    let expected = match to.contains(':') {
        true => ErrorKind::PermissionDenied,
        false => ErrorKind::HostUnreachable,
    };
    assert_eq!(refusal(namespace, to), expected, "{to}");
}

#[track_caller]
pub(crate) fn assert_open(namespace: &Namespace, to: &str) {
    assert_eq!(
        refusal(namespace, to),
        ErrorKind::ConnectionRefused,
        "{to}: nobody listens there"
    );
}

/// Has the node of the stage read its configuration again, which is in force then; otherwise what is wrong.
pub(crate) fn reload(stage: &Stage) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["reload", "--control", "control"])
        .current_dir(stage.path(""))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(text)
}

/// Writes the configuration of a node that serves a tunnel to the client's key, with these lines about it.
pub(crate) fn configure(stage: &Stage, lines: &str) {
    let client = stage.id("client.key");
    let config = format!(
        "listen = [\"10.95.0.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"client\"\nnode = \"{client}\"\nmay = [\"call\", \"tunnel\"]\n\
         [tunnel.server]\npools = [\"10.77.0.0/24\"]\n{lines}\n"
    );
    std::fs::write(stage.path("node.toml"), config).unwrap();
}

fn stage() -> Option<Stage> {
    let stage = Stage::new()?;
    serve(&stage.server);
    for address in [GLOBAL, "10.20.0.7", HOST_V6] {
        let length = if address.contains(':') { 128 } else { 32 };
        let words = format!("address add {address}/{length} dev lo");
        stage.server.ip(&words);
    }
    Some(stage)
}

#[test]
fn what_is_not_named_is_prohibited_and_counted() {
    let Some(stage) = stage() else { return };
    let (mut server, ticket) = stage.serve(&["--to", "internet", "--to", "10.20.0.0/16"]);
    let _client = stage.join(&ticket, &["--default-route"]);
    // The tunnel itself, what is named, and the rest of the Internet.
    for to in [SERVER, "fd77:616e::1", "10.20.0.7", GLOBAL] {
        assert_open(&stage.client, to);
    }
    assert_eq!(source(&stage.client, GLOBAL, 32), CLIENT);
    for to in [HOST, HOST_V6, "169.254.169.254", "10.21.0.1", "fd78::1"] {
        assert_prohibited(&stage.client, to);
    }
    server.wait("dropped", 1);
    assert!(server.dropped("prohibited") >= 5);
    let text = server.events("dropped")[0]["text"].to_string();
    assert!(text.contains("the server does not allow"), "{text}");
}

#[test]
fn a_reload_opens_and_closes() {
    let Some(stage) = stage() else { return };
    let (server, ticket) = stage.serve(&[]);
    drop(server);
    let write = |lines: &str| configure(&stage, lines);
    write("");
    let _node = stage.node("node.toml");
    let reload = || reload(&stage);
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_open(&stage.client, HOST);
    write("destinations = [\"internet\"]");
    reload().unwrap();
    assert_prohibited(&stage.client, HOST);
    assert_open(&stage.client, GLOBAL);
    // A list that cannot be read leaves the one before in force.
    write("destinations = [\"everything\"]");
    let error = reload().unwrap_err();
    assert!(error.contains("is no destination"), "{error}");
    assert_prohibited(&stage.client, HOST);
    assert_open(&stage.client, GLOBAL);
    write("destinations = [\"198.51.100.0/24\"]");
    reload().unwrap();
    assert_open(&stage.client, HOST);
    assert_prohibited(&stage.client, GLOBAL);
}

#[test]
fn wrong_destinations_are_named() {
    let Some(stage) = Stage::new() else { return };
    let id = stage.id("client.key").to_string();
    let own = ["--serve", "--key", "server.key", "--allow", &id, "--to"];
    for (text, expected) in [
        ("everything", &["\"everything\"", "internet", "any"][..]),
        ("10.0.0.1/8", &["write 10.0.0.0/8"]),
        ("example.net", &["IP address"]),
        ("10.0.0.0/8,internet", &["10.0.0.0/8,internet"]),
    ] {
        let program = env!("CARGO_BIN_EXE_anabranch");
        let arguments = [&own[..], &[text]].concat();
        let running = stage.start_by(&stage.server, &[program], &arguments);
        running.process.ended().is(2, expected);
    }
    let running = stage.dial("anabranch1:x", &["--to", "internet"]);
    running
        .process
        .ended()
        .is(2, &["--to", "is for the server"]);
}

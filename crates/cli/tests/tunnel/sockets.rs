//! Control sockets: one for each tunnel of a user, which other commands find.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use crate::{
    process::{Ended, Process},
    stage::{HOST, Stage, TIMEOUT},
};

const PORT: u16 = 7020;

impl Stage {
    /// Runs a command that asks a process of this user.
    fn ask(&self, arguments: &[&str]) -> Ended {
        Process::start(&self.path("."), arguments, None).ended()
    }
}

/// Two servers and a client of one user, side by side: two processes at one machine, as far as the user's files go.
#[test]
fn tunnels_of_one_user_run_side_by_side_and_are_found() {
    let Some(stage) = Stage::new() else { return };
    let (first, ticket) = stage.serve(&["--to", "any"]);
    let second = [
        ["--name", "second"],
        ["--port", "4434"],
        ["--pool", "10.79.0.0/24"],
        ["--leases", "second.leases"],
    ];
    let (second, _) = stage.serve(second.as_flattened());
    let client = stage.join(&ticket, &["--default-route", "--split-tcp"]);

    let text = "3 tunnels run here: anabranch0, anabranch1, second; name one of them, as in --control anabranch0";
    stage.ask(&["flows"]).is(2, &[text]);
    stage.ask(&["watch"]).is(2, &[text]);
    let status = stage.ask(&["status", "--control", "second"]).is(0, &[]);
    assert!(status.out.contains(":4434"), "{status:?}");
    assert!(!status.out.contains(":4433"), "{status:?}");

    // The flows of a client that splits its connections, at both ends.
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT);
    let listener = stage.server.run(|| TcpListener::bind(any).unwrap());
    let to = SocketAddr::new(HOST.parse().unwrap(), PORT);
    let connected = stage
        .client
        .run(move || TcpStream::connect_timeout(&to, TIMEOUT).unwrap());
    for device in ["anabranch0", "anabranch1"] {
        let flows = stage.ask(&["flows", "--control", device]).is(0, &[]);
        assert!(flows.out.contains(&to.to_string()), "{device}: {flows:?}");
    }
    let rules = stage.ask(&["flows", "--rules", "--control", "anabranch0"]);
    assert!(rules.is(0, &[]).out.contains("rule"));
    drop((connected, listener));
    // What only a node has.
    let reload = stage.ask(&["reload", "--control", "anabranch0"]);
    reload.is(1, &["no configuration"]);

    // A killed one leaves its file, and counts no more.
    for killed in [client, first] {
        killed.process.signal("KILL");
        killed.process.ended();
    }
    let rights = stage.ask(&["rights"]).is(0, &[]);
    assert!(rights.out.contains("tunnel"), "{rights:?}");
    drop(second);
}

#[test]
fn a_socket_that_is_named_belongs_to_one_tunnel() {
    let Some(stage) = Stage::new() else { return };
    let (_first, ticket) = stage.serve(&["--control", "own.sock"]);
    stage.ask(&["status", "--control", "own.sock"]).is(0, &[]);
    // It is found by its name alone.
    stage.ask(&["status"]).is(3, &["--control"]);
    let failed = stage.dial(&ticket, &["--control", "own.sock"]);
    let failed = failed.process.ended();
    failed.is(1, &["own.sock already", "another socket with --control"]);
    // The other's socket is left alone.
    stage.ask(&["status", "--control", "own.sock"]).is(0, &[]);
}

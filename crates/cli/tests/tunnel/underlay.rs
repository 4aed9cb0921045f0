//! Paths with one family of addresses, and tunnels with one, in any combination.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
};

use crate::{
    programs::{self, Download, peer, serve, source},
    stage::{CLIENT, HOST, Stage},
};

const HOST_V6: &str = "2001:db8:f::1";
const CLIENT_V6: &str = "fd77:616e::2";
const ROUTE: [&str; 1] = ["--default-route"];
const SPLIT: [&str; 2] = ["--default-route", "--split-tcp"];
const ANY: [&str; 2] = ["--to", "any"];

fn prepared(stage: Option<Stage>) -> Option<Stage> {
    let stage = stage?;
    serve(&stage.server);
    let words = format!("address add {HOST_V6}/128 dev lo nodad");
    stage.server.ip(&words);
    Some(stage)
}

/// A connection of a family that the tunnel does not carry fails at once, and nothing of it passes outside.
#[track_caller]
fn assert_refused(stage: &Stage, to: &str) {
    // Programs listen there.
    let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 7003);
    let refused = stage.client.run(|| programs::connect(to)).unwrap_err();
    let kind = refused.kind();
    let kinds = [
        ErrorKind::PermissionDenied,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
    ];
    assert!(kinds.contains(&kind), "{to}: {kind}");
}

#[test]
fn paths_with_ipv6_alone_carry_both_families() {
    let Some(stage) = prepared(Stage::with_v6()) else {
        return;
    };
    let (_server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &ROUTE);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    assert_eq!(source(&stage.client, HOST_V6, 32), CLIENT_V6);
    Download::start(&stage.client, HOST, 5_000_000).ended();
    Download::start(&stage.client, HOST_V6, 5_000_000).ended();
    stage.set_up(0, false);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    stage.set_up(0, true);
    stage.set_up(1, false);
    assert_eq!(source(&stage.client, HOST_V6, 32), CLIENT_V6);
    stage.set_up(1, true);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);

    let _client = stage.join(&ticket, &SPLIT);
    for host in [HOST, HOST_V6] {
        assert_eq!(peer(&stage.client, host), host, "made by the server");
        Download::start(&stage.client, host, 5_000_000).ended();
    }
}

#[test]
fn a_tunnel_with_ipv4_alone_refuses_ipv6_at_once() {
    for words in [&ROUTE[..], &SPLIT] {
        let Some(stage) = prepared(Stage::with_v6()) else {
            return;
        };
        let (_server, ticket) = stage.serve(&[&ANY[..], &["--pool", "10.77.0.0/24"]].concat());
        let _client = stage.join(&ticket, words);
        let from = if words == ROUTE { CLIENT } else { HOST };
        assert_eq!(peer(&stage.client, HOST), from);
        assert_eq!(source(&stage.client, HOST, 32), CLIENT);
        assert_refused(&stage, HOST_V6);
    }
}

#[test]
fn a_tunnel_with_ipv6_alone_refuses_ipv4_at_once() {
    for words in [&ROUTE[..], &SPLIT] {
        let Some(stage) = prepared(Stage::new()) else {
            return;
        };
        let (_server, ticket) = stage.serve(&[&ANY[..], &["--pool", "fd77:616e::/64"]].concat());
        let _client = stage.join(&ticket, words);
        let from = if words == ROUTE { CLIENT_V6 } else { HOST_V6 };
        assert_eq!(peer(&stage.client, HOST_V6), from);
        assert_eq!(source(&stage.client, HOST_V6, 32), CLIENT_V6);
        assert_refused(&stage, HOST);
    }
}

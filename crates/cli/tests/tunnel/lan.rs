//! Local networks behind a client, whose machines know nothing of the tunnel.

use std::time::Duration;

use crate::{
    destinations::GLOBAL,
    exit::{LISTEN, has_nft, internet, setting, tables},
    namespace::{Namespace, namespaces},
    programs::{Download, peer, peer_within, serve},
    stage::{CLIENT, HOST, Stage, until},
};

/// Address of the client outside the tunnel, and of the machine in its local network.
const OUTSIDE: &str = "10.95.0.1";
const MACHINE: &str = "192.168.50.7";
/// Address of the client in the tunnel over IPv6.
const CLIENT_V6: &str = "fd77:616e::2";
const WAIT: Duration = Duration::from_secs(2);

/// A machine in a local network, with both families, whose router is the client.
fn machine(stage: &Stage) -> Option<Namespace> {
    let [machine] = namespaces()?;
    let far = format!("{MACHINE}/24");
    let near = ("lan0", "192.168.50.1/24");
    stage.client.join(near, &machine, ("eth0", &far));
    stage.client.ip("address add fd50::1/64 dev lan0 nodad");
    machine.ip("address add fd50::7/64 dev eth0 nodad");
    machine.ip("route add default via 192.168.50.1");
    machine.ip("-6 route add default via fd50::1");
    // What leaks would be answered: the server's machine knows the way back.
    stage
        .server
        .ip(&format!("route add 192.168.50.0/24 via {OUTSIDE}"));
    Some(machine)
}

fn is_as_before(stage: &Stage) -> bool {
    let rules = stage.shown("rule show") + &stage.shown("-6 rule show");
    let has_rules = ["5268:", "5269:"].iter().any(|rule| rules.contains(rule));
    let values = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
    let is_off = values
        .iter()
        .all(|name| setting(&stage.client, name) == "0");
    !has_rules && is_off && tables(&stage.client).is_empty()
}

#[test]
fn machines_behind_a_client_reach_the_internet_through_the_tunnel_only() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let (Some(_outside), Some(machine)) = (internet(&stage), machine(&stage)) else {
        return;
    };
    serve(&stage.server);
    assert!(is_as_before(&stage));
    let (server, ticket) = stage.serve(&[&LISTEN, &["--masquerade", "--to", "any"][..]].concat());
    let mut client = stage.join(&ticket, &["--default-route", "--lan", "lan0"]);
    assert!(client.events("warning").is_empty());
    // The server's machine sees the address of the client in the tunnel.
    assert_eq!(peer(&machine, HOST), CLIENT);
    assert_eq!(peer(&machine, "fd77:616e::1"), CLIENT_V6);
    assert_eq!(peer(&machine, GLOBAL), "11.22.33.1");
    Download::start(&machine, GLOBAL, 3_000_000).ended();
    Download::start(&machine, "2a00:5:6:7::44", 3_000_000).ended();
    // The client's own traffic, too, but not that to its local network.
    assert_eq!(peer(&stage.client, HOST), CLIENT);
    serve(&machine);
    assert_eq!(peer(&stage.client, MACHINE), "192.168.50.1");
    // Other networks of the client were not forwarded to before, and are not now.
    assert_eq!(peer_within(&machine, "10.95.0.2", WAIT), None);
    assert_eq!(peer_within(&stage.server, MACHINE, WAIT), None);

    // While the server is away, nothing passes by another way.
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
    client.wait("down", 1);
    assert_eq!(peer_within(&machine, HOST, WAIT), None);
    let (_server, _) = stage.serve(&[&LISTEN, &["--masquerade", "--to", "any"][..]].concat());
    client.wait("up", 2);
    assert_eq!(peer(&machine, HOST), CLIENT);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert!(is_as_before(&stage));
    assert_eq!(peer_within(&machine, HOST, WAIT), None);
}

/// The machines of the local network alone, while the client itself does not use the tunnel; then a kill.
#[test]
fn a_local_network_needs_no_default_route_and_is_given_back_after_a_kill() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(machine) = machine(&stage) else {
        return;
    };
    serve(&stage.server);
    // The strictest reverse-path filter.
    let strict = "/proc/sys/net/ipv4/conf/all/rp_filter";
    stage.client.run(|| std::fs::write(strict, "1").unwrap());
    let (_server, ticket) = stage.serve(&LISTEN);
    let client = stage.join(&ticket, &["--lan", "lan0"]);
    assert_eq!(peer(&machine, HOST), CLIENT);
    assert_eq!(peer(&stage.client, HOST), OUTSIDE);
    client.process.signal("KILL");
    client.process.ended();
    until("forwarding is off and the table gone", || {
        setting(&stage.client, "net/ipv4/ip_forward") == "0" && tables(&stage.client).is_empty()
    });
    assert_eq!(peer_within(&machine, HOST, WAIT), None);
    // The rules are for the next start, whatever that is for.
    assert!(stage.shown("rule show").contains("5269:"));
    let _client = stage.join(&ticket, &[]);
    assert!(is_as_before(&stage));
}

/// A server that assigns IPv4 alone: the local network's IPv6 stays inside.
#[test]
fn ipv6_of_a_local_network_does_not_leak_where_the_tunnel_has_none() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(machine) = machine(&stage) else {
        return;
    };
    serve(&stage.server);
    let host = "2001:db8:f::1";
    stage
        .server
        .ip(&format!("address add {host}/128 dev lo nodad"));
    for (namespace, number) in [(&stage.client, 1), (&stage.server, 2)] {
        namespace.ip(&format!(
            "address add 2001:db8:0::{number}/64 dev path0 nodad"
        ));
    }
    stage
        .client
        .ip("-6 route add default via 2001:db8:0::2 dev path0");
    stage
        .server
        .ip("-6 route add fd50::/64 via 2001:db8:0::1 dev path0");
    // This machine is a router already, and the way is open.
    let forwarding = "/proc/sys/net/ipv6/conf/all/forwarding";
    stage
        .client
        .run(|| std::fs::write(forwarding, "1").unwrap());
    assert_eq!(peer(&machine, host), "fd50::7");
    let (_server, ticket) = stage.serve(&[&LISTEN, &["--pool", "10.77.0.0/24"][..]].concat());
    let client = stage.join(&ticket, &["--lan", "lan0"]);
    assert_eq!(peer(&machine, HOST), CLIENT);
    assert_eq!(peer_within(&machine, host, WAIT), None);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(setting(&stage.client, "net/ipv6/conf/all/forwarding"), "1");
    assert_eq!(peer(&machine, host), "fd50::7");
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    let running = stage.dial(&ticket, &["--lan", "lan7"]);
    running.process.ended().is(1, &["lan7", "ip link"]);
    let running = stage.dial(&ticket, &["--lan", "lan 7"]);
    running.process.ended().is(2, &["lan 7", "ip link"]);
}

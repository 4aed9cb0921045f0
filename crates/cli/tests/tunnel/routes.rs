//! Routes, rules and names, and what remains of them when the process is killed.

use std::time::Duration;

use crate::{
    programs::{Download, serve, source, source_within},
    stage::{CLIENT, HOST, Stage},
};

/// Address of the client outside the tunnel.
const OUTSIDE: &str = "10.95.0.1";
/// Address of a host over IPv6.
const HOST_V6: &str = "2001:db8:f::1";

fn has_rules(stage: &Stage) -> bool {
    let rules = stage.shown("rule show") + &stage.shown("-6 rule show");
    ["5270:", "5271:", "5272:"]
        .iter()
        .any(|priority| rules.contains(priority))
}

#[test]
fn a_default_route_takes_everything_and_gives_it_back() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
    let mut client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    // The networks of its own interfaces stay as they are.
    assert_eq!(source(&stage.client, "10.95.1.2", 32), "10.95.1.1");
    Download::start(&stage.client, HOST, 10_000_000).ended();
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
    assert!(!has_rules(&stage));

    // Killed: the routes go with the device, and the next start takes the rules back.
    client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    client.process.signal("KILL");
    client.process.ended();
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
    assert!(has_rules(&stage));
    client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    // All paths are used, although the default route leads elsewhere now.
    stage.set_up(0, false);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    client.process.signal("KILL");
    client.process.ended();
    stage.set_up(0, true);
    // Without a default route, the rules go as well.
    client = stage.join(&ticket, &[]);
    assert!(!has_rules(&stage));
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
    drop(client);
}

/// While the server is away, nothing passes by another way.
#[test]
fn nothing_passes_outside_while_the_server_is_away() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, ticket) = stage.serve(&[]);
    let mut client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
    client.wait("down", 1);
    let within = Duration::from_secs(3);
    assert_eq!(source_within(&stage.client, HOST, 32, within), None);
    let (_server, _) = stage.serve(&[]);
    client.wait("up", 2);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
}

/// With the last IPv4 address of a device, the kernel drops all IPv4 routes to it.
#[test]
fn nothing_passes_outside_when_a_server_renumbers() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, ticket) = stage.serve(&[]);
    let mut client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    let renumber = |server: crate::stage::Running, pool: &str| {
        server.process.signal("TERM");
        server.process.ended().is(0, &[]);
        stage.serve(&["--pool", pool]).0
    };
    let server = renumber(server, "10.78.0.0/24");
    client.wait("up", 2);
    assert_eq!(source(&stage.client, HOST, 32), "10.78.0.2");
    // Another address of the same network: the kernel removes both at once.
    let server = renumber(server, "10.78.0.0/25");
    client.wait("up", 3);
    assert_eq!(source(&stage.client, HOST, 32), "10.78.0.2");
    // None at all, and one again.
    let server = renumber(server, "fd77:1::/64");
    client.wait("up", 4);
    let within = Duration::from_secs(3);
    assert_eq!(source_within(&stage.client, HOST, 32, within), None);
    let _server = renumber(server, "10.79.0.0/24");
    client.wait("up", 5);
    assert_eq!(source(&stage.client, HOST, 32), "10.79.0.2");
    let routes = stage.shown("route show table 24942");
    assert!(!routes.contains("unreachable"), "{routes}");
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
}

#[test]
fn ipv6_does_not_leak_where_the_tunnel_has_none() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    stage
        .client
        .ip("address add 2001:db8:0::1/64 dev path0 nodad");
    stage
        .server
        .ip("address add 2001:db8:0::2/64 dev path0 nodad");
    stage
        .server
        .ip(&format!("address add {HOST_V6}/128 dev lo nodad"));
    stage
        .client
        .ip("-6 route add default via 2001:db8:0::2 dev path0");
    let outside = "2001:db8::1";
    assert_eq!(source(&stage.client, HOST_V6, 32), outside);
    let listen = ["--pool", "10.77.0.0/24", "--listen", "10.95.0.2:4433"];
    let (_server, ticket) = stage.serve(&listen);
    let client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    let within = Duration::from_secs(3);
    assert_eq!(source_within(&stage.client, HOST_V6, 32, within), None);
    client.process.signal("KILL");
    client.process.ended();
    assert_eq!(source(&stage.client, HOST_V6, 32), outside);
}

/// The reverse: a server that assigns IPv6 only.
#[test]
fn ipv4_does_not_leak_where_the_tunnel_has_ipv6_only() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    stage
        .server
        .ip(&format!("address add {HOST_V6}/128 dev lo nodad"));
    let (_server, ticket) = stage.serve(&["--pool", "fd77:1::/64"]);
    let client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, HOST_V6, 32), "fd77:1::2");
    let within = Duration::from_secs(3);
    assert_eq!(source_within(&stage.client, HOST, 32, within), None);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
}

#[test]
fn single_networks_are_routed_and_names_are_resolved_inside() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    let other = "198.51.100.200";
    stage.server.ip(&format!("address add {other}/32 dev lo"));
    let names = stage.names("nameserver 192.0.2.53\n");
    // The file as it was is kept under the name of the device, which clients of other tests share: /run is not in a namespace.
    let device = ["--name", "names1"];
    let arguments = ["--route", "198.51.100.0/25", "--dns", "10.77.0.1"];
    let arguments = [&arguments[..], &device].concat();
    let client = stage.join(&ticket, &arguments);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    assert_eq!(source(&stage.client, other, 32), OUTSIDE);
    assert!(
        names.text().contains("nameserver 10.77.0.1\n"),
        "{}",
        names.text()
    );
    // The file is put back although the process cannot do it.
    client.process.signal("KILL");
    client.process.ended();
    crate::stage::until("the names as they were", || {
        names.text() == "nameserver 192.0.2.53\n"
    });
    let client = stage.join(&ticket, &arguments);
    assert!(names.text().contains("nameserver 10.77.0.1\n"));
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(names.text(), "nameserver 192.0.2.53\n");
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
}

/// A rule of another program sends the node's own packets into the tunnel, which would carry them again, without end.
#[test]
fn packets_of_the_node_itself_are_dropped_and_counted() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    // A socket that is not bound to an interface.
    let arguments = ["--default-route", "--bind", "10.95.0.1:0"];
    let mut client = stage.join(&ticket, &arguments);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    stage.client.ip("rule add priority 100 lookup 24942");
    client.wait("dropped", 1);
    assert!(client.dropped("loop") > 0);
    stage.client.ip("rule delete priority 100");
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
}

/// A node that joins a tunnel by its configuration.
#[test]
fn a_node_joins_by_its_configuration() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, _ticket) = stage.serve(&[]);
    let server_id = stage.id("server.key");
    let config = format!(
        "key = \"client.key\"\ncontrol = \"control-client\"\nlocal = \"\"\n\
         [[peer]]\nname = \"exit\"\nnode = \"{server_id}\"\nmay = []\naddresses = [\"10.95.0.2:4433\", \"10.95.1.2:4433\"]\n\
         [tunnel.client]\npeer = \"exit\"\ndefault_route = true\n"
    );
    std::fs::write(stage.path("client.toml"), config).unwrap();
    let node = stage.node_in(&stage.client, "client.toml");
    crate::stage::until("the route", || {
        let within = Duration::from_secs(1);
        source_within(&stage.client, HOST, 32, within) == Some(CLIENT.parse().unwrap())
    });
    // Its own paths are the interfaces, and not the tunnel.
    Download::start(&stage.client, HOST, 10_000_000).ended();
    node.signal("TERM");
    node.ended().is(0, &[]);
    assert!(!has_rules(&stage));
    assert_eq!(source(&stage.client, HOST, 32), OUTSIDE);
    drop(server);
}

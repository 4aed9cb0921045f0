//! Payload of a tunnel: datagrams of all sizes and connections, of both families, over both paths.

use crate::{
    namespace::namespaces,
    programs::{Download, serve, source},
    stage::{CLIENT, Running, SERVER, Stage, until},
};

#[test]
fn datagrams_and_connections_pass_and_have_the_address_of_the_client() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (mut server, ticket) = stage.serve(&[]);
    let client = stage.join(&ticket, &[]);
    assert_eq!(client.events("up")[0]["v4"], CLIENT);
    assert_eq!(
        server.wait("joined", 1)["node"],
        stage.id("client.key").to_string()
    );
    assert_eq!(source(&stage.client, SERVER, 32), CLIENT);
    assert_eq!(source(&stage.client, "fd77:616e::1", 32), "fd77:616e::2");
    // Larger than a packet: fragments.
    assert_eq!(source(&stage.client, SERVER, 20_000), CLIENT);
    assert_eq!(
        source(&stage.client, "fd77:616e::1", 20_000),
        "fd77:616e::2"
    );
    Download::start(&stage.client, SERVER, 20_000_000).ended();

    // Both end in order, and leave nothing behind.
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert!(!stage.shown("link show").contains("anabranch0"));
    server.wait("left", 1);
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
}

/// The device is set to a larger MTU than the tunnel carries, as for packets of machines behind this one.
#[test]
fn larger_packets_are_answered_and_segments_are_clamped() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&["--mtu", "1300 B"]);
    let client = stage.join(&ticket, &[]);
    assert_eq!(client.events("up")[0]["mtu_bytes"], 1300);
    assert!(stage.shown("link show dev anabranch0").contains("mtu 1300"));
    stage.client.ip("link set anabranch0 mtu 1500");
    let mss = Download::start(&stage.client, SERVER, 2_000_000).ended();
    // 1,260, less the option with the time.
    assert!((1200..=1260).contains(&mss), "{mss}");
    // The first packet of 1,500 bytes is answered; from then on the kernel divides what is larger.
    assert_eq!(source(&stage.client, SERVER, 1472), CLIENT);
    // Others may have been dropped before, on a machine that is busy.
    until("it is counted", || client.dropped("too_big") >= 1);
}

/// The server's machine forwards, as in docs/tunnel.md; the host knows the way back, in place of masquerading.
#[test]
fn hosts_behind_the_server_are_reached_if_its_machine_forwards() {
    let (Some(stage), Some([host])) = (Stage::new(), namespaces()) else {
        return;
    };
    let ends = [("wan0", "203.0.113.1/24"), ("eth0", "203.0.113.9/24")];
    stage.server.join(ends[0], &host, ends[1]);
    host.ip("route add 10.77.0.0/24 via 203.0.113.1");
    serve(&host);
    let forwarding = "/proc/sys/net/ipv4/ip_forward";
    let turn = |on: &'static str| stage.server.run(|| std::fs::write(forwarding, on).unwrap());
    let is_named = |server: &Running| {
        let events = server.events("not_forwarding");
        let mut texts = events.iter().map(|row| row["text"].to_string());
        texts.any(|text| text.contains("net.ipv4.ip_forward"))
    };
    turn("0");
    let (server, _) = stage.serve(&[]);
    assert!(is_named(&server));
    drop(server);
    turn("1");
    let (server, ticket) = stage.serve(&[]);
    assert!(!is_named(&server));
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, "203.0.113.9", 32), CLIENT);
    let mss = Download::start(&stage.client, "203.0.113.9", 10_000_000).ended();
    assert!((1300..=1360).contains(&mss), "{mss}");
}

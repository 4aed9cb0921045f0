//! A path that is cut, and ends that are killed.

use crate::{
    programs::{Download, serve, source},
    stage::{CLIENT, SERVER, Stage},
};

#[test]
fn a_connection_survives_the_cut_of_a_path() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    let _client = stage.join(&ticket, &[]);
    let mut download = Download::start(&stage.client, SERVER, 60_000_000);
    download.goes_on(5_000_000);
    stage.set_up(0, false);
    download.goes_on(5_000_000);
    stage.set_up(0, true);
    stage.set_up(1, false);
    download.goes_on(5_000_000);
    stage.set_up(1, true);
    download.ended();
}

#[test]
fn killed_ends_come_back_with_the_same_address() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let leases = stage.path("leases");
    let leases = leases.to_str().unwrap();
    let (mut server, ticket) = stage.serve(&["--leases", leases]);
    let mut client = stage.join(&ticket, &[]);
    assert_eq!(source(&stage.client, SERVER, 32), CLIENT);
    // A connection that is open meanwhile.
    let mut download = Download::start(&stage.client, SERVER, 40_000_000);
    download.goes_on(2_000_000);
    client.process.signal("KILL");
    client.process.ended();
    assert!(
        !stage.shown("link show").contains("anabranch0"),
        "it goes with its process"
    );
    client = stage.join(&ticket, &[]);
    assert_eq!(client.events("up")[0]["v4"], CLIENT);
    // The kernel kept the connection, and so does the tunnel.
    download.goes_on(2_000_000);

    server.process.signal("KILL");
    server.process.ended();
    (server, _) = stage.serve(&["--leases", leases]);
    client.wait("up", 2);
    let up = client.events("up");
    assert_eq!(up[1]["v4"], CLIENT);
    assert_eq!(source(&stage.client, SERVER, 32), CLIENT);
    download.ended();
    server.wait("joined", 1);
}

/// A server that comes back with another network gives its clients other addresses.
#[test]
fn a_server_that_renumbers_is_followed() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, ticket) = stage.serve(&[]);
    let mut client = stage.join(&ticket, &[]);
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
    let (_server, _) = stage.serve(&["--pool", "10.78.0.0/24"]);
    let up = client.wait("up", 2);
    assert_eq!(
        (&up["v4"], &up["v6"]),
        (&"10.78.0.2".into(), &serde_json::Value::Null)
    );
    assert_eq!(source(&stage.client, "10.78.0.1", 32), "10.78.0.2");
    let shown = stage.shown("address show dev anabranch0");
    assert!(
        !shown.contains("10.77.") && !shown.contains("fd77"),
        "{shown}"
    );
}

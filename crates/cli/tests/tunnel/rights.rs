//! Refusals, and what they say.

use crate::{
    programs::{serve, source, source_within},
    stage::Stage,
};

#[test]
fn a_client_without_the_right_is_refused_and_told_what_is_missing() {
    let Some(stage) = Stage::new() else { return };
    let (mut server, ticket) = stage.serve(&[]);
    let other = stage.id("other.key").to_string();
    // It may not even open a session, and is told its id, by which the server would have to list it.
    let running = stage.dial(&ticket, &["--key", "other.key"]);
    running.process.ended().is(4, &[&other]);
    drop(server);

    // One that may call, and nothing else.
    let client = stage.id("client.key").to_string();
    let config = format!(
        "listen = [\"10.95.0.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"other\"\nnode = \"{other}\"\nmay = [\"call\"]\n\
         [[peer]]\nname = \"client\"\nnode = \"{client}\"\nmay = [\"call\", \"tunnel\"]\n\
         [tunnel.server]\npools = [\"10.77.0.0/24\"]\n"
    );
    std::fs::write(stage.path("node.toml"), config).unwrap();
    let node = stage.node("node.toml");
    let running = stage.dial(&ticket, &["--key", "other.key"]);
    let ended = running
        .process
        .ended()
        .is(4, &["no right to its tunnel", &other]);
    assert!(ended.err.contains("\"tunnel\""), "{ended:?}");
    // The other one comes up, at a node with more to do.
    let mut client = stage.join(&ticket, &[]);
    assert_eq!(client.wait("up", 1)["v4"], "10.77.0.2");
    drop(node);
    server = stage.serve(&[]).0;
    server.wait("joined", 1);
}

#[test]
fn a_peer_without_a_tunnel_and_wrong_settings_are_named() {
    let Some(stage) = Stage::new() else { return };
    let (server, ticket) = stage.serve(&[]);
    drop(server);
    let client = stage.id("client.key").to_string();
    let config = format!(
        "listen = [\"10.95.0.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"client\"\nnode = \"{client}\"\nmay = [\"call\"]\n"
    );
    std::fs::write(stage.path("node.toml"), config).unwrap();
    let _node = stage.node("node.toml");
    let running = stage.dial(&ticket, &[]);
    running
        .process
        .ended()
        .is(4, &["serves no tunnel", "[tunnel.server]"]);
    for (arguments, expected) in [
        (&["--mtu", "100 B"][..], "1280 B to 9000 B"),
        (&["--name", "a/b"], "letters"),
        (&["--route", "10.0.0.1/8"], "write 10.0.0.0/8"),
        (&["--dns", "resolver"], "IP address"),
    ] {
        let running = stage.dial(&ticket, arguments);
        running.process.ended().is(2, &[expected]);
    }
    // The name of a device that another program has.
    stage.client.ip("tuntap add dev taken0 mode tun");
    stage.client.ip("link set taken0 mtu 1400");
    let running = stage.dial(&ticket, &["--name", "path1"]);
    running.process.ended().is(1, &["path1"]);
}

/// A network that the client's machine is in already.
#[test]
fn a_conflict_of_networks_is_named() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    stage.client.ip("link add lan0 type veth peer name lan1");
    stage.client.ip("address add 10.77.0.7/24 dev lan0");
    let running = stage.dial(&ticket, &[]);
    let ended = running.process.ended();
    ended.is(1, &["10.77.0.0/24", "lan0", "other addresses"]);
}

/// The configuration of a node that serves a tunnel to the client's key.
fn config(stage: &Stage, may: &str, pool: &str) -> String {
    let client = stage.id("client.key");
    format!(
        "listen = [\"10.95.0.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"client\"\nnode = \"{client}\"\nmay = {may}\n\
         [tunnel.server]\npools = [\"{pool}\"]\n"
    )
}

#[test]
fn a_reload_renumbers_and_withdraws() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, ticket) = stage.serve(&[]);
    drop(server);
    let write = |may: &str, pool: &str| {
        std::fs::write(stage.path("node.toml"), config(&stage, may, pool)).unwrap();
    };
    let both = "[\"call\", \"tunnel\"]";
    write(both, "10.77.0.0/24");
    let node = stage.node("node.toml");
    let mut client = stage.join(&ticket, &[]);
    assert_eq!(source(&stage.client, "10.77.0.1", 32), "10.77.0.2");
    write(both, "10.78.0.0/24");
    node.signal("HUP");
    assert_eq!(client.wait("up", 2)["v4"], "10.78.0.2");
    assert_eq!(source(&stage.client, "10.78.0.1", 32), "10.78.0.2");
    write("[\"call\"]", "10.78.0.0/24");
    node.signal("HUP");
    let text = client.wait("down", 1)["text"].to_string();
    assert!(text.contains("took the right"), "{text}");
    let within = std::time::Duration::from_secs(2);
    assert_eq!(source_within(&stage.client, "10.78.0.1", 32, within), None);
    write(both, "10.78.0.0/24");
    node.signal("HUP");
    client.wait("up", 3);
    assert_eq!(source(&stage.client, "10.78.0.1", 32), "10.78.0.2");
}

#[test]
fn a_process_without_the_right_to_devices_names_it() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    let name = stage.client.name();
    let program = env!("CARGO_BIN_EXE_anabranch");
    let run = std::process::Command::new("ip")
        .args(["netns", "exec", name, "setpriv", "--bounding-set=-all"])
        .args([program, "tun", &ticket, "--key", "client.key"])
        .current_dir(stage.path(""))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stderr);
    if text.contains("setpriv") {
        // It is not installed here.
        return;
    }
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(
        text.contains("CAP_NET_ADMIN") && text.contains("root"),
        "{text}"
    );
}

/// As in a container that was not given the device.
#[test]
fn a_machine_without_tun_is_told_what_to_do() {
    let Some(stage) = Stage::new() else { return };
    let id = stage.id("client.key").to_string();
    let ticket = stage.serve(&[]).1;
    // In the mount namespace of `ip netns exec`.
    let without = "mount -t tmpfs tmpfs /dev/net && exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_anabranch");
    let words = ["sh", "-c", without, "sh", program];
    for (namespace, arguments) in [
        (
            &stage.server,
            &[
                "--serve",
                "--key",
                "other.key",
                "--port",
                "4434",
                "--allow",
                &id,
            ][..],
        ),
        (
            &stage.client,
            &[&ticket, "--key", "client.key", "--split-tcp"],
        ),
    ] {
        let running = stage.start_by(namespace, &words, arguments);
        let expected = ["there is no /dev/net/tun", "modprobe tun", "container"];
        running.process.ended().is(1, &expected);
    }
}

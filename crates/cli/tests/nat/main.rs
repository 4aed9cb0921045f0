//! Codes between two machines behind translators of addresses (NAT), with a relay between them: five network namespaces, skipped
//! without root or nft. And `anabranch doctor` in two of them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod circuits;
mod doctor;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../../net/tests/netns/namespace.rs"]
#[expect(dead_code, reason = "shared with tests that have TUN devices")]
mod namespace;
#[path = "../integration/faults/process.rs"]
#[expect(dead_code, reason = "shared with tests that do more with them")]
mod process;
mod stage;

use std::fs;

use process::Process;
use stage::{Kind, Stage};

/// Public address of the relay.
const RELAY: &str = "198.51.100.1";
/// Public address of the receiver's translator.
const FAR: &str = "198.51.102.2";

/// Sends a file by a code from behind one translator to behind the other; returns what the sender printed.
#[track_caller]
fn transfer(stage: &Stage) -> String {
    let content: Vec<u8> = (0..2_000_000u32).map(|n| (n * 31 + n / 7) as u8).collect();
    fs::write(stage.path("film"), &content).unwrap();
    let via = stage.relay_ticket();
    let arguments = ["send", "film", "--key", "a.key", "--via", &via];
    let mut sender = stage.start(&stage.near, &arguments, Some("sender.out"));
    // No ticket comes by standard input.
    sender.say("");
    let code = stage.code("sender.out");
    // The other side has it in the configuration of its node.
    fs::create_dir_all(stage.path(".config/anabranch")).unwrap();
    let config = format!("via = \"{via}\"\n");
    fs::write(stage.path(".config/anabranch/node.toml"), config).unwrap();
    let arguments = ["recv", &code, "in", "--key", "b.key"];
    // Root has the files of its node elsewhere.
    let place = format!("XDG_CONFIG_HOME={}", stage.path(".config").display());
    let program = env!("CARGO_BIN_EXE_anabranch");
    let words = [
        "ip",
        "netns",
        "exec",
        stage.far.name(),
        "env",
        &place,
        program,
    ];
    let receiver = Process::start_by(&words, &stage.path(""), &arguments, None);
    receiver.ended().is(0, &["the sender is "]);
    sender.ended().is(0, &["sending to "]);
    assert_eq!(fs::read(stage.path("in/film")).unwrap(), content);
    fs::read_to_string(stage.path("sender.out")).unwrap()
}

/// Two machines on one cable, without a relay and without a route to anywhere else.
#[test]
fn on_a_local_network_a_code_needs_nothing_else() {
    let Some([one, other]) = namespace::namespaces() else {
        return;
    };
    one.join(("eth0", "10.3.0.1/24"), &other, ("eth0", "10.3.0.2/24"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("film"), "film").unwrap();
    let start = |namespace: &namespace::Namespace, arguments: &[&str], out: Option<&str>| {
        let out = out.map(|name| folder.path().join(name));
        Process::start_in(
            Some(namespace.name()),
            folder.path(),
            arguments,
            out.as_deref(),
        )
    };
    let mut sender = start(
        &one,
        &["send", "film", "--key", "a.key"],
        Some("sender.out"),
    );
    sender.say("");
    let code = stage::word(&folder.path().join("sender.out"), stage::is_code);
    let receiver = start(&other, &["recv", &code, "in", "--key", "b.key"], None);
    receiver.ended().is(0, &["the sender is "]);
    sender.ended().is(0, &[]);
    assert_eq!(fs::read(folder.path().join("in/film")).unwrap(), b"film");
}

#[test]
fn translators_that_keep_ports_are_passed_directly() {
    let Some(stage) = Stage::new(Kind::KeepsPorts) else {
        return;
    };
    let printed = transfer(&stage);
    assert!(printed.contains(&format!("→ {FAR}:")), "{printed}");
    assert!(!printed.contains(&format!("→ {RELAY}:")), "{printed}");
}

#[test]
fn between_translators_with_a_port_for_each_destination_the_relay_carries_it() {
    let Some(stage) = Stage::new(Kind::RandomPorts) else {
        return;
    };
    let printed = transfer(&stage);
    assert!(printed.contains(&format!("→ {RELAY}:")), "{printed}");
}

/// A ticket, of which no address can be reached from outside.
#[test]
fn a_ticket_leads_over_its_relay() {
    for (kind, address) in [(Kind::KeepsPorts, FAR), (Kind::RandomPorts, RELAY)] {
        let Some(stage) = Stage::new(kind) else {
            return;
        };
        let content: Vec<u8> = (0..2_000_000u32).map(|n| (n * 31 + n / 7) as u8).collect();
        fs::write(stage.path("film"), &content).unwrap();
        let via = stage.relay_ticket();
        let arguments = ["recv", "in", "--key", "b.key", "--via", &via];
        let receiver = stage.start(&stage.far, &arguments, Some("receiver.out"));
        let ticket = stage::word(&stage.path("receiver.out"), |word| {
            word.starts_with("anabranch1:")
        });
        assert!(ticket.contains(&format!("@{RELAY}:")), "{ticket}");
        let arguments = ["send", "film", &ticket, "--key", "a.key"];
        let sent = stage
            .start(&stage.near, &arguments, None)
            .ended()
            .is(0, &[]);
        assert!(sent.out.contains(&format!("→ {address}:")), "{}", sent.out);
        assert!(!sent.err.contains("WARN"), "{}", sent.err);
        receiver.ended().is(0, &[]);
        assert_eq!(fs::read(stage.path("in/film")).unwrap(), content);
    }
}

/// The ticket that a node prints, for a sender that it lists.
#[test]
fn a_node_with_a_relay_is_reached_by_its_ticket() {
    let Some(stage) = Stage::new(Kind::RandomPorts) else {
        return;
    };
    fs::write(stage.path("film"), "film").unwrap();
    fs::create_dir(stage.path("in")).unwrap();
    let via = stage.relay_ticket();
    let key = anabranch::keys::load_or_create(&stage.path("a.key")).unwrap();
    let listed = key.node_id();
    let text = format!(
        "key = \"b.key\"\nport = 4433\ncontrol = \"b.sock\"\nlocal = \"\"\nreceive = \"in\"\nvia = \"{via}\"\n\
         [[peer]]\nname = \"a\"\nnode = \"{listed}\"\nmay = [\"call\", \"send-files\"]\nvia = \"\"\n"
    );
    fs::write(stage.path("b.toml"), text).unwrap();
    let arguments = ["node", "--config", "b.toml", "-v"];
    let node = stage.start(&stage.far, &arguments, Some("node.out"));
    let ticket = stage::word(&stage.path("node.out"), |word| {
        word.starts_with("anabranch1:")
    });
    let send = |key: &str, retry: &str| {
        let arguments = ["send", "film", &ticket, "--key", key, "--retry", retry];
        stage.start(&stage.near, &arguments, None).ended()
    };
    send("a.key", "1 min").is(0, &[]);
    assert_eq!(fs::read(stage.path("in/film")).unwrap(), b"film");
    fs::write(stage.path("film"), "other").unwrap();
    let code = send("c.key", "0 s").status.code();
    // The node parts from it at the relay, or refuses it if it was quicker.
    assert!(matches!(code, Some(3 | 4)), "{code:?}");
    assert_eq!(fs::read(stage.path("in/film")).unwrap(), b"film");
    drop(node);
}

#[test]
fn a_relay_that_does_not_serve_strangers_says_what_to_do() {
    let Some(stage) = Stage::with(Kind::KeepsPorts, "[rendezvous]\n") else {
        return;
    };
    let via = stage.relay_ticket();
    fs::write(stage.path("film"), "film").unwrap();
    let mut sender = stage.start(
        &stage.near,
        &["send", "film", "--key", "a.key", "--via", &via],
        None,
    );
    sender.say("");
    let ended = sender.ended();
    assert!(!ended.status.success());
    assert!(ended.err.contains("rendezvous"), "{}", ended.err);
}

/// Two nodes that list each other with `via` and no address.
#[test]
fn nodes_find_each_other_at_the_relay_by_name() {
    for kind in [Kind::KeepsPorts, Kind::RandomPorts] {
        let Some(stage) = Stage::new(kind) else {
            return;
        };
        let via = stage.relay_ticket();
        let ids = ["a", "b"].map(|name| {
            let key = anabranch::keys::load_or_create(&stage.path(&format!("{name}.key"))).unwrap();
            key.node_id()
        });
        for (own, peer, id) in [("a", "b", ids[1]), ("b", "a", ids[0])] {
            let text = format!(
                "key = \"{own}.key\"\nport = 4433\ncontrol = \"{own}.sock\"\nlocal = \"\"\n\
                 [[peer]]\nname = \"{peer}\"\nnode = \"{id}\"\nmay = [\"call\"]\nvia = \"{via}\"\n"
            );
            fs::write(stage.path(&format!("{own}.toml")), text).unwrap();
        }
        let mut nodes = [(&stage.near, "a"), (&stage.far, "b")].map(|(namespace, name)| {
            let (config, out) = (format!("{name}.toml"), format!("{name}.out"));
            stage.start(namespace, &["node", "--config", &config], Some(&out))
        });
        let address = match kind {
            Kind::KeepsPorts => "198.51.10",
            Kind::RandomPorts => RELAY,
        };
        // Not the session with the relay.
        let is_there = |text: &str| {
            let mut rows = text.lines();
            rows.any(|row| row.contains(address) && row.contains("\"peer_name\":\"b\""))
        };
        stage.until("a session by name", || {
            assert!(nodes.iter_mut().all(Process::is_running));
            let arguments = ["paths", "--control", "a.sock", "--json"];
            is_there(&stage.start(&stage.near, &arguments, None).ended().out)
        });
    }
}

//! Circuits at a relay between two machines of which no pair of addresses works.

use std::{fs, path::Path};

use anabranch::{Client, StreamSpec};
use serde_json::Value;

use crate::{
    RELAY,
    process::Process,
    stage::{Kind, Stage, word},
};

/// Longest wait for what takes half a minute on a quiet machine.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

fn is_ticket(word: &str) -> bool {
    word.starts_with("anabranch1:")
}

/// Bytes of all files in a folder.
fn stored(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => stored(&entry.path()),
        Ok(found) => found.len(),
        // It was moved meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}

/// A file to send, of this many bytes.
fn film(stage: &Stage, bytes: u32) -> Vec<u8> {
    let content: Vec<u8> = (0..bytes).map(|n| (n * 31 + n / 7) as u8).collect();
    fs::write(stage.path("film"), &content).unwrap();
    content
}

/// A receiver at the relay, and its ticket.
fn receiver(stage: &Stage) -> (Process, String) {
    let via = stage.relay_ticket();
    let arguments = ["recv", "in", "--key", "b.key", "--via", &via];
    let receiver = stage.start(&stage.far, &arguments, Some("receiver.out"));
    let ticket = word(&stage.path("receiver.out"), is_ticket);
    (receiver, ticket)
}

/// Sends a file in about ten seconds over a circuit; the relay ends by this signal in the middle, and comes back.
fn a_transfer_survives(signal: &str) {
    let Some(mut stage) = Stage::new(Kind::RandomPorts) else {
        return;
    };
    let content = film(&stage, 6_000_000);
    let (receiver, ticket) = receiver(&stage);
    let arguments = [
        "send", "film", &ticket, "--key", "a.key", "--limit", "5 Mbit/s",
    ];
    let sender = stage.start(&stage.near, &arguments, None);
    stage.until("some of it has arrived", || {
        stored(&stage.path("in")) > 1_000_000
    });
    assert!(!stage.path("in/film").exists(), "it is in the middle");
    stage.restart_relay(signal);
    let sent = sender.ended().is(0, &["does not answer on any path"]);
    assert!(sent.out.contains(&format!("→ {RELAY}:")), "{}", sent.out);
    receiver.ended().is(0, &[]);
    assert!(fs::read(stage.path("in/film")).unwrap() == content);
}

#[test]
fn a_transfer_over_a_circuit_goes_on_when_the_relay_was_killed_and_is_back() {
    a_transfer_survives("KILL");
}

#[test]
fn a_transfer_over_a_circuit_goes_on_when_the_relay_was_restarted() {
    a_transfer_survives("TERM");
}

/// A node behind a translator, which lists two others, and its ticket.
fn node_behind_a_translator(stage: &Stage) -> (Process, String) {
    let via = stage.relay_ticket();
    let peers = ["a", "c"].map(|name| {
        let key = anabranch::keys::load_or_create(&stage.path(&format!("{name}.key"))).unwrap();
        format!(
            "[[peer]]\nname = \"{name}\"\nnode = \"{}\"\nvia = \"\"\n\
             may = [\"call\", {{ right = \"use-service\", services = [\"*\"] }}]\n",
            key.node_id()
        )
    });
    let text = format!(
        "key = \"b.key\"\nport = 4433\ncontrol = \"b.sock\"\nlocal = \"b.local\"\nvia = \"{via}\"\n{}",
        peers.concat()
    );
    fs::write(stage.path("b.toml"), text).unwrap();
    let arguments = ["node", "--config", "b.toml"];
    let node = stage.start(&stage.far, &arguments, Some("node.out"));
    let ticket = word(&stage.path("node.out"), is_ticket);
    (node, ticket)
}

/// The ticket is all that the callers know: neither lists the node.
#[test]
fn ping_and_connect_with_a_ticket_reach_a_node_behind_a_translator_over_its_relay() {
    let Some(stage) = Stage::new(Kind::RandomPorts) else {
        return;
    };
    let (_far, ticket) = node_behind_a_translator(&stage);
    let arguments = [
        "ping", &ticket, "--key", "c.key", "--count", "2", "--within", "10 s", "--json",
    ];
    let pinged = stage
        .start(&stage.near, &arguments, None)
        .ended()
        .is(0, &[]);
    let rows = pinged
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows.collect();
    let is_reply = |row: &&Value| row["round_trip_ms"].is_number();
    let replies: Vec<&Value> = rows.iter().filter(is_reply).collect();
    assert!(!replies.is_empty(), "{rows:?}");
    for reply in replies {
        let remote = reply["remote"].as_str().unwrap();
        assert!(remote.starts_with(&format!("{RELAY}:")), "{reply}");
    }

    let text = "key = \"a.key\"\nport = 4433\ncontrol = \"a.sock\"\nlocal = \"a.local\"\n";
    fs::write(stage.path("a.toml"), text).unwrap();
    let arguments = ["node", "--config", "a.toml"];
    let _near = stage.start(&stage.near, &arguments, Some("near.out"));
    word(&stage.path("near.out"), is_ticket);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let talk = async {
            // Sockets of files are the same in all network namespaces.
            let far = Client::attach(stage.path("b.local"), "test").await.unwrap();
            let service = far.register("greetings").await.unwrap();
            let near = Client::attach(stage.path("a.local"), "test").await.unwrap();
            let session = near.connect(&ticket).await.unwrap();
            let stream = session
                .open_stream(StreamSpec::messages("greetings"))
                .await
                .unwrap();
            stream.send("hello").await.unwrap();
            stream.finish().unwrap();
            let (_, accepted) = service.accept().await.unwrap();
            assert_eq!(accepted.recv().await.unwrap().unwrap().data, "hello");
            assert!(accepted.recv().await.unwrap().is_none());
            stream.delivered().await.unwrap();
            session.paths().await.unwrap()
        };
        let paths = tokio::time::timeout(TIMEOUT, talk).await.expect("it hangs");
        let active: Vec<_> = paths.iter().filter(|path| path.sent_bytes > 0).collect();
        assert!(!active.is_empty(), "{paths:?}");
        for path in active {
            assert!(path.path.contains(&format!("→ {RELAY}:")), "{paths:?}");
        }
    });
}

/// The relay carries two megabytes for each node in a day.
#[test]
fn beyond_the_bytes_of_a_day_a_relay_carries_nothing_more_and_both_sides_say_why() {
    let rendezvous = "[rendezvous]\nstrangers = true\nper_day = \"2 MB\"\n";
    let Some(mut stage) = Stage::with(Kind::RandomPorts, rendezvous) else {
        return;
    };
    film(&stage, 6_000_000);
    let (_receiver, ticket) = receiver(&stage);
    let arguments = ["send", "film", &ticket, "--key", "a.key", "--retry", "40 s"];
    let failed = stage.start(&stage.near, &arguments, None).ended();
    assert_eq!(failed.status.code(), Some(5), "{failed:?}");
    for words in ["the relay opens no circuit", "per_day", "does not answer"] {
        assert!(
            failed.err.contains(words),
            "'{words}' is missing: {failed:?}"
        );
    }
    let arrived = stored(&stage.path("in"));
    assert!((100_000..2_000_000).contains(&arrived), "{arrived}");
    // The bytes of another node are its own: it reaches the receiver.
    fs::write(stage.path("film"), "short").unwrap();
    let arguments = ["send", "film", &ticket, "--key", "c.key"];
    let refused = stage.start(&stage.near, &arguments, None).ended();
    assert!(refused.err.contains("used already"), "{refused:?}");
    let logged = stage.stop_relay("TERM");
    let why = "the source has used up its bytes for this period";
    assert!(logged.contains(why), "{logged}");
}

//! `anabranch process offer --at-source`: the source serves its subscribers while no processing node is there.

use std::{
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{ChildStdin, Stdio},
};

use crate::harness::{Running, command, free_port, private_folder, signal};
use crate::numbered::{id, start};

/// Entry of a peer: at an address, or with rights to these services.
fn peer(name: &str, node: u8, at: Option<SocketAddr>, services: &str) -> String {
    let id = id(node);
    let may = match services {
        "" => String::new(),
        services => format!("\"call\", {{ right = \"use-service\", services = [{services}] }}"),
    };
    let addresses = at.map_or(String::new(), |at| format!("addresses = [\"{at}\"]\n"));
    format!("[[peer]]\nname = \"{name}\"\nnode = \"{id}\"\nmay = [{may}]\n{addresses}")
}

/// Node 2, which processes.
fn hub(folder: &Path, at: SocketAddr) -> Running {
    let all = "\"process/1/*\"";
    let peers = peer("lab", 1, None, all) + &peer("desk", 3, None, all);
    start(folder, 2, &[at], &peers)
}

fn process(folder: &Path, words: &[&str]) -> (Running, ChildStdin) {
    let mut command = command(folder);
    command
        .arg("process")
        .args(words)
        .args(["--at", "hub", "--as", "json"])
        .stdin(Stdio::piped());
    Running::start_writing(&mut command)
}

fn write(input: &mut ChildStdin, numbers: std::ops::Range<u64>) {
    for number in numbers {
        writeln!(input, "{{\"data\": \"m{number}\"}}").unwrap();
    }
}

fn read(subscriber: &mut Running, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let adu = subscriber.event("adu");
        assert_eq!(adu["sequence"], number);
        assert_eq!(adu["data"], format!("m{number}"));
    }
}

#[test]
fn the_source_serves_subscribers_while_no_node_does_and_nothing_is_lost_or_repeated() {
    let folder = private_folder();
    let folder = folder.path();
    let at = [free_port(), free_port(), free_port()];
    let first_hub = hub(folder, at[1]);
    let own = "\"process/1/subscribe/frames/*\"";
    let peers = peer("hub", 2, Some(at[1]), "") + &peer("desk", 3, None, own);
    let _lab = start(folder, 1, &at[..1], &peers);
    let peers = peer("hub", 2, Some(at[1]), "") + &peer("lab", 1, Some(at[0]), "");
    let _desk = start(folder, 3, &at[2..], &peers);
    let words = ["process", "serve", "--json", "--local", "2.local"];
    let mut service = Running::start(command(folder).args(words));
    service.event("serving");

    let words = [
        "offer",
        "frames",
        "--at-source",
        "--for",
        &id(3),
        "--local",
        "1.local",
    ];
    let (_offer, mut input) = process(folder, &words);
    service.event("offered");
    let subscribe = |pipeline: &str| {
        let words = [
            "subscribe",
            "frames",
            "--fallback",
            "lab",
            "--local",
            "3.local",
            "--pipeline",
            pipeline,
        ];
        let (mut subscriber, input) = process(folder, &words);
        subscriber.event("begun");
        (subscriber, input)
    };
    let (mut all, _open) = subscribe("");
    let (mut third, _open_too) = subscribe("every 3");
    write(&mut input, 0..100);
    // While messages are on their way.
    read(&mut all, 0..50);
    signal(first_hub.id(), "KILL");
    write(&mut input, 100..200);
    read(&mut all, 50..200);
    read(&mut third, (0..200).step_by(3));
    // The node is back, and takes the stream again.
    let second_hub = hub(folder, at[1]);
    write(&mut input, 200..250);
    service.event("offered");
    write(&mut input, 250..300);
    read(&mut all, 200..300);
    read(&mut third, (201..300).step_by(3));
    // It falls silent, with a state of the stream that is soon too old.
    signal(second_hub.id(), "STOP");
    write(&mut input, 300..350);
    read(&mut all, 300..350);
    read(&mut third, (300..350).step_by(3));
    // All of it was sent where the source is.
    drop(input);
    for mut subscriber in [third, all] {
        loop {
            let line = subscriber.line();
            assert!(!line.contains("\"adu\""), "{line}");
            if line.is_empty() {
                break;
            }
        }
    }
    signal(second_hub.id(), "CONT");
}

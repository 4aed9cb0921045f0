//! `anabranch process` with several processing nodes: what a node was doing goes on at another one.

use std::{
    io::Write,
    path::Path,
    process::{ChildStdin, Stdio},
};

use crate::harness::{Running, command, free_port, private_folder, signal};
use crate::numbered::{id, start};

/// Processing nodes 2 and 3, each with its service.
struct Hubs {
    nodes: [Running; 2],
    _services: [Running; 2],
}

fn serve(folder: &Path, node: u8) -> Running {
    let local = format!("{node}.local");
    let mut service =
        Running::start(command(folder).args(["process", "serve", "--json", "--local", &local]));
    service.event("serving");
    service
}

/// The processing nodes, and node 1, which knows them as `far` and `spare`.
fn setting(folder: &Path) -> (Hubs, Running) {
    let may = format!(
        "[[peer]]\nname = \"near\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"use-service\", services = [\"process/1/*\"] }}]\n",
        id(1)
    );
    let at = [free_port(), free_port()];
    let nodes = [
        start(folder, 2, &at[..1], &may),
        start(folder, 3, &at[1..], &may),
    ];
    let peer = |name: &str, node: u8| {
        let at = at[usize::from(node) - 2];
        let node = id(node);
        format!(
            "[[peer]]\nname = \"{name}\"\nnode = \"{node}\"\nmay = []\naddresses = [\"{at}\"]\n"
        )
    };
    let peers = peer("far", 2) + &peer("spare", 3);
    let near = start(folder, 1, &[free_port()], &peers);
    let services = [serve(folder, 2), serve(folder, 3)];
    let hubs = Hubs {
        nodes,
        _services: services,
    };
    (hubs, near)
}

fn process(folder: &Path, words: &[&str]) -> (Running, ChildStdin) {
    let mut command = command(folder);
    command
        .arg("process")
        .args(words)
        .args(["--at", "far", "--fallback", "spare", "--local", "1.local"])
        .args(["--as", "json"])
        .stdin(Stdio::piped());
    Running::start_writing(&mut command)
}

fn subscribe(folder: &Path, pipeline: &str) -> (Running, ChildStdin) {
    let words = ["subscribe", "frames", "--pipeline", pipeline];
    let (mut subscriber, input) = process(folder, &words);
    subscriber.event("begun");
    (subscriber, input)
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
fn operators_move_when_a_node_falls_silent_and_nothing_is_lost_or_repeated() {
    let folder = private_folder();
    let (hubs, _near) = setting(folder.path());
    let (_offer, mut input) = process(folder.path(), &["offer", "frames", "--for", &id(1)]);
    // Before the source is there, subscribers ask one node after the other.
    let (mut third, _open) = subscribe(folder.path(), "every 3");
    let (mut all, _open_too) = subscribe(folder.path(), "");
    let [far, spare] = hubs.nodes.each_ref().map(Running::id);
    write(&mut input, 0..100);
    // While messages are on their way.
    read(&mut all, 0..50);
    signal(far, "STOP");
    write(&mut input, 100..200);
    read(&mut all, 50..200);
    read(&mut third, (0..200).step_by(3));
    // The first one has an older state of the stream.
    signal(far, "CONT");
    signal(spare, "STOP");
    write(&mut input, 200..300);
    read(&mut all, 200..300);
    read(&mut third, (201..300).step_by(3));
    // Both are there, and one is killed: nothing closes its sessions.
    signal(spare, "CONT");
    write(&mut input, 300..350);
    read(&mut all, 300..320);
    signal(far, "KILL");
    write(&mut input, 350..400);
    read(&mut all, 320..400);
    read(&mut third, (300..400).step_by(3));
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
}

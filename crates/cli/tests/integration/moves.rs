//! `anabranch process offer --place`: a source moves when the link behind its processing node gets narrow, between four nodes with an overlay.

use std::{
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{ChildStdin, Stdio},
    thread,
    time::Duration,
};

use crate::harness::{Running, command, free_port, private_folder};
use crate::numbered::{id, start};

const LAB: u8 = 1;
const HUB: u8 = 2;
const SPARE: u8 = 3;
const DESK: u8 = 4;
const NODES: [u8; 4] = [LAB, HUB, SPARE, DESK];
/// Messages a second, and bytes of each: 0.8 Mbit/s.
const PERIOD: Duration = Duration::from_millis(20);
const MESSAGE_BYTES: usize = 2_000;
/// Messages after which the link gets narrow, and after which the test ends without a move.
const NARROW_AT: u64 = 500;
const MESSAGES_MAX: u64 = 15_000;

/// A link to an address, whose rate can be set; returns its entrance, too.
fn link(folder: &Path, target: SocketAddr, delay: &str) -> (Running, ChildStdin, SocketAddr) {
    let target = target.to_string();
    let path = &format!("rate=20 Mbit/s, delay={delay}, queue=300 ms");
    let mut emulate = command(folder);
    emulate
        .args(["emulate", "--json", "--path", path, "--target", &target])
        .stdin(Stdio::piped());
    let (mut running, input) = Running::start_writing(&mut emulate);
    let at = running.event("listening")["at"].as_str().unwrap().parse();
    (running, input, at.unwrap())
}

fn serve(folder: &Path, node: u8) -> Running {
    let local = format!("{node}.local");
    let words = ["process", "serve", "--json", "--local", &local];
    let mut service = Running::start(command(folder).args(words));
    service.event("serving");
    service
}

fn process(folder: &Path, node: u8, words: &[&str]) -> (Running, ChildStdin) {
    let (local, control) = (format!("{node}.local"), format!("{node}.sock"));
    let mut command = command(folder);
    command
        .arg("process")
        .args(words)
        .args(["--at", "n2", "--fallback", "n3", "--as", "json"])
        .args(["--local", &local]);
    if node == LAB {
        command.args(["--control", &control]);
    }
    Running::start_writing(command.stdin(Stdio::piped()))
}

#[test]
fn a_source_leaves_a_node_whose_link_gets_narrow_and_nothing_is_lost_or_repeated() {
    let folder = private_folder();
    let folder = folder.path();
    let at: Vec<SocketAddr> = NODES.iter().map(|_| free_port()).collect();
    let of = |node: u8| at[usize::from(node) - 1];
    let to_hub = link(folder, of(HUB), "5 ms");
    let to_desk = link(folder, of(DESK), "5 ms");
    // Further away, so that it is the worse place at first.
    let to_spare = link(folder, of(SPARE), "40 ms");
    let from_spare = link(folder, of(DESK), "40 ms");
    let mut nodes = Vec::new();
    for own in NODES {
        let mut text = "[overlay]\n".to_owned();
        for other in NODES.into_iter().filter(|other| *other != own) {
            let address = match (own, other) {
                (DESK, HUB) => to_hub.2,
                (HUB, DESK) => to_desk.2,
                (DESK, SPARE) => to_spare.2,
                (SPARE, DESK) => from_spare.2,
                _ => of(other),
            };
            text += &format!(
                "[[overlay.member]]\nname = \"n{other}\"\nnode = \"{}\"\naddresses = [\"{address}\"]\n\
                 may = [\"call\", {{ right = \"use-service\", services = [\"process/1/*\"] }}]\n",
                id(other)
            );
        }
        nodes.push(start(folder, own, &[of(own)], &text));
    }
    let mut services = [serve(folder, HUB), serve(folder, SPARE)];
    let desk = id(DESK);
    let words = [
        "offer",
        "frames",
        "--for",
        &desk,
        "--place",
        "--place-hold",
        "3 s",
    ];
    let (_offer, mut input) = process(folder, LAB, &words);
    services[0].event("offered");
    let (mut subscriber, _open) = process(folder, DESK, &["subscribe", "frames"]);
    subscriber.event("begun");

    let [_hub, mut spare] = services;
    let (moved, has_moved) = std::sync::mpsc::channel();
    let watching = thread::spawn(move || {
        spare.event("offered");
        // The test may have ended.
        let _ = moved.send(());
        spare
    });
    let (mut narrowing, mut other) = (to_hub.1, to_desk.1);
    let feeding = thread::spawn(move || {
        let body = "x".repeat(MESSAGE_BYTES);
        for number in 0..MESSAGES_MAX {
            if number == NARROW_AT {
                for link in [&mut narrowing, &mut other] {
                    writeln!(link, "set path1 rate=300 kbit/s").unwrap();
                }
            }
            if writeln!(input, "{{\"data\": \"m{number} {body}\"}}").is_err()
                || has_moved.try_recv().is_ok()
            {
                drop(input);
                return number + 1;
            }
            thread::sleep(PERIOD);
        }
        panic!("the source has not moved");
    });
    let mut expected = 0;
    loop {
        let line = subscriber.line();
        if line.is_empty() {
            break;
        }
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if event["kind"] == "adu" {
            assert_eq!(event["sequence"], expected, "{line:.100}");
            expected += 1;
        }
    }
    assert_eq!(feeding.join().unwrap(), expected, "all of them came once");
    drop(watching.join().unwrap());
}

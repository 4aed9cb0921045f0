//! Sites in namespaces, relays between them: a link goes bad, a relay is killed and another link cut under a transfer. Needs root; without it,
//! the test says so in one line and passes.
#![cfg(target_os = "linux")]

use std::{fs, path::Path};

use anabranch::{
    SecretKey, Ticket,
    control::{self, Question, WaysText},
};
use serde_json::Value;

use crate::{
    namespace::namespaces_with_tun,
    process::Process,
    setting::{Setting, until},
};

const NODES: [&str; 4] = ["lab", "clinic", "relay", "spare"];
const PORT: u16 = 4433;
const REEL_BYTES: u32 = 24_000_000;
/// Ends, name and description of each link; the k-th is the network 10.96.k.0/24.
const LINKS: [(usize, usize, &str); 6] = [
    (0, 1, "direct: rate=2 Mbit/s, delay=15 ms"),
    (0, 2, "lab-relay: rate=20 Mbit/s, delay=5 ms"),
    (2, 1, "relay-clinic: rate=10 Mbit/s, delay=8 ms"),
    (0, 3, "lab-spare: rate=20 Mbit/s, delay=5 ms"),
    (3, 1, "spare-clinic: rate=10 Mbit/s, delay=10 ms"),
    (2, 3, "relay-spare: rate=20 Mbit/s, delay=5 ms"),
];

fn key(node: usize) -> SecretKey {
    SecretKey::from_seed([node as u8 + 1; 32])
}

/// Where `node` is on the link with `other`, if they have one.
fn address(node: usize, other: usize) -> Option<String> {
    let found = LINKS
        .iter()
        .position(|&(a, b, _)| [a, b] == [node, other] || [b, a] == [node, other]);
    let link = found?;
    let end = if LINKS[link].0 == node { 1 } else { 2 };
    Some(format!("10.96.{}.{end}", link + 1))
}

fn write_key(folder: &Path, name: &str, key: &SecretKey) {
    let path = folder.join(name);
    fs::write(&path, key.to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, owner_only).unwrap();
}

/// Writes the configuration of a node; the receiver takes files from `sender`.
fn configure(folder: &Path, node: usize, sender: &SecretKey) {
    let name = NODES[node];
    write_key(folder, &format!("{name}.key"), &key(node));
    let others = (0..NODES.len()).filter(|&other| other != node);
    let own: Vec<String> = (others.clone())
        .filter_map(|other| Some(format!("\"{}:{PORT}\"", address(node, other)?)))
        .collect();
    let mut text = format!(
        "key = \"{name}.key\"\ncontrol = \"{name}.control\"\nlisten = [{}]\n",
        own.join(", ")
    );
    if node == 1 {
        text += &format!("allow = [\"{}\"]\nreceive = \"in\"\n", sender.node_id());
    }
    text += "[overlay]\n";
    if node >= 2 {
        text += "relay = \"50 Mbit/s\"\n";
    }
    for other in others {
        let at = address(other, node).map(|ip| format!("\"{ip}:{PORT}\""));
        text += &format!(
            "[[overlay.member]]\nname = \"{}\"\nnode = \"{}\"\naddresses = [{}]\n",
            NODES[other],
            key(other).node_id(),
            at.unwrap_or_default()
        );
    }
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

/// What a node tells of its overlay: rows of one kind.
fn rows(folder: &Path, node: usize, kind: &str) -> Vec<Value> {
    let control = format!("{}.control", NODES[node]);
    let asked = Process::start(folder, &["overlay", "--json", "--control", &control], None).ended();
    let Ok(answer) = serde_json::from_str::<Value>(&asked.out) else {
        return Vec::new();
    };
    let all = answer["rows"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|row| row["kind"] == kind).collect()
}

/// Bytes that a relay has carried on the circuits it has.
fn relayed(folder: &Path, node: usize) -> u64 {
    let circuits = rows(folder, node, "circuit");
    circuits
        .iter()
        .filter_map(|row| row["outward_bytes"].as_u64())
        .sum()
}

#[test]
fn a_transfer_over_relays_survives_a_killed_relay_and_a_cut_link() {
    let Some(sites) = namespaces_with_tun::<4>() else {
        return;
    };
    let setting = Setting::new();
    let folder = setting.path("");
    let mut arguments = vec!["emulate".to_owned()];
    for (link, (a, b, path)) in LINKS.iter().enumerate() {
        let network = format!("10.96.{}", link + 1);
        let (a, b) = (sites[*a].name(), sites[*b].name());
        arguments.push("--tun".to_owned());
        arguments.push(format!("{a}:{network}.1/24,{b}:{network}.2/24"));
        arguments.push("--path".to_owned());
        arguments.push((*path).to_owned());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let out = setting.path("emulator");
    let mut emulator = Process::start(&folder, &arguments, Some(&out));
    let said = || fs::read_to_string(&out).unwrap();
    until("all links", || {
        said().matches("joins").count() == LINKS.len()
    });

    // Long enough for all that happens to it.
    let reel: Vec<u8> = (0..REEL_BYTES)
        .map(|n| (n.wrapping_mul(31) + n / 251) as u8)
        .collect();
    fs::write(setting.path("reel"), &reel).unwrap();
    let sender = SecretKey::from_seed([9; 32]);
    write_key(&folder, "s.key", &sender);
    let mut nodes = Vec::new();
    for (node, name) in NODES.iter().enumerate() {
        configure(&folder, node, &sender);
        let arguments = ["node", "--config", &format!("{name}.toml")];
        let out = setting.path(&format!("{name}.out"));
        nodes.push(Process::start_in(
            Some(sites[node].name()),
            &folder,
            &arguments,
            Some(&out),
        ));
    }
    until("links that are known", || {
        let known = rows(&folder, 0, "link");
        let is_known = |from: &str, to: &str| {
            known
                .iter()
                .any(|row| row["from"] == from && row["to"] == to)
        };
        is_known("here", "clinic")
            && is_known("here", "relay")
            && is_known("relay", "clinic")
            && is_known("spare", "clinic")
    });

    let wanted = Question {
        ways: Some(WaysText {
            to: key(1).node_id().to_string(),
            user: 1 << 40,
            bytes: 10_000_000,
            ..WaysText::default()
        }),
        ..Question::show("overlay_ways")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    until("a way over a relay", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let answer = runtime.block_on(control::ask(&setting.path("lab.control"), &wanted));
        let answer = answer.unwrap();
        let mut ways = answer["rows"].as_array().unwrap().iter();
        ways.any(|way| way["near"].is_string())
    });

    let ticket = Ticket {
        node: key(1).node_id(),
        secret: None,
        addresses: vec![
            format!("{}:{PORT}", address(1, 0).unwrap())
                .parse()
                .unwrap(),
        ],
    };
    let arguments = [
        "send",
        "-q",
        "--key",
        "s.key",
        "--overlay=lab.control",
        "reel",
        &ticket.to_string(),
    ];
    let mut transfer = Process::start_in(Some(sites[0].name()), &folder, &arguments, None);
    // Either relay will do; it is the one in use that is killed.
    let mut used = 0;
    until("a relay in use", || {
        assert!(
            transfer.is_running(),
            "it has ended: {:?}",
            rows(&folder, 0, "way")
        );
        used = [2, 3]
            .into_iter()
            .find(|&node| relayed(&folder, node) > 200_000)
            .unwrap_or(0);
        used > 0
    });
    // The link to it becomes bad. Its estimate falls, by what the transfer shows of it or by test messages.
    let name = NODES[used];
    let estimate = || {
        let links = rows(&folder, 0, "link");
        let link = |row: &&Value| row["from"] == "here" && row["to"] == name;
        let found = links.iter().find(link)?;
        Some(found["bandwidth_bps"].as_f64()? * found["trust"].as_f64()?)
    };
    emulator.say(&format!("set lab-{name} rate=500 kbit/s, delay=40 ms"));
    until("a lower estimate of the bad link", || {
        assert!(transfer.is_running(), "it has ended: {:?}", estimate());
        estimate().is_none_or(|bps| bps < 3e6)
    });
    emulator.say(&format!("set lab-{name} rate=20 Mbit/s, delay=5 ms"));
    nodes[used].signal("KILL");
    emulator.say("down direct");
    let other = 5 - used;
    until("the other relay in use", || {
        !transfer.is_running() || relayed(&folder, other) > 200_000
    });
    emulator.say("up direct");
    transfer.ended().is(0, &[]);
    assert!(fs::read(setting.path("in/reel")).unwrap() == reel);
    assert_eq!(
        fs::read_dir(setting.path("in")).unwrap().count(),
        1,
        "nothing else is left"
    );
    emulator.signal("INT");
    emulator.ended().is(0, &[]);
}

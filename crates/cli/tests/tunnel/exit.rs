//! Masquerading by the server: hosts of the Internet, which know no way back to the tunnel's network, behind its machine.

use std::{fs, process::Command, time::Duration};

use crate::{
    destinations::{GLOBAL, assert_open, assert_prohibited, configure, reload},
    namespace::{Namespace, namespaces},
    programs::{Download, serve, source, source_within},
    stage::{Running, SERVER, Stage, skip, until},
};

/// Addresses of the server towards the Internet.
const EXIT: &str = "11.22.33.1";
const EXIT_V6: &str = "2a00:5:6:7::1";
/// The same host of the Internet over IPv6.
const GLOBAL_V6: &str = "2a00:5:6:7::44";
/// A host in a private network behind the server.
const PRIVATE: &str = "10.20.0.7";
/// Settings of the kernel that forwarding changes, with their values here before.
const SETTINGS: [(&str, &str); 5] = [
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv6/conf/all/forwarding", "0"),
    ("net/ipv6/conf/exit0/accept_ra", "1"),
    ("net/ipv6/conf/default/accept_ra", "1"),
];

/// True if there is an `nft`; otherwise the reason is printed.
pub(crate) fn has_nft() -> bool {
    let has = Command::new("nft").arg("--version").output().is_ok();
    if !has {
        skip("there is no nft");
    }
    has
}

/// Tables of the packet filter in a namespace.
pub(crate) fn tables(namespace: &Namespace) -> String {
    let output = Command::new("ip")
        .args(["netns", "exec", namespace.name(), "nft", "list", "tables"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn setting(namespace: &Namespace, name: &str) -> String {
    let path = format!("/proc/sys/{name}");
    namespace.run(|| fs::read_to_string(path).unwrap().trim().to_owned())
}

fn set(namespace: &Namespace, name: &str, value: &str) {
    namespace.run(|| fs::write(format!("/proc/sys/{name}"), value).unwrap());
}

/// A host of the Internet and of a private network behind the server. It has no routes.
pub(crate) fn internet(stage: &Stage) -> Option<Namespace> {
    let [outside] = namespaces()?;
    let (near, far) = (format!("{EXIT}/24"), format!("{GLOBAL}/24"));
    let ends = (("exit0", near.as_str()), ("wide0", far.as_str()));
    stage.server.join(ends.0, &outside, ends.1);
    for (namespace, device, addresses) in [
        (&stage.server, "exit0", [EXIT_V6, "10.20.0.1"]),
        (&outside, "wide0", [GLOBAL_V6, PRIVATE]),
    ] {
        let [v6, v4] = addresses;
        namespace.ip(&format!("address add {v6}/64 dev {device} nodad"));
        namespace.ip(&format!("address add {v4}/24 dev {device}"));
    }
    serve(&outside);
    for (name, value) in SETTINGS {
        set(&stage.server, name, value);
    }
    Some(outside)
}

/// Words for a server that the client's paths lead to, and not the addresses towards the Internet.
pub(crate) const LISTEN: [&str; 4] = ["--listen", "10.95.0.2:4433", "--listen", "10.95.1.2:4433"];

fn serve_with(stage: &Stage, more: &[&str]) -> (Running, String) {
    stage.serve(&[&LISTEN, &["--masquerade"][..], more].concat())
}

fn settings(stage: &Stage) -> Vec<(&'static str, String)> {
    let names = SETTINGS.iter().map(|(name, _)| *name);
    names
        .map(|name| (name, setting(&stage.server, name)))
        .collect()
}

fn is_as_before(stage: &Stage) -> bool {
    let before = SETTINGS.map(|(name, value)| (name, value.to_owned()));
    settings(stage) == before && tables(&stage.server).is_empty()
}

#[test]
fn clients_reach_the_internet_and_nothing_inside() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(outside) = internet(&stage) else {
        return;
    };
    // The commands of docs/tunnel.md.
    let (server, ticket) = stage.serve(&["--masquerade"]);
    assert!(server.events("not_forwarding").is_empty());
    assert!(server.events("warning").is_empty());
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    assert_eq!(source(&stage.client, GLOBAL_V6, 32), EXIT_V6);
    Download::start(&stage.client, GLOBAL, 3_000_000).ended();
    Download::start(&stage.client, GLOBAL_V6, 3_000_000).ended();
    for to in [PRIVATE, "169.254.169.254", "10.20.0.1", "fd20::7"] {
        assert_prohibited(&stage.client, to);
    }
    assert_open(&stage.client, SERVER);
    // A neighbour of the server that knows the tunnel's network does not get in.
    outside.ip(&format!("route add 10.77.0.0/24 via {EXIT}"));
    serve(&stage.client);
    let within = Duration::from_secs(2);
    assert_eq!(source_within(&outside, "10.77.0.2", 32, within), None);
}

#[test]
fn a_private_network_is_reached_if_it_is_named() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    let (_server, ticket) = serve_with(&stage, &["--to", "10.20.0.0/24"]);
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, PRIVATE, 32), "10.20.0.1");
    assert_prohibited(&stage.client, GLOBAL);
    assert_prohibited(&stage.client, GLOBAL_V6);
}

#[test]
fn the_machine_is_as_before_after_the_end_and_after_a_kill() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    assert!(is_as_before(&stage));
    let during = |stage: &Stage| {
        let values: Vec<String> = settings(stage).into_iter().map(|(_, v)| v).collect();
        assert_eq!(values, ["1", "0", "1", "2", "2"]);
        assert!(tables(&stage.server).contains("inet anabranch-anabranch1"));
    };
    let (server, ticket) = serve_with(&stage, &[]);
    during(&stage);
    server.process.signal("INT");
    server.process.ended().is(0, &[]);
    assert!(is_as_before(&stage), "{:?}", settings(&stage));

    // Killed, and started again at once, while what it left is being put back.
    for _ in 0..3 {
        let (server, _) = serve_with(&stage, &[]);
        during(&stage);
        server.process.signal("KILL");
        server.process.ended();
    }
    let (server, _) = serve_with(&stage, &[]);
    during(&stage);
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    server.process.signal("KILL");
    server.process.ended();
    until("the machine is as before", || is_as_before(&stage));
}

/// Forwarding that was on is not taken back, and the firewall of the machine decides who gets in.
#[test]
fn forwarding_that_was_on_stays_on() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(outside) = internet(&stage) else {
        return;
    };
    set(&stage.server, "net/ipv4/ip_forward", "1");
    let rules = "table ip firewall { chain forward { type filter hook forward priority 0; policy drop; ip daddr 10.77.0.0/24 accept; ip saddr 10.77.0.0/24 accept; }; }";
    let run = Command::new("ip")
        .args(["netns", "exec", stage.server.name(), "nft", rules])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    serve(&stage.client);
    let (mut server, ticket) = serve_with(&stage, &[]);
    let text = server.wait("warning", 1)["text"].to_string();
    assert!(text.contains("ip firewall forward"), "{text}");
    let client = stage.join(&ticket, &["--default-route"]);
    outside.ip(&format!("route add 10.77.0.0/24 via {EXIT}"));
    assert_eq!(source(&outside, "10.77.0.2", 32), GLOBAL);
    drop(client);
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
    assert_eq!(setting(&stage.server, "net/ipv4/ip_forward"), "1");
    assert_eq!(setting(&stage.server, "net/ipv6/conf/all/forwarding"), "0");
}

/// The program that holds the table is killed alone.
#[test]
fn a_table_that_was_lost_is_made_again() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    let (mut server, ticket) = serve_with(&stage, &[]);
    let _client = stage.join(&ticket, &["--default-route"]);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
    let children = tasks.flatten().map(|task| {
        let children = fs::read_to_string(task.path().join("children"));
        children.unwrap_or_default()
    });
    let children: String = children.collect();
    let is_nft = |process: &&str| {
        let name = fs::read_to_string(format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name.trim() == "nft")
    };
    let owner = children.split_ascii_whitespace().find(is_nft);
    let Some(owner) = owner.and_then(|owner| owner.parse().ok()) else {
        skip("the kernel does not list children");
        return;
    };
    crate::harness::signal(owner, "KILL");
    let text = server.wait("warning", 1)["text"].to_string();
    assert!(text.contains("set again"), "{text}");
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    server.process.signal("INT");
    server.process.ended().is(0, &[]);
    assert!(is_as_before(&stage));
}

/// Masquerading goes on until the next start; so does its default of destinations.
#[test]
fn a_reload_without_masquerading_opens_nothing() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    let (server, ticket) = stage.serve(&LISTEN);
    drop(server);
    configure(&stage, "masquerade = true");
    let _node = stage.node("node.toml");
    let _client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    configure(&stage, "");
    reload(&stage).unwrap();
    assert_prohibited(&stage.client, PRIVATE);
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    configure(&stage, "destinations = [\"10.20.0.0/24\"]");
    reload(&stage).unwrap();
    assert_open(&stage.client, PRIVATE);
    assert_prohibited(&stage.client, GLOBAL);
}

#[test]
fn a_machine_without_nft_is_told_what_to_install() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_anabranch");
    // In the mount namespace of `ip netns exec`; on most machines, `ip` is also elsewhere.
    let without = "mount -t tmpfs tmpfs /usr/sbin && command -v ip > /dev/null && exec \"$@\"";
    let id = stage.id("client.key").to_string();
    let own = ["--serve", "--key", "server.key", "--allow", &id];
    let words = ["sh", "-c", without, "sh", program];
    let running = stage.start_by(
        &stage.server,
        &words,
        &[&own[..], &["--masquerade"]].concat(),
    );
    let ended = running.process.ended();
    if ended.err.is_empty() {
        skip("`ip` is only in /usr/sbin");
        return;
    }
    ended.is(1, &["nft", "package nftables", "apt-get install"]);
    assert!(is_as_before(&stage));
}

/// A table of this name without an owner is somebody's mistake; a second server that cannot have the device leaves those of the first.
#[test]
fn a_table_is_replaced_and_a_server_that_cannot_start_takes_nothing_away() {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    let Some(_outside) = internet(&stage) else {
        return;
    };
    let table = "add table inet anabranch-anabranch1";
    let run = Command::new("ip")
        .args(["netns", "exec", stage.server.name(), "nft", table])
        .output();
    assert!(run.unwrap().status.success());
    let (server, ticket) = serve_with(&stage, &[]);
    let client = stage.join(&ticket, &["--default-route"]);
    assert_eq!(source(&stage.client, GLOBAL, 32), EXIT);
    drop(client);
    let id = stage.id("client.key").to_string();
    let home = format!("HOME={}", stage.path("other").display());
    let words = ["env", &home, env!("CARGO_BIN_EXE_anabranch")];
    let own = ["--serve", "--key", "other.key", "--allow", &id];
    let more = ["--port", "4434", "--masquerade"];
    let running = stage.start_by(&stage.server, &words, &[&own[..], &more].concat());
    running.process.ended().is(1, &["anabranch1"]);
    assert_eq!(setting(&stage.server, "net/ipv4/ip_forward"), "1");
    assert!(tables(&stage.server).contains("anabranch-anabranch1"));
    server.process.signal("INT");
    server.process.ended().is(0, &[]);
    assert!(is_as_before(&stage));
}

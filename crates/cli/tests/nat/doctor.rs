//! `anabranch doctor` on a machine with faults: it names each, and the commands that it prints mend it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::{Running, command, private_folder},
    namespace::{Namespace, namespaces},
};

/// Longest wait for what takes a few seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command in a namespace.
fn run(place: &Namespace, mut command: Command) -> Output {
    place.run(|| command.output().unwrap())
}

fn start(place: &Namespace, mut command: Command) -> Running {
    place.run(|| Running::start(&mut command))
}

/// Findings of a doctor, and its exit code.
fn doctor(place: &Namespace, folder: &Path, more: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut asking = command(folder);
    asking
        .args(["doctor", "--config", "near.toml", "--json"])
        .args(more);
    let output = run(place, asking);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (rows.collect(), output.status.code())
}

/// The finding of a check that is worse than ok.
fn fault<'v>(rows: &'v [Value], check: &str) -> Option<&'v Value> {
    let is_it = |row: &&Value| {
        row["check"] == check && (row["state"] == "warning" || row["state"] == "problem")
    };
    rows.iter().find(is_it)
}

/// Runs the commands that a finding prints.
#[track_caller]
fn mend(place: &Namespace, finding: &Value) {
    for text in finding["mend"].as_array().unwrap() {
        let mut shell = Command::new("sh");
        shell.args(["-c", text.as_str().unwrap()]);
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let output = run(place, shell);
        assert!(
            output.status.success(),
            "{text}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn id(folder: &Path, key: &str) -> String {
    let output = command(folder)
        .args(["keygen", "--key", key])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace()
        .find(|word| word.len() == 52)
        .unwrap()
        .to_owned()
}

#[test]
fn each_fault_is_named_and_mended_by_the_command() {
    let Some([near, far]) = namespaces() else {
        return;
    };
    let folder = private_folder();
    let path = folder.path();
    near.join(("wlan0", "10.1.0.2/24"), &far, ("wlan0", "10.1.0.1/24"));
    near.join(("wwan0", "10.2.0.2/24"), &far, ("wwan0", "10.2.0.1/24"));
    near.ip("route add default via 10.1.0.1 dev wlan0");
    let (near_id, far_id) = (id(path, "near.key"), id(path, "far.key"));
    let write = |name: &str, listen: &str, peer: &str, id: &str, more: &str| {
        let text = format!(
            "key = \"{name}.key\"\nlisten = [\"{listen}:4433\"]\ncontrol = \"{name}.sock\"\n[[peer]]\nname = \"{peer}\"\n\
             node = \"{id}\"\nmay = [\"call\"]\n{more}"
        );
        fs::write(path.join(format!("{name}.toml")), text).unwrap();
    };
    write(
        "near",
        "10.1.0.2",
        "far",
        &far_id,
        "addresses = [\"10.1.0.1:4433\"]\n",
    );
    write("far", "10.1.0.1", "near", &near_id, "");

    // All is well, but for the second interface.
    let (rows, code) = doctor(&near, path, &[]);
    assert_eq!(code, Some(0), "{rows:#?}");
    for check in ["config", "port", "mtu"] {
        assert_eq!(fault(&rows, check), None);
    }
    let found = fault(&rows, "routes").unwrap();
    assert!(
        found["mend"][0]
            .as_str()
            .unwrap()
            .contains("via GATEWAY dev wwan0"),
        "{found}"
    );

    // A table of its own, but no rule that leads to it; small packets; a port that is taken; a mistake in the file.
    near.ip("route add default via 10.2.0.1 dev wwan0 table 7");
    near.ip("link set dev wwan0 mtu 1280");
    let mut taking = command(path);
    taking.args([
        "node",
        "--listen",
        "10.1.0.2:4433",
        "--key",
        "other.key",
        "--control",
        "other.sock",
    ]);
    let mut other = start(&near, taking);
    other.line();
    let (rows, code) = doctor(&near, path, &[]);
    assert_eq!(code, Some(1), "{rows:#?}");
    let port = fault(&rows, "port").unwrap();
    assert_eq!(port["mend"][0], format!("kill {}", other.id()));
    assert_eq!(
        fault(&rows, "routes").unwrap()["mend"][0],
        "ip rule add from 10.2.0.2 lookup 7"
    );
    for check in ["port", "routes", "mtu"] {
        mend(&near, fault(&rows, check).unwrap());
    }
    let began = Instant::now();
    loop {
        let (rows, code) = doctor(&near, path, &[]);
        if code == Some(0) {
            for check in ["port", "routes", "mtu"] {
                assert_eq!(fault(&rows, check), None);
            }
            break;
        }
        // A process that is asked to end takes a moment.
        assert!(began.elapsed() < TIMEOUT, "{rows:#?}");
    }
    let good = fs::read_to_string(path.join("near.toml")).unwrap();
    fs::write(path.join("near.toml"), good.replace("listen", "listne")).unwrap();
    let (rows, code) = doctor(&near, path, &[]);
    assert_eq!(code, Some(1));
    assert!(
        fault(&rows, "config").unwrap()["words"]
            .as_str()
            .unwrap()
            .contains("near.toml:2:1")
    );
    fs::write(path.join("near.toml"), good).unwrap();
}

#[test]
fn blocked_udp_is_found_and_the_firewall_opened() {
    let Some([near, far]) = namespaces() else {
        return;
    };
    let folder = private_folder();
    let path = folder.path();
    near.join(("wlan0", "10.1.0.2/24"), &far, ("wlan0", "10.1.0.1/24"));
    let (near_id, far_id) = (id(path, "near.key"), id(path, "far.key"));
    let write = |name: &str, listen: &str, peer: &str, id: &str, more: &str| {
        let text = format!(
            "key = \"{name}.key\"\nlisten = [\"{listen}:4433\"]\ncontrol = \"{name}.sock\"\n[[peer]]\nname = \"{peer}\"\n\
             node = \"{id}\"\nmay = [\"call\"]\n{more}"
        );
        fs::write(path.join(format!("{name}.toml")), text).unwrap();
    };
    write(
        "near",
        "10.1.0.2",
        "far",
        &far_id,
        "addresses = [\"10.1.0.1:4433\"]\n",
    );
    write("far", "10.1.0.1", "near", &near_id, "");
    let mut blocking = Command::new("sh");
    blocking.args([
        "-c",
        "PATH=$PATH:/usr/sbin; nft add table inet guard && nft add chain inet guard input '{ type filter hook input priority 0; }' \
         && nft add rule inet guard input meta l4proto udp drop",
    ]);
    if !run(&near, blocking).status.success() {
        eprintln!("skipped: nft is not installed");
        return;
    }
    let node = |place: &Namespace, file: &str| {
        let mut command = command(path);
        command.args(["node", "--config", file]);
        let mut node = start(place, command);
        assert!(node.line().starts_with("node "));
        node
    };
    let _far = node(&far, "far.toml");
    let _near = node(&near, "near.toml");
    let (rows, code) = doctor(&near, path, &["--peer", "far"]);
    assert_eq!(code, Some(1), "{rows:#?}");
    assert_eq!(fault(&rows, "udp").unwrap()["state"], "problem");
    let firewall = fault(&rows, "firewall").unwrap();
    assert_eq!(
        firewall["mend"][0],
        "nft insert rule inet guard input udp dport 4433 accept"
    );
    mend(&near, firewall);
    let began = Instant::now();
    loop {
        let (rows, code) = doctor(&near, path, &["--peer", "far"]);
        if fault(&rows, "udp").is_none() {
            assert_eq!((fault(&rows, "firewall"), code), (None, Some(0)));
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "{rows:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

//! The units for systemd in `packaging/systemd`: valid, and with a bounded exposure by the measure of `systemd-analyze security`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::stage::skip;

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
const NODE: &str = "anabranch.service";
const TUNNEL: &str = "anabranch-tunnel.service";
const DROP_IN: &str = "anabranch-tunnel-dns.conf";

fn unit(name: &str) -> String {
    fs::read_to_string(Path::new(UNITS).join(name)).unwrap()
}

/// Values of a setting, in order.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let values = lines.filter_map(|(name, value)| (name == key).then_some(value));
    values.collect()
}

/// Both units in a folder, with the program of this build, and the drop-in if it is wanted; `None`, after printing the reason, where
/// systemd-analyze cannot read units from files.
fn folder(has_drop_in: bool) -> Option<tempfile::TempDir> {
    let help = Command::new("systemd-analyze").arg("--help").output();
    let can = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--offline"));
    if !can {
        skip("there is no systemd-analyze of systemd 250 or newer");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_anabranch");
    for name in [NODE, TUNNEL] {
        let text = unit(name).replace("=anabranch node", &format!("={program} node"));
        let text = text.replace("=anabranch reload", &format!("={program} reload"));
        fs::write(folder.path().join(name), text).unwrap();
    }
    if has_drop_in {
        let place = folder.path().join(format!("{TUNNEL}.d"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("dns.conf"), unit(DROP_IN)).unwrap();
    }
    Some(folder)
}

fn analyze(folder: &Path, arguments: &[&str], name: &str) -> Output {
    let mut command = Command::new("systemd-analyze");
    command
        .args(arguments)
        .arg(folder.join(name))
        .env("NO_COLOR", "1");
    command.output().unwrap()
}

#[test]
fn systemd_accepts_every_line() {
    for has_drop_in in [false, true] {
        let Some(folder) = folder(has_drop_in) else {
            return;
        };
        for name in [NODE, TUNNEL] {
            let output = analyze(folder.path(), &["verify", "--man=no"], name);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{text}");
            // Other units of the machine may have faults of their own.
            assert!(!text.contains("anabranch"), "{text}");
        }
    }
}

/// The figures of systemd 252 are in docs/operations.md; other versions weigh some settings differently.
#[test]
fn the_exposure_is_bounded() {
    for (name, has_drop_in, bound) in [
        (NODE, false, 1.5),
        (TUNNEL, false, 2.0),
        (TUNNEL, true, 2.5),
    ] {
        let Some(folder) = folder(has_drop_in) else {
            return;
        };
        let arguments = ["security", "--offline=true", "--no-pager"];
        let output = analyze(folder.path(), &arguments, name);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let overall = text
            .split("Overall exposure level for ")
            .nth(1)
            .and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
        let overall = overall.unwrap_or_else(|| panic!("no figure: {output:?}"));
        println!("{name}, drop-in {has_drop_in}: {overall}");
        assert!(overall <= bound, "{text}");
    }
}

#[test]
fn only_the_tunnel_has_a_capability_and_only_one() {
    let (node, tunnel) = (unit(NODE), unit(TUNNEL));
    for key in ["CapabilityBoundingSet", "AmbientCapabilities"] {
        assert_eq!(values(&node, key), [""]);
        assert_eq!(values(&tunnel, key), ["CAP_NET_ADMIN"]);
        assert_eq!(values(&unit(DROP_IN), key), Vec::<&str>::new());
    }
    assert_eq!(values(&node, "DeviceAllow"), Vec::<&str>::new());
    assert_eq!(values(&tunnel, "DeviceAllow"), ["/dev/net/tun rw"]);
    // One takes the place of the other: the same configuration, state, key and sockets.
    assert_eq!(values(&tunnel, "Conflicts"), [NODE]);
    for key in [
        "ExecStart",
        "User",
        "StateDirectory",
        "RuntimeDirectory",
        "Environment",
    ] {
        assert_eq!(values(&node, key), values(&tunnel, key), "{key}");
        assert_eq!(values(&node, key).len(), 1, "{key}");
    }
}

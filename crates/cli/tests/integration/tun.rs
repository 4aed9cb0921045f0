//! Arguments of `anabranch tun` that have no effect at the end which is started: each is an error. None of this needs root.
#![cfg(target_os = "linux")]

use crate::harness::limited;

const NODE: &str = "uxqxlojv5fzaxl6mij2iy4aawnahgijt4t45qfevrtcahy2xvxia";

/// Checks that the command ends for wrong usage, and that the reason has these words.
#[track_caller]
fn fails(arguments: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = limited(folder.path(), 60)
        .arg("tun")
        .args(arguments)
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {seen}");
    for word in words {
        assert!(seen.contains(word), "{arguments:?}: no '{word}' in {seen}");
    }
}

#[test]
fn a_client_takes_no_arguments_of_a_server() {
    for arguments in [
        &["--allow", NODE][..],
        &["--pool", "10.78.0.0/24"],
        &["--masquerade"],
        &["--to", "internet"],
        &["--listen", "192.0.2.1:4433"],
        &["--port", "4433"],
        &["--leases", "leases"],
    ] {
        let (name, words) = (arguments[0], ["--serve", "Leave it out"]);
        fails(
            &[&["ticket"], arguments].concat(),
            &[&[name], &words[..]].concat(),
        );
        let configured = ["exit", "--config", "node.toml"];
        fails(&[&configured, arguments].concat(), &[name]);
        let filed = ["--ticket-file", "ticket"];
        fails(&[&filed, arguments].concat(), &[name]);
        // Neither a ticket nor --serve: most likely, the latter was forgotten.
        fails(arguments, &[name, "--serve"]);
    }
    fails(
        &["ticket", "--masquerade", "--port", "1"],
        &["--masquerade, --port"],
    );
    fails(&["ticket", "--allow-ipv6-leak"], &["--default-route"]);
}

#[test]
fn a_server_takes_no_arguments_of_a_client() {
    for (arguments, name) in [
        (&["ticket"][..], "ticket"),
        (&["--ticket-file", "ticket"], "ticket"),
        (&["--default-route"], "--default-route"),
        (&["--route", "10.20.0.0/16"], "--route"),
        (&["--split-tcp"], "--split-tcp"),
        (&["--dns", "9.9.9.9"], "--dns"),
        (&["--lan", "eth1"], "--lan"),
        (&["--allow-ipv6-leak"], "--allow-ipv6-leak"),
        (&["--bind", "192.0.2.1:0"], "--bind"),
    ] {
        let own = ["--serve", "--allow", NODE];
        fails(
            &[&own, arguments].concat(),
            &[name, "the client", "Leave it out"],
        );
    }
    let own = ["--serve", "--allow", NODE, "--config", "node.toml"];
    fails(&own, &["anabranch node --config", "[tunnel.server]"]);
}

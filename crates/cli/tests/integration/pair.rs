//! `anabranch pair` on loopback: two nodes that list each other afterwards, one of which runs.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use anabranch::{
    config::{Layer, NodeConfig},
    rights::Right,
};

use crate::{
    codes::{Issuer, seen},
    harness::{Running, command, free_port, limited},
};

/// Configuration of a node of this name.
fn configure(folder: &Path, name: &str) -> SocketAddr {
    let listen = free_port();
    let text = format!(
        "# Written by hand.\nname = \"{name}\"\nkey = \"{name}.key\"\nlisten = [\"{listen}\"]\ncontrol = \"{name}.sock\"\nlocal = \"\"\n\
         receive = \"{name}-in\"\n"
    );
    fs::create_dir(folder.join(format!("{name}-in"))).unwrap();
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    listen
}

fn read(folder: &Path, name: &str) -> NodeConfig {
    let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    assert!(text.starts_with("# Written by hand."), "{text}");
    let layer = Layer::from_toml(&text).unwrap();
    layer.resolve(|_| Some("/".to_owned())).unwrap()
}

fn pair(folder: &Path, name: &str, more: &[&str]) -> Command {
    let mut command = limited(folder, 120);
    let config = format!("{name}.toml");
    command.args(["pair", "--config", &config, "--bind", "127.0.0.1:0"]);
    command.args(more);
    command
}

#[test]
fn two_nodes_list_each_other_and_the_one_that_runs_applies_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [studio, van] = ["studio", "van"].map(|name| configure(folder, name));
    let mut node = Running::start(command(folder).args(["node", "--config", "studio.toml"]));
    assert!(node.line().starts_with("node "));
    assert!(node.line().contains("anabranch1:"));
    let issuer = Issuer::of(&mut pair(folder, "studio", &[]));
    let linked = pair(folder, "van", &[&issuer.code, "--json"])
        .output()
        .unwrap();
    assert!(linked.status.success(), "{}", seen(&linked));
    let event: serde_json::Value = serde_json::from_slice(&linked.stdout).unwrap();
    let node = read(folder, "van").names.keys().next().unwrap().to_string();
    let expected = serde_json::json!({"kind": "linked", "name": "studio", "node": node, "addresses": [studio.to_string()], "is_new": true});
    assert_eq!(event, expected);
    let (code, text) = issuer.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Linked with 'van'"), "{text}");
    assert!(text.contains("The running node has applied it."), "{text}");
    for (here, there, at) in [("studio", "van", van), ("van", "studio", studio)] {
        let config = read(folder, here);
        let (node, name) = config.names.iter().next().unwrap();
        assert_eq!(name, there);
        assert!(config.rights.may(node, Right::Call) && config.rights.may(node, Right::SendFiles));
        assert_eq!(config.peers[0].addresses.addresses, [at]);
    }
    let rights = command(folder)
        .args(["rights", "--control", "studio.sock"])
        .output()
        .unwrap();
    assert!(seen(&rights).contains("van"), "{}", seen(&rights));
}

#[test]
fn a_machine_without_a_node_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = limited(folder, 60)
        .args(["pair", "--home", "none"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", seen(&output));
    assert!(seen(&output).contains("anabranch up"), "{}", seen(&output));
    configure(folder, "van");
    let output = pair(folder, "van", &["--name", "my van"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", seen(&output));
    assert!(
        seen(&output).contains("letters, digits"),
        "{}",
        seen(&output)
    );
}

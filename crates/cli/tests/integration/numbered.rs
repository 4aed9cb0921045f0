//! Nodes by number: the key of each follows from its number, and its sockets are named after it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anabranch::SecretKey;

use crate::harness::{Running, command, free_port};

/// Writes the key of a node, and returns its file.
pub(crate) fn key(folder: &Path, own: u8) -> PathBuf {
    let key = folder.join(format!("{own}.key"));
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, owner_only).unwrap();
    key
}

/// Id of a node.
pub(crate) fn id(own: u8) -> String {
    SecretKey::from_seed([own; 32]).node_id().to_string()
}

/// Starts a node with `more` in its configuration, and waits until it runs.
pub(crate) fn start(folder: &Path, own: u8, listen: &[SocketAddr], more: &str) -> Running {
    let key = key(folder, own);
    let listen: Vec<String> = listen.iter().map(|at| format!("\"{at}\"")).collect();
    let text = format!(
        "key = {key:?}\nlisten = [{}]\ncontrol = \"{own}.sock\"\nlocal = \"{own}.local\"\n{more}",
        listen.join(", ")
    );
    let config = format!("{own}.toml");
    fs::write(folder.join(&config), text).unwrap();
    let mut node = Running::start(command(folder).args(["node", "--config", &config]));
    let line = node.line();
    assert!(line.starts_with("node "), "{line}");
    node
}

/// Starts nodes 2 and 1, the first of which lets the other use these services; node 1 knows it as `far`.
pub(crate) fn pair(folder: &Path, services: &str) -> [Running; 2] {
    pair_with(folder, services, "")
}

/// The same with `more` in the configuration of node 2.
pub(crate) fn pair_with(folder: &Path, services: &str, more: &str) -> [Running; 2] {
    let far = free_port();
    let may = format!(
        "[[peer]]\nname = \"near\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"use-service\", services = [{services}] }}]\n{more}",
        id(1)
    );
    let provider = start(folder, 2, &[far], &may);
    let peer = format!(
        "[[peer]]\nname = \"far\"\nnode = \"{}\"\nmay = []\naddresses = [\"{far}\"]\n",
        id(2)
    );
    [provider, start(folder, 1, &[free_port()], &peer)]
}

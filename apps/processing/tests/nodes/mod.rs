//! Nodes of this process, and emulated links between them.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    SecretKey,
    base::{NodeId, Seed},
    config::Layer,
    daemon::Daemon,
    net::emulate::{
        Emulator, PathSpec,
        link::describe::{no_traces, parse_both},
    },
};

/// A link with more than is needed.
const WIDE: &str = "rate=20 Mbit/s, delay=5 ms, queue=300 ms";
/// Limit on a test; nothing is asserted of the time within it.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// A node, and the socket at which applications attach to it.
pub(crate) struct Node {
    pub(crate) daemon: Daemon,
    pub(crate) local: PathBuf,
}

/// Identity of the node with this number.
pub(crate) fn id(own: u8) -> NodeId {
    SecretKey::from_seed([own; 32]).node_id()
}

/// A node with these peers, by number and the rest of their entries.
pub(crate) async fn node(folder: &Path, own: u8, peers: &[(u8, String)]) -> Node {
    let folder = folder.join(own.to_string());
    fs::create_dir(&folder).unwrap();
    let key = folder.join("key");
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let control = folder.join("control.sock");
    let mut text = format!(
        "key = {key:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {control:?}\nevidence = \"\"\n"
    );
    for (peer, rest) in peers {
        let node = id(*peer);
        text += &format!("[[peer]]\nname = \"peer-{peer}\"\nnode = \"{node}\"\n{rest}\n");
    }
    let config = Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap();
    Node {
        daemon: Daemon::start(config).await.unwrap(),
        local: folder.join("control-local.sock"),
    }
}

/// A link to an address.
pub(crate) fn link(target: SocketAddr, seed: u64) -> Emulator {
    let links = parse_both(WIDE, &mut no_traces).unwrap();
    let path = PathSpec {
        name: "leg".to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        target,
        links,
    };
    Emulator::start(vec![path], Seed(seed)).unwrap()
}

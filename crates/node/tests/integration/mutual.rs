//! Two nodes that call each other.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    base::NodeId,
    config::{Layer, NodeConfig},
    daemon::Daemon,
    net::Remotes,
};

use crate::common::{id, key, within};

/// A node on loopback that calls the other one once its address is known.
struct Node {
    daemon: Daemon,
    peer: NodeId,
    called: Arc<Mutex<String>>,
}

impl Node {
    async fn start(folder: &Path, own: u8, peer: u8) -> Self {
        let folder = folder.join(own.to_string());
        fs::create_dir(&folder).unwrap();
        let key_file = folder.join("key");
        fs::write(&key_file, key(own).to_text()).unwrap();
        fs::set_permissions(&key_file, PermissionsExt::from_mode(0o600)).unwrap();
        let places = format!(
            "key = {key_file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\n",
            folder.join("control")
        );
        let peer = id(peer);
        let called = Arc::new(Mutex::new(String::new()));
        let source = {
            let called = called.clone();
            move || -> Result<NodeConfig, String> {
                let entry = format!(
                    "[[peer]]\nname = \"other\"\nnode = \"{peer}\"\nmay = [\"call\"]\naddresses = [{}]\n",
                    called.lock().unwrap()
                );
                let layer = Layer::from_toml(&(places.clone() + &entry));
                let layer = layer.map_err(|error| error.to_string())?;
                layer.resolve(|_| None).map_err(|error| error.to_string())
            }
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        Self {
            daemon: daemon.with_source(Box::new(source)),
            peer,
            called,
        }
    }

    async fn call(&self, at: SocketAddr) {
        *self.called.lock().unwrap() = format!("\"{at}\"");
        self.daemon.reload().await.unwrap();
    }

    fn address(&self) -> SocketAddr {
        self.daemon.host().addresses()[0]
    }

    /// For each of its sessions with the other node, true if that one opened it.
    fn incoming(&self) -> Vec<bool> {
        let sessions = self.daemon.host().sessions();
        let theirs = sessions.iter().map(|report| &report.stats);
        theirs
            .filter(|stats| stats.peer == self.peer)
            .map(|stats| stats.incoming)
            .collect()
    }
}

/// Both dial at about the same time. The session of the node with the smaller id remains, at both ends.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_call_each_other_end_with_one_session() {
    let folder = tempfile::tempdir().unwrap();
    let one = Node::start(folder.path(), 1, 2).await;
    let two = Node::start(folder.path(), 2, 1).await;
    let calling = async {
        tokio::join!(one.call(two.address()), two.call(one.address()));
        let expected = [id(2) < id(1), id(1) < id(2)];
        let mut has_had_two = false;
        while !has_had_two || one.incoming() != [expected[0]] || two.incoming() != [expected[1]] {
            has_had_two |= one.incoming().len() == 2 || two.incoming().len() == 2;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // It stays so.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((one.incoming().len(), two.incoming().len()), (1, 1));
    };
    within(async {
        tokio::select! {
            () = one.daemon.run() => unreachable!("it runs until dropped"),
            () = two.daemon.run() => unreachable!("it runs until dropped"),
            () = calling => {}
        }
    })
    .await;
}

/// An application that needs a session while the node opens one of its own accord gets that one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_being_opened_is_not_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let one = Node::start(folder.path(), 1, 2).await;
    let two = Node::start(folder.path(), 2, 1).await;
    one.call(two.address()).await;
    let needing = async {
        let handle = one.daemon.handle();
        let session = handle.session_with(one.peer, Remotes::default()).await;
        assert_eq!(session.unwrap().peer(), one.peer);
        assert_eq!(one.incoming(), [false]);
    };
    within(async {
        tokio::select! {
            biased;
            () = one.daemon.run() => unreachable!("it runs until dropped"),
            () = two.daemon.run() => unreachable!("it runs until dropped"),
            () = needing => {}
        }
    })
    .await;
}

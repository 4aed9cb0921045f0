//! Local interface: applications that are attached to two running nodes.

mod contract;
mod hostile;
mod limits;
mod memory;
mod outcome;
mod promises;
mod python;
mod relay;
mod rights;
mod shares;
mod streams;
mod tcp;
mod transfer;
mod versions;

use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
};

use anabranch::{
    Client, SecretKey, StreamSpec,
    config::{Layer, NodeConfig},
    daemon::Daemon,
    local::client,
};

use crate::common::{id, within};

/// A node of this number, with a peer to which it gives these rights.
struct Node {
    daemon: Daemon,
    folder: PathBuf,
}

/// The rights of a peer that may call every service.
const ALL_SERVICES: &str = r#"may = ["call", { right = "use-service", services = ["*"] }]"#;

fn config(folder: &Path, peer: u8, may: &str) -> NodeConfig {
    let received = folder.join("received");
    fs::create_dir_all(&received).unwrap();
    let text = format!(
        "key = {:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\nreceive = {received:?}\n\
         [[peer]]\nname = \"other\"\nnode = \"{}\"\n{may}\n",
        folder.join("key"),
        folder.join("control.sock"),
        id(peer)
    );
    Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap()
}

impl Node {
    async fn start(folder: &Path, own: u8, peer: u8, may: &str) -> Self {
        Self::start_with(folder, own, peer, may, |_| {}).await
    }

    /// With a configuration that is changed by this.
    async fn start_with(
        folder: &Path,
        own: u8,
        peer: u8,
        may: &str,
        change: impl FnOnce(&mut NodeConfig),
    ) -> Self {
        let folder = folder.join(own.to_string());
        fs::create_dir(&folder).unwrap();
        let key = folder.join("key");
        fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key, owner_only).unwrap();
        let mut config = config(&folder, peer, may);
        change(&mut config);
        let daemon = Daemon::start(config).await.unwrap();
        Self { daemon, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("control-local.sock")
    }

    async fn attach(&self) -> Client {
        Client::attach(self.socket(), "test").await.unwrap()
    }
}

/// Two nodes that know each other, and the folder that they are in.
struct Pair {
    near: Node,
    far: Node,
    _folder: tempfile::TempDir,
}

impl Pair {
    async fn start() -> Self {
        Self::with(ALL_SERVICES).await
    }

    /// The near node has these rights at the far one.
    async fn with(may: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            near: Node::start(folder.path(), 1, 2, ALL_SERVICES).await,
            far: Node::start(folder.path(), 2, 1, may).await,
            _folder: folder,
        }
    }

    /// The near node has a configuration that is changed by this.
    async fn with_near(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            near: Node::start_with(folder.path(), 1, 2, ALL_SERVICES, change).await,
            far: Node::start(folder.path(), 2, 1, ALL_SERVICES).await,
            _folder: folder,
        }
    }

    /// Runs both nodes until the work is done.
    async fn run(&self, work: impl Future<Output = ()>) {
        within(async {
            tokio::select! {
                () = self.near.daemon.run() => unreachable!("it runs until dropped"),
                () = self.far.daemon.run() => unreachable!("it runs until dropped"),
                () = work => {}
            }
        })
        .await;
    }

    /// A session from the near node to the far one, by name.
    async fn session(&self, near: &Client) -> client::Session {
        // By the name of its host, which the node resolves.
        let mut remotes = anabranch::Remotes::default();
        for address in self.far.daemon.host().addresses() {
            remotes
                .add(&format!("localhost:{}", address.port()))
                .unwrap();
        }
        near.connect_at("other", remotes).await.unwrap()
    }
}

fn duplex(label: &str) -> StreamSpec {
    StreamSpec {
        duplex: true,
        ..StreamSpec::messages(label)
    }
}

/// Sends back whatever arrives on the streams of a service.
async fn echo(service: client::Service) {
    let mut tasks = tokio::task::JoinSet::new();
    while let Ok((_, stream)) = service.accept().await {
        tasks.spawn(async move {
            while let Ok(Some(adu)) = stream.recv().await {
                if stream.send(adu.data).await.is_err() {
                    return;
                }
            }
            // It may have been reset.
            let _ = stream.finish();
            let _ = stream.delivered().await;
        });
    }
}

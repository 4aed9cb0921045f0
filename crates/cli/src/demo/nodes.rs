//! Nodes of a demonstration, and the applications that are attached to them: a server at the archive, clients at its guests.

use std::{net::SocketAddr, path::Path, time::Duration};

use anabranch::{
    Client, LocalAddress,
    base::NodeId,
    control::{self, Request},
    keys,
    local::client::Session,
};
use tempfile::TempDir;

use super::stage::{Place, Running};
use crate::{
    attach::failure,
    control::rows,
    exit::{Failure, Outcome},
};

/// Time in which the nodes find each other.
const STARTED: Duration = Duration::from_secs(60);
/// Interval between two questions to a node that starts.
const LOOK: Duration = Duration::from_millis(200);

/// A node to which an application is attached that serves others.
pub(super) struct Archive {
    id: NodeId,
    /// Its application.
    client: Client,
    _running: Running,
}

/// A node that calls the archive, and the application that is attached to it.
pub(super) struct Guest {
    client: Client,
    control: std::path::PathBuf,
    archive: NodeId,
    _running: Running,
}

/// A server and its client.
#[cfg(any(feature = "records", feature = "visualise"))]
pub(super) struct Nodes {
    /// Application at the node of the server.
    pub(super) archive: Client,
    desk: Guest,
    _archive: Archive,
}

#[cfg(any(feature = "records", feature = "visualise"))]
impl Nodes {
    /// Starts the node of the server, which lets the client use these services; returns its address, too.
    pub(super) async fn start(
        folder: &Path,
        services: &str,
    ) -> Result<(Archive, SocketAddr), Failure> {
        Archive::start(folder, &["desk"], services).await
    }

    /// The session of the client with the archive, as soon as it has so many paths.
    pub(super) async fn connect(&self, paths: usize) -> Result<Session, Failure> {
        self.desk.connect(paths).await
    }
}

impl Archive {
    /// Starts it; guests of these names may use these services. Returns its address, too.
    pub(super) async fn start(
        folder: &Path,
        guests: &[&str],
        services: &str,
    ) -> Result<(Self, SocketAddr), Failure> {
        let id = keys::create(&folder.join("archive.key"))?.node_id();
        let mut peers = String::new();
        for guest in guests {
            let node = keys::create(&folder.join(format!("{guest}.key")))?.node_id();
            peers += &format!(
                "[[peer]]\nname = \"{guest}\"\nnode = \"{node}\"\n\
                 may = [\"call\", {{ right = \"use-service\", services = [\"{services}\"] }}]\n"
            );
        }
        let running = start(folder, "archive", &peers).await?;
        let at = address(&folder.join("archive.control")).await?;
        let client = attach(folder, "archive").await?;
        let archive = Self {
            id,
            client,
            _running: running,
        };
        Ok((archive, at))
    }

    /// Its application.
    #[cfg(feature = "process")]
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Starts a guest, to which the archive has these addresses.
    pub(super) async fn guest(
        &self,
        folder: &Path,
        name: &str,
        at: &[SocketAddr],
    ) -> Result<Guest, Failure> {
        let addresses: Vec<String> = at.iter().map(|at| format!("\"{at}\"")).collect();
        let peer = format!(
            "[[peer]]\nname = \"archive\"\nnode = \"{}\"\naddresses = [{}]\nmay = []\n",
            self.id,
            addresses.join(", ")
        );
        let running = start(folder, name, &peer).await?;
        Ok(Guest {
            client: attach(folder, name).await?,
            control: folder.join(format!("{name}.control")),
            archive: self.id,
            _running: running,
        })
    }

    /// Starts the node of the client, to which the archive has these addresses.
    #[cfg(any(feature = "records", feature = "visualise"))]
    pub(super) async fn join(self, folder: &Path, at: &[SocketAddr]) -> Result<Nodes, Failure> {
        Ok(Nodes {
            archive: self.client.clone(),
            desk: self.guest(folder, "desk", at).await?,
            _archive: self,
        })
    }
}

impl Guest {
    /// Id of its node.
    #[cfg(feature = "process")]
    pub(super) fn node(&self) -> NodeId {
        self.client.node()
    }

    /// The session with the archive, as soon as it has so many paths.
    pub(super) async fn connect(&self, paths: usize) -> Result<Session, Failure> {
        let connecting = async {
            loop {
                let answer = control::ask(&self.control, &Request::Paths {}).await;
                let answer = answer.unwrap_or_default();
                let active = rows(&answer).iter().filter(|row| row["state"] == "active");
                if active.count() >= paths
                    && let Ok(session) = self.client.connect(&self.archive.to_string()).await
                {
                    return session;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let limited = tokio::time::timeout(STARTED, connecting).await;
        limited.map_err(|_| Failure::unreachable("the nodes of the demonstration do not meet"))
    }
}

async fn start(folder: &Path, name: &str, peer: &str) -> Result<Running, Failure> {
    configure(folder, name, peer)?;
    let config = format!("{name}.toml");
    let mut node = Running::start(Place::Here, folder, &["node", "--config", &config])?;
    node.line().await?;
    Ok(node)
}

fn configure(folder: &Path, name: &str, peer: &str) -> Outcome {
    let text = format!(
        "name = \"{name}\"\nkey = \"{name}.key\"\nlisten = [\"127.0.0.1:0\"]\ncontrol = \"{name}.control\"\nlocal = \"{name}.local\"\n\
         promise_record = \"{name}.promises\"\nevidence = \"\"\n{peer}"
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).map_err(Failure::file)
}

async fn attach(folder: &Path, name: &str) -> Result<Client, Failure> {
    let place = LocalAddress::Unix(folder.join(format!("{name}.local")));
    let client = Client::attach_at(&place, "a demonstration of anabranch").await;
    client.map_err(failure)
}

/// Address of a node.
async fn address(control: &Path) -> Result<SocketAddr, Failure> {
    let answer = control::ask(control, &Request::Status {}).await;
    let answer = answer.map_err(Failure::other)?;
    let node = rows(&answer).iter().find(|row| row["kind"] == "node");
    let addresses = node.and_then(|row| row["addresses"].as_str());
    let first = addresses.and_then(|text| text.split(',').next()?.parse().ok());
    first.ok_or_else(|| Failure::other("a node of the demonstration has no address"))
}

/// Removes the folder, in which a process that was killed, or the writer of the copy, may be at work for a moment.
pub(super) async fn remove(folder: TempDir) {
    let path = folder.keep();
    for _ in 0..20 {
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            _ => return,
        }
    }
}

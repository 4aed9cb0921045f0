//! Peers and their rights, as people write them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Component, Path, PathBuf},
};

use anabranch_base::NodeId;
use serde::{Deserialize, Deserializer, de::Error};

use super::{ConfigError, Layer, OverlayConfig, address, missing, node, refused};
use crate::rights::{Right, Table, Terms};

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerLayer {
    /// For people.
    pub name: String,
    /// Its id.
    pub node: String,
    /// What it may do here.
    pub may: Option<Vec<GrantLayer>>,
    /// Its addresses, `IP:PORT`, where this node shall keep a session with it.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// File of objectives for the sessions that this node opens, beside those for all.
    #[serde(default)]
    pub objectives: Option<PathBuf>,
}

/// A right, as it is given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "give a right such as \"call\", or one with its terms such as { right = \"send-files\", folder = \"ship\" }"
)]
pub enum GrantLayer {
    /// Without limits.
    Name(String),
    /// On these terms.
    Terms(TermsLayer),
}

/// A right with its terms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermsLayer {
    /// The right.
    pub right: String,
    /// Of `send-files`: the folder below `receive` that files go into.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

/// A node to keep a session with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// For people.
    pub name: String,
    /// Its id.
    pub node: NodeId,
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
    /// File of objectives for sessions with it.
    pub objectives: Option<PathBuf>,
}

/// A key that was one list for all rights; to write it is refused with what to write instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired;

/// What to write instead of a list for all rights.
pub(super) const INSTEAD: &str = "rights are given one by one now: write for each node a section [[peer]] with name, node and \
     may = [\"call\", \"send-files\"] (docs/operations.md, \"Rights\")";

impl<'de> Deserialize<'de> for Retired {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(INSTEAD))
    }
}

impl GrantLayer {
    fn resolve(&self, key: &str) -> Result<(Right, Terms), ConfigError> {
        let (name, folder) = match self {
            Self::Name(name) => (name, None),
            Self::Terms(layer) => (&layer.right, layer.folder.as_deref()),
        };
        let right: Right = name
            .parse()
            .map_err(|error| refused(key, name, format!("{error}")))?;
        let elsewhere = match right {
            Right::Member => Some("a member of the overlay is listed as [[overlay.member]]"),
            Right::ReadLibrary => Some(
                "this node serves no library; `anabranch video origin` does, and lets in who has its ticket",
            ),
            _ => None,
        };
        if let Some(reason) = elsewhere {
            return Err(refused(key, name, reason));
        }
        match folder {
            None => Ok((right, Terms::default())),
            Some(folder) if right == Right::SendFiles && is_below(folder) => {
                Ok((right, Terms::into_folder(folder)))
            }
            Some(folder) if right == Right::SendFiles => {
                let reason = "name a folder below `receive`, such as \"ship\"";
                Err(refused(key, &folder.display().to_string(), reason))
            }
            Some(_) => Err(refused(key, name, "only send-files goes with a folder")),
        }
    }
}

/// True if a path names something below the folder that it is joined to.
fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Gives the rights of a list.
pub(super) fn give(
    table: &mut Table,
    node: NodeId,
    may: &[GrantLayer],
    key: &str,
) -> Result<(), ConfigError> {
    for layer in may {
        let (right, terms) = layer.resolve(key)?;
        if table.may(&node, right) {
            return Err(refused(
                key,
                right.name(),
                "the same node is given this right twice",
            ));
        }
        table.give(node, right, terms);
    }
    Ok(())
}

/// What is said of peers, checked.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Those to keep a session with.
    pub(super) dialled: Vec<Peer>,
    pub(super) rights: Table,
    pub(super) names: BTreeMap<NodeId, String>,
}

impl Layer {
    /// Peers, and the rights of everybody.
    pub(super) fn peers(&self, overlay: Option<&OverlayConfig>) -> Result<Peers, ConfigError> {
        let mut peers = Peers::default();
        for layer in self.peer.iter().flatten() {
            let id = node("peer.node", &layer.node)?;
            if peers.names.insert(id, layer.name.clone()).is_some() {
                return Err(refused("peer.node", &layer.node, "this id is listed twice"));
            }
            let may = layer.may.as_ref().ok_or_else(|| {
                let reason = format!(
                    "say what \"{}\" may do here, such as may = [\"call\", \"send-files\"], or may = [] for nothing",
                    layer.name
                );
                missing("peer.may", reason)
            })?;
            give(&mut peers.rights, id, may, "peer.may")?;
            if let Some(peer) = layer.dialled(id)? {
                peers.dialled.push(peer);
            }
        }
        for layer in self.overlay.member.iter().flatten() {
            let id = node("overlay.member.node", &layer.node)?;
            peers.rights.give(id, Right::Member, Terms::default());
            give(&mut peers.rights, id, &layer.may, "overlay.member.may")?;
            peers.names.entry(id).or_insert_with(|| layer.name.clone());
        }
        self.check_rights(&peers, overlay)?;
        Ok(peers)
    }

    /// Refuses rights that could not be used: they would look as if they were.
    fn check_rights(
        &self,
        peers: &Peers,
        overlay: Option<&OverlayConfig>,
    ) -> Result<(), ConfigError> {
        let is_dialled = |id: &NodeId| peers.dialled.iter().any(|peer| peer.node == *id);
        for (id, rights) in peers.rights.iter() {
            let name = peers.names.get(id).map_or("", String::as_str);
            let may = |right| rights.contains_key(&right);
            let relays = overlay.is_some_and(|overlay| overlay.relay.is_some());
            let reason = if may(Right::UseRelay) && !(may(Right::Member) && relays) {
                "use-relay is for members of the overlay, where this node relays: list the node as [[overlay.member]], and say \
                 how much in [overlay] relay"
            } else if may(Right::SendFiles) && self.receive.is_none() {
                "send-files needs a directory: name one with `receive`"
            } else if may(Right::SendFiles) && !may(Right::Call) && !is_dialled(id) {
                "send-files needs a session: add the right \"call\", or addresses, so that this node calls"
            } else {
                continue;
            };
            return Err(refused("may", name, reason));
        }
        let relay = overlay.and_then(|overlay| overlay.relay.as_ref());
        if relay.is_some() && peers.rights.with(Right::UseRelay).next().is_none() {
            let reason = "nobody may use the relay; give members may = [\"use-relay\"], or leave `relay` out";
            return Err(missing("overlay.relay", reason));
        }
        Ok(())
    }
}

impl PeerLayer {
    /// The peer, if this node is to keep a session with it.
    fn dialled(&self, id: NodeId) -> Result<Option<Peer>, ConfigError> {
        let mut addresses = Vec::new();
        for text in &self.addresses {
            addresses.push(address("peer.addresses", text)?);
        }
        if addresses.is_empty() {
            return match self.objectives {
                None => Ok(None),
                Some(_) => Err(missing(
                    "peer.addresses",
                    "objectives are for sessions that this node opens; name the peer's addresses",
                )),
            };
        }
        Ok(Some(Peer {
            name: self.name.clone(),
            node: id,
            addresses,
            objectives: self.objectives.clone(),
        }))
    }
}

//! Peers and their rights, in the text form of the configuration.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use anabranch_base::NodeId;
use anabranch_net::Remotes;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::{ConfigError, Layer, OverlayConfig, missing, node, refused};
use crate::{
    rendezvous::Via,
    rights::{Right, Table, Targets, Terms},
    service::label_matches,
    transfer::Updates,
};

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PeerLayer {
    /// Name for display.
    pub name: String,
    /// Its id.
    pub node: String,
    /// Rights of the node here.
    pub may: Option<Vec<GrantLayer>>,
    /// Its addresses, `IP:PORT`, if this node shall keep a session with it.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Relay at which the two nodes meet if neither may be reachable, in the forms of [`Layer::via`]; `None`: that relay, if there is one.
    #[serde(default)]
    pub via: Option<String>,
    /// File of objectives for sessions that this node opens to it, in addition to those for all.
    #[serde(default)]
    pub objectives: Option<PathBuf>,
}

/// A right, as given in the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "give a right such as \"call\", or one with its terms such as { right = \"send-files\", folder = \"ship\" }"
)]
pub enum GrantLayer {
    /// A right without terms.
    Name(String),
    /// A right with terms.
    Terms(TermsLayer),
}

/// A right with its terms.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TermsLayer {
    /// The right.
    pub right: String,
    /// The folder below `receive` that files go into, with `send-files`.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// True if what exists may be updated, with `send-files`.
    #[serde(default)]
    pub update: bool,
    /// True if an update may delete, with `update`.
    #[serde(default)]
    pub delete: bool,
    /// The labels, or their beginnings followed by `*`, with `use-service`.
    #[serde(default)]
    pub services: Vec<String>,
    /// The names of exports, or their beginnings followed by `*`, with `read-export`.
    #[serde(default)]
    pub exports: Vec<String>,
    /// The targets that connections may be made to, with `forward`.
    #[serde(default)]
    pub to: Option<Vec<String>>,
    /// The addresses at which connections may be accepted, with `forward`.
    #[serde(default)]
    pub listen: Option<Vec<String>>,
}

/// A node to keep a session with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name for display.
    pub name: String,
    /// Its id.
    pub node: NodeId,
    /// Its addresses.
    pub addresses: Remotes,
    /// Relay at which the two nodes meet.
    pub via: Option<Via>,
    /// File of objectives for sessions with it.
    pub objectives: Option<PathBuf>,
}

/// Key that was one list for all rights; it is refused with a message that explains the replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired;

/// Error message for such a key: the replacement.
pub(super) const INSTEAD: &str = "rights are given one by one now: for each node, write a section [[peer]] with name, node and \
     may = [\"call\", \"send-files\"] (docs/operations.md, \"Rights\")";

/// Error message for a right to read no exports.
const NO_EXPORTS: &str =
    "name the exports, such as { right = \"read-export\", exports = [\"data\", \"era-*\"] }";

impl<'de> Deserialize<'de> for Retired {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(INSTEAD))
    }
}

impl GrantLayer {
    fn resolve(&self, key: &str) -> Result<(Right, Terms), ConfigError> {
        let (name, folder, services) = match self {
            Self::Name(name) => (name, None, &[][..]),
            Self::Terms(layer) => (&layer.right, layer.folder.as_deref(), &layer.services[..]),
        };
        let right: Right = name
            .parse()
            .map_err(|error| refused(key, name, format!("{error}")))?;
        let elsewhere = match right {
            Right::Member => Some("a member of the overlay is listed as [[overlay.member]]"),
            Right::ReadLibrary => Some(
                "this node serves no library; `anabranch video origin` does, and admits holders of its ticket",
            ),
            _ => None,
        };
        if let Some(reason) = elsewhere {
            return Err(refused(key, name, reason));
        }
        if let Self::Terms(TermsLayer { to, listen, .. }) = self
            && right != Right::Forward
            && (to.is_some() || listen.is_some())
        {
            return Err(refused(key, name, "only forward takes `to` and `listen`"));
        }
        let updates = self.updates(key, right)?;
        if right == Right::ReadExport {
            return Ok((right, self.reading(key)?));
        }
        if let Self::Terms(TermsLayer { exports, .. }) = self
            && !exports.is_empty()
        {
            return Err(refused(key, name, "only read-export takes exports"));
        }
        match (right == Right::UseService, services) {
            (false, []) => {}
            (false, _) => return Err(refused(key, name, "only use-service takes services")),
            (true, []) => {
                let reason = "name the services, such as { right = \"use-service\", services = [\"telemetry\", \"video/*\"] }";
                return Err(refused(key, name, reason));
            }
            (true, services) if folder.is_none() => {
                let is_ours = |label: &&String| label.starts_with("anabranch-");
                if let Some(label) = services.iter().find(is_ours) {
                    let reason = "labels that begin with anabranch- belong to the node itself";
                    return Err(refused(key, label, reason));
                }
                return Ok((right, Terms::for_services(services)));
            }
            _ => {}
        }
        if right == Right::Forward {
            return Ok((right, self.forwarding(key)?));
        }
        match folder {
            None => Ok((right, Terms::default().with_updates(updates))),
            Some(folder) if right == Right::SendFiles && is_below(folder) => {
                Ok((right, Terms::into_folder(folder).with_updates(updates)))
            }
            Some(folder) if right == Right::SendFiles => {
                let reason = "name a folder below `receive`, such as \"ship\"";
                Err(refused(key, &folder.display().to_string(), reason))
            }
            Some(_) => Err(refused(key, name, "only send-files takes a folder")),
        }
    }
}

impl GrantLayer {
    /// Terms of the right to read exports, which must name some.
    fn reading(&self, key: &str) -> Result<Terms, ConfigError> {
        let name = Right::ReadExport.name();
        let Self::Terms(layer) = self else {
            return Err(refused(key, name, NO_EXPORTS));
        };
        if layer.folder.is_some() || !layer.services.is_empty() {
            return Err(refused(key, name, "read-export takes exports only"));
        }
        match layer.exports.is_empty() {
            true => Err(refused(key, name, NO_EXPORTS)),
            false => Ok(Terms::for_exports(&layer.exports)),
        }
    }

    /// Updates that the right to send files includes.
    fn updates(&self, key: &str, right: Right) -> Result<Updates, ConfigError> {
        let (update, delete) = match self {
            Self::Name(_) => (false, false),
            Self::Terms(layer) => (layer.update, layer.delete),
        };
        if (update || delete) && right != Right::SendFiles {
            let reason = "only send-files takes `update` and `delete`";
            return Err(refused(key, right.name(), reason));
        }
        match (update, delete) {
            (false, false) => Ok(Updates::Refused),
            (true, false) => Ok(Updates::Permitted),
            (true, true) => Ok(Updates::WithDeletion),
            (false, true) => {
                let reason = "`delete` is a part of updates: write { right = \"send-files\", update = true, delete = true }";
                Err(refused(key, right.name(), reason))
            }
        }
    }

    /// Terms of the right to forward, which must allow something.
    fn forwarding(&self, key: &str) -> Result<Terms, ConfigError> {
        let none = TermsLayer::default();
        let layer = match self {
            Self::Name(_) => &none,
            Self::Terms(layer) => layer,
        };
        let name = Right::Forward.name();
        if layer.folder.is_some() {
            return Err(refused(key, name, "only send-files takes a folder"));
        }
        let read = |field: &str, texts: &Option<Vec<String>>| {
            let texts = texts.iter().flatten().map(String::as_str);
            Targets::parse(texts).map_err(|(text, error)| {
                refused(&format!("{key}.{field}"), &text, error.to_string())
            })
        };
        let terms = Terms::forwarding(read("to", &layer.to)?, read("listen", &layer.listen)?);
        if terms.to.is_empty() && terms.listen.is_empty() {
            let reason = "specify the targets, such as { right = \"forward\", to = [\"10.0.0.0/8:*\", \"127.0.0.1:5432\"] }, \
                 or addresses to accept connections at, such as listen = [\"127.0.0.1:8000-8010\"]";
            return Err(refused(key, name, reason));
        }
        Ok(terms)
    }
}

/// True if the path stays below the folder that it is joined to.
fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Gives the rights in a list to a node.
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

/// The peers of a configuration, checked.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Peers to keep a session with.
    pub(super) dialled: Vec<Peer>,
    pub(super) rights: Table,
    pub(super) names: BTreeMap<NodeId, String>,
}

impl Layer {
    /// Peers, and the rights of all nodes.
    pub(super) fn peers(&self, overlay: Option<&OverlayConfig>) -> Result<Peers, ConfigError> {
        let mut peers = Peers::default();
        let usual = self.via()?;
        for layer in self.peer.iter().flatten() {
            let id = node("peer.node", &layer.node)?;
            if peers.names.insert(id, layer.name.clone()).is_some() {
                return Err(refused("peer.node", &layer.node, "this id is listed twice"));
            }
            let may = layer.may.as_ref().ok_or_else(|| {
                let reason = format!(
                    "specify what \"{}\" may do here, such as may = [\"call\", \"send-files\"], or may = [] for nothing",
                    layer.name
                );
                missing("peer.may", reason)
            })?;
            give(&mut peers.rights, id, may, "peer.may")?;
            let via = match layer.via.as_deref() {
                Some(text) => self.relay("peer.via", text)?,
                None => usual.clone().filter(|relay| relay.node != id),
            };
            if let Some(peer) = layer.dialled(id, via)? {
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

    /// Refuses rights that could have no effect, because they would appear to have one.
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
                "use-relay is for members of the overlay, where this node relays: list the node as [[overlay.member]], and specify \
                 how much in [overlay] relay"
            } else if may(Right::UseRendezvous) && self.rendezvous.is_none() {
                "use-rendezvous is for nodes that meet here: add a section [rendezvous]"
            } else if may(Right::SendFiles) && self.receive.is_none() {
                "send-files needs a directory: name one with `receive`"
            } else if may(Right::SendFiles) && !may(Right::Call) && !is_dialled(id) {
                "send-files needs a session: add the right \"call\", or addresses at which this node dials it"
            } else if may(Right::UseService) && !may(Right::Call) && !is_dialled(id) {
                "use-service needs a session: add the right \"call\", or addresses at which this node dials it"
            } else if may(Right::ReadExport) && self.export.as_ref().is_none_or(Vec::is_empty) {
                "read-export needs a directory: name one in a section [[export]]"
            } else if may(Right::ReadExport) && !may(Right::Call) && !is_dialled(id) {
                "read-export needs a session: add the right \"call\", or addresses at which this node dials it"
            } else if let Some(terms) = rights.get(&Right::ReadExport)
                && !self.exports_all(terms)
            {
                "read-export: there is no export of this name; compare `exports` with the names in the sections [[export]]"
            } else if may(Right::Forward) && !may(Right::Call) && !is_dialled(id) {
                "forward needs a session: add the right \"call\", or addresses at which this node dials it"
            } else if may(Right::Tunnel) && self.tunnel.server.is_none() {
                "tunnel needs a tunnel: give its pools in [tunnel.server]"
            } else if may(Right::Tunnel) && !may(Right::Call) && !is_dialled(id) {
                "tunnel needs a session: add the right \"call\", or addresses at which this node dials it"
            } else {
                continue;
            };
            return Err(refused("may", name, reason));
        }
        let relay = overlay.and_then(|overlay| overlay.relay.as_ref());
        if relay.is_some() && peers.rights.with(Right::UseRelay).next().is_none() {
            let reason = "no member may use the relay; give members may = [\"use-relay\"], or leave `relay` out";
            return Err(missing("overlay.relay", reason));
        }
        Ok(())
    }
}

impl Layer {
    /// True if there is an export for every name in these terms.
    fn exports_all(&self, terms: &Terms) -> bool {
        let exports = || self.export.iter().flatten();
        let is_there =
            |pattern: &String| exports().any(|export| label_matches(pattern, &export.name));
        terms.exports.iter().all(is_there)
    }
}

impl PeerLayer {
    /// The peer, if this node is to keep a session with it.
    fn dialled(&self, id: NodeId, via: Option<Via>) -> Result<Option<Peer>, ConfigError> {
        let addresses = self.remotes()?;
        if addresses.is_empty() && via.is_none() {
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
            via,
            objectives: self.objectives.clone(),
        }))
    }
}

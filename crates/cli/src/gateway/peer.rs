//! The peer of a command: a ticket, or the name of a peer in a node's configuration.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anabranch::{
    Ticket,
    base::NodeId,
    config::{GatewayConfig, Layer},
};
use anabranch_gateway::rules::Table;

use crate::{
    exit::Failure,
    ticket::{Source, typed},
};

/// Beginning of every ticket.
const TICKET: &str = "anabranch";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PeerArguments {
    /// Ticket of the peer, as `anabranch node` prints it there (`-` for a line of standard input), or the name of a [[peer]] in
    /// the file given with --config.
    #[arg(value_name = "TICKET|PEER", conflicts_with = "ticket_file")]
    peer: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
    /// Configuration file of a node, in which the peer is looked up by name; its rules apply to the flows of this command.
    #[arg(short, long, value_name = "FILE", env = "ANABRANCH_CONFIG")]
    config: Option<PathBuf>,
}

impl PeerArguments {
    /// The peer's ID and addresses.
    pub(super) fn resolve(&self) -> Result<(NodeId, Vec<SocketAddr>), Failure> {
        let is_name = |text: &&String| *text != "-" && !text.trim().starts_with(TICKET);
        if let Some(name) = self.peer.as_ref().filter(is_name) {
            return self.named(name);
        }
        let source = Source {
            given: self.peer.as_deref(),
            file: self.ticket_file.as_deref(),
            variables: &["ANABRANCH_TICKET"],
        };
        let ticket: Option<Ticket> = source.ticket(typed)?;
        let ticket = ticket.ok_or_else(|| {
            Failure::usage(
                "name the peer: the ticket that `anabranch node` prints there, or a [[peer]] of the file given with --config",
            )
        })?;
        Ok((ticket.node, ticket.addresses))
    }

    /// The configuration file, if one is given.
    fn layer(&self) -> Result<Option<(&Path, Layer)>, Failure> {
        let Some(path) = &self.config else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))?;
        let layer = Layer::from_toml(&text)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        Ok(Some((path, layer)))
    }

    /// The rules and timeouts of the configuration, for a command with this peer alone.
    pub(super) fn settings(&self, only: NodeId) -> Result<(Table, GatewayConfig), Failure> {
        let Some((path, layer)) = self.layer()? else {
            return Ok(Default::default());
        };
        let usage = |error: &dyn ToString| {
            Failure::usage(format!("{}: {}", path.display(), error.to_string()))
        };
        let gateway = layer.gateway.resolve().map_err(|error| usage(&error))?;
        let named = |name: &str| {
            let mut peers = layer.peer.iter().flatten();
            let peer = peers.find(|peer| peer.name == name);
            let node = peer.map_or(name, |peer| &*peer.node);
            match node.parse() {
                Ok(node) if node == only => Ok(node),
                _ => Err("this command has another peer, and no other; run `anabranch node` for rules with several".to_owned()),
            }
        };
        let rules = layer.rule.as_deref().unwrap_or_default();
        let rules = Table::read(rules, named).map_err(|error| usage(&error))?;
        Ok((rules, gateway))
    }

    fn named(&self, name: &str) -> Result<(NodeId, Vec<SocketAddr>), Failure> {
        let (path, layer) = self.layer()?.ok_or_else(|| {
            let text = format!(
                "'{name}' is not a ticket, and there is no configuration to look a peer of this name up in; give one with --config"
            );
            Failure::usage(text)
        })?;
        let usage = |text: String| Failure::usage(format!("{}: {text}", path.display()));
        let mut peers = layer.peer.iter().flatten();
        let peer = peers
            .find(|peer| peer.name == name || peer.node == name)
            .ok_or_else(|| usage(format!("there is no [[peer]] named '{name}'")))?;
        let node = peer
            .node
            .parse()
            .map_err(|error| usage(format!("peer.node = \"{}\": {error}", peer.node)))?;
        let addresses: Result<Vec<SocketAddr>, _> =
            peer.addresses.iter().map(|text| text.parse()).collect();
        let addresses = addresses.map_err(|error| usage(format!("peer.addresses: {error}")))?;
        if addresses.is_empty() {
            return Err(usage(format!(
                "the [[peer]] '{name}' has no addresses to dial"
            )));
        }
        Ok((node, addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_by_name_in_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        let id = anabranch::SecretKey::from_seed([1; 32]).node_id();
        let text = format!(
            "[[peer]]\nname = \"studio\"\nnode = \"{id}\"\nmay = []\naddresses = [\"192.0.2.7:4433\"]\n\
             [[peer]]\nname = \"caller\"\nnode = \"{id}\"\nmay = []\n"
        );
        std::fs::write(&path, text).unwrap();
        let find = |peer: &str, config: Option<PathBuf>| {
            let arguments = PeerArguments {
                peer: Some(peer.to_owned()),
                ticket_file: None,
                config,
            };
            arguments.resolve()
        };
        let found = find("studio", Some(path.clone())).unwrap();
        assert_eq!(found, (id, vec!["192.0.2.7:4433".parse().unwrap()]));
        for (peer, config) in [
            ("other", Some(path.clone())),
            ("caller", Some(path)),
            ("studio", None),
        ] {
            assert!(find(peer, config).is_err(), "{peer}");
        }
    }

    #[test]
    fn rules_may_name_the_peer_of_the_command_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        let id = |seed| anabranch::SecretKey::from_seed([seed; 32]).node_id();
        let read = |rules: &str| {
            let text = format!(
                "[[peer]]\nname = \"studio\"\nnode = \"{}\"\nmay = []\n\
                 [[peer]]\nname = \"other\"\nnode = \"{}\"\nmay = []\n{rules}",
                id(1),
                id(2)
            );
            std::fs::write(&path, text).unwrap();
            let arguments = PeerArguments {
                peer: None,
                ticket_file: None,
                config: Some(path.clone()),
            };
            arguments
                .settings(id(1))
                .map_err(|failure| failure.message().to_owned())
        };
        assert!(read("").is_ok());
        assert!(read("[[rule]]\nmatch = { port = 25 }\ndeny = true\n").is_ok());
        assert!(read("[[rule]]\npeer = \"studio\"\n").is_ok());
        let error = read("[[rule]]\npeer = \"other\"\n").unwrap_err();
        assert!(
            error.contains("rule 1") && error.contains("anabranch node"),
            "{error}"
        );
        let error = read("[[rule]]\nservice = \"fast\"\n").unwrap_err();
        assert!(error.contains("interactive, live"), "{error}");
    }
}

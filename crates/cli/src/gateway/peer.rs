//! The peer of a command: a ticket, or the name of a peer in a node's configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch::{
    AllowList, HostConfig, Locals, Remotes, SecretKey, Ticket,
    base::NodeId,
    config::{Costs, GatewayConfig, Layer, NodeConfig},
    objectives::Objectives,
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
    /// Ticket of the peer, as `anabranch node` or `anabranch tun --serve` prints it there (`-` for a line of standard input), or the name of a [[peer]] in
    /// the file given with --config.
    #[arg(value_name = "TICKET|PEER", conflicts_with = "ticket_file")]
    peer: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
    /// Configuration file of a node, in which the peer is looked up by name. Its rules, objectives, costs and settings of
    /// sessions apply to this command; its key, ports and sockets do not.
    #[arg(short, long, value_name = "FILE", env = "ANABRANCH_CONFIG")]
    config: Option<PathBuf>,
}

/// The configuration of a command.
#[derive(Default)]
pub(crate) struct Settings {
    /// That of the node, unless there is no file.
    pub(crate) node: Option<NodeConfig>,
    /// Objectives of its sessions.
    pub(crate) objectives: Option<Arc<str>>,
    /// Rules of its flows.
    pub(crate) rules: Table,
    /// Timeouts of its flows.
    pub(crate) timeouts: GatewayConfig,
}

impl Settings {
    /// Settings of the command's host. It has ports of its own, because a node may be running with the same file.
    pub(crate) fn host(&self, key: SecretKey) -> HostConfig {
        let allowed = AllowList::default();
        let Some(node) = &self.node else {
            return HostConfig::new(key, allowed);
        };
        let mut host = node.host(key, allowed);
        host.engine.objectives.clone_from(&self.objectives);
        match &mut host.locals {
            Locals::Fixed(binds) => binds.iter_mut().for_each(|bind| bind.address.set_port(0)),
            Locals::Interfaces { port, .. } => *port = 0,
        }
        host
    }

    /// The costs of sending, and the ledger that keeps them.
    pub(crate) fn costs(&self) -> Option<Costs> {
        Some(self.node.as_ref()?.costs.clone())
    }
}

impl PeerArguments {
    /// True if a peer or a file with one is given.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_given(&self) -> bool {
        self.peer.is_some() || self.ticket_file.is_some()
    }

    /// True if a configuration file is given.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_file(&self) -> bool {
        self.config.is_some()
    }

    /// The peer as a ticket, which has no secret if it is named.
    pub(crate) fn resolve(&self) -> Result<Ticket, Failure> {
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
        ticket.ok_or_else(|| {
            Failure::usage(
                "name the peer: the ticket that `anabranch node` or `anabranch tun --serve` prints there, or a [[peer]] of the file given with \
                 --config",
            )
        })
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

    /// The configuration, for a command with this peer alone.
    pub(crate) fn settings(&self, only: NodeId) -> Result<Settings, Failure> {
        let Some((path, layer)) = self.layer()? else {
            return Ok(Settings::default());
        };
        let usage = |error: &dyn ToString| {
            Failure::usage(format!("{}: {}", path.display(), error.to_string()))
        };
        let names = layer.peer.clone().unwrap_or_default();
        let named = |name: &str| {
            let peer = names.iter().find(|peer| peer.name == name);
            let node = peer.map_or(name, |peer| &*peer.node);
            match node.parse() {
                Ok(node) if node == only => Ok(node),
                _ => Err("this command has another peer, and no other; run `anabranch node` for rules with several".to_owned()),
            }
        };
        let variable = |name: &str| std::env::var(name).ok();
        let config = layer.resolve(variable).map_err(|error| usage(&error))?;
        let rules = Table::read(&config.rules, named).map_err(|error| usage(&error))?;
        let objectives = Objectives::read(&config)?;
        let mut peers = config.peers.iter().zip(objectives.peers);
        let of_peer = peers.find(|(peer, _)| peer.node == only);
        Ok(Settings {
            objectives: of_peer
                .and_then(|(_, objectives)| objectives)
                .or(objectives.all),
            timeouts: config.gateway.clone(),
            rules,
            node: Some(config),
        })
    }

    fn named(&self, name: &str) -> Result<Ticket, Failure> {
        let (path, layer) = self.layer()?.ok_or_else(|| {
            Failure::usage(match name.parse::<NodeId>() {
                Ok(_) => format!(
                    "'{name}' is the ID of a node and says nothing of its addresses; give the ticket that `anabranch node` or `anabranch tun \
                     --serve` prints there (anabranch1:{name}:…)"
                ),
                Err(_) => format!(
                    "'{name}' is not a ticket, which begins with 'anabranch1:'; copy the whole line that the other machine printed, or name a \
                     [[peer]] of a file given with --config"
                ),
            })
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
        let mut addresses = Remotes::default();
        for text in &peer.addresses {
            let added = addresses.add(text);
            added.map_err(|error| usage(format!("peer.addresses: {error}")))?;
        }
        if addresses.is_empty() {
            return Err(usage(format!(
                "the [[peer]] '{name}' has no addresses to dial"
            )));
        }
        Ok(Ticket {
            node,
            secret: None,
            addresses: addresses.addresses,
            hosts: addresses.hosts,
            via: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    const OBJECTIVE: &str = include_str!("../../../hose/samples/do_not_send.hose");

    #[test]
    fn peers_are_found_by_name_in_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        let id = anabranch::SecretKey::from_seed([1; 32]).node_id();
        let text = format!(
            "[[peer]]\nname = \"studio\"\nnode = \"{id}\"\nmay = []\naddresses = [\"192.0.2.7:4433\"]\n\
             [[peer]]\nname = \"caller\"\nnode = \"{id}\"\nmay = []\n"
        );
        fs::write(&path, text).unwrap();
        let find = |peer: &str, config: Option<PathBuf>| {
            let arguments = PeerArguments {
                peer: Some(peer.to_owned()),
                ticket_file: None,
                config,
            };
            arguments.resolve()
        };
        let found = find("studio", Some(path.clone())).unwrap();
        let there: std::net::SocketAddr = "192.0.2.7:4433".parse().unwrap();
        assert_eq!((found.node, found.addresses), (id, vec![there]));
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
            fs::write(&path, text).unwrap();
            let arguments = PeerArguments {
                peer: None,
                ticket_file: None,
                config: Some(path.clone()),
            };
            arguments
                .settings(id(1))
                .map(|_| ())
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

    #[test]
    fn a_configuration_applies_whole_but_for_ports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        let key = |seed| SecretKey::from_seed([seed; 32]);
        fs::write(folder.path().join("all.hose"), OBJECTIVE).unwrap();
        let head = "control = \"/run/c\"\n";
        let read = |text: &str| {
            fs::write(&path, format!("{head}{text}")).unwrap();
            let arguments = PeerArguments {
                peer: None,
                ticket_file: None,
                config: Some(path.clone()),
            };
            arguments.settings(key(1).node_id())
        };
        let objectives = folder.path().join("all.hose");
        let text = format!(
            "listen = [\"192.0.2.1:4433\"]\n[session]\ntimeout = \"9 s\"\nobjectives = {objectives:?}\n\
             [[cost]]\non = \"wwan0\"\nprice = \"5 GB then stop\"\n"
        );
        let settings = read(&text).unwrap();
        assert_eq!(settings.costs().unwrap().tariffs.len(), 1);
        let host = settings.host(key(2));
        assert_eq!(host.engine.session_timeout, Duration::from_secs(9));
        assert_eq!(host.engine.objectives.as_deref(), Some(OBJECTIVE));
        let Locals::Fixed(binds) = host.locals else {
            panic!("addresses are given");
        };
        assert_eq!(binds[0].address, "192.0.2.1:0".parse().unwrap());
        for (bad, expected) in [
            ("[session]\npaths = [\"avoid colour wwan0\"]\n", "paths"),
            ("[channel]\ncontroller = \"fast\"\n", "channel.controller"),
            ("[[cost]]\non = \"wwan0\"\nprice = \"dear\"\n", "cost.price"),
        ] {
            let failure = read(bad).err().unwrap();
            assert!(
                failure.message().contains(expected),
                "{}",
                failure.message()
            );
        }
    }
}

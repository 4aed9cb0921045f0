//! Rights: what each node may do here.
//!
//! Every right is separate, and no node has any until it is given: a member of the overlay may not write files, and a node that
//! may write files may not use the relay. A [`Table`] lists the rights of each node; [`Rights`] is the table in force, which
//! the check of each right consults and which can be replaced while the node runs. A new right is a variant of [`Right`] with
//! its name and its check.
//!
//! | right | checked at |
//! |---|---|
//! | [`Right::Member`], [`Right::Call`] | the handshake of a channel; the session that is accepted ([`crate::daemon`]) |
//! | [`Right::SendFiles`] | the greeting of a transfer ([`crate::transfer::Receiver`]) |
//! | [`Right::UseRelay`] | a request for a circuit (`overlay/serving`) |
//! | [`Right::UseService`] | a stream for a service that a local application has registered ([`crate::local`]) |
//! | [`Right::Forward`] | each connection, flow and listener that a peer asks for (the gateway) |
//! | [`Right::Tunnel`] | the request for an address of the tunnel, and while it is used (the tunnel) |
//! | [`Right::UseRendezvous`] | the stream of a node that wants to meet another here, and every 20 s ([`crate::rendezvous`]) |
//! | [`Right::ReadExport`] | each request for what is in an exported directory ([`crate::exports`]) |
//! | [`Right::ReadLibrary`] | a process that serves a library; `anabranch node` serves none and gives this right to no node |

mod live;
mod special;
pub mod targets;

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf, str::FromStr};

use anabranch_base::NodeId;

use crate::transfer::Updates;
pub use live::Rights;
pub use targets::{Targets, Transport};

/// Application code of sessions and streams that the peer has no right to.
pub const CODE_NO_RIGHT: u32 = 0x12;

/// Range of special addresses that contains this one, as its first address and length: addresses of the machine itself, of its link or
/// its provider, which no wider network in a list of targets stands for (`special.rs` lists them). `None`: the address is an ordinary
/// one. An IPv4-mapped address counts as the IPv4 address.
pub fn special_range(address: IpAddr) -> Option<(IpAddr, u8)> {
    special::special_range(special::canonical(address)).map(|range| range.parts())
}

/// An action that a node may be allowed to do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Right {
    /// Take part in the overlay, and open sessions for it only.
    Member,
    /// Open sessions.
    Call,
    /// Write files, without a ticket.
    SendFiles,
    /// Read a library of videos, without a ticket.
    ReadLibrary,
    /// Have packets relayed.
    UseRelay,
    /// Open streams to services of local applications.
    UseService,
    /// Have connections made and accepted from here.
    Forward,
    /// Join the tunnel of this node.
    Tunnel,
    /// Meet other nodes at this one, by codes, and have packets to them relayed.
    UseRendezvous,
    /// Read exported directories.
    ReadExport,
}

/// The text is not the name of a right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such right; give one of {}", names())]
pub struct UnknownRight;

fn names() -> String {
    Right::ALL.map(Right::name).join(", ")
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 10] = [
        Self::Member,
        Self::Call,
        Self::SendFiles,
        Self::ReadLibrary,
        Self::UseRelay,
        Self::UseService,
        Self::Forward,
        Self::Tunnel,
        Self::UseRendezvous,
        Self::ReadExport,
    ];

    /// Name of the right in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Call => "call",
            Self::SendFiles => "send-files",
            Self::ReadLibrary => "read-library",
            Self::UseRelay => "use-relay",
            Self::UseService => "use-service",
            Self::Forward => "forward",
            Self::Tunnel => "tunnel",
            Self::UseRendezvous => "use-rendezvous",
            Self::ReadExport => "read-export",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Right {
    type Err = UnknownRight;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|right| right.name() == text).ok_or(UnknownRight)
    }
}

/// Limits of a right; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// For [`Right::SendFiles`]: the folder below the node's directory that files go into; `None`: the directory itself.
    pub folder: Option<PathBuf>,
    /// For [`Right::SendFiles`]: updates of what exists there, with `send --update`.
    pub updates: Updates,
    /// For [`Right::UseService`]: the labels, or their beginnings followed by `*`.
    pub services: Vec<String>,
    /// For [`Right::ReadExport`]: the names of the exports, or their beginnings followed by `*`.
    pub exports: Vec<String>,
    /// For [`Right::Forward`]: the targets that connections may be made to.
    pub to: Targets,
    /// For [`Right::Forward`]: the addresses at which connections may be accepted.
    pub listen: Targets,
}

impl Terms {
    /// Files go into this folder.
    pub fn into_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: Some(folder.into()),
            ..Self::default()
        }
    }

    /// The same, with these updates of what exists.
    #[must_use]
    pub fn with_updates(mut self, updates: Updates) -> Self {
        self.updates = updates;
        self
    }

    /// Connections are made to `to`, and accepted at `listen`.
    pub fn forwarding(to: Targets, listen: Targets) -> Self {
        Self {
            to,
            listen,
            ..Self::default()
        }
    }

    /// Streams with these labels, or with these beginnings of labels if they end with `*`.
    pub fn for_services(services: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            services: services.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Exports with these names, or with these beginnings of names if they end with `*`.
    pub fn for_exports(exports: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            exports: exports.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// True if these terms include an export with this name.
    pub fn include_export(&self, name: &str) -> bool {
        let mut exports = self.exports.iter();
        exports.any(|pattern| crate::service::label_matches(pattern, name))
    }

    /// True if these terms include streams with this label.
    pub fn include_service(&self, label: &str) -> bool {
        let mut services = self.services.iter();
        services.any(|pattern| crate::service::label_matches(pattern, label))
    }
}

/// Rights of each node. Bounded by the configuration that it is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<NodeId, BTreeMap<Right, Terms>>);

impl Table {
    /// Gives a right; if it was given before, its terms are replaced.
    pub fn give(&mut self, node: NodeId, right: Right, terms: Terms) {
        self.0.entry(node).or_default().insert(right, terms);
    }

    /// Withdraws a right.
    pub fn take(&mut self, node: &NodeId, right: Right) {
        if let Some(rights) = self.0.get_mut(node) {
            rights.remove(&right);
            if rights.is_empty() {
                self.0.remove(node);
            }
        }
    }

    /// True if the node has the right.
    pub fn may(&self, node: &NodeId, right: Right) -> bool {
        self.terms(node, right).is_some()
    }

    /// Terms on which the node has the right; `None`: it does not have it.
    pub fn terms(&self, node: &NodeId, right: Right) -> Option<&Terms> {
        self.0.get(node)?.get(&right)
    }

    /// True if the node may open a session of any kind.
    pub fn may_connect(&self, node: &NodeId) -> bool {
        let opening = [Right::Call, Right::Member, Right::UseRendezvous];
        opening.iter().any(|right| self.may(node, *right))
    }

    /// All nodes that have any right, with their rights.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &BTreeMap<Right, Terms>)> {
        self.0.iter()
    }

    /// The nodes that have this right.
    pub fn with(&self, right: Right) -> impl Iterator<Item = NodeId> + '_ {
        let has =
            move |(_, rights): &(&NodeId, &BTreeMap<Right, Terms>)| rights.contains_key(&right);
        self.0.iter().filter(has).map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::from_public_key([number; 32])
    }

    #[test]
    fn every_right_is_separate_and_empty_until_given() {
        for given in Right::ALL {
            let mut table = Table::default();
            assert!(Right::ALL.iter().all(|&right| !table.may(&node(1), right)));
            table.give(node(1), given, Terms::default());
            for right in Right::ALL {
                assert_eq!(
                    table.may(&node(1), right),
                    right == given,
                    "{given}: {right}"
                );
                assert!(!table.may(&node(2), right));
            }
            table.take(&node(1), given);
            assert_eq!(table, Table::default());
        }
    }

    #[test]
    fn only_callers_members_and_guests_open_sessions() {
        for right in Right::ALL {
            let mut table = Table::default();
            table.give(node(1), right, Terms::default());
            let expected = matches!(right, Right::Call | Right::Member | Right::UseRendezvous);
            assert_eq!(table.may_connect(&node(1)), expected, "{right}");
        }
    }

    #[test]
    fn names_round_trip_and_unknown_ones_are_refused_with_the_valid_ones() {
        for right in Right::ALL {
            assert_eq!(right.to_string().parse(), Ok(right));
        }
        let error = "send_files".parse::<Right>().unwrap_err().to_string();
        for right in Right::ALL {
            assert!(error.contains(right.name()), "{error}");
        }
    }
}

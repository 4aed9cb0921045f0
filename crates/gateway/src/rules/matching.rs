//! Matching: the flows that a rule is for.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
};

use anabranch::rights::{Transport, targets::HostPattern};

use super::process::Program;
use crate::{
    endpoint::{Endpoint, Host},
    source::Source,
};

/// Facts about a flow that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'f> {
    pub(crate) target: &'f Endpoint,
    pub(crate) source: &'f Source,
    /// Code point of its first datagram; `None`: it is a connection, or the system does not report it.
    pub(crate) dscp: Option<u8>,
}

/// Facts about the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketFacts {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// TCP or UDP; `None`: another one.
    pub(crate) transport: Option<Transport>,
    /// Ports of source and destination; `None`: the protocol has none, or the packet does not show them.
    pub(crate) ports: Option<(u16, u16)>,
    /// Code point of the first packet.
    pub(crate) dscp: u8,
}

impl PacketFacts {
    /// The program's end, for the search for it; `None`: there is no such end.
    pub(super) fn source(&self) -> Option<Source> {
        let (transport, (from, to)) = self.transport.zip(self.ports)?;
        Some(Source::Machine {
            transport,
            client: SocketAddr::new(self.source, from),
            at: SocketAddr::new(self.destination, to),
        })
    }
}

/// Protocol of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Unix,
}

impl Protocol {
    pub(super) fn of(target: &Endpoint) -> Self {
        match target {
            Endpoint::Unix(_) => Self::Unix,
            Endpoint::Port {
                transport: Transport::Tcp,
                ..
            } => Self::Tcp,
            Endpoint::Port {
                transport: Transport::Udp,
                ..
            } => Self::Udp,
        }
    }
}

/// Place of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Host(HostPattern),
    Unix(PathBuf),
}

impl Address {
    fn has(&self, target: &Endpoint) -> bool {
        match (self, target) {
            (Self::Host(pattern), Endpoint::Port { host, .. }) => match host {
                Host::Ip(address) => pattern.has_address(*address),
                Host::Name(name) => pattern.has_name(name),
            },
            (Self::Unix(path), Endpoint::Unix(of_target)) => path == of_target,
            _ => false,
        }
    }
}

/// The program that a rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// File name of its executable, or its path.
    pub(super) process: Option<String>,
    /// Its control group, or one above it.
    pub(super) cgroup: Option<String>,
}

impl Wanted {
    /// True if a program is the one.
    pub(super) fn is(&self, program: &Program) -> bool {
        let is_process = |wanted: &String| {
            let Some(executable) = &program.executable else {
                return false;
            };
            match wanted.starts_with('/') {
                true => executable.as_os_str() == wanted.as_str(),
                false => executable
                    .file_name()
                    .is_some_and(|name| name == wanted.as_str()),
            }
        };
        let is_in = |wanted: &String| {
            let rest = program
                .cgroup
                .as_ref()
                .and_then(|cgroup| cgroup.strip_prefix(wanted.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted == "/")
        };
        self.process.as_ref().is_none_or(is_process) && self.cgroup.as_ref().is_none_or(is_in)
    }
}

/// The flows that a rule is for: all that have everything that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matching {
    /// One of them; empty: any.
    pub(super) addresses: Vec<Address>,
    pub(super) ports: Option<RangeInclusive<u16>>,
    pub(super) protocol: Option<Protocol>,
    pub(super) dscp: Option<u8>,
    pub(super) program: Option<Wanted>,
}

impl Matching {
    /// True if a flow has what is named, but for the program.
    pub(super) fn has(&self, facts: &Facts<'_>) -> bool {
        let target = facts.target;
        let has_port = |ports: &RangeInclusive<u16>| matches!(target, Endpoint::Port { port, .. } if ports.contains(port));
        (self.addresses.is_empty() || self.addresses.iter().any(|address| address.has(target)))
            && self.ports.as_ref().is_none_or(has_port)
            && self
                .protocol
                .is_none_or(|protocol| protocol == Protocol::of(target))
            && self.dscp.is_none_or(|dscp| facts.dscp == Some(dscp))
    }

    /// True if a flow of packets has what is named, but for the program. Names are not known of packets.
    pub(super) fn has_packet(&self, facts: &PacketFacts) -> bool {
        let is_at = |address: &Address| match address {
            Address::Host(pattern) => pattern.has_address(facts.destination),
            Address::Unix(_) => false,
        };
        let protocol = facts.transport.map(|transport| match transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        });
        let has_port =
            |ports: &RangeInclusive<u16>| facts.ports.is_some_and(|(_, to)| ports.contains(&to));
        (self.addresses.is_empty() || self.addresses.iter().any(is_at))
            && self.ports.as_ref().is_none_or(has_port)
            && self.protocol.is_none_or(|wanted| protocol == Some(wanted))
            && self.dscp.is_none_or(|dscp| dscp == facts.dscp)
    }

    /// The program that is named.
    pub(super) fn program(&self) -> Option<&Wanted> {
        self.program.as_ref()
    }
}

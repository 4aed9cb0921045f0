//! Entry points of the victim: addresses on the loopback interface, and its key.

use std::{net::SocketAddr, path::Path};

use anabranch::Ticket;
use anabranch_base::NodeId;

use crate::Outcome;

/// Protocol that a kind of abuse uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Channels of a node.
    Quic,
    /// HTTP of a proxy.
    Http,
}

impl Door {
    /// Option without which a kind for this protocol cannot run.
    pub(crate) fn needs(self) -> &'static str {
        match self {
            Self::Quic => "--ticket",
            Self::Http => "--http",
        }
    }
}

/// Addresses to attack.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// A node and its address.
    pub(crate) quic: Option<(NodeId, SocketAddr)>,
    /// Key for the kinds that send frames, which the victim lists; `None`: another key for each session.
    pub(crate) listed: Option<u64>,
    /// A proxy's address.
    pub(crate) http: Option<SocketAddr>,
}

impl Target {
    /// Reads the ticket and refuses every address that is not on the loopback interface.
    pub(crate) fn new(
        ticket: Option<&Path>,
        listed: Option<u64>,
        http: Option<SocketAddr>,
    ) -> Outcome<Self> {
        let mut quic = None;
        if let Some(file) = ticket {
            let text = std::fs::read_to_string(file)?;
            let word = text
                .split(|c: char| c.is_whitespace() || c == '\'')
                .find(|word| word.starts_with("anabranch1:"));
            let ticket: Ticket = word.ok_or("the file holds no ticket")?.parse()?;
            let address = ticket.addresses.iter().find(|a| a.ip().is_loopback());
            let address = *address.ok_or("the ticket names no loopback address")?;
            quic = Some((ticket.node, address));
        }
        if http.is_some_and(|address| !address.ip().is_loopback()) {
            return Err("only addresses on the loopback interface are abused".into());
        }
        if quic.is_none() && http.is_none() {
            return Err("--ticket or --http names the victim".into());
        }
        Ok(Self { quic, listed, http })
    }

    pub(crate) fn allows(&self, door: Door) -> bool {
        match door {
            Door::Quic => self.quic.is_some(),
            Door::Http => self.http.is_some(),
        }
    }
}

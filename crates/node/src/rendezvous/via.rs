//! Text with which a relay is named: its id and where it is.

use std::{fmt, str::FromStr};

use anabranch_base::NodeId;
use anabranch_net::Remotes;

use crate::ticket::Ticket;

/// A relay with a rendezvous. As text `ID@HOST:PORT`, or the ticket that `anabranch node` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// The relay.
    pub node: NodeId,
    /// Its addresses.
    pub remotes: Remotes,
}

/// Error in the text of a relay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a relay: write ID@HOST:PORT, or the line that `anabranch node` prints there")]
pub struct ParseViaError(String);

impl FromStr for Via {
    type Err = ParseViaError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Ok(ticket) = text.parse::<Ticket>() {
            return Ok(Self {
                node: ticket.node,
                remotes: ticket.remotes(),
            });
        }
        let wrong = || ParseViaError(anabranch_base::text::printable(text, 200));
        let (node, places) = text.split_once('@').ok_or_else(wrong)?;
        let node = node.parse().map_err(|_| wrong())?;
        let mut remotes = Remotes::default();
        for place in places.split(',') {
            remotes.add(place).map_err(|_| wrong())?;
        }
        Ok(Self { node, remotes })
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.remotes.addresses.iter().map(ToString::to_string);
        let hosts = self.remotes.hosts.iter().map(ToString::to_string);
        let all: Vec<String> = addresses.chain(hosts).collect();
        write!(f, "{}@{}", self.node, all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_are_read_from_either_text() {
        let node = NodeId::from_public_key([9; 32]);
        let text = format!("{node}@192.0.2.1:4433,relay.example:4433");
        let via: Via = text.parse().unwrap();
        assert_eq!(via.to_string(), text);
        let ticket = format!("anabranch1:{node}::192.0.2.1:4433,relay.example:4433");
        assert_eq!(ticket.parse(), Ok(via));
        for wrong in [
            "",
            "relay.example:4433",
            "x@relay.example:4433",
            &format!("{node}@relay"),
        ] {
            let error = wrong.parse::<Via>().unwrap_err().to_string();
            assert!(error.contains("ID@HOST:PORT"), "{error}");
        }
    }
}

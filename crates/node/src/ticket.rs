//! Tickets: one line of text with which another node can reach this one, once.

use std::{fmt, net::SocketAddr, str::FromStr, sync::Arc};

use anabranch_base::{
    NodeId,
    ids::{ParseNodeIdError, decode_base32, encode_base32},
    text::printable,
};
use anabranch_net::{Host, HostAddress, Remotes};

use crate::rendezvous::{Call, Via};

/// Bytes of a ticket's secret.
pub const SECRET_BYTES: usize = 16;
/// Limit on the addresses in a ticket.
pub const ADDRESSES_MAX: usize = 16;
/// Prefix of every ticket; the digit is the version of the format.
const PREFIX: &str = "anabranch1";

/// A one-time secret: proves to the receiver that the sender holds the ticket. `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET_BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Everything that a sender needs to reach a receiver: its identity, its addresses, and a secret that is valid for one sender.
///
/// As text: `anabranch1:NODE:SECRET:ADDRESS,ADDRESS`, without spaces; with a relay
/// `anabranch1:NODE:SECRET:ADDRESS,ADDRESS,ID@ADDRESS,ADDRESS`. A reader that knows no relays refuses that one as an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The receiver.
    pub node: NodeId,
    /// Shown to the receiver, which binds it to the sender from then on; `None` if the receiver knows the sender by its key.
    pub secret: Option<Secret>,
    /// Addresses at which the receiver can be reached; with `hosts`, at least one, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
    /// Names at which it can be reached. Nodes issue none; write `HOST:PORT` in place of an address, or beside it.
    pub hosts: Vec<HostAddress>,
    /// Relay at which the receiver can be called if no address answers ([`Attendance`](crate::rendezvous::Attendance)).
    pub via: Option<Via>,
}

impl Ticket {
    /// Prepares the host to reach the receiver over the relay, if the ticket names one: at the addresses at which the relay sees it, where
    /// none of the ticket's has answered for three seconds, and by a circuit if those do not answer for as long.
    pub fn prepare(&self, host: &Host) {
        if let Some(via) = &self.via {
            let port = self.addresses.first().map_or(0, SocketAddr::port);
            let call = Call::new(host, via, self.node, port);
            host.set_detour(self.node, Some(Arc::new(call)));
        }
    }

    /// All that the receiver can be dialled at.
    pub fn remotes(&self) -> Remotes {
        Remotes {
            addresses: self.addresses.clone(),
            hosts: self.hosts.clone(),
        }
    }
}

/// Error in the text of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTicketError {
    /// It does not begin with the prefix of a ticket.
    #[error("a ticket begins with '{PREFIX}:'; copy the whole line that the other machine printed")]
    Prefix,
    /// It has too few or too many parts.
    #[error(
        "a ticket has 4 parts joined by ':' (this one has {0}); it was cut off, copy the whole line"
    )]
    Parts(usize),
    /// The node id is damaged.
    #[error("the ticket's node id is damaged: {0}")]
    Node(#[from] ParseNodeIdError),
    /// The secret is damaged.
    #[error(
        "the ticket's secret is damaged: it has {SECRET_BYTES} bytes in letters a-z and digits 2-7; copy the whole line again"
    )]
    Secret,
    /// An address cannot be read.
    #[error("the ticket's address '{0}' is not of the form IP:PORT or HOST:PORT")]
    Address(String),
    /// The relay cannot be read.
    #[error("the ticket's relay '{0}' is not of the form ID@HOST:PORT")]
    Relay(String),
    /// Too many addresses, or none.
    #[error("the ticket has {0} addresses; it must have 1 to {ADDRESSES_MAX}")]
    Addresses(usize),
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.map(|secret| encode_base32(&secret.0));
        let secret = secret.unwrap_or_default();
        write!(f, "{PREFIX}:{}:{secret}:", self.node)?;
        let addresses = self.addresses.iter().map(ToString::to_string);
        let hosts = self.hosts.iter().map(ToString::to_string);
        let via = self.via.iter().map(ToString::to_string);
        let all: Vec<String> = addresses.chain(hosts).chain(via).collect();
        f.write_str(&all.join(","))
    }
}

impl FromStr for Ticket {
    type Err = ParseTicketError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text
            .trim()
            .strip_prefix(PREFIX)
            .ok_or(ParseTicketError::Prefix)?;
        let rest = rest.strip_prefix(':').ok_or(ParseTicketError::Prefix)?;
        // Addresses contain colons themselves, so only the first two separate parts.
        let parts: Vec<_> = rest.splitn(3, ':').collect();
        let [node, secret, addresses] = parts[..] else {
            return Err(ParseTicketError::Parts(parts.len() + 1));
        };
        let node = node.parse()?;
        let secret = match secret {
            "" => None,
            text => {
                let bytes = decode_base32(text).and_then(|bytes| bytes.try_into().ok());
                Some(Secret(bytes.ok_or(ParseTicketError::Secret)?))
            }
        };
        let (addresses, via) = split(addresses)?;
        let mut remotes = Remotes::default();
        for text in addresses.split(',') {
            let added = remotes.add(text);
            added.map_err(|error| ParseTicketError::Address(error.0))?;
        }
        if remotes.len() > ADDRESSES_MAX {
            return Err(ParseTicketError::Addresses(remotes.len()));
        }
        Ok(Self {
            node,
            secret,
            addresses: remotes.addresses,
            hosts: remotes.hosts,
            via,
        })
    }
}

/// The addresses of the receiver, and the relay behind them.
fn split(text: &str) -> Result<(&str, Option<Via>), ParseTicketError> {
    let Some((before, _)) = text.split_once('@') else {
        return Ok((text, None));
    };
    let (addresses, relay) = match before.rfind(',') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => ("", text),
    };
    let wrong = || ParseTicketError::Relay(printable(relay, 200));
    // A ticket within a ticket is none.
    let via: Via = relay.parse().map_err(|_| wrong())?;
    match via.remotes.len() {
        1..=ADDRESSES_MAX => Ok((addresses, Some(via))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            node: NodeId::from_public_key([9; 32]),
            secret: Some(Secret([5; SECRET_BYTES])),
            addresses: vec![
                "192.0.2.1:4433".parse().unwrap(),
                "[2001:db8::7]:4433".parse().unwrap(),
            ],
            hosts: vec!["studio.example:4433".parse().unwrap()],
            via: None,
        }
    }

    #[test]
    fn a_ticket_round_trips() {
        let text = ticket().to_string();
        assert_eq!(text.parse(), Ok(ticket()));
        assert!(!text.contains(' '));
        assert_eq!(format!("  {text}\n").parse(), Ok(ticket()));
        let open = Ticket {
            secret: None,
            ..ticket()
        };
        assert_eq!(open.to_string().parse(), Ok(open));
    }

    #[test]
    fn a_relay_is_behind_the_addresses() {
        let relay = NodeId::from_public_key([8; 32]);
        let places = "198.51.100.1:4433,relay.example:9";
        let with = Ticket {
            via: Some(format!("{relay}@{places}").parse().unwrap()),
            ..ticket()
        };
        let text = with.to_string();
        assert_eq!(text, format!("{},{relay}@{places}", ticket()));
        assert_eq!(text.parse(), Ok(with));
        let error = |text: &str| text.parse::<Ticket>().unwrap_err();
        let no_id = text.replace(&relay.to_string(), "relay");
        assert!(matches!(error(&no_id), ParseTicketError::Relay(_)));
        let many = format!("{text}{}", ",192.0.2.1:1".repeat(ADDRESSES_MAX));
        assert!(matches!(error(&many), ParseTicketError::Relay(_)));
        let alone = format!("{PREFIX}:{relay}::{relay}@{places}");
        assert_eq!(error(&alone), ParseTicketError::Address(String::new()));
    }

    #[test]
    fn errors_name_the_fault() {
        let text = ticket().to_string();
        let error = |text: &str| text.parse::<Ticket>().unwrap_err();
        assert_eq!(error("hello"), ParseTicketError::Prefix);
        assert_eq!(error(""), ParseTicketError::Prefix);
        assert_eq!(error("anabranch1:abc"), ParseTicketError::Parts(2));
        let cut = &text[..text.len() - 60];
        assert!(matches!(
            error(cut),
            ParseTicketError::Parts(_) | ParseTicketError::Secret
        ));
        let bad_port = text.replace(":4433,", ":99999,");
        assert_eq!(
            error(&bad_port),
            ParseTicketError::Address("192.0.2.1:99999".to_owned())
        );
        let bad_secret = text.replace(&encode_base32(&[5; 16]), "1");
        assert_eq!(error(&bad_secret), ParseTicketError::Secret);
    }

    #[test]
    fn the_secret_does_not_show() {
        assert!(!format!("{:?}", ticket()).contains('5'));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = text.parse::<Ticket>();
            let _ = format!("{PREFIX}:{text}").parse::<Ticket>();
        }
    }
}

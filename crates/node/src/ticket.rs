//! Tickets: one line of text with which another node can reach this one, once.

use std::{fmt, net::SocketAddr, str::FromStr};

use anabranch_base::{
    NodeId,
    ids::{ParseNodeIdError, decode_base32, encode_base32},
};

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
/// As text: `anabranch1:NODE:SECRET:ADDRESS,ADDRESS`, without spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The receiver.
    pub node: NodeId,
    /// Shown to the receiver, which binds it to the sender from then on; `None` if the receiver knows the sender by its key.
    pub secret: Option<Secret>,
    /// Addresses at which the receiver can be reached; at least one, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
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
    #[error("the ticket's address '{0}' is not of the form IP:PORT")]
    Address(String),
    /// Too many addresses, or none.
    #[error("the ticket has {0} addresses; it must have 1 to {ADDRESSES_MAX}")]
    Addresses(usize),
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.map(|secret| encode_base32(&secret.0));
        let secret = secret.unwrap_or_default();
        write!(f, "{PREFIX}:{}:{secret}:", self.node)?;
        for (index, address) in self.addresses.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
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
        let read = |text: &str| {
            let address: Result<SocketAddr, _> = text.parse();
            address.map_err(|_| ParseTicketError::Address(text.to_owned()))
        };
        let addresses: Vec<_> = addresses.split(',').map(read).collect::<Result<_, _>>()?;
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            return Err(ParseTicketError::Addresses(addresses.len()));
        }
        Ok(Self {
            node,
            secret,
            addresses,
        })
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

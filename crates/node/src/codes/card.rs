//! Cards: what the two sides of a code tell each other, sealed.

use std::net::SocketAddr;

use anabranch_base::ids::{decode_base32, encode_base32};
use serde::{Deserialize, Serialize};

use crate::ticket::{ADDRESSES_MAX, SECRET_BYTES, Secret};

/// Longest card.
const CARD_BYTES_MAX: usize = 1500;
/// Longest name in a card, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Purpose of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To send files.
    Send,
    /// To receive files.
    Receive,
    /// To know each other from now on.
    Pair,
}

impl Purpose {
    /// True if the two sides fit together.
    pub const fn suits(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Send, Self::Receive) | (Self::Receive, Self::Send) | (Self::Pair, Self::Pair)
        )
    }
}

/// Information of one side for the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its purpose.
    pub purpose: Purpose,
    /// Its name for display, such as `ada@laptop`; not checked by anyone.
    pub name: String,
    /// Addresses at which its node can be reached; at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
    /// Of a receiver: the secret of a ticket, in text form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Of a sender: the name of what it will send, and its bytes if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
}

/// Description of what a sender will send, for display; the transfer has the exact offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Name of the first source.
    pub name: String,
    /// Its size, if it is a file.
    pub bytes: Option<u64>,
    /// Sources that follow it.
    pub more: u32,
}

/// The bytes are not a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the other side says of itself cannot be read; use the same release on both sides")]
pub struct CardError;

fn shortened(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

impl Card {
    /// A card without a secret or an offer.
    pub fn new(purpose: Purpose, name: &str, mut addresses: Vec<SocketAddr>) -> Self {
        addresses.truncate(ADDRESSES_MAX);
        Self {
            purpose,
            name: shortened(name),
            addresses,
            secret: None,
            offer: None,
        }
    }

    /// The same with the secret of a ticket.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.secret = Some(encode_base32(&secret.0));
        self
    }

    /// The same with an offer.
    #[must_use]
    pub fn with_offer(mut self, mut offer: Offer) -> Self {
        offer.name = shortened(&offer.name);
        self.offer = Some(offer);
        self
    }

    /// The secret, if it has one.
    pub fn secret(&self) -> Option<Secret> {
        let bytes = decode_base32(self.secret.as_deref()?)?;
        <[u8; SECRET_BYTES]>::try_from(bytes).ok().map(Secret)
    }

    /// The card as bytes.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a card.
    ///
    /// # Errors
    /// It is too long, has too many addresses, or is not a card at all.
    pub fn decode(bytes: &[u8]) -> Result<Self, CardError> {
        if bytes.len() > CARD_BYTES_MAX {
            return Err(CardError);
        }
        let card: Self = serde_json::from_slice(bytes).map_err(|_| CardError)?;
        let is_short = |text: &str| text.chars().count() <= NAME_CHARS_MAX;
        let is_fine = is_short(&card.name)
            && card
                .offer
                .as_ref()
                .is_none_or(|offer| is_short(&offer.name))
            && card.addresses.len() <= ADDRESSES_MAX
            && card.secret.is_some() == card.secret().is_some();
        is_fine.then_some(card).ok_or(CardError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        let addresses = vec![
            "192.0.2.1:4433".parse().unwrap(),
            "[2001:db8::1]:4433".parse().unwrap(),
        ];
        Card::new(Purpose::Send, "ada@laptop", addresses)
    }

    #[test]
    fn cards_round_trip() {
        let offer = Offer {
            name: "film.mp4".to_owned(),
            bytes: Some(9),
            more: 1,
        };
        let full = card()
            .with_offer(offer)
            .with_secret(Secret([7; SECRET_BYTES]));
        assert_eq!(Card::decode(&full.encode()), Ok(full.clone()));
        assert_eq!(full.secret(), Some(Secret([7; SECRET_BYTES])));
        assert_eq!(Card::decode(&card().encode()), Ok(card()));
    }

    #[test]
    fn the_longest_card_fits_a_message() {
        let addresses = vec![
            "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"
                .parse()
                .unwrap();
            40
        ];
        let offer = Offer {
            name: "\"".repeat(300),
            bytes: Some(u64::MAX),
            more: u32::MAX,
        };
        let long = Card::new(Purpose::Receive, &"\"".repeat(300), addresses)
            .with_secret(Secret([255; SECRET_BYTES]));
        let long = long.with_offer(offer);
        let bytes = long.encode();
        assert_eq!(Card::decode(&bytes), Ok(long), "{} bytes", bytes.len());
        assert!(bytes.len() + 64 <= super::super::message::MESSAGE_BYTES_MAX);
    }

    #[test]
    fn what_is_no_card_is_refused() {
        let text = String::from_utf8(card().encode()).unwrap();
        for wrong in [
            String::new(),
            text.replace("\"send\"", "\"steal\""),
            text.replace("ada@laptop", &"a".repeat(101)),
            text.replace("\"purpose\"", "\"secret\":\"?\",\"purpose\""),
            text + &" ".repeat(2000),
        ] {
            assert_eq!(Card::decode(wrong.as_bytes()), Err(CardError), "{wrong}");
        }
    }

    #[test]
    fn sides_that_want_the_same_do_not_fit_together() {
        use Purpose::{Pair, Receive, Send};
        for (one, other) in [(Send, Receive), (Receive, Send), (Pair, Pair)] {
            assert!(one.suits(other));
        }
        for (one, other) in [
            (Send, Send),
            (Receive, Receive),
            (Pair, Send),
            (Receive, Pair),
        ] {
            assert!(!one.suits(other));
        }
    }
}

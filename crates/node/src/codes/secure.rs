//! Keys from a code: SPAKE2 over Ed25519, proofs that both sides have the same keys, and the sealing of what they say.
//!
//! The keys depend on the code, on both nodes, on both messages of SPAKE2 and on the version. Who does not know the code learns from one
//! exchange whether one guess was right, and nothing else; there is nothing to search offline.

use anabranch_base::NodeId;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::{
    code::Code,
    message::{ELEMENT_BYTES, PROOF_BYTES},
};

const PROTOCOL: &[u8] = b"anabranch-code/1";

/// The two nodes of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parties {
    /// The node that shows the code.
    pub(super) issuer: NodeId,
    /// The node at which it is entered.
    pub(super) holder: NodeId,
}

/// The other side's message is not one of SPAKE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// The code's words, which the two sides may have typed differently, in one form.
fn password(code: &Code) -> Password {
    Password::new(code.to_string())
}

impl Parties {
    fn identities(&self) -> (Identity, Identity) {
        (
            Identity::new(self.holder.public_key()),
            Identity::new(self.issuer.public_key()),
        )
    }
}

/// Holder's side, until the answer.
pub(super) struct Begun {
    spake: Spake2<Ed25519Group>,
    element: [u8; ELEMENT_BYTES],
    parties: Parties,
}

impl Begun {
    /// Starts an exchange. Returns the holder's message, too.
    pub(super) fn new(code: &Code, parties: Parties) -> (Self, [u8; ELEMENT_BYTES]) {
        let (holder, issuer) = parties.identities();
        let (spake, message) = Spake2::start_a(&password(code), &holder, &issuer);
        let element = fixed(&message);
        let begun = Self {
            spake,
            element,
            parties,
        };
        (begun, element)
    }

    /// The keys, with the issuer's message.
    pub(super) fn finish(self, answer: &[u8; ELEMENT_BYTES]) -> Result<Keys, Corrupt> {
        let shared = self.spake.finish(answer).map_err(|_| Corrupt)?;
        Ok(Keys::derive(&shared, self.parties, &self.element, answer))
    }
}

/// Issuer's side in one step: its message, and the keys.
pub(super) fn answer(
    code: &Code,
    parties: Parties,
    start: &[u8; ELEMENT_BYTES],
) -> Result<([u8; ELEMENT_BYTES], Keys), Corrupt> {
    let (holder, issuer) = parties.identities();
    let (spake, message) = Spake2::<Ed25519Group>::start_b(&password(code), &holder, &issuer);
    let element = fixed(&message);
    let shared = spake.finish(start).map_err(|_| Corrupt)?;
    Ok((element, Keys::derive(&shared, parties, start, &element)))
}

fn fixed(message: &[u8]) -> [u8; ELEMENT_BYTES] {
    message
        .try_into()
        .expect("a message of SPAKE2 over Ed25519 has one length")
}

/// Sides of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Issuer,
    Holder,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Issuer => "issuer",
            Self::Holder => "holder",
        }
    }
}

/// Keys of one exchange. Each seals one message, so that the nonce is constant.
pub(super) struct Keys {
    secret: [u8; 32],
    transcript: [u8; 32],
}

impl Keys {
    fn derive(
        shared: &[u8],
        parties: Parties,
        start: &[u8; ELEMENT_BYTES],
        answer: &[u8; ELEMENT_BYTES],
    ) -> Self {
        let mut transcript = blake3::Hasher::new();
        for part in [
            PROTOCOL,
            parties.issuer.public_key(),
            parties.holder.public_key(),
            start,
            answer,
        ] {
            transcript.update(&(part.len() as u64).to_le_bytes());
            transcript.update(part);
        }
        let transcript = *transcript.finalize().as_bytes();
        let mut material = shared.to_vec();
        material.extend(transcript);
        Self {
            secret: blake3::derive_key("anabranch 2026 code exchange", &material),
            transcript,
        }
    }

    fn key(&self, side: Side, use_: &str) -> [u8; 32] {
        let context = format!("anabranch 2026 code {} {use_}", side.name());
        blake3::derive_key(&context, &self.secret)
    }

    /// Proof of this side that it has these keys.
    pub(super) fn proof(&self, side: Side) -> [u8; PROOF_BYTES] {
        let key = self.key(side, "proof");
        *blake3::keyed_hash(&key, &self.transcript).as_bytes()
    }

    /// True if the proof is that of this side. Takes the same time for every wrong one.
    pub(super) fn is_proof(&self, side: Side, proof: &[u8; PROOF_BYTES]) -> bool {
        blake3::Hash::from_bytes(self.proof(side)) == blake3::Hash::from_bytes(*proof)
    }

    fn cipher(&self, side: Side) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.key(side, "seal"));
        LessSafeKey::new(key.expect("a key of this cipher has 32 bytes"))
    }

    /// Seals what this side says; to be called once.
    pub(super) fn seal(&self, side: Side, text: &[u8]) -> Vec<u8> {
        let mut sealed = text.to_vec();
        self.cipher(side)
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key([0; 12]),
                Aad::from(self.transcript),
                &mut sealed,
            )
            .expect("a message is shorter than the cipher's limit");
        sealed
    }

    /// Opens what this side said; `None` if it was sealed with other keys, or changed.
    pub(super) fn open(&self, side: Side, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let opened = self
            .cipher(side)
            .open_in_place(nonce, Aad::from(self.transcript), &mut text);
        let bytes = opened.ok()?.len();
        text.truncate(bytes);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 2] = ["river-lamp-orbit", "river-lamp-zoo"];

    fn parties() -> Parties {
        Parties {
            issuer: NodeId::from_public_key([1; 32]),
            holder: NodeId::from_public_key([2; 32]),
        }
    }

    fn both(issuer: (&str, Parties), holder: (&str, Parties)) -> (Keys, Keys) {
        let (begun, start) = Begun::new(&holder.0.parse().unwrap(), holder.1);
        let (element, theirs) = answer(&issuer.0.parse().unwrap(), issuer.1, &start).unwrap();
        (theirs, begun.finish(&element).unwrap())
    }

    #[test]
    fn both_sides_of_one_code_have_the_same_keys() {
        let (issuer, holder) = both((TEXTS[0], parties()), (TEXTS[0], parties()));
        for side in [Side::Issuer, Side::Holder] {
            assert!(issuer.is_proof(side, &holder.proof(side)));
            let sealed = holder.seal(side, b"hello");
            assert_eq!(issuer.open(side, &sealed).as_deref(), Some(&b"hello"[..]));
        }
        assert_ne!(issuer.proof(Side::Issuer), issuer.proof(Side::Holder));
        assert_eq!(
            issuer.open(Side::Issuer, &holder.seal(Side::Holder, b"hello")),
            None
        );
    }

    #[test]
    fn another_code_or_another_node_has_other_keys() {
        let other = Parties {
            holder: NodeId::from_public_key([3; 32]),
            ..parties()
        };
        for holder in [(TEXTS[1], parties()), (TEXTS[0], other)] {
            let (issuer, holder) = both((TEXTS[0], parties()), holder);
            assert!(!issuer.is_proof(Side::Holder, &holder.proof(Side::Holder)));
            assert_eq!(
                issuer.open(Side::Holder, &holder.seal(Side::Holder, b"x")),
                None
            );
        }
    }

    #[test]
    fn what_was_changed_or_sent_back_does_not_pass() {
        let (issuer, holder) = both((TEXTS[0], parties()), (TEXTS[0], parties()));
        let mut sealed = holder.seal(Side::Holder, b"hello");
        sealed[2] ^= 1;
        assert_eq!(issuer.open(Side::Holder, &sealed), None);
        assert_eq!(issuer.open(Side::Holder, &[]), None);
        let (_, start) = Begun::new(&TEXTS[0].parse().unwrap(), parties());
        // The holder's own message in place of the issuer's.
        let (begun, _) = Begun::new(&TEXTS[0].parse().unwrap(), parties());
        assert!(begun.finish(&start).is_err());
        assert!(
            answer(
                &TEXTS[0].parse().unwrap(),
                parties(),
                &[0x41; ELEMENT_BYTES]
            )
            .is_err()
        );
    }
}

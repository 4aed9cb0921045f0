//! Identity of a node: an Ed25519 key pair.

use std::{fmt, str::FromStr, sync::Arc};

use anabranch_base::{
    NodeId,
    ids::{decode_base32, encode_base32},
};
use rustls::{
    crypto::ring::sign::any_eddsa_type,
    pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer},
    sign::SigningKey,
};

/// A node's Ed25519 secret key (the 32-byte seed of RFC 8032).
///
/// Its text form is 52 characters of base 32; keep the text secret. `Debug` and `Display` never show it,
/// [`SecretKey::to_text`] does.
#[derive(Clone)]
pub struct SecretKey([u8; 32]);

/// Error: the text is not a secret key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret key is one line of 52 letters a-z and digits 2-7; make one with `anabranch keygen`"
)]
pub struct ParseSecretKeyError;

/// PKCS #8 v1 wrapping of an Ed25519 seed (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// SubjectPublicKeyInfo prefix of an Ed25519 public key (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl SecretKey {
    /// The key with the RFC 8032 seed `seed`; 32 bytes from a cryptographic generator.
    pub const fn from_seed(seed: [u8; 32]) -> Self {
        Self(seed)
    }

    /// The identity that belongs to this key.
    pub fn node_id(&self) -> NodeId {
        let spki = self
            .signing_key()
            .public_key()
            .expect("an Ed25519 signing key knows its public key")
            .into_owned();
        node_id_from_spki(spki.as_ref()).expect("our own public key is an Ed25519 key")
    }

    /// The secret as text, for the key file only.
    pub fn to_text(&self) -> String {
        encode_base32(&self.0)
    }

    /// An Ed25519 signature of `message` (RFC 8032). The message must begin with the name of its type: the same key
    /// signs TLS handshakes, which begin with 64 spaces (RFC 8446 §4.4.3).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&self.0)
            .expect("every seed is an Ed25519 key");
        let signature = pair.sign(message);
        signature
            .as_ref()
            .try_into()
            .expect("an Ed25519 signature has 64 bytes")
    }

    /// The key of stateless resets (RFC 9000 §10.3.2). It is derived from the identity, so that a restarted node can
    /// inform its peers that their channels are gone; otherwise they would only find out by the idle time-out. The
    /// price (RFC 9000 §21.11): an attacker who reads a channel's packets and reaches another process of the same
    /// identity can have the channel reset, which costs it a handshake.
    pub(crate) fn reset_key(&self) -> ring::hmac::Key {
        let own = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.0);
        let derived = ring::hmac::sign(&own, b"anabranch 2026-11 stateless reset");
        ring::hmac::Key::new(ring::hmac::HMAC_SHA256, derived.as_ref())
    }

    pub(crate) fn signing_key(&self) -> Arc<dyn SigningKey> {
        let mut der = PKCS8_PREFIX.to_vec();
        der.extend_from_slice(&self.0);
        any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).expect("every seed is an Ed25519 key")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {:?})", self.node_id())
    }
}

impl FromStr for SecretKey {
    type Err = ParseSecretKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.len() != 52 {
            return Err(ParseSecretKeyError);
        }
        decode_base32(text)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .map(Self)
            .ok_or(ParseSecretKeyError)
    }
}

/// True if `signature` is that of `node` over `message` (RFC 8032); see [`SecretKey::sign`].
pub fn is_signed(node: &NodeId, message: &[u8], signature: &[u8; 64]) -> bool {
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, node.public_key())
        .verify(message, signature)
        .is_ok()
}

/// The Ed25519 key inside a SubjectPublicKeyInfo; `None` for any other kind of key.
pub(crate) fn node_id_from_spki(spki: &[u8]) -> Option<NodeId> {
    let key = spki.strip_prefix(&SPKI_PREFIX)?;
    Some(NodeId::from_public_key(key.try_into().ok()?))
}

pub(crate) fn spki_of(node: &NodeId) -> SubjectPublicKeyInfoDer<'static> {
    let mut der = SPKI_PREFIX.to_vec();
    der.extend_from_slice(node.public_key());
    SubjectPublicKeyInfoDer::from(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_hold_for_their_key_and_message_only() {
        let (key, other) = (SecretKey::from_seed([1; 32]), SecretKey::from_seed([2; 32]));
        let signature = key.sign(b"a test");
        assert!(is_signed(&key.node_id(), b"a test", &signature));
        assert!(!is_signed(&key.node_id(), b"another", &signature));
        assert!(!is_signed(&other.node_id(), b"a test", &signature));
    }

    #[test]
    fn text_round_trips_and_debug_hides_the_secret() {
        let key = SecretKey::from_seed([7; 32]);
        let again: SecretKey = key.to_text().parse().expect("own text parses");
        assert_eq!(again.node_id(), key.node_id());
        assert!(!format!("{key:?}").contains(&key.to_text()));
        assert!("nonsense".parse::<SecretKey>().is_err());
    }

    /// RFC 8032 §7.1, test 1.
    #[test]
    fn public_key_matches_rfc_8032() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec,
            0x2c, 0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03,
            0x1c, 0xae, 0x7f, 0x60,
        ];
        let public = [
            0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64,
            0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68,
            0xf7, 0x07, 0x51, 0x1a,
        ];
        assert_eq!(
            SecretKey::from_seed(seed).node_id(),
            NodeId::from_public_key(public)
        );
    }

    #[test]
    fn spki_round_trips() {
        let node = SecretKey::from_seed([3; 32]).node_id();
        assert_eq!(node_id_from_spki(spki_of(&node).as_ref()), Some(node));
        assert_eq!(node_id_from_spki(&[0; 44]), None);
    }
}

//! Tokens of Retry packets (RFC 9000 §8.1.2): a peer whose address is not proved receives one, and returns it.
//!
//! The node keeps no state for them. The key is derived from the node's entropy and the time from the host's clock, so
//! that a simulation is repeatable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use anabranch_base::Instant;
use noq_proto::{
    TimeSource,
    crypto::{CryptoError, HandshakeTokenKey},
};
use ring::{aead, hkdf};

/// Validity of a token: a few round trips, and the retransmissions of a lossy path.
pub(crate) const LIFETIME: Duration = Duration::from_secs(5);

/// Sealing and opening of tokens: AES-256-GCM, with a separate key for each token, derived from the token's 128-bit
/// nonce (HKDF-SHA-256, RFC 5869). So the cipher's own nonce may be constant.
pub(crate) struct TokenKey(hkdf::Prk);

impl TokenKey {
    /// The key derived from a node's `entropy`.
    pub(crate) fn new(entropy: &[u8; 32]) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"anabranch 2026-11 retry token");
        Self(salt.extract(entropy))
    }

    fn cipher(&self, nonce: u128) -> Result<aead::LessSafeKey, CryptoError> {
        let nonce = nonce.to_le_bytes();
        let info = [&nonce[..]];
        let expanded = self.0.expand(&info, &aead::AES_256_GCM);
        let key = expanded.map_err(|_| CryptoError)?;
        Ok(aead::LessSafeKey::new(aead::UnboundKey::from(key)))
    }
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        let zero = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        self.cipher(nonce)?
            .seal_in_place_append_tag(zero, aead::Aad::empty(), data)
            .map_err(|_| CryptoError)
    }

    fn open<'a>(&self, nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let zero = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        let opened = self
            .cipher(nonce)?
            .open_in_place(zero, aead::Aad::empty(), data);
        opened.map(|plain| &*plain).map_err(|_| CryptoError)
    }
}

/// Time source for QUIC: the host's clock at the last packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn set(&self, now: Instant) {
        let micros = u64::try_from(now.since_epoch().as_micros());
        self.0.store(micros.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl TimeSource for Time {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_with_its_own_key_and_nonce_only() {
        let key = TokenKey::new(&[1; 32]);
        let mut sealed = b"address".to_vec();
        key.seal(7, &mut sealed).expect("sealing needs nothing");
        let mut copy = sealed.clone();
        assert!(TokenKey::new(&[2; 32]).open(7, &mut copy).is_err());
        let mut copy = sealed.clone();
        assert!(key.open(8, &mut copy).is_err());
        let mut copy = sealed.clone();
        copy[0] ^= 1;
        assert!(key.open(7, &mut copy).is_err());
        assert_eq!(key.open(7, &mut sealed).expect("its own"), b"address");
    }
}

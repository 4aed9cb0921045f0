//! Token of a session: the proof that a further channel belongs to it.
//!
//! Both ends derive a session's id and join key from the TLS secret of its initial channel (RFC 8446
//! §7.5). A further channel is itself authenticated by both nodes' keys; its join frame carries the
//! session's id and a keyed hash of the *new* channel's own secret. So a join frame cannot be replayed
//! on another channel, and only the two nodes can make one.

use anabranch_channel::Channel;

use crate::wire::frame::TOKEN_BYTES;

const LABEL_SESSION: &[u8] = b"EXPORTER anabranch session";
const LABEL_JOIN: &[u8] = b"EXPORTER anabranch join";

/// Secret of a session, known to its two ends only.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) session: [u8; TOKEN_BYTES],
    key: [u8; 32],
}

impl Token {
    /// Derives the token from the session's initial channel; `None` before its handshake is complete.
    pub(crate) fn of_first_channel(channel: &Channel) -> Option<Self> {
        let secret = channel.export_secret(LABEL_SESSION)?;
        let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
        let mut session = [0; TOKEN_BYTES];
        session.copy_from_slice(&id[..TOKEN_BYTES]);
        Some(Self {
            session,
            key: blake3::derive_key("anabranch 2026-11 join key", &secret),
        })
    }

    /// The proof that `channel` belongs to this session.
    pub(crate) fn proof(&self, channel: &Channel) -> Option<[u8; TOKEN_BYTES]> {
        let secret = channel.export_secret(LABEL_JOIN)?;
        let hash = blake3::keyed_hash(&self.key, &secret);
        let mut proof = [0; TOKEN_BYTES];
        proof.copy_from_slice(&hash.as_bytes()[..TOKEN_BYTES]);
        Some(proof)
    }

    /// True if `proof` is the one for `channel`; takes the same time whatever the result.
    pub(crate) fn accepts(&self, channel: &Channel, proof: &[u8; TOKEN_BYTES]) -> bool {
        self.proof(channel).is_some_and(|expected| {
            let difference = expected
                .iter()
                .zip(proof)
                .fold(0, |difference, (a, b)| difference | (a ^ b));
            difference == 0
        })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

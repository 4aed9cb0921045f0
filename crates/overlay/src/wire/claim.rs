//! Claim that a node is silent.
//!
//! ```text
//! Claim {
//!   accuser     6 bytes
//!   target      6 bytes
//!   version     varint   of the target's record
//!   signature  64 bytes  over "anabranch overlay claim 1", 0, and all of the above
//! }
//! ```

use anabranch_base::NodeId;

use super::{
    DecodeError, ShortId,
    code::{Cursor, put_varint},
};
use crate::keys::{Keys, SIGNATURE_BYTES};

const CONTEXT: &[u8] = b"anabranch overlay claim 1\0";
/// Longest claim, in bytes.
pub const CLAIM_BYTES_MAX: usize = 6 + 6 + 8 + SIGNATURE_BYTES;

/// Claim that `target` has been silent since its record of `version`, signed by the accuser. A record of a higher
/// version refutes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Origin of the claim.
    pub accuser: ShortId,
    /// Node that is silent.
    pub target: ShortId,
    /// Version of the target's record to which the claim applies.
    pub version: u64,
}

impl Claim {
    /// The encoded and signed claim.
    pub fn encode(&self, keys: &dyn Keys) -> Vec<u8> {
        let mut out = CONTEXT.to_vec();
        out.extend_from_slice(&self.accuser.0);
        out.extend_from_slice(&self.target.0);
        put_varint(&mut out, self.version);
        let signature = keys.sign(&out);
        out.drain(..CONTEXT.len());
        out.extend_from_slice(&signature);
        out
    }

    /// Reads a claim. Its signature is not checked: see [`verify`].
    ///
    /// # Errors
    /// Missing or excess bytes; a node that accuses itself.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = bytes
            .len()
            .checked_sub(SIGNATURE_BYTES)
            .ok_or(DecodeError::Truncated)?;
        let mut from = Cursor::new(&bytes[..body]);
        let claim = Self {
            accuser: ShortId(from.array()?),
            target: ShortId(from.array()?),
            version: from.varint()?,
        };
        let is_sane = from.is_empty() && claim.accuser != claim.target;
        is_sane.then_some(claim).ok_or(DecodeError::Value)
    }
}

/// True if `bytes` carry the signature of `accuser`.
pub fn verify(keys: &dyn Keys, accuser: &NodeId, bytes: &[u8]) -> bool {
    is_signed(keys, accuser, CONTEXT, bytes)
}

pub(super) fn is_signed(keys: &dyn Keys, signer: &NodeId, context: &[u8], bytes: &[u8]) -> bool {
    let Some((body, signature)) = bytes.split_last_chunk::<SIGNATURE_BYTES>() else {
        return false;
    };
    let mut message = Vec::with_capacity(context.len() + body.len());
    message.extend_from_slice(context);
    message.extend_from_slice(body);
    keys.verify(signer, &message, signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::FakeKeys;

    #[test]
    fn round_trips_and_is_bound_to_the_accuser() {
        let node = |n: u8| NodeId::from_public_key([n; 32]);
        let claim = Claim {
            accuser: ShortId::of(&node(1)),
            target: ShortId::of(&node(2)),
            version: 7,
        };
        let bytes = claim.encode(&FakeKeys(node(1)));
        assert_eq!(bytes.len(), 6 + 6 + 1 + 64);
        assert_eq!(Claim::decode(&bytes), Ok(claim));
        assert!(verify(&FakeKeys(node(3)), &node(1), &bytes));
        assert!(!verify(&FakeKeys(node(3)), &node(2), &bytes));
        let of_itself = Claim {
            target: claim.accuser,
            ..claim
        };
        assert_eq!(
            Claim::decode(&of_itself.encode(&FakeKeys(node(1)))),
            Err(DecodeError::Value)
        );
    }
}

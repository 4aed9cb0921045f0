//! Signatures, which the host creates and verifies.

use anabranch_base::NodeId;

/// Length of an Ed25519 signature, in bytes (RFC 8032 §5.1.6).
pub const SIGNATURE_BYTES: usize = 64;

/// A node's key, as far as the overlay needs it: records travel through third parties, so authentication of the
/// neighbour by the session is not enough.
///
/// Every signed message begins with the name of its type, so that a signature is valid for no other type.
pub trait Keys: Send {
    /// This node's signature of `message`.
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES];

    /// True if `signature` is that of `node` over `message`.
    fn verify(&self, node: &NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool;
}

/// Signatures that anyone could make: a hash of key and message. For simulations and tests, where thousands of nodes
/// sign and only the test itself forges.
#[derive(Debug, Clone, Copy)]
pub struct FakeKeys(pub NodeId);

fn fake(node: &NodeId, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let mut state = [0x9e37_79b9_7f4a_7c15_u64; 8];
    for (at, &byte) in node.public_key().iter().chain(message).enumerate() {
        let lane = &mut state[at % 8];
        *lane = (*lane ^ u64::from(byte) ^ (at as u64) << 8).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut out = [0; SIGNATURE_BYTES];
    let mut carry = 0u64;
    for _ in 0..2 {
        for (lane, bytes) in state.iter_mut().zip(out.chunks_exact_mut(8)) {
            carry = (carry.rotate_left(23) ^ *lane).wrapping_mul(0xff51_afd7_ed55_8ccd);
            *lane = carry;
            bytes.copy_from_slice(&carry.to_be_bytes());
        }
    }
    out
}

impl Keys for FakeKeys {
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        fake(&self.0, message)
    }

    fn verify(&self, node: &NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        fake(node, message) == *signature
    }
}

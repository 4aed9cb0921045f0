//! The node's own key, as the overlay's records need it.

use anabranch_base::NodeId;
use anabranch_overlay::{Keys, keys::SIGNATURE_BYTES};
use anabranch_session::{SecretKey, is_signed};

/// Signs with the key that is the node's identity.
pub(super) struct OwnKey(pub(super) SecretKey);

impl Keys for OwnKey {
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message)
    }

    fn verify(&self, node: &NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        is_signed(node, message, signature)
    }
}

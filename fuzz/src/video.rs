//! Messages between origin and proxy, from a peer that sends anything.

use anabranch_video::wire::{Enhanced, Essential, Flow, Piece, Reply, Request};
use bytes::Bytes;

/// The first byte selects the decoder. Whatever decodes is within its bounds, and encodes to the same message again.
pub fn video(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = Bytes::copy_from_slice(rest);
    match kind % 6 {
        0 => {
            if let Ok(request) = Request::decode(&bytes) {
                assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
        }
        1 => {
            if let Ok(reply) = Reply::decode(&bytes) {
                assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
            }
        }
        2 => {
            if let Ok(piece) = Piece::decode(bytes.clone()) {
                assert!(piece.offset + piece.data.len() as u64 <= piece.total);
                assert_eq!(piece.encode(), bytes);
            }
        }
        3 => {
            if let Ok(record) = Essential::decode(bytes.clone()) {
                assert_eq!(record.encode(), bytes);
            }
        }
        4 => {
            if let Ok(adu) = Enhanced::decode(bytes.clone()) {
                assert!(!adu.data.is_empty());
                assert_eq!(adu.encode(), bytes);
            }
        }
        _ => {
            if let Ok(label) = std::str::from_utf8(&bytes)
                && let Some((flow, play)) = Flow::of_label(label)
            {
                assert_eq!(flow.label(play), label);
            }
        }
    }
}

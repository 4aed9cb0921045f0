//! Transfers of files: messages between the two sides, offers, and the note that a receiver leaves for itself.

use anabranch::{SecretKey, transfer::decoders};
use bytes::Bytes;

/// Limit on the parts of a path, and on the bytes of one part.
const DEPTH_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 255;

/// The first byte selects the decoder. Whatever decodes encodes to bytes that decode to the same.
pub fn transfer_messages(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let again = |decode: fn(&[u8]) -> Option<Bytes>| {
        if let Some(encoded) = decode(rest) {
            assert_eq!(decode(&encoded), Some(encoded));
        }
    };
    match kind % 4 {
        0 => {
            // A stranger's message is short; encoded again it may be longer.
            if let Some(encoded) = decoders::hello(rest) {
                assert_eq!(decoders::request(&encoded), Some(encoded));
            }
        }
        1 => again(decoders::request),
        2 => again(decoders::reply),
        _ => {
            let bytes = Bytes::copy_from_slice(rest);
            if let Some(encoded) = decoders::record(&bytes) {
                assert_eq!(encoded, bytes);
            }
        }
    }
}

/// An offer that passes the check stays under its own name; no name in it is reserved, hidden in another or interpreted by a
/// terminal.
pub fn transfer_manifest(data: &[u8]) {
    let Some(paths) = decoders::manifest(data) else {
        return;
    };
    let name = paths[0].clone();
    assert!(!name.contains('/'), "{name:?}");
    let mut sorted = paths.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), paths.len(), "a path occurs twice");
    for path in &paths {
        let parts: Vec<&str> = path.split('/').collect();
        assert_eq!(parts[0], name);
        assert!(parts.len() <= DEPTH_MAX);
        for part in parts {
            assert!(!matches!(part, "" | "." | ".."), "{path:?}");
            assert!(part.len() <= NAME_BYTES_MAX);
            assert!(
                !part.contains(['\\', '\0', '\n', '\x1b', '\u{202e}']),
                "{path:?}"
            );
            assert!(!part.to_lowercase().starts_with(".anabranch-"), "{path:?}");
        }
    }
}

/// The first byte selects whether the text is signed. A note that this node did not sign is rejected; one that it did sign is
/// read without harm, and encodes to itself.
pub fn transfer_note(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else {
        return;
    };
    let (key, other) = (SecretKey::from_seed([1; 32]), SecretKey::from_seed([2; 32]));
    if kind % 2 == 0 {
        assert_eq!(decoders::note(text, &key, "folder"), None, "forged");
        return;
    }
    let signed = decoders::sign(text, &key, "folder");
    assert_eq!(decoders::note(&signed, &other, "folder"), None);
    assert_eq!(decoders::note(&signed, &key, "another"), None);
    if let Some(again) = decoders::note(&signed, &key, "folder") {
        assert_eq!(decoders::note(&again, &key, "folder"), Some(again));
    }
}

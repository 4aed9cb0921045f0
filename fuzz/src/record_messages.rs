use anabranch_records::{
    fuzzing,
    wire::{HEADER_BYTES, Kind, Label, Notice, Request, Want, decode, encode, pieces},
};
use bytes::Bytes;

/// Bytes are an ADU of the protocol of record sets, or are refused; pieces lie within their parts, messages are read as they are
/// written, and so are labels and lines of notes.
pub fn record_messages(data: &[u8]) {
    let adu = Bytes::copy_from_slice(data);
    same::<Request>(&adu);
    same::<Want>(&adu);
    same::<Notice>(&adu);
    if let Ok(Kind::Pieces(body)) = Kind::of(&adu) {
        within(&body);
    }
    // Behind the hash that its bytes have.
    let mut hashed = blake3::hash(data).as_bytes().to_vec();
    hashed.extend_from_slice(data);
    within(&hashed.into());
    let text = String::from_utf8_lossy(data);
    if let Ok(label) = text.parse::<Label>() {
        assert_eq!(label.to_string().parse(), Ok(label));
    }
    text.lines().for_each(fuzzing::note_line);
}

fn same<T>(adu: &Bytes)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    if let Ok(message) = decode::<T>(adu) {
        // A number that is none in JSON, such as an infinite rate, is not written.
        if let Ok(again) = decode::<T>(&encode(&message)) {
            assert_eq!(again, message);
        }
    }
}

fn within(body: &Bytes) {
    let Ok(all) = pieces(body) else {
        return;
    };
    let mut length = 32;
    for piece in all {
        let end = piece.offset.checked_add(piece.data.len() as u64);
        assert!(end.is_some_and(|end| end <= piece.part_bytes));
        assert!(!piece.is_absent || piece.part_bytes == 0);
        length += HEADER_BYTES + piece.data.len();
    }
    assert_eq!(length, body.len());
}

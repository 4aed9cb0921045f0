//! Storage and display of stored video: an object store's answers, addresses of HTTP, the cache, indexes after their checksums.

use anabranch_video::fuzzing;

use crate::{
    Input,
    media::{changed, stored},
};

/// The first byte selects the target of the rest.
pub fn stored_video(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 5 {
        0 => fuzzing::s3(input.0),
        1 => fuzzing::http(input.0),
        2 => fuzzing::cache_file(input.0),
        3 => fuzzing::cache_folder(input.0),
        _ => fuzzing::stored_index(&index(&mut input)),
    }
}

/// An index as stored in the cache: with a head of any numbers, or of any bytes; with a right hash.
fn index(input: &mut Input<'_>) -> Vec<u8> {
    if input.byte().is_multiple_of(4) {
        return input.0.to_vec();
    }
    let [chunk_ms, segment_ms] = [0; 2].map(|_| {
        let number = u64::from(input.byte()) << 8 | u64::from(input.byte());
        number << (input.byte() % 49)
    });
    let policies = [
        "intra",
        "intra+audio",
        "intra+referenced",
        "500 kbit/s",
        "1 bit/s",
        "x",
    ];
    let policy = policies[usize::from(input.byte()) % policies.len()];
    let segment = match segment_ms {
        0 => "null".to_owned(),
        other => other.to_string(),
    };
    let head = format!(r#"{{"policy":"{policy}","chunk_ms":{chunk_ms},"segment_ms":{segment}}}"#);
    let mut index = changed(stored(), input);
    let hash = blake3::hash(&index);
    index.extend_from_slice(&hash.as_bytes()[..16]);
    let length = (head.len() as u32).to_be_bytes();
    [&length, head.as_bytes(), &index].concat()
}

//! Private decoders, for `fuzz/`. Each takes any bytes, and checks the properties that the result must have.

use std::{sync::Arc, time::Duration};

use anabranch_media::write::{Layout, Options, fragment};
use bytes::Bytes;

use crate::{
    proxy,
    store::{Part, VideoKey},
    video::Video,
};

/// Maximum number of chunks of a video that are assembled for each input.
const CHUNKS: u32 = 4;

/// A request's address, and its `Range` header after a line break.
pub fn http(bytes: &[u8]) {
    proxy::fuzz_http(&String::from_utf8_lossy(bytes));
}

/// Pages of an object store, and error responses.
#[cfg(feature = "s3")]
pub fn s3(bytes: &[u8]) {
    crate::origin::library::s3::fuzz(&String::from_utf8_lossy(bytes));
}

/// A file of the cache: whatever it contains, data that is read is data that was written.
pub fn cache_file(bytes: &[u8]) {
    crate::store::fuzz_file(bytes, VideoKey([7; 16]), Part::Essential(3));
}

/// A folder of a cache as an earlier run may have left it: names of files, one per line, the copy of the catalogue, and the
/// popularity.
pub fn cache_folder(bytes: &[u8]) {
    crate::store::fuzz_folder(bytes);
    proxy::fuzz_catalogue(bytes);
}

/// A stored index of the cache, after its checksums; then chunks of its video, of which some frames are missing.
pub fn stored_index(bytes: &[u8]) {
    let Some((division, index)) = proxy::fuzz_index(&Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let Ok(video) = Video::decode("film", "1", &index, division) else {
        return;
    };
    assert!(video.count() > 0);
    let video = Arc::new(video);
    let tracks: Vec<usize> = (0..video.index.tracks.len()).collect();
    for chunk in 0..video.count().min(CHUNKS) {
        let until = video.essential_until(chunk);
        assert!(chunk < until && until <= video.count());
        let Some(content) = proxy::fuzz_content(&video, chunk, bytes) else {
            continue;
        };
        for layout in [Layout::Stable, Layout::Compact] {
            let options = Options {
                layout,
                ..Options::default()
            };
            let place = &video.chunks[chunk as usize];
            fragment(&video.index, &tracks, place, &content, options);
        }
    }
    assert!(video.prefix(Duration::from_secs(8)) >= 1);
}

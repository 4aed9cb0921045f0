//! Validation of every index, read from a file or from its stored form; later code relies on it.

use std::time::Duration;

use crate::{
    chunk::{CHUNK_LENGTH_MAX, chunks},
    error::{IndexError, corrupt},
    index::{FrameType, Index, Track},
};

/// Largest size of one sample. An uncompressed 8K picture has 50 million bytes.
const SAMPLE_BYTES_MAX: u64 = 64 << 20;
/// Largest size of the longest chunk, all tracks together.
const CHUNK_BYTES_MAX: u64 = 512 << 20;
/// Longest film: a year.
const DURATION_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Checks an index.
pub(crate) fn check(index: &Index) -> Result<(), IndexError> {
    if !index.tracks.iter().any(Track::is_video) {
        return Err(IndexError::NoVideo);
    }
    for (place, track) in index.tracks.iter().enumerate() {
        let before = &index.tracks[..place];
        if track.id == 0 || before.iter().any(|other| other.id == track.id) {
            return Err(corrupt(*b"tkhd", "a track id is zero or not unique"));
        }
        check_track(track, index.file_bytes)?;
    }
    for chunk in chunks(index, CHUNK_LENGTH_MAX) {
        let tracks = index.tracks.iter().zip(&chunk.samples);
        let bytes = tracks.flat_map(|(track, range)| &track.samples[range.clone()]);
        let bytes: u64 = bytes.map(|sample| u64::from(sample.size)).sum();
        if bytes > CHUNK_BYTES_MAX {
            return Err(IndexError::TooLarge {
                what: "bytes in a minute of film",
                found: bytes,
                limit: CHUNK_BYTES_MAX,
            });
        }
    }
    Ok(())
}

fn check_track(track: &Track, file_bytes: u64) -> Result<(), IndexError> {
    if track.timescale == 0 {
        return Err(corrupt(*b"mdhd", "its timescale is zero"));
    }
    if track.samples.is_empty() {
        return Err(corrupt(*b"stbl", "a track has no samples"));
    }
    let is_code = track.language.iter().all(u8::is_ascii_lowercase);
    // It goes into playlists between quotation marks.
    let is_name = track
        .codec
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    if !is_code || !is_name {
        return Err(corrupt(*b"mdhd", "a name has invalid characters"));
    }
    let limit = u64::from(track.timescale).saturating_mul(DURATION_MAX.as_secs());
    let mut before = 0;
    let mut bytes = 0u64;
    for sample in &track.samples {
        if sample.decode_time < before {
            return Err(corrupt(*b"tfdt", "time goes back"));
        }
        before = sample
            .decode_time
            .saturating_add(u64::from(sample.duration));
        if before > limit {
            return Err(IndexError::TooLarge {
                what: "seconds of film",
                found: before / u64::from(track.timescale),
                limit: DURATION_MAX.as_secs(),
            });
        }
        let size = u64::from(sample.size);
        if size > SAMPLE_BYTES_MAX {
            return Err(IndexError::TooLarge {
                what: "bytes of one frame",
                found: size,
                limit: SAMPLE_BYTES_MAX,
            });
        }
        bytes += size;
        // No end may overflow, whatever length a stored index gives for the file.
        let end = sample.offset.checked_add(size);
        if end.is_none_or(|end| end > file_bytes) || bytes > file_bytes {
            return Err(IndexError::Truncated {
                what: "a sample",
                end: end.unwrap_or(u64::MAX),
                len: file_bytes,
            });
        }
        if (sample.frame == FrameType::Audio) == track.is_video() {
            return Err(corrupt(*b"hdlr", "pictures and sound in one track"));
        }
    }
    if track.delay > limit || track.media_time > limit {
        return Err(corrupt(*b"elst", "it shifts the film out of range"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film() -> Index {
        let film = include_bytes!("../../tests/data/bikes.mp4");
        let mut source: &[u8] = film;
        Index::read(&mut source, film.len() as u64).expect("a film")
    }

    /// A stored index may give the largest possible file length, with samples at its end.
    #[test]
    fn a_sample_does_not_end_beyond_what_can_be_counted() {
        let mut index = film();
        index.file_bytes = u64::MAX;
        assert!(check(&index).is_ok());
        index.tracks[0].samples[0].offset = u64::MAX - 1;
        assert!(matches!(check(&index), Err(IndexError::Truncated { .. })));
    }

    /// The duration of a stored index is computed before it is checked.
    #[test]
    fn a_stored_index_in_which_time_goes_back_is_refused() {
        let mut index = film();
        let last = index.tracks[0].samples.len() - 1;
        for sample in &mut index.tracks[0].samples[..last] {
            sample.decode_time += 1 << 20;
        }
        index.tracks[0].samples[last].decode_time = 0;
        assert!(Index::decode(&index.encode()).is_err());
    }
}

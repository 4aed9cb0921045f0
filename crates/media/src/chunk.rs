//! Chunks: runs of groups of pictures of about the same length, the unit of fragments and of HLS segments.

use std::{ops::Range, time::Duration};

use crate::index::{Index, time};

/// A chunk is cut without a key frame when it reaches this multiple of the requested length.
const STRETCH_MAX: u32 = 4;
/// A chunk is cut when its pictures reach this size.
const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// Longest chunk length that can be requested.
pub const CHUNK_LENGTH_MAX: Duration = Duration::from_secs(60);

/// A part of the film: for every track, a run of consecutive samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the chunk, from 0.
    pub number: u32,
    /// Start time in the film.
    pub start: Duration,
    /// Playing time.
    pub duration: Duration,
    /// True if decoding can begin here; false only where a film has no key frame for a long time.
    pub is_independent: bool,
    /// Samples of each track of the index, by position; may be empty for all but the first video track.
    pub samples: Vec<Range<usize>>,
}

/// Divides a film into chunks, each at least `length` long (except the last; `length` is capped at
/// [`CHUNK_LENGTH_MAX`]) and beginning with a key frame. A pure function of the index and `length`: every sample is in
/// one chunk. O(samples).
pub fn chunks(index: &Index, length: Duration) -> Vec<Chunk> {
    let length = length.min(CHUNK_LENGTH_MAX);
    let place = index.video();
    let video = &index.tracks[place];
    let shown = |sample: usize| {
        let units = video.presentation_time(&video.samples[sample]);
        time(units.max(0) as u64, video.timescale)
    };
    // Positions in the video track at which chunks begin.
    let mut starts = vec![0];
    let mut bytes = 0;
    let mut begun = Duration::ZERO;
    for (at, sample) in video.samples.iter().enumerate() {
        let now = shown(at);
        let is_due = sample.is_sync && now >= begun.saturating_add(length);
        let is_long = now >= begun.saturating_add(length.saturating_mul(STRETCH_MAX));
        let is_heavy = bytes + u64::from(sample.size) > CHUNK_BYTES_MAX;
        if at > 0 && now > begun && (is_due || is_long || is_heavy) {
            starts.push(at);
            begun = now;
            bytes = 0;
        }
        bytes += u64::from(sample.size);
    }
    let mut begins: Vec<Duration> = starts.iter().map(|&at| shown(at)).collect();
    begins[0] = Duration::ZERO;
    // The sample shown last is not always the one decoded last.
    let ends = index.tracks.iter().flat_map(|track| {
        track.samples.iter().map(|sample| {
            let shown = track.presentation_time(sample).max(0) as u64;
            time(shown + u64::from(sample.duration), track.timescale)
        })
    });
    let end = ends.max().unwrap_or_default();
    let mut next = vec![0; index.tracks.len()];
    let mut chunks = Vec::with_capacity(starts.len());
    for (number, &start) in starts.iter().enumerate() {
        let until = begins.get(number + 1).copied();
        let samples = index.tracks.iter().enumerate().map(|(track, content)| {
            let from = next[track];
            let to = match (starts.get(number + 1), until) {
                (Some(&to), _) if track == place => to,
                (_, Some(until)) => {
                    let rest = &content.samples[from..];
                    from + rest.partition_point(|sample| content.decode_start(sample) < until)
                }
                _ => content.samples.len(),
            };
            next[track] = to;
            from..to
        });
        chunks.push(Chunk {
            number: number as u32,
            start: begins[number],
            samples: samples.collect(),
            duration: until.unwrap_or(end).saturating_sub(begins[number]),
            is_independent: video.samples[start].is_sync,
        });
    }
    chunks
}

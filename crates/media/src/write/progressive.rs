//! Progressive file made of fragments: offset of each fragment, before any data are available.

use std::ops::Range;

use bytes::Bytes;

use super::{Layout, boxes::Writer, fragment_bytes, init_segment};
use crate::{chunk::Chunk, index::Index};

/// Layout of a progressive fragmented file in the stable form: a head (init segment and segment index 'sidx', which
/// players use to seek), then a fragment for each chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progressive {
    head: Bytes,
    /// Offsets at which fragments begin, and at which the last ends.
    starts: Vec<u64>,
}

/// Most entries of 'sidx'; a film with more chunks has no 'sidx', and players seek by reading.
const REFERENCES_MAX: usize = u16::MAX as usize;

impl Progressive {
    /// Computes the layout of some tracks, by position. O(samples).
    pub fn new(index: &Index, tracks: &[usize], chunks: &[Chunk]) -> Self {
        let size = |chunk| fragment_bytes(index, tracks, chunk, Layout::Stable);
        let sizes: Vec<u64> = chunks.iter().map(size).collect();
        let mut head = init_segment(index, tracks).to_vec();
        if chunks.len() <= REFERENCES_MAX {
            head.extend_from_slice(&sidx(index, chunks, &sizes));
        }
        let mut at = head.len() as u64;
        let mut starts = vec![at];
        for size in sizes {
            at += size;
            starts.push(at);
        }
        Self {
            head: head.into(),
            starts,
        }
    }

    /// Bytes before the first fragment.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// Size of the whole file.
    pub fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Byte range of the fragment of a chunk. Panics if there is no such chunk.
    pub fn place(&self, chunk: usize) -> Range<u64> {
        self.starts[chunk]..self.starts[chunk + 1]
    }

    /// Chunk whose fragment holds a byte; `None` in the head, and beyond the end.
    pub fn chunk_at(&self, offset: u64) -> Option<usize> {
        let after = self.starts.partition_point(|&start| start <= offset);
        let chunk = after.checked_sub(1)?;
        (chunk + 1 < self.starts.len()).then_some(chunk)
    }
}

/// Writes the segment index (ISO/IEC 14496-12 §8.16.3), in the timescale of the first video track.
fn sidx(index: &Index, chunks: &[Chunk], sizes: &[u64]) -> Vec<u8> {
    let place = index.video();
    let track = &index.tracks[place];
    let mut w = Writer::default();
    w.full(b"sidx", 1, 0, |w| {
        w.u32(track.id);
        w.u32(track.timescale);
        let first = track.samples.first();
        w.u64(first.map_or(0, |first| track.presentation_time(first).max(0) as u64));
        w.u64(0);
        w.u16(0);
        w.u16(chunks.len() as u16);
        for (chunk, &size) in chunks.iter().zip(sizes) {
            // Media, not another index.
            w.u32(size as u32 & 0x7fff_ffff);
            let range = &chunk.samples[place];
            let duration = track.decode_end(range.end) - track.decode_end(range.start);
            w.u32(u32::try_from(duration).unwrap_or(u32::MAX));
            // Begins with a stream access point of type 1, which is its first sample.
            w.u32(if chunk.is_independent { 0x9000_0000 } else { 0 });
        }
    });
    w.0
}

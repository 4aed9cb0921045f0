//! A video that is open for reading: the bytes of its chunks.

use std::sync::Arc;

use anabranch_media::Part;
use bytes::{Bytes, BytesMut};

use super::{
    LibraryError,
    place::{Film, ReadError},
};
use crate::video::Video;

/// Maximum size of one read, including gaps.
const SPAN_BYTES_MAX: u64 = 8 << 20;

/// A video that is open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The video.
    pub video: Arc<Video>,
    /// Its encoded index.
    pub index: Bytes,
    /// Its path in the library.
    pub(super) at: String,
    pub(super) film: Box<dyn Film>,
}

/// Contiguous frames in the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: u64,
    bytes: usize,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }
}

impl Opened {
    /// All bytes of one part of a chunk, in the order of [`Video::frames`]. Waits for the disk or the network.
    ///
    /// # Errors
    /// The film has changed, or cannot be read.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn read(&self, chunk: u32, part: Part) -> Result<Bytes, LibraryError> {
        let read = self.try_read(chunk, part);
        read.map_err(|error| error.of(&self.video.name))
    }

    fn try_read(&self, chunk: u32, part: Part) -> Result<Bytes, ReadError> {
        self.film.check()?;
        let frames = self.video.frames(chunk, part).map(|frame| {
            let sample = &self.video.index.tracks[frame.track].samples[frame.sample];
            (sample.offset, sample.size as usize)
        });
        let runs = runs(frames);
        let bytes = runs.iter().map(|run| run.bytes).sum();
        let mut data = BytesMut::zeroed(bytes);
        read_runs(&*self.film, &runs, &mut data)?;
        Ok(data.freeze())
    }
}

/// Joins frames that are contiguous and follow each other.
fn runs(frames: impl Iterator<Item = (u64, usize)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (offset, bytes) in frames {
        match runs.last_mut() {
            Some(last) if last.end() == offset => last.bytes += bytes,
            _ => runs.push(Run { offset, bytes }),
        }
    }
    runs
}

/// Fills `data` with the runs, one after the other. Runs that are near each other in the film are read together, whatever their
/// order.
fn read_runs(film: &dyn Film, runs: &[Run], mut data: &mut [u8]) -> Result<(), ReadError> {
    let mut pieces = Vec::with_capacity(runs.len());
    for &run in runs {
        let (piece, rest) = data.split_at_mut(run.bytes);
        pieces.push((run, piece));
        data = rest;
    }
    pieces.retain(|(run, _)| run.bytes > 0);
    pieces.sort_by_key(|(run, _)| run.offset);
    let gap = film.gap_bytes() as u64;
    let mut rest = &mut pieces[..];
    while let Some((first, _)) = rest.first() {
        let (begin, mut end) = (first.offset, first.end());
        let near = rest[1..].iter().take_while(|(run, _)| {
            let is_near = run.offset <= end.saturating_add(gap)
                && run.end().max(end) - begin <= SPAN_BYTES_MAX;
            if is_near {
                end = end.max(run.end());
            }
            is_near
        });
        let count = 1 + near.count();
        let (span, others) = rest.split_at_mut(count);
        rest = others;
        if let [(run, piece)] = span {
            film.read(run.offset, piece)?;
            continue;
        }
        let mut all = vec![0; (end - begin) as usize];
        film.read(begin, &mut all)?;
        for (run, piece) in span {
            let from = (run.offset - begin) as usize;
            piece.copy_from_slice(&all[from..from + run.bytes]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::{super::place::Stamp, *};

    #[derive(Debug)]
    struct Counted {
        stamp: Stamp,
        gap: usize,
        asked: Mutex<Vec<(u64, usize)>>,
    }

    fn film(gap: usize) -> Counted {
        let stamp = Stamp {
            bytes: u64::MAX,
            mark: String::new(),
        };
        let asked = Mutex::default();
        Counted { stamp, gap, asked }
    }

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    impl Film for Counted {
        fn stamp(&self) -> &Stamp {
            &self.stamp
        }
        fn gap_bytes(&self) -> usize {
            self.gap
        }
        fn ahead_bytes(&self) -> usize {
            0
        }
        fn check(&self) -> Result<(), ReadError> {
            Ok(())
        }
        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
            self.asked.lock().unwrap().push((offset, into.len()));
            for (at, into) in (offset..).zip(into) {
                *into = byte(at);
            }
            Ok(())
        }
    }

    fn read(film: &Counted, frames: &[(u64, usize)]) -> Vec<u8> {
        let runs = runs(frames.iter().copied());
        let mut data = vec![0; runs.iter().map(|run| run.bytes).sum()];
        read_runs(film, &runs, &mut data).unwrap();
        data
    }

    #[test]
    fn frames_side_by_side_are_read_together() {
        let film = film(0);
        read(&film, &[(100, 10), (110, 5), (200, 1), (300, 0), (201, 3)]);
        assert_eq!(*film.asked.lock().unwrap(), [(100, 15), (200, 4)]);
    }

    #[test]
    fn near_ranges_take_one_request_where_requests_cost() {
        let film = film(60);
        // The sound's frames are between those of the picture.
        read(
            &film,
            &[(0, 100), (200, 100), (100, 40), (340, 10), (5_000, 1)],
        );
        assert_eq!(*film.asked.lock().unwrap(), [(0, 350), (5_000, 1)]);
    }

    #[test]
    fn no_span_is_longer_than_the_limit() {
        let film = film(usize::MAX);
        let frames: Vec<_> = (0..40).map(|n| (n << 20, 1000)).collect();
        read(&film, &frames);
        let asked = film.asked.lock().unwrap();
        assert!(asked.len() >= 5);
        assert!(
            asked
                .iter()
                .all(|&(_, bytes)| bytes as u64 <= SPAN_BYTES_MAX)
        );
    }

    proptest! {
        /// The same for frames that overlap, and in any order.
        #[test]
        fn every_frame_has_its_bytes(
            frames in proptest::collection::vec((0..5_000_u64, 0..300_usize), 0..40),
            gap in 0..1_000_usize,
        ) {
            let data = read(&film(gap), &frames);
            let expected: Vec<u8> = frames
                .iter()
                .flat_map(|&(offset, bytes)| (offset..offset + bytes as u64).map(byte))
                .collect();
            prop_assert_eq!(data, expected);
        }
    }
}

//! Reader of MP4 files: boxes, tables, fragments, then the frame types from the samples themselves.

pub(crate) mod boxes;
mod check;
mod classify;
mod entry;
mod fragments;
mod movie;
mod samples;
mod table;

use boxes::{Header, TOP_MAX, find};

pub(crate) use check::check;
pub(crate) use entry::ENTRY_BYTES_MAX;

use crate::{
    error::IndexError,
    index::{Index, Track},
    source::{ReadAt, Source},
};

/// Most samples of one file: 38 hours of 60 pictures a second, 256 MiB of memory.
pub(crate) const SAMPLES_MAX: u64 = 1 << 23;

/// Most tracks of one file that are kept.
pub(crate) const TRACKS_MAX: usize = 64;

impl Index {
    /// Reads the index of a file of `len` bytes: the boxes, and the slice headers of every picture, never the pictures
    /// themselves. Tracks that are neither video nor audio are left out.
    ///
    /// # Errors
    /// [`IndexError`] describes the fault of the file and the remedy.
    ///
    /// # Complexity
    /// O(samples) time, one or a few reads of 128 bytes per picture; 32 bytes of memory per sample and 20 more per
    /// stand-in.
    pub fn read(file: &mut impl ReadAt, len: u64) -> Result<Self, IndexError> {
        let mut source = Source::new(file, len);
        let (moov, moofs) = top(&mut source)?;
        let movie = movie::read(&mut source, &moov)?;
        let mut tracks = movie.tracks;
        if !moofs.is_empty() {
            fragments::read(&mut source, &moofs, &mut tracks, &movie.defaults)?;
        }
        movie::shift_edits(&mut tracks, movie.timescale)?;
        let mut kept: Vec<Track> = Vec::new();
        for mut draft in tracks {
            if draft.track.samples.is_empty() {
                continue;
            }
            movie::lift_offsets(&mut draft.track)?;
            classify::classify(&mut source, draft.config, &mut draft.track)?;
            kept.push(draft.track);
        }
        let index = Self::of(kept, len);
        check(&index)?;
        Ok(index)
    }
}

/// Finds the movie box and the fragments of a file.
fn top(source: &mut Source<'_>) -> Result<(Header, Vec<Header>), IndexError> {
    let mut moov = None;
    let mut moofs = Vec::new();
    let mut seen = Vec::new();
    let mut at = 0;
    let len = source.len();
    let mut boxes = 0;
    loop {
        let header = match Header::read(source, at, len) {
            Ok(Some(header)) => header,
            Ok(None) => break,
            // Random bytes give sizes, too. A file whose first box is invalid is not cut short; it is not an MP4 file.
            Err(IndexError::Truncated { .. } | IndexError::Corrupt { .. }) if seen.is_empty() => {
                return Err(IndexError::NotMp4);
            }
            Err(error) => return Err(error),
        };
        boxes += 1;
        if boxes > TOP_MAX {
            return Err(IndexError::TooLarge {
                what: "boxes",
                found: boxes as u64,
                limit: TOP_MAX as u64,
            });
        }
        match &header.kind {
            b"moov" if moov.is_none() => moov = Some(header),
            b"moof" => moofs.push(header),
            _ => {}
        }
        if seen.len() < 8 {
            seen.push(header);
        }
        at = header.end;
    }
    match moov {
        Some(moov) => Ok((moov, moofs)),
        // The index of an unfinished recording is written last.
        None if find(&seen, b"ftyp").is_some() && find(&seen, b"mdat").is_some() => {
            Err(IndexError::Unsupported {
                what: "a file without a 'moov' box (a recording that was not finished)",
            })
        }
        None => Err(IndexError::NotMp4),
    }
}

//! Fragments: 'moof' and 'mdat' of one chunk, with the frames that are available.
//!
//! The duration of a frame that is left out is added to the one before it in decode order, so that the timing of the
//! film is kept; a referenced frame is replaced by its stand-in, where it has one. In the [`Layout::Stable`] form a
//! fragment has the same size whatever is missing, and every sample keeps its offset: missing samples are replaced by
//! filler, which decoders skip, and the space that the tables do not need becomes a 'free' box. So byte ranges and
//! lengths of a whole file are known before any of it arrives.

use std::ops::Range;

use bytes::Bytes;

use super::{
    boxes::Writer,
    filler::{self, Filler},
    types::{Counts, Fragment, Frames, Layout, Options, Piece, Plan},
};
use crate::{
    chunk::Chunk,
    depend::{Chain, Outcome, chain_start},
    index::{Index, Sample, Track},
};

/// Writes the fragment of some tracks (by position) in one chunk, with the frames that are available. The same frames
/// give the same bytes. O(bytes), and O(samples of the two groups of pictures before the chunk).
pub fn fragment(
    index: &Index,
    tracks: &[usize],
    chunk: &Chunk,
    frames: &dyn Frames,
    options: Options,
) -> Fragment {
    let get = |track: usize, sample: usize| {
        let size = index.tracks[track].samples[sample].size as usize;
        frames
            .get(track, sample)
            .filter(|bytes| bytes.len() == size)
    };
    let plan = plan(index, tracks, chunk, &|t, s| get(t, s).is_some(), options);
    let mut bytes = Vec::with_capacity(plan.bytes as usize);
    bytes.extend_from_slice(&plan.head);
    for piece in plan.pieces {
        let zeros = match piece {
            Piece::Sample(track, sample, size) => match get(track, sample) {
                Some(data) => {
                    bytes.extend_from_slice(&data);
                    0
                }
                None => u64::from(size),
            },
            Piece::Data(data) => {
                bytes.extend_from_slice(&data);
                0
            }
            Piece::Zeros(count) => count,
        };
        bytes.resize(bytes.len() + zeros as usize, 0);
    }
    Fragment {
        bytes: bytes.into(),
        missing: plan.missing,
        left_out: plan.left_out,
        replaced: plan.replaced,
    }
}

/// Size of a fragment with every frame, from the index alone; in the stable layout, the size of any.
pub fn fragment_bytes(index: &Index, tracks: &[usize], chunk: &Chunk, layout: Layout) -> u64 {
    let mut bytes = MOOF_BYTES + MDAT_BYTES;
    for &place in tracks {
        let track = &index.tracks[place];
        let range = chunk.samples[place].clone();
        let count = range.len() as u64;
        let shape = Shape::of(track);
        bytes += TRAF_BYTES;
        if count > 0 {
            bytes += TRUN_BYTES + shape.entry_bytes * count;
        }
        if layout == Layout::Stable {
            bytes += shape.spare(count);
        }
        bytes += data(track, range);
    }
    if layout == Layout::Stable {
        bytes += FREE_BYTES;
    }
    bytes
}

/// Plan of a fragment, given the samples that arrived; `is_there` takes track and sample by position.
pub fn plan(
    index: &Index,
    tracks: &[usize],
    chunk: &Chunk,
    is_there: &dyn Fn(usize, usize) -> bool,
    options: Options,
) -> Plan {
    let mut missing = Counts::default();
    let mut left_out = Counts::default();
    let mut replaced = Counts::default();
    let mut runs = Vec::with_capacity(tracks.len());
    for &place in tracks {
        let track = &index.tracks[place];
        let range = chunk.samples[place].clone();
        let mut kept = Vec::with_capacity(range.len());
        let codec = Filler::of(track);
        let mut chain = Chain::new(options.dependents);
        for sample in chain_start(track, range.start)..range.end {
            let there = is_there(place, sample);
            let size = u64::from(track.samples[sample].size);
            // Both layouts show the same pictures: the space that a stand-in leaves must be filled. So tables are
            // divided only where a sample is missing.
            let stand_in = track.stand_ins.get(sample);
            let fits = stand_in.is_some_and(|bytes| {
                let length = bytes.len() as u64;
                length == size || codec.is_some() && size >= length && filler::fits(size - length)
            });
            let outcome = chain.next(track, sample, there, fits);
            if sample < range.start {
                continue;
            }
            let frame = track.samples[sample].frame;
            if !there {
                missing.add(frame);
            }
            if outcome != Outcome::Whole {
                left_out.add(frame);
            }
            let stand_in = match outcome {
                Outcome::Whole => None,
                Outcome::StandIn => stand_in.map(Bytes::copy_from_slice),
                Outcome::Out => continue,
            };
            if stand_in.is_some() {
                replaced.add(frame);
            }
            kept.push(Kept {
                sample,
                size: stand_in.as_ref().map_or(size, |bytes| bytes.len() as u64) as u32,
                stand_in,
                filler: None,
                is_last: false,
            });
        }
        if options.layout == Layout::Stable {
            fill(track, &mut kept);
        }
        runs.push(Run { place, range, kept });
    }
    let mut plan = write(index, chunk, runs, options.layout);
    plan.missing = missing;
    plan.left_out = left_out;
    plan.replaced = replaced;
    plan
}

/// A sample as written to a fragment.
struct Kept {
    sample: usize,
    size: u32,
    /// Stand-in written instead of it.
    stand_in: Option<Bytes>,
    /// Filler after it, which `size` includes.
    filler: Option<Bytes>,
    /// True if no later sample is described in the same table.
    is_last: bool,
}

/// Fills the gaps between samples, so that one table describes them all: some readers lose their position among several
/// tables after a seek (Chromium 156).
fn fill(track: &Track, kept: &mut [Kept]) {
    let codec = Filler::of(track);
    for at in 1..kept.len() {
        let wanted = data(track, kept[at - 1].sample..kept[at].sample);
        let before = &mut kept[at - 1];
        let gap = wanted - u64::from(before.size);
        if gap == 0 {
            continue;
        }
        match codec.and_then(|codec| codec.bytes(gap)) {
            Some(bytes) => {
                before.size += gap as u32;
                before.filler = Some(bytes.into());
            }
            None => before.is_last = true,
        }
    }
}

/// The samples of one track in a fragment.
struct Run {
    place: usize,
    range: Range<usize>,
    kept: Vec<Kept>,
}

const MOOF_BYTES: u64 = 8 + 16;
/// 'traf', 'tfhd' with default flags, 'tfdt'.
const TRAF_BYTES: u64 = 8 + 20 + 20;
const TRUN_BYTES: u64 = 20;
const MDAT_BYTES: u64 = 8;
const FREE_BYTES: u64 = 8;

/// Fields that a track's tables hold for each sample.
struct Shape {
    entry_bytes: u64,
    flags: u32,
}

impl Shape {
    const fn of(track: &Track) -> Self {
        if track.is_video() {
            // Data offset; duration, size, flags, composition offset.
            Self {
                entry_bytes: 16,
                flags: 0xf01,
            }
        } else {
            Self {
                entry_bytes: 8,
                flags: 0x301,
            }
        }
    }

    /// Extra space for tables with gaps: a sample that is left out saves an entry, and costs another 'trun' if there
    /// are samples on both sides of it.
    const fn spare(&self, count: u64) -> u64 {
        (TRUN_BYTES - self.entry_bytes) * (count.saturating_sub(1) / 2)
    }
}

fn data(track: &Track, range: Range<usize>) -> u64 {
    let samples = track.samples[range].iter();
    samples.map(|sample| u64::from(sample.size)).sum()
}

fn write(index: &Index, chunk: &Chunk, runs: Vec<Run>, layout: Layout) -> Plan {
    let is_stable = layout == Layout::Stable;
    let tracks: Vec<usize> = runs.iter().map(|run| run.place).collect();
    let complete = fragment_bytes(index, &tracks, chunk, layout);
    let stable_data: u64 = runs
        .iter()
        .map(|run| data(&index.tracks[run.place], run.range.clone()))
        .sum();
    let mut pieces = Vec::new();
    let groups: Vec<Vec<Range<usize>>> = runs.iter().map(|run| groups(&run.kept)).collect();
    let moof_bytes = MOOF_BYTES
        + runs
            .iter()
            .zip(&groups)
            .map(|(run, groups)| {
                let shape = Shape::of(&index.tracks[run.place]);
                TRAF_BYTES
                    + TRUN_BYTES * groups.len() as u64
                    + shape.entry_bytes * run.kept.len() as u64
            })
            .sum::<u64>();
    let head_bytes = if is_stable {
        complete - stable_data
    } else {
        moof_bytes + MDAT_BYTES
    };
    let mut offset = head_bytes;
    let mut w = Writer::default();
    w.boxed(b"moof", |w| {
        w.full(b"mfhd", 0, 0, |w| w.u32(chunk.number + 1));
        for (run, groups) in runs.iter().zip(&groups) {
            let track = &index.tracks[run.place];
            // In the stable layout the offset of a sample counts all before it.
            let mut at = run.range.start;
            traf(w, track, run, groups, &mut |kept| {
                if is_stable {
                    offset += data(track, at..kept[0].sample);
                    at = kept[0].sample;
                }
                let place = offset;
                if !is_stable {
                    offset += kept.iter().map(|kept| u64::from(kept.size)).sum::<u64>();
                }
                place as u32
            });
            if is_stable {
                offset += data(track, at..run.range.end);
            }
        }
    });
    debug_assert_eq!(w.0.len() as u64, moof_bytes);
    if is_stable {
        let free = head_bytes - MDAT_BYTES - moof_bytes;
        w.boxed(b"free", |w| w.zeros(free as usize - 8));
    }
    for run in runs {
        let track = &index.tracks[run.place];
        let mut at = run.range.start;
        let mut written = 0;
        for kept in run.kept {
            if is_stable {
                push_zeros(&mut pieces, data(track, at..kept.sample) - written);
            }
            at = kept.sample;
            written = u64::from(kept.size);
            pieces.push(match kept.stand_in {
                Some(bytes) => Piece::Data(bytes),
                None => Piece::Sample(run.place, at, track.samples[at].size),
            });
            pieces.extend(kept.filler.map(Piece::Data));
        }
        if is_stable {
            push_zeros(&mut pieces, data(track, at..run.range.end) - written);
        }
    }
    let body: u64 = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Sample(_, _, size) => u64::from(*size),
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Zeros(count) => *count,
        })
        .sum();
    w.u32((MDAT_BYTES + body) as u32);
    w.bytes(b"mdat");
    let bytes = w.0.len() as u64 + body;
    debug_assert!(!is_stable || bytes == complete);
    Plan {
        head: w.0.into(),
        pieces,
        bytes,
        missing: Counts::default(),
        left_out: Counts::default(),
        replaced: Counts::default(),
    }
}

fn push_zeros(pieces: &mut Vec<Piece>, count: u64) {
    match pieces.last_mut() {
        _ if count == 0 => {}
        Some(Piece::Zeros(zeros)) => *zeros += count,
        _ => pieces.push(Piece::Zeros(count)),
    }
}

/// Ranges of `kept` that one 'trun' describes.
fn groups(kept: &[Kept]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..kept.len() {
        match groups.last_mut() {
            Some(group) if !kept[at - 1].is_last => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// Writes one track's part of 'moof'. `place` gives the data offset of samples that are adjacent.
fn traf(
    w: &mut Writer,
    track: &Track,
    run: &Run,
    groups: &[Range<usize>],
    place: &mut dyn FnMut(&[Kept]) -> u32,
) {
    let shape = Shape::of(track);
    let first = run.kept.first().map_or(run.range.start, |kept| kept.sample);
    let first_time = track.decode_end(first);
    w.boxed(b"traf", |w| {
        // Offsets count from 'moof'; default flags.
        w.full(b"tfhd", 0, 0x2_0020, |w| {
            w.u32(track.id);
            w.u32(SYNC);
        });
        w.full(b"tfdt", 1, 0, |w| w.u64(first_time + track.delay));
        for group in groups {
            let kept = &run.kept[group.clone()];
            w.full(b"trun", 1, shape.flags, |w| {
                w.u32(kept.len() as u32);
                w.u32(place(kept));
                for at in group.clone() {
                    let kept = &run.kept[at];
                    let sample = &track.samples[kept.sample];
                    // Until the next available sample, or to the end of the chunk.
                    let next = run
                        .kept
                        .get(at + 1)
                        .map_or(run.range.end, |kept| kept.sample);
                    let duration = track.decode_end(next) - sample.decode_time;
                    w.u32(u32::try_from(duration).unwrap_or(u32::MAX));
                    w.u32(kept.size);
                    if track.is_video() {
                        w.u32(flags(sample));
                        w.u32(sample.composition_offset as u32);
                    }
                }
            });
        }
    });
}

/// Depends on nothing.
const SYNC: u32 = 0x0200_0000;

/// Flags of a sample: dependence on others, dependence of others on it, and whether decoding can begin.
const fn flags(sample: &Sample) -> u32 {
    let depended_on = if sample.is_referenced { 1 } else { 2 } << 22;
    if sample.is_sync {
        SYNC | depended_on
    } else {
        0x0101_0000 | depended_on
    }
}

//! Movie fragments ('moof'): samples of a file that was written in pieces.

use super::{
    SAMPLES_MAX,
    boxes::{Header, find, require},
    movie::{Defaults, Draft},
    samples::check_place,
    table::Table,
};
use crate::{
    error::{IndexError, corrupt},
    index::{FrameType, Sample, time},
    source::Source,
};

/// Flags of a sample: depends on nothing / on others (bits 25, 24), is not depended on (23, 22), is no sync sample.
const NOT_DEPENDED_ON: u32 = 2 << 22;
const DEPENDED_ON_MASK: u32 = 3 << 22;
const NON_SYNC: u32 = 1 << 16;

/// Adds the samples of all fragments to their tracks.
pub(super) fn read(
    source: &mut Source<'_>,
    moofs: &[Header],
    tracks: &mut [Draft],
    defaults: &[Defaults],
) -> Result<(), IndexError> {
    let mut total: u64 = tracks.iter().map(|d| d.track.samples.len() as u64).sum();
    let mut bytes: Vec<u64> = tracks.iter().map(|d| d.track.bytes()).collect();
    for moof in moofs {
        let boxes = moof.children(source)?;
        let mut data_end = moof.start;
        for traf in boxes.iter().filter(|header| header.kind == *b"traf") {
            let inner = traf.children(source)?;
            let tfhd = require(&inner, b"tfhd", traf.kind)?;
            let run = Run::new(source, &tfhd, moof.start, data_end, defaults)?;
            let place = tracks.iter().position(|draft| draft.track.id == run.track);
            // Tracks that were left out (text, chapters) have fragments, too.
            let Some(place) = place else {
                continue;
            };
            let track = &mut tracks[place].track;
            let decode_time = match find(&inner, b"tfdt") {
                Some(tfdt) => {
                    let (version, _) = tfdt.version(source)?;
                    tfdt.need(if version == 1 { 12 } else { 8 })?;
                    match version {
                        1 => source.u64(tfdt.body + 4)?,
                        _ => u64::from(source.u32(tfdt.body + 4)?),
                    }
                }
                None => track.decode_end(track.samples.len()),
            };
            if decode_time > 1 << 62
                || track
                    .samples
                    .last()
                    .is_some_and(|s| s.decode_time > decode_time)
            {
                return Err(corrupt(*b"tfdt", "its time goes back"));
            }
            let mut state = State {
                decode_time,
                offset: run.base,
                total: &mut total,
                bytes: &mut bytes[place],
            };
            for trun in inner.iter().filter(|header| header.kind == *b"trun") {
                run.read(source, trun, &mut state, &mut track.samples)?;
            }
            data_end = state.offset;
        }
    }
    for draft in &mut *tracks {
        let samples = &mut draft.track.samples;
        // The times of fragments are rounded: a sample lasts until the next.
        for at in 1..samples.len() {
            let lasts = samples[at].decode_time - samples[at - 1].decode_time;
            samples[at - 1].duration = u32::try_from(lasts).unwrap_or(u32::MAX);
        }
    }
    rebase(tracks);
    Ok(())
}

/// Shifts recordings of live streams, which begin at any time, so that the film begins at zero. The shift is the same
/// for all tracks, a whole number of seconds.
fn rebase(tracks: &mut [Draft]) {
    let starts = tracks.iter().filter_map(|draft| {
        let first = draft.track.samples.first()?;
        Some(time(first.decode_time, draft.track.timescale).as_secs())
    });
    let Some(start_s) = starts.min() else {
        return;
    };
    for draft in tracks {
        let shift = start_s * u64::from(draft.track.timescale);
        for sample in &mut draft.track.samples {
            sample.decode_time -= shift;
        }
    }
}

struct State<'a> {
    decode_time: u64,
    offset: u64,
    total: &'a mut u64,
    bytes: &'a mut u64,
}

/// Defaults of one 'traf' for all of its samples.
struct Run {
    track: u32,
    base: u64,
    duration: u32,
    size: u32,
    flags: u32,
}

impl Run {
    fn new(
        source: &mut Source<'_>,
        tfhd: &Header,
        moof: u64,
        data_end: u64,
        defaults: &[Defaults],
    ) -> Result<Self, IndexError> {
        let (_, flags) = tfhd.version(source)?;
        let present = |bit: u32| flags & bit != 0;
        let bytes = 8 + 8 * u64::from(present(1)) + 4 * u64::from((flags & 0x3a).count_ones());
        tfhd.need(bytes)?;
        let track = source.u32(tfhd.body + 4)?;
        let stated = defaults.iter().find(|d| d.track == track).copied();
        let defaults = stated.unwrap_or_default();
        let mut run = Self {
            track,
            base: if present(0x2_0000) { moof } else { data_end },
            duration: defaults.duration,
            size: defaults.size,
            flags: defaults.flags,
        };
        let mut at = tfhd.body + 8;
        if present(1) {
            run.base = source.u64(at)?;
            at += 8;
        }
        if present(2) {
            if source.u32(at)? > 1 {
                return Err(IndexError::Unsupported {
                    what: "a track that changes its codec settings midway",
                });
            }
            at += 4;
        }
        for (bit, field) in [
            (8, &mut run.duration),
            (0x10, &mut run.size),
            (0x20, &mut run.flags),
        ] {
            if present(bit) {
                *field = source.u32(at)?;
                at += 4;
            }
        }
        Ok(run)
    }

    fn read(
        &self,
        source: &mut Source<'_>,
        trun: &Header,
        state: &mut State<'_>,
        samples: &mut Vec<Sample>,
    ) -> Result<(), IndexError> {
        let (_, flags) = trun.version(source)?;
        trun.need(16)
            .or_else(|_| trun.need(8 + 4 * u64::from((flags & 5).count_ones())))?;
        let count = u64::from(source.u32(trun.body + 4)?);
        let mut at = trun.body + 8;
        if flags & 1 != 0 {
            let shift = i64::from(source.u32(at)? as i32);
            state.offset = self
                .base
                .checked_add_signed(shift)
                .ok_or_else(|| corrupt(trun.kind, "its data begin before the file"))?;
            at += 4;
        }
        let mut first_flags = None;
        if flags & 4 != 0 {
            first_flags = Some(source.u32(at)?);
            at += 4;
        }
        if *state.total + count > SAMPLES_MAX {
            return Err(IndexError::TooLarge {
                what: "samples",
                found: *state.total + count,
                limit: SAMPLES_MAX,
            });
        }
        *state.total += count;
        let fields = (flags & 0xf00).count_ones() as usize;
        let mut table = match fields {
            0 => None,
            _ => Some(Table::new(trun, at, count, 4 * fields)?),
        };
        for _ in 0..count {
            let mut values = [self.duration, self.size, self.flags, 0];
            if let Some(table) = &mut table {
                let entry = table.next(source)?.ok_or_else(|| {
                    corrupt(trun.kind, "it covers fewer samples than it declares")
                })?;
                let mut words = entry.as_chunks::<4>().0.iter();
                for (bit, value) in values.iter_mut().enumerate() {
                    if flags & 0x100 << bit != 0 {
                        *value = words.next().map_or(0, |word| u32::from_be_bytes(*word));
                    }
                }
            }
            let [duration, size, mut sample_flags, composition] = values;
            if flags & 0x400 == 0
                && let Some(first) = first_flags.take()
            {
                sample_flags = first;
            }
            if duration > i32::MAX as u32 {
                return Err(corrupt(trun.kind, "a duration is negative"));
            }
            if size == 0 && table.is_none() {
                return Err(corrupt(trun.kind, "samples without a size"));
            }
            *state.bytes += u64::from(size);
            check_place(source, state.offset, size, *state.bytes)?;
            samples.push(Sample {
                offset: state.offset,
                decode_time: state.decode_time,
                size,
                duration,
                composition_offset: composition as i32,
                frame: FrameType::Other,
                is_sync: sample_flags & NON_SYNC == 0,
                is_referenced: sample_flags & DEPENDED_ON_MASK != NOT_DEPENDED_ON,
            });
            state.offset += u64::from(size);
            state.decode_time += u64::from(duration);
        }
        Ok(())
    }
}

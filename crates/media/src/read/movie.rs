//! The movie box: tracks, their timescales, edit lists and sample entries.

use super::{
    TRACKS_MAX,
    boxes::{Header, find, require},
    entry::{self, Config},
    samples,
};
use crate::{
    error::{IndexError, corrupt},
    index::{Track, TrackKind},
    source::Source,
    stand_ins::StandIns,
};

/// Defaults for the fragments of a track ('trex').
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Defaults {
    pub(super) track: u32,
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// A track before its samples are classified.
pub(super) struct Draft {
    pub(super) track: Track,
    pub(super) config: Config,
    /// Length of the empty edit at the beginning, in the movie's timescale.
    delay: u64,
}

pub(super) struct Movie {
    pub(super) timescale: u32,
    pub(super) tracks: Vec<Draft>,
    pub(super) defaults: Vec<Defaults>,
}

pub(super) fn read(source: &mut Source<'_>, moov: &Header) -> Result<Movie, IndexError> {
    let boxes = moov.children(source)?;
    let mvhd = require(&boxes, b"mvhd", moov.kind)?;
    let (version, _) = mvhd.version(source)?;
    mvhd.need(if version == 1 { 32 } else { 20 })?;
    let timescale = source.u32(mvhd.body + if version == 1 { 20 } else { 12 })?;
    if timescale == 0 {
        return Err(corrupt(mvhd.kind, "its timescale is zero"));
    }
    let mut tracks = Vec::new();
    let mut held = 0;
    for trak in boxes.iter().filter(|header| header.kind == *b"trak") {
        let Some(draft) = track(source, trak, held)? else {
            continue;
        };
        if tracks.len() == TRACKS_MAX {
            return Err(IndexError::TooLarge {
                what: "tracks",
                found: tracks.len() as u64 + 1,
                limit: TRACKS_MAX as u64,
            });
        }
        if tracks
            .iter()
            .any(|other: &Draft| other.track.id == draft.track.id)
        {
            return Err(corrupt(*b"tkhd", "two tracks have the same id"));
        }
        held += draft.track.samples.len();
        tracks.push(draft);
    }
    let mut defaults = Vec::new();
    if let Some(mvex) = find(&boxes, b"mvex") {
        for trex in mvex.children(source)? {
            if trex.kind == *b"trex" {
                trex.need(24)?;
                defaults.push(Defaults {
                    track: source.u32(trex.body + 4)?,
                    duration: source.u32(trex.body + 12)?,
                    size: source.u32(trex.body + 16)?,
                    flags: source.u32(trex.body + 20)?,
                });
            }
        }
    }
    Ok(Movie {
        timescale,
        tracks,
        defaults,
    })
}

/// Reads one track; `None` if it is neither video nor audio.
fn track(source: &mut Source<'_>, trak: &Header, held: usize) -> Result<Option<Draft>, IndexError> {
    let boxes = trak.children(source)?;
    let tkhd = require(&boxes, b"tkhd", trak.kind)?;
    let (version, _) = tkhd.version(source)?;
    let wide = version == 1;
    tkhd.need(if wide { 96 } else { 84 })?;
    let id = source.u32(tkhd.body + if wide { 20 } else { 12 })?;
    if id == 0 {
        return Err(corrupt(tkhd.kind, "its track id is zero"));
    }
    let mdia = require(&boxes, b"mdia", trak.kind)?;
    let media = mdia.children(source)?;
    let hdlr = require(&media, b"hdlr", mdia.kind)?;
    hdlr.need(12)?;
    let is_video = match &source.array::<4>(hdlr.body + 8, "a box")? {
        b"vide" => true,
        b"soun" => false,
        _ => return Ok(None),
    };
    let (timescale, language) = media_header(source, &require(&media, b"mdhd", mdia.kind)?)?;
    let minf = require(&media, b"minf", mdia.kind)?;
    let information = minf.children(source)?;
    check_place(source, &information)?;
    let stbl = require(&information, b"stbl", minf.kind)?;
    let tables = stbl.children(source)?;
    let stsd = require(&tables, b"stsd", stbl.kind)?;
    let Some(entry) = entry::read(source, &stsd, id, is_video)? else {
        return Ok(None);
    };
    let samples = samples::read(source, &stbl, entry.count, held)?;
    let (delay, media_time) = match find(&boxes, b"edts") {
        Some(edts) => edits(source, &edts)?,
        None => (0, 0),
    };
    let kind = match entry.kind {
        // The display size, which differs from the coded one where pixels are not square.
        TrackKind::Video { width, height } => {
            let shown = tkhd.end - 8;
            let shown_width = (source.u32(shown)? >> 16) as u16;
            let shown_height = (source.u32(shown + 4)? >> 16) as u16;
            TrackKind::Video {
                width: if shown_width == 0 { width } else { shown_width },
                height: if shown_height == 0 {
                    height
                } else {
                    shown_height
                },
            }
        }
        sound => sound,
    };
    Ok(Some(Draft {
        track: Track {
            id,
            timescale,
            codec: entry.codec,
            kind,
            language,
            delay: 0,
            media_time,
            entry: entry.bytes.into(),
            samples,
            stand_ins: StandIns::default(),
        },
        config: entry.config,
        delay,
    }))
}

/// Reads timescale and language ('mdhd').
fn media_header(source: &mut Source<'_>, mdhd: &Header) -> Result<(u32, [u8; 3]), IndexError> {
    let (version, _) = mdhd.version(source)?;
    let wide = version == 1;
    mdhd.need(if wide { 36 } else { 24 })?;
    let timescale = source.u32(mdhd.body + if wide { 20 } else { 12 })?;
    if timescale == 0 {
        return Err(corrupt(mdhd.kind, "its timescale is zero"));
    }
    let [high, low] = source.array::<2>(mdhd.body + if wide { 32 } else { 20 }, "a box")?;
    let packed = u16::from_be_bytes([high, low]);
    let letter = |shift: u16| (packed >> shift & 31) as u8 + 0x60;
    let language = [letter(10), letter(5), letter(0)];
    // QuickTime uses numbers here.
    let is_code = packed >= 0x400 && language.iter().all(u8::is_ascii_lowercase);
    Ok((timescale, if is_code { language } else { *b"und" }))
}

/// Checks that the samples are in this file ('dref').
fn check_place(source: &mut Source<'_>, information: &[Header]) -> Result<(), IndexError> {
    let Some(dinf) = find(information, b"dinf") else {
        return Ok(());
    };
    let Some(dref) = find(&dinf.children(source)?, b"dref") else {
        return Ok(());
    };
    dref.need(8)?;
    for place in dref.children_from(source, dref.body + 8)? {
        if place.version(source)?.1 & 1 == 0 {
            return Err(IndexError::Unsupported {
                what: "a track whose samples are in another file",
            });
        }
    }
    Ok(())
}

/// Reads the empty edit at the beginning, in the movie's timescale, and the media time after it ('elst').
fn edits(source: &mut Source<'_>, edts: &Header) -> Result<(u64, u64), IndexError> {
    let Some(elst) = find(&edts.children(source)?, b"elst") else {
        return Ok((0, 0));
    };
    let (version, _) = elst.version(source)?;
    elst.need(8)?;
    let count = u64::from(source.u32(elst.body + 4)?);
    let width = if version == 1 { 20 } else { 12 };
    if count.saturating_mul(width) > elst.len() - 8 {
        return Err(corrupt(elst.kind, "it has fewer entries than it declares"));
    }
    let mut delay = 0u64;
    let mut start = None;
    for number in 0..count {
        let at = elst.body + 8 + number * width;
        let (length, media_time, rate) = if version == 1 {
            let media_time = source.u64(at + 8)? as i64;
            (source.u64(at)?, media_time, source.u32(at + 16)?)
        } else {
            let media_time = source.u32(at + 4)? as i32;
            let length = u64::from(source.u32(at)?);
            (length, i64::from(media_time), source.u32(at + 8)?)
        };
        let is_late = number > 0 && start.is_some();
        match u64::try_from(media_time) {
            Err(_) if !is_late => delay = delay.saturating_add(length),
            Ok(media_time) if !is_late && rate == 0x1_0000 => start = Some(media_time),
            _ => {
                return Err(IndexError::Unsupported {
                    what: "an edit list that cuts, repeats or slows the film",
                });
            }
        }
    }
    Ok((delay, start.unwrap_or(0)))
}

/// Makes all composition offsets of a track non-negative by the same shift in offsets and edit list: presentation times
/// stay the same, and readers with different interpretations of negative offsets agree.
pub(super) fn lift_offsets(track: &mut Track) -> Result<(), IndexError> {
    let least = track.samples.iter().map(|s| s.composition_offset).min();
    let lift = least.unwrap_or(0).min(0).unsigned_abs();
    for sample in &mut track.samples {
        let offset = i64::from(sample.composition_offset) + i64::from(lift);
        sample.composition_offset = i32::try_from(offset)
            .map_err(|_| corrupt(*b"ctts", "its offsets are too far apart"))?;
    }
    track.media_time = track.media_time.saturating_add(u64::from(lift));
    Ok(())
}

/// Converts empty edits to each track's timescale, now that the movie's is known.
pub(super) fn shift_edits(tracks: &mut [Draft], timescale: u32) -> Result<(), IndexError> {
    for draft in tracks {
        let delay = u128::from(draft.delay) * u128::from(draft.track.timescale);
        let delay = delay / u128::from(timescale);
        let limit = u128::from(draft.track.timescale) * DELAY_MAX_S;
        let media_time = u128::from(draft.track.media_time);
        let end = u128::from(draft.track.decode_end(draft.track.samples.len()));
        if delay > limit || media_time > end.max(limit) {
            return Err(corrupt(*b"elst", "it shifts the film out of range"));
        }
        draft.track.delay = delay as u64;
    }
    Ok(())
}

/// Longest delay before a track begins, in seconds.
const DELAY_MAX_S: u128 = 86_400;

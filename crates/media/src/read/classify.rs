//! Frame types, from the slice headers of every picture.

use super::entry::Config;
use crate::{
    codec::{Picture, av1, h264, h265},
    error::IndexError,
    index::{FrameType, Sample, Track},
    source::Source,
    stand_ins::StandIns,
};

/// Bytes read at the beginning of a NAL unit: its header and a slice header, with weight tables.
const HEAD_BYTES: usize = 124;
/// Most NAL units of one picture that are examined.
const UNITS_MAX: usize = 512;

/// Sets the types and references of a track's samples, and their stand-ins.
pub(super) fn classify(
    source: &mut Source<'_>,
    config: Config,
    track: &mut Track,
) -> Result<(), IndexError> {
    let samples = &mut track.samples;
    match config {
        Config::Sound => {
            for sample in samples {
                sample.frame = FrameType::Audio;
                sample.is_sync = true;
                sample.is_referenced = false;
            }
            return Ok(());
        }
        Config::Av1 => {
            for sample in &mut *samples {
                sample.frame = if sample.is_sync {
                    FrameType::Intra
                } else {
                    FrameType::Predicted
                };
                if !sample.is_referenced {
                    sample.is_referenced = !is_single(source, sample)?;
                }
            }
        }
        Config::H264 {
            length_bytes,
            stand_ins,
        } => h264(source, track, length_bytes, stand_ins.map(|writer| *writer))?,
        Config::H265 { length_bytes } => h265(source, samples, length_bytes)?,
    }
    for sample in &mut track.samples {
        sample.is_referenced |= sample.is_sync;
    }
    Ok(())
}

/// True if a temporal unit of AV1 holds a single frame, as far as can be determined.
fn is_single(source: &mut Source<'_>, sample: &Sample) -> Result<bool, IndexError> {
    let mut frames = 0;
    let mut at = sample.offset;
    let mut head = [0; 10];
    for _ in 0..UNITS_MAX {
        let left = sample.end() - at;
        if left == 0 {
            return Ok(frames == 1);
        }
        let bytes = left.min(head.len() as u64) as usize;
        source.fill(at, &mut head[..bytes], "a sample")?;
        match av1::unit(&head[..bytes]) {
            Some((kind, size)) if size <= left => {
                frames += u32::from(av1::begins_frame(kind));
                at += size;
            }
            _ => return Ok(false),
        }
    }
    Ok(false)
}

fn h264(
    source: &mut Source<'_>,
    track: &mut Track,
    length_bytes: usize,
    mut writer: Option<h264::StandIns>,
) -> Result<(), IndexError> {
    let mut stand_ins = StandIns::default();
    for sample in &mut track.samples {
        let mut reference = None;
        let mut slice = |unit: &[u8]| {
            let picture = h264::slice(unit)?;
            if let Some(writer) = &writer
                && picture.is_referenced
                && reference.is_none()
            {
                reference = Some(writer.reference(unit));
            }
            Some(picture)
        };
        let picture = units(source, sample, length_bytes, &mut slice)?;
        apply(sample, picture);
        let mut stand_in = None;
        if let Some(writer) = &mut writer {
            let shown = sample.decode_time as i64 + i64::from(sample.composition_offset);
            match reference {
                Some(Some(reference)) => stand_in = writer.next(&reference, shown),
                Some(None) => writer.lose(),
                None => {}
            }
        }
        let stand_in = stand_in.filter(|_| !sample.is_sync && sample.is_referenced);
        stand_ins.push(&stand_in.unwrap_or_default());
    }
    track.stand_ins = stand_ins.finish();
    Ok(())
}

fn h265(
    source: &mut Source<'_>,
    samples: &mut [Sample],
    length_bytes: usize,
) -> Result<(), IndexError> {
    let mut layers: Vec<u8> = Vec::with_capacity(samples.len());
    for sample in &mut *samples {
        let picture = units(source, sample, length_bytes, &mut h265::slice)?;
        layers.push(picture.map_or(0, |picture| picture.layer));
        apply(sample, picture);
    }
    let layer_max = layers.iter().copied().max();
    for (sample, layer) in samples.iter_mut().zip(&layers) {
        // A higher layer may need what its own does not.
        sample.is_referenced |= Some(*layer) != layer_max;
    }
    Ok(())
}

fn apply(sample: &mut Sample, picture: Option<Picture>) {
    match picture {
        Some(picture) => {
            sample.frame = picture.frame;
            sample.is_referenced &= picture.is_referenced;
        }
        None if sample.is_sync => sample.frame = FrameType::Intra,
        None => sample.frame = FrameType::Other,
    }
    // A sync sample decodes alone even if its slices are predicted within (gradual refresh).
    if sample.is_sync {
        sample.frame = FrameType::Intra;
    }
}

/// Examines the slices of one picture: I if all are, B if one is. `None` if there is no slice.
fn units(
    source: &mut Source<'_>,
    sample: &Sample,
    length_bytes: usize,
    slice: &mut dyn FnMut(&[u8]) -> Option<Picture>,
) -> Result<Option<Picture>, IndexError> {
    let mut found: Option<Picture> = None;
    let mut at = sample.offset;
    let mut head = [0; 4 + HEAD_BYTES];
    for _ in 0..UNITS_MAX {
        let left = sample.end() - at;
        if left <= length_bytes as u64 {
            break;
        }
        let bytes = left.min((length_bytes + HEAD_BYTES) as u64) as usize;
        source.fill(at, &mut head[..bytes], "a sample")?;
        let (length, unit) = head[..bytes].split_at(length_bytes);
        let length = length
            .iter()
            .fold(0u64, |length, &byte| length << 8 | u64::from(byte));
        // Invalid data inside a picture is left to the decoder, as with any player.
        if length == 0 || length > left - length_bytes as u64 {
            break;
        }
        let unit = &unit[..unit.len().min(length as usize)];
        if let Some(picture) = slice(unit) {
            found = Some(found.map_or(picture, |other| other.join(picture)));
        }
        at += length_bytes as u64 + length;
    }
    Ok(found)
}

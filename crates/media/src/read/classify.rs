//! Frame types: of every picture, the headers of its slices.

use super::entry::Config;
use crate::{
    codec::{Picture, h264, h265},
    error::IndexError,
    index::{FrameType, Sample},
    source::Source,
};

/// Bytes read at the beginning of a NAL unit: its header and what a slice header begins with.
const HEAD_BYTES: usize = 48;
/// NAL units of one picture that are looked at.
const UNITS_MAX: usize = 512;

/// Fills in the types and references of a track's samples.
pub(super) fn classify(
    source: &mut Source<'_>,
    config: &Config,
    samples: &mut [Sample],
) -> Result<(), IndexError> {
    let h265 = match config {
        Config::H265 { .. } => samples.len(),
        _ => 0,
    };
    let mut layers: Vec<u8> = Vec::with_capacity(h265);
    for sample in &mut *samples {
        match config {
            Config::Sound => {
                sample.frame = FrameType::Audio;
                sample.is_sync = true;
                sample.is_referenced = false;
            }
            Config::Av1 => {
                sample.frame = if sample.is_sync {
                    FrameType::Intra
                } else {
                    FrameType::Predicted
                };
            }
            Config::H264 { length_bytes } => {
                let picture = units(source, sample, *length_bytes, h264::slice)?;
                apply(sample, picture);
            }
            Config::H265 { length_bytes } => {
                let picture = units(source, sample, *length_bytes, h265::slice)?;
                layers.push(picture.map_or(0, |picture| picture.layer));
                apply(sample, picture);
            }
        }
    }
    let layer_max = layers.iter().copied().max();
    for (sample, layer) in samples.iter_mut().zip(&layers) {
        // A higher layer may need what its own does not.
        sample.is_referenced |= Some(*layer) != layer_max;
    }
    if *config != Config::Sound {
        for sample in samples {
            sample.is_referenced |= sample.is_sync;
        }
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

/// Looks at the slices of one picture: I if all are, B if one is. `None` if there is no slice.
fn units(
    source: &mut Source<'_>,
    sample: &Sample,
    length_bytes: usize,
    slice: fn(&[u8]) -> Option<Picture>,
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
        // Rubbish inside a picture is the decoder's business, as it is for any player.
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

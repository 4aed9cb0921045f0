//! Sample entries ('stsd'): codec of a track and configuration of its decoder.

use super::boxes::{Header, find};
use crate::{
    codec::{av1, h264, h265, sound},
    error::{IndexError, corrupt, name},
    index::TrackKind,
    source::Source,
};

/// Largest size of one sample entry: codec settings, colour, a few boxes more.
pub(crate) const ENTRY_BYTES_MAX: u64 = 256 << 10;

/// Configuration for classifying a track's samples.
#[derive(Debug, Clone)]
pub(super) enum Config {
    /// Size in bytes of the length before each NAL unit.
    H264 {
        length_bytes: usize,
        /// Generator of stand-ins, where they can be made.
        stand_ins: Option<Box<h264::StandIns>>,
    },
    /// Size in bytes of the length before each NAL unit.
    H265 {
        length_bytes: usize,
    },
    Av1,
    Sound,
}

/// A track's first sample entry.
pub(super) struct Entry {
    /// Number of entries.
    pub(super) count: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) codec: String,
    pub(super) kind: TrackKind,
    pub(super) config: Config,
}

/// Offset in the body at which the boxes of a visual and of an audio entry begin.
const VISUAL_BYTES: u64 = 78;
const AUDIO_BYTES: u64 = 28;

/// Reads 'stsd'; `None` for a track that is only shown beside the film (a cover picture).
pub(super) fn read(
    source: &mut Source<'_>,
    stsd: &Header,
    track: u32,
    is_video: bool,
) -> Result<Option<Entry>, IndexError> {
    stsd.need(8)?;
    let count = source.u32(stsd.body + 4)?;
    let Some(header) = Header::read(source, stsd.body + 8, stsd.end)? else {
        return Err(corrupt(stsd.kind, "it has no entry"));
    };
    if header.end - header.start > ENTRY_BYTES_MAX {
        return Err(IndexError::TooLarge {
            what: "bytes of codec settings",
            found: header.end - header.start,
            limit: ENTRY_BYTES_MAX,
        });
    }
    let fixed = if is_video { VISUAL_BYTES } else { AUDIO_BYTES };
    header.need(fixed)?;
    let mut bytes = vec![0; (header.end - header.start) as usize];
    source.fill(header.start, &mut bytes, "codec settings")?;
    if header.body - header.start != 8 {
        return Err(corrupt(header.kind, "its size takes 64 bits"));
    }
    // A size of 0 means up to the end of the enclosing box.
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    let body = 8;
    // Data reference 1: the file that is written.
    bytes[body + 6..body + 8].copy_from_slice(&[0, 1]);
    let word = |at: usize| u16::from_be_bytes([bytes[body + at], bytes[body + at + 1]]);
    let kind = if is_video {
        TrackKind::Video {
            width: word(24),
            height: word(26),
        }
    } else {
        if word(8) != 0 {
            let Some(entry) = plain(source, &header, &bytes)? else {
                return Err(IndexError::Unsupported {
                    what: "this QuickTime description of sound",
                });
            };
            // The same form as in a file.
            let stsd = [&[0; 4][..], &count.to_be_bytes(), &entry].concat();
            let end = stsd.len() as u64;
            let mut file = &stsd[..];
            let header = Header {
                kind: *b"stsd",
                start: 0,
                body: 0,
                end,
            };
            return read(&mut Source::new(&mut file, end), &header, track, is_video);
        }
        TrackKind::Audio {
            channels: word(16),
            sample_rate: u32::from(word(24)),
        }
    };
    let boxes = header.children_from(source, header.body + fixed)?;
    let entry = Settings {
        bytes: &bytes,
        header,
        boxes: &boxes,
    };
    let Some((codec, mut config, kind)) = entry.codec(track, kind)? else {
        return Ok(None);
    };
    // Settings inside the stream ('avc3') could override these.
    if let Config::H264 { stand_ins, .. } = &mut config
        && header.kind == *b"avc1"
        && let Some(avcc) = find(&boxes, b"avcC")
    {
        let place = |at: u64| (at - header.start) as usize;
        let (start, end) = (place(avcc.start), place(avcc.end));
        if let Some((writer, settings)) = h264::StandIns::new(&bytes[place(avcc.body)..end]) {
            let mut new = (settings.len() as u32 + 8).to_be_bytes().to_vec();
            new.extend_from_slice(b"avcC");
            new.extend_from_slice(&settings);
            bytes.splice(start..end, new);
            let size = bytes.len() as u32;
            bytes[..4].copy_from_slice(&size.to_be_bytes());
            *stand_ins = Some(Box::new(writer));
        }
    }
    Ok(Some(Entry {
        count,
        bytes,
        codec,
        kind,
        config,
    }))
}

/// Converts QuickTime's description of AAC (version 1, settings in a box 'wave') to the usual form; `None` for other
/// descriptions.
fn plain(
    source: &mut Source<'_>,
    header: &Header,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, IndexError> {
    const QUICKTIME_BYTES: u64 = AUDIO_BYTES + 16;
    let version = u16::from_be_bytes([bytes[16], bytes[17]]);
    if header.kind != *b"mp4a" || version != 1 || header.len() < QUICKTIME_BYTES {
        return Ok(None);
    }
    let mut boxes = header.children_from(source, header.body + QUICKTIME_BYTES)?;
    if let Some(wave) = find(&boxes, b"wave") {
        boxes.extend(wave.children(source)?);
    }
    let Some(esds) = find(&boxes, b"esds") else {
        return Ok(None);
    };
    let place = |at: u64| (at - header.start) as usize;
    let settings = &bytes[place(esds.start)..place(esds.end)];
    let mut entry = vec![0; 8 + AUDIO_BYTES as usize];
    entry[4..8].copy_from_slice(b"mp4a");
    // Channels, bits, sample rate.
    entry[24..28].copy_from_slice(&bytes[24..28]);
    entry[32..36].copy_from_slice(&bytes[32..36]);
    entry.extend_from_slice(settings);
    let size = entry.len() as u32;
    entry[..4].copy_from_slice(&size.to_be_bytes());
    Ok(Some(entry))
}

/// A parsed sample entry.
struct Settings<'a> {
    bytes: &'a [u8],
    header: Header,
    boxes: &'a [Header],
}

impl Settings<'_> {
    /// Body of a box, of at least `least` bytes.
    fn body(&self, kind: &[u8; 4], least: usize) -> Result<&[u8], IndexError> {
        let inner = find(self.boxes, kind)
            .ok_or_else(|| corrupt(self.header.kind, "its codec settings are missing"))?;
        inner.need(least as u64)?;
        let start = (inner.body - self.header.start) as usize;
        let end = (inner.end - self.header.start) as usize;
        Ok(&self.bytes[start..end])
    }

    fn codec(
        self,
        track: u32,
        kind: TrackKind,
    ) -> Result<Option<(String, Config, TrackKind)>, IndexError> {
        let four = self.header.kind;
        let is_video = matches!(kind, TrackKind::Video { .. });
        let (codec, config) = match &four {
            b"avc1" | b"avc3" if is_video => {
                let avcc = self.body(b"avcC", 7)?;
                let length_bytes = length_bytes(avcc[4])?;
                let [profile, compatible, level] = [avcc[1], avcc[2], avcc[3]];
                let codec = format!("{}.{profile:02x}{compatible:02x}{level:02x}", name(four));
                let stand_ins = None;
                (
                    codec,
                    Config::H264 {
                        length_bytes,
                        stand_ins,
                    },
                )
            }
            b"hvc1" | b"hev1" if is_video => {
                let hvcc = self.body(b"hvcC", 23)?;
                let length_bytes = length_bytes(hvcc[21])?;
                let codec = h265::codec(&name(four), hvcc);
                (codec, Config::H265 { length_bytes })
            }
            b"av01" if is_video => (av1::codec(self.body(b"av1C", 4)?), Config::Av1),
            // Cover pictures and chapter stills come as tracks of their own.
            b"jpeg" | b"mjpa" | b"mjpb" | b"png " if is_video => return Ok(None),
            b"mp4a" if !is_video => {
                let settings = self.body(b"esds", 4)?;
                let sound = sound::esds(&settings[4..])
                    .ok_or_else(|| corrupt(*b"esds", "it cannot be understood"))?;
                let kind = match (sound.settings, kind) {
                    (Some((rate, channels)), TrackKind::Audio { .. }) => TrackKind::Audio {
                        channels,
                        sample_rate: rate,
                    },
                    (_, kind) => kind,
                };
                return Ok(Some((sound.codec, Config::Sound, kind)));
            }
            b"Opus" if !is_video => {
                self.body(b"dOps", 11)?;
                ("opus".to_owned(), Config::Sound)
            }
            b"fLaC" if !is_video => ("fLaC".to_owned(), Config::Sound),
            b"ac-3" | b"ec-3" if !is_video => (name(four), Config::Sound),
            b"encv" | b"enca" | b"enct" | b"encs" => {
                return Err(IndexError::Encrypted {
                    track,
                    kind: name(four),
                });
            }
            _ => {
                return Err(IndexError::UnknownCodec {
                    track,
                    kind: name(four),
                });
            }
        };
        Ok(Some((codec, config, kind)))
    }
}

/// Size of a NAL unit's length, from the two low bits.
fn length_bytes(byte: u8) -> Result<usize, IndexError> {
    match byte & 3 {
        2 => Err(corrupt(
            *b"stsd",
            "a NAL unit length cannot have three bytes",
        )),
        bits => Ok(usize::from(bits) + 1),
    }
}

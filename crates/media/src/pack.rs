//! Stored form of an index: kept beside the file, and sent to a proxy.
//!
//! ```text
//! "ANBI" | version 1 | body | first 16 bytes of BLAKE3 over all before
//!
//! body   := file_bytes tracks track*
//! track  := id timescale codec language[3] delay media_time kind width|channels height|sample_rate entry
//!           samples first_decode_time column*
//! column := offsets (RLE of the distance from the end of the sample before)
//!           sizes
//!           durations (RLE)
//!           pauses (RLE of the time between a sample's end and the next)
//!           composition offsets (RLE)
//!           types (pictures: a byte each; sound: none)
//!           stand-ins (pictures: 0 or 1; if 1, of each referenced sample that is no key, as bytes)
//! ```
//! Numbers are LEB128; signed ones in zigzag; RLE is pairs of count and value; strings and bytes are preceded by their
//! length. About 6 bytes a picture, 14 more for one that has a stand-in, and 2 an audio frame.

use bytes::Bytes;

use crate::{
    error::IndexError,
    index::{FrameType, Index, Sample, Track, TrackKind},
    read::{self, SAMPLES_MAX, TRACKS_MAX},
    stand_ins::{self, StandIns},
};

const MAGIC: [u8; 4] = *b"ANBI";
const VERSION: u8 = 1;
const HASH_BYTES: usize = 16;
const CODEC_BYTES_MAX: usize = 64;

impl Index {
    /// Encodes the index. The same index gives the same bytes. O(samples).
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer(MAGIC.to_vec());
        w.0.push(VERSION);
        w.number(self.file_bytes);
        w.number(self.tracks.len() as u64);
        for track in &self.tracks {
            w.track(track);
        }
        let hash = blake3::hash(&w.0);
        w.0.extend_from_slice(&hash.as_bytes()[..HASH_BYTES]);
        w.0
    }

    /// Decodes an index.
    ///
    /// # Errors
    /// [`IndexError::Stored`] if the bytes are of another version, cut short, changed, or inconsistent; any error of [`Index::read`]
    /// about limits. Memory is at most 32 times that of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let stored = |what| IndexError::Stored { what };
        let split = bytes.len().checked_sub(HASH_BYTES);
        let (body, hash) = bytes.split_at(split.ok_or(stored("it is cut short"))?);
        let Some(rest) = body.strip_prefix(&MAGIC) else {
            return Err(stored("it is not an index"));
        };
        if rest.first() != Some(&VERSION) {
            return Err(stored("it is of another version"));
        }
        if blake3::hash(body).as_bytes()[..HASH_BYTES] != *hash {
            return Err(stored("its bytes were changed or cut short"));
        }
        let mut r = Reader(&rest[1..]);
        let index = r.index().ok_or(stored("it is inconsistent"))?;
        if !r.0.is_empty() {
            return Err(stored("it has trailing bytes"));
        }
        read::check(&index)?;
        Ok(index)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 128 {
            self.0.push(value as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn runs(&mut self, values: impl Iterator<Item = u64>) {
        let mut run: Option<(u64, u64)> = None;
        for value in values {
            match &mut run {
                Some((count, same)) if *same == value => *count += 1,
                _ => {
                    if let Some((count, same)) = run.replace((1, value)) {
                        self.number(count);
                        self.number(same);
                    }
                }
            }
        }
        if let Some((count, same)) = run {
            self.number(count);
            self.number(same);
        }
    }

    fn track(&mut self, track: &Track) {
        self.number(u64::from(track.id));
        self.number(u64::from(track.timescale));
        self.bytes(track.codec.as_bytes());
        self.0.extend_from_slice(&track.language);
        self.number(track.delay);
        self.number(track.media_time);
        let (kind, first, second) = match track.kind {
            TrackKind::Video { width, height } => (0, width, u32::from(height)),
            TrackKind::Audio {
                channels,
                sample_rate,
            } => (1, channels, sample_rate),
        };
        self.0.push(kind);
        self.number(u64::from(first));
        self.number(u64::from(second));
        self.bytes(&track.entry);
        let samples = &track.samples;
        self.number(samples.len() as u64);
        self.number(samples.first().map_or(0, |first| first.decode_time));
        let ends = std::iter::once(0).chain(samples.iter().map(Sample::end));
        self.runs(
            samples
                .iter()
                .zip(ends)
                .map(|(sample, end)| zigzag(sample.offset.wrapping_sub(end) as i64)),
        );
        for sample in samples {
            self.number(u64::from(sample.size));
        }
        self.runs(samples.iter().map(|sample| u64::from(sample.duration)));
        self.runs(samples.windows(2).map(|pair| {
            let end = pair[0].decode_time + u64::from(pair[0].duration);
            zigzag(pair[1].decode_time.wrapping_sub(end) as i64)
        }));
        self.runs(
            samples
                .iter()
                .map(|s| zigzag(i64::from(s.composition_offset))),
        );
        if track.is_video() {
            for sample in samples {
                let flags = u8::from(sample.is_sync) << 3 | u8::from(sample.is_referenced) << 4;
                self.0.push(sample.frame as u8 | flags);
            }
            self.0.push(u8::from(!track.stand_ins.is_empty()));
            if !track.stand_ins.is_empty() {
                for (at, sample) in samples.iter().enumerate() {
                    if can_stand_in(sample) {
                        self.bytes(track.stand_ins.get(at).unwrap_or_default());
                    }
                }
            }
        }
    }
}

/// True if a sample may have a stand-in.
const fn can_stand_in(sample: &Sample) -> bool {
    sample.is_referenced && !sample.is_sync
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reader of the stored form; it returns `None` where the bytes are inconsistent.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 127);
            if shift == 63 && bits > 1 || byte == 0 && shift > 0 {
                return None;
            }
            value |= bits << shift;
            if byte & 128 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn u32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes(&mut self, most: usize) -> Option<&[u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= most).then_some(())?;
        self.take(length)
    }

    /// Decodes runs of exactly `count` samples in total; `put` gets the position and value of each.
    fn runs(&mut self, count: usize, mut put: impl FnMut(usize, u64) -> Option<()>) -> Option<()> {
        let mut at = 0;
        let mut before = None;
        while at < count {
            let run = usize::try_from(self.number()?).ok()?;
            let value = self.number()?;
            // Two runs of the same value would have been written as one.
            if run == 0 || run > count - at || before == Some(value) {
                return None;
            }
            before = Some(value);
            for place in at..at + run {
                put(place, value)?;
            }
            at += run;
        }
        Some(())
    }

    fn index(&mut self) -> Option<Index> {
        let file_bytes = self.number()?;
        let count = usize::try_from(self.number()?).ok()?;
        if count > TRACKS_MAX {
            return None;
        }
        let mut tracks = Vec::new();
        let mut held = 0;
        for _ in 0..count {
            let track = self.track(SAMPLES_MAX as usize - held)?;
            held += track.samples.len();
            tracks.push(track);
        }
        Some(Index::of(tracks, file_bytes))
    }

    fn track(&mut self, samples_max: usize) -> Option<Track> {
        let id = self.u32()?;
        let timescale = self.u32()?;
        let codec = std::str::from_utf8(self.bytes(CODEC_BYTES_MAX)?)
            .ok()?
            .to_owned();
        let language = self.take(3)?.try_into().ok()?;
        let delay = self.number()?;
        let media_time = self.number()?;
        let kind = match self.byte()? {
            0 => TrackKind::Video {
                width: self.u32()?.try_into().ok()?,
                height: self.u32()?.try_into().ok()?,
            },
            1 => TrackKind::Audio {
                channels: self.u32()?.try_into().ok()?,
                sample_rate: self.u32()?,
            },
            _ => return None,
        };
        let entry = self.bytes(read::ENTRY_BYTES_MAX as usize)?;
        let entry = Bytes::copy_from_slice(entry);
        let mut track = Track {
            id,
            timescale,
            codec,
            kind,
            language,
            delay,
            media_time,
            entry,
            samples: Vec::new(),
            stand_ins: StandIns::default(),
        };
        self.samples(&mut track, samples_max)?;
        Some(track)
    }

    fn samples(&mut self, track: &mut Track, samples_max: usize) -> Option<()> {
        let count = usize::try_from(self.number()?).ok()?;
        // Each takes at least one byte, for its size.
        if count > samples_max || count > self.0.len() {
            return None;
        }
        let first_decode_time = self.number()?;
        let is_video = track.is_video();
        let blank = Sample {
            offset: 0,
            decode_time: first_decode_time,
            size: 0,
            duration: 0,
            composition_offset: 0,
            frame: FrameType::Audio,
            is_sync: true,
            is_referenced: false,
        };
        let mut samples = vec![blank; count];
        // Distances first; offsets once the sizes are known.
        self.runs(count, |at, value| {
            samples[at].offset = value;
            Some(())
        })?;
        let mut end = 0u64;
        for sample in &mut samples {
            sample.size = self.u32()?;
            sample.offset = end.checked_add_signed(unzigzag(sample.offset))?;
            end = sample.offset.checked_add(u64::from(sample.size))?;
        }
        self.runs(count, |at, value| {
            samples[at].duration = value.try_into().ok()?;
            Some(())
        })?;
        self.runs(count.saturating_sub(1), |at, value| {
            let before = samples[at];
            let end = before.decode_time.checked_add(u64::from(before.duration))?;
            samples[at + 1].decode_time = end.checked_add_signed(unzigzag(value))?;
            Some(())
        })?;
        self.runs(count, |at, value| {
            samples[at].composition_offset = unzigzag(value).try_into().ok()?;
            Some(())
        })?;
        if is_video {
            for sample in &mut samples {
                let byte = self.byte()?;
                if byte >> 5 != 0 {
                    return None;
                }
                sample.frame = *FrameType::ALL.get(usize::from(byte & 7))?;
                sample.is_sync = byte & 8 != 0;
                sample.is_referenced = byte & 16 != 0;
            }
        }
        if is_video {
            track.stand_ins = self.stand_ins(&samples)?;
        }
        track.samples = samples;
        Some(())
    }

    fn stand_ins(&mut self, samples: &[Sample]) -> Option<StandIns> {
        let mut stand_ins = StandIns::default();
        match self.byte()? {
            0 => return Some(stand_ins),
            1 => {}
            _ => return None,
        }
        for sample in samples {
            if can_stand_in(sample) {
                let bytes = self.bytes(stand_ins::BYTES_MAX)?;
                stand_ins.push(bytes);
            } else {
                stand_ins.push(&[]);
            }
        }
        (!stand_ins.is_empty()).then_some(stand_ins)
    }
}

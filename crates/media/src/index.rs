//! Index of a file: tracks and samples.

use std::time::Duration;

use bytes::Bytes;

use crate::stand_ins::StandIns;

/// What kind of frame a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameType {
    /// Decodes alone: a sync sample, or an I frame.
    Intra,
    /// Predicted from earlier frames (P).
    Predicted,
    /// Predicted from two directions (B).
    Bidirectional,
    /// Sound.
    Audio,
    /// A picture of a type that cannot be told without decoding.
    Other,
}

impl FrameType {
    /// Every type, in the order in which counts are listed.
    pub const ALL: [Self; 5] = [
        Self::Intra,
        Self::Predicted,
        Self::Bidirectional,
        Self::Audio,
        Self::Other,
    ];

    /// The letter that people use: I, P, B; A for sound, ? for the rest.
    pub const fn letter(self) -> char {
        match self {
            Self::Intra => 'I',
            Self::Predicted => 'P',
            Self::Bidirectional => 'B',
            Self::Audio => 'A',
            Self::Other => '?',
        }
    }
}

/// One sample: a picture, or a frame of sound. Times are in the track's timescale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Place where its bytes are in the file.
    pub offset: u64,
    /// When it is decoded, from the start of the track's media.
    pub decode_time: u64,
    /// Its bytes.
    pub size: u32,
    /// Decode time of the next sample minus its own.
    pub duration: u32,
    /// Composition time minus decode time; zero or more in what [`Index::read`] gives (a file's negative
    /// offsets are lifted, and its edit list with them).
    pub composition_offset: i32,
    /// The frame.
    pub frame: FrameType,
    /// True if decoding can begin here.
    pub is_sync: bool,
    /// True if another picture may be predicted from it. `false` is certain: nothing else suffers when
    /// it is missing. Always `false` for sound.
    pub is_referenced: bool,
}

impl Sample {
    /// Place where its bytes end in the file.
    pub const fn end(&self) -> u64 {
        self.offset + self.size as u64
    }

    /// True if nothing else suffers when it is missing.
    pub const fn is_disposable(&self) -> bool {
        !self.is_referenced
    }
}

/// What a track shows or sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackKind {
    /// Pictures.
    Video {
        /// Width as shown, in pixels.
        width: u16,
        /// Height as shown, in pixels.
        height: u16,
    },
    /// Sound.
    Audio {
        /// Number of channels.
        channels: u16,
        /// Samples per second.
        sample_rate: u32,
    },
}

/// One track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// Its id in the file; unique.
    pub id: u32,
    /// Units of time per second; at least 1.
    pub timescale: u32,
    /// RFC 6381 name, such as `avc1.64001f`.
    pub codec: String,
    /// Pictures or sound.
    pub kind: TrackKind,
    /// ISO 639-2 code of three letters, `und` if unknown.
    pub language: [u8; 3],
    /// Time for which the track waits before its first sample is presented (empty edit), in its timescale.
    pub delay: u64,
    /// Composition time of what is presented first (edit list), in its timescale.
    pub media_time: u64,
    /// The sample entry of the file, a whole box: what a decoder needs to begin.
    pub entry: Bytes,
    /// In decode order; decode times never fall.
    pub samples: Vec<Sample>,
    /// What can take the place of frames that are missing.
    pub stand_ins: StandIns,
}

impl Track {
    /// True if it holds pictures.
    pub const fn is_video(&self) -> bool {
        matches!(self.kind, TrackKind::Video { .. })
    }

    /// Time from the first decode to the end of the last sample.
    pub fn duration(&self) -> Duration {
        let end = self.decode_end(self.samples.len());
        let start = self.samples.first().map_or(0, |first| first.decode_time);
        // An index that was not checked yet may say anything.
        time(end.saturating_sub(start), self.timescale)
    }

    /// When a sample is shown, in the track's timescale from the start of the film; what an edit list cuts off
    /// comes before zero.
    pub fn presentation_time(&self, sample: &Sample) -> i64 {
        let time = i128::from(sample.decode_time) + i128::from(sample.composition_offset)
            - i128::from(self.media_time)
            + i128::from(self.delay);
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    /// When decoding of a sample begins, on the clock of [`presentation_time`](Self::presentation_time) but
    /// never before zero.
    pub fn decode_start(&self, sample: &Sample) -> Duration {
        let time_units = (sample.decode_time + self.delay).saturating_sub(self.media_time);
        time(time_units, self.timescale)
    }

    /// Decode time at which samples `..count` end.
    pub(crate) fn decode_end(&self, count: usize) -> u64 {
        match self.samples.get(count) {
            Some(next) => next.decode_time,
            None => self.samples.last().map_or(0, |last| {
                last.decode_time.saturating_add(u64::from(last.duration))
            }),
        }
    }

    /// Bytes of all samples.
    pub fn bytes(&self) -> u64 {
        self.samples
            .iter()
            .map(|sample| u64::from(sample.size))
            .sum()
    }

    /// Samples of one type.
    pub fn count(&self, frame: FrameType) -> usize {
        let samples = self.samples.iter();
        samples.filter(|sample| sample.frame == frame).count()
    }
}

/// What a file holds. Memory: 32 bytes a sample, and about 20 more for a referenced frame of
/// H.264.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Pictures and sound; at least one track has pictures, and every track has samples.
    pub tracks: Vec<Track>,
    /// The longest track.
    pub duration: Duration,
    /// Size of the file.
    pub file_bytes: u64,
}

impl Index {
    /// An index of tracks.
    pub(crate) fn of(tracks: Vec<Track>, file_bytes: u64) -> Self {
        let duration = tracks.iter().map(Track::duration).max();
        Self {
            tracks,
            duration: duration.unwrap_or(Duration::ZERO),
            file_bytes,
        }
    }

    /// Place of the track that is divided into groups of pictures: the first with pictures.
    pub fn video(&self) -> usize {
        let place = self.tracks.iter().position(Track::is_video);
        place.expect("an index has a video track")
    }

    /// Bytes of all samples.
    pub fn media_bytes(&self) -> u64 {
        self.tracks.iter().map(Track::bytes).sum()
    }
}

/// `units` of a timescale as a duration.
pub(crate) fn time(units: u64, timescale: u32) -> Duration {
    let scale = u64::from(timescale.max(1));
    let nanos = u128::from(units % scale) * 1_000_000_000 / u128::from(scale);
    Duration::new(units / scale, nanos as u32)
}

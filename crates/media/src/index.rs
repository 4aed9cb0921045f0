//! Index of a file: tracks and samples.

use std::time::Duration;

use bytes::Bytes;

use crate::stand_ins::StandIns;

/// Frame type of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameType {
    /// Decodes alone: a sync sample, or an I frame.
    Intra,
    /// Predicted from earlier frames (P).
    Predicted,
    /// Predicted from two directions (B).
    Bidirectional,
    /// An audio frame.
    Audio,
    /// A picture whose type cannot be determined without decoding.
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

    /// The usual letter: I, P, B; A for audio, ? for the rest.
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

/// One sample: a picture or an audio frame. Times are in the track's timescale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// Decode time, from the start of the track's media.
    pub decode_time: u64,
    /// Its size in bytes.
    pub size: u32,
    /// Decode time of the next sample minus its own.
    pub duration: u32,
    /// Composition time minus decode time; never negative in the result of [`Index::read`] (a file's negative offsets
    /// are shifted, and its edit list with them).
    pub composition_offset: i32,
    /// Its frame type.
    pub frame: FrameType,
    /// True if decoding can begin here.
    pub is_sync: bool,
    /// True if another picture may be predicted from it. `false` is certain: nothing else is affected when it is
    /// missing. Always `false` for audio.
    pub is_referenced: bool,
}

impl Sample {
    /// Offset at which its bytes end in the file.
    pub const fn end(&self) -> u64 {
        self.offset + self.size as u64
    }

    /// True if nothing else is affected when it is missing.
    pub const fn is_disposable(&self) -> bool {
        !self.is_referenced
    }
}

/// Medium of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackKind {
    /// Video.
    Video {
        /// Width as shown, in pixels.
        width: u16,
        /// Height as shown, in pixels.
        height: u16,
    },
    /// Audio.
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
    /// Video or audio.
    pub kind: TrackKind,
    /// ISO 639-2 code of three letters, `und` if unknown.
    pub language: [u8; 3],
    /// Delay before the first sample of the track is presented (empty edit), in its timescale.
    pub delay: u64,
    /// Composition time of the first sample presented (edit list), in its timescale.
    pub media_time: u64,
    /// The sample entry of the file, a whole box: the decoder's configuration.
    pub entry: Bytes,
    /// The samples in decode order; decode times never decrease.
    pub samples: Vec<Sample>,
    /// Replacements for missing frames.
    pub stand_ins: StandIns,
}

impl Track {
    /// True for a video track.
    pub const fn is_video(&self) -> bool {
        matches!(self.kind, TrackKind::Video { .. })
    }

    /// Time from the first decode time to the end of the last sample.
    pub fn duration(&self) -> Duration {
        let end = self.decode_end(self.samples.len());
        let start = self.samples.first().map_or(0, |first| first.decode_time);
        // The values of an index that has not been checked yet may be arbitrary.
        time(end.saturating_sub(start), self.timescale)
    }

    /// Presentation time of a sample, in the track's timescale from the start of the film; negative for samples that an
    /// edit list cuts off.
    pub fn presentation_time(&self, sample: &Sample) -> i64 {
        let time = i128::from(sample.decode_time) + i128::from(sample.composition_offset)
            - i128::from(self.media_time)
            + i128::from(self.delay);
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    /// Time at which decoding of a sample begins, on the clock of [`presentation_time`](Self::presentation_time) but
    /// never negative.
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

    /// Total size of the samples in bytes.
    pub fn bytes(&self) -> u64 {
        self.samples
            .iter()
            .map(|sample| u64::from(sample.size))
            .sum()
    }

    /// Number of samples of one type.
    pub fn count(&self, frame: FrameType) -> usize {
        let samples = self.samples.iter();
        samples.filter(|sample| sample.frame == frame).count()
    }
}

/// Index of a file. Memory: 32 bytes a sample, and about 20 more for a referenced frame of H.264.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Video and audio tracks; at least one is video, and every track has samples.
    pub tracks: Vec<Track>,
    /// Duration of the longest track.
    pub duration: Duration,
    /// Size of the file in bytes.
    pub file_bytes: u64,
}

impl Index {
    /// Makes an index of tracks.
    pub(crate) fn of(tracks: Vec<Track>, file_bytes: u64) -> Self {
        let duration = tracks.iter().map(Track::duration).max();
        Self {
            tracks,
            duration: duration.unwrap_or(Duration::ZERO),
            file_bytes,
        }
    }

    /// Position of the track that is divided into groups of pictures: the first video track.
    pub fn video(&self) -> usize {
        let place = self.tracks.iter().position(Track::is_video);
        place.expect("an index has a video track")
    }

    /// Total size of all samples in bytes.
    pub fn media_bytes(&self) -> u64 {
        self.tracks.iter().map(Track::bytes).sum()
    }
}

/// Converts `units` of a timescale to a duration.
pub(crate) fn time(units: u64, timescale: u32) -> Duration {
    let scale = u64::from(timescale.max(1));
    let nanos = u128::from(units % scale) * 1_000_000_000 / u128::from(scale);
    Duration::new(units / scale, nanos as u32)
}

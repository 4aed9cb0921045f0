//! Segments of equal time: contents of the two flows in each ([Two-flow §3, §4]).

use std::time::Duration;

use anabranch_base::Rate;

use crate::{
    index::Index,
    partition::{Part, Partition},
};

/// Longest default length of a segment: that of the paper's experiments.
pub const SEGMENT_MAX: Duration = Duration::from_secs(256);
/// Shortest default length of a segment.
pub const SEGMENT_MIN: Duration = Duration::from_secs(4);
/// Approximate number of segments of a film by default: that of the paper's film of 100 minutes.
const SEGMENTS: u64 = 24;

/// Default segment length for a film: a 24th of it in whole seconds, from 4 to 256 s.
pub fn default_length(index: &Index) -> Duration {
    let length = Duration::from_secs(index.duration.as_secs().div_ceil(SEGMENTS));
    length.clamp(SEGMENT_MIN, SEGMENT_MAX)
}

/// A sample by position: of its track in [`Index::tracks`], and of itself in the track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleId {
    /// Position of the track.
    pub track: u16,
    /// Position of the sample.
    pub sample: u32,
}

/// All samples in the order in which they are needed: by decode time, and by track where it is the same. O(samples ·
/// tracks) time, O(tracks) memory.
pub fn in_order(index: &Index) -> impl Iterator<Item = (Duration, SampleId)> + '_ {
    let mut next = vec![0usize; index.tracks.len()];
    std::iter::from_fn(move || {
        let tracks = index.tracks.iter().enumerate();
        let heads = tracks.filter_map(|(place, track)| {
            let sample = track.samples.get(next[place])?;
            Some((track.decode_start(sample), place))
        });
        let (at, track) = heads.min()?;
        let sample = next[track] as u32;
        next[track] += 1;
        let track = track as u16;
        Some((at, SampleId { track, sample }))
    })
}

/// Contents of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Bytes of the essential part.
    pub essential_bytes: u64,
    /// Bytes of the enhanced part.
    pub enhanced_bytes: u64,
    /// Samples of the essential part.
    pub essential_samples: u32,
    /// Samples of the enhanced part.
    pub enhanced_samples: u32,
}

impl Segment {
    /// Size of one part in bytes.
    pub const fn bytes(&self, part: Part) -> u64 {
        match part {
            Part::Essential => self.essential_bytes,
            Part::Enhanced => self.enhanced_bytes,
        }
    }
}

/// A film in segments. Segment k has the samples that are decoded in [k·T, (k+1)·T).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    /// Segment length T.
    pub length: Duration,
    /// Segments in order; the last may be shorter than T.
    pub segments: Vec<Segment>,
    duration: Duration,
}

/// Most segments of one film: more do not help, and a wrong timestamp must not make billions.
const SEGMENTS_MAX: u128 = 1 << 20;

impl Segments {
    /// Divides a film. `length` is at least 1 ms, and more where there would be over a million segments.
    pub fn new(index: &Index, partition: &Partition, length: Duration) -> Self {
        let last = in_order(index).map(|(at, _)| at).max().unwrap_or_default();
        let shortest = Duration::from_nanos((last.as_nanos() / SEGMENTS_MAX) as u64 + 1);
        let length = length.max(Duration::from_millis(1)).max(shortest);
        let mut segments = Vec::new();
        for (at, id) in in_order(index) {
            let number = (at.as_nanos() / length.as_nanos()) as usize;
            if segments.len() <= number {
                segments.resize(number + 1, Segment::default());
            }
            let (track, sample) = (usize::from(id.track), id.sample as usize);
            let bytes = u64::from(index.tracks[track].samples[sample].size);
            let segment = &mut segments[number];
            match partition.part(track, sample) {
                Part::Essential => {
                    segment.essential_bytes += bytes;
                    segment.essential_samples += 1;
                }
                Part::Enhanced => {
                    segment.enhanced_bytes += bytes;
                    segment.enhanced_samples += 1;
                }
            }
        }
        Self {
            length,
            segments,
            duration: index.duration,
        }
    }

    /// Playing time of one segment: T, or less for the last.
    pub fn playing_time(&self, number: usize) -> Duration {
        let start = self.length.saturating_mul(number as u32);
        let left = self.duration.saturating_sub(start);
        if number + 1 < self.segments.len() || left > self.length {
            return self.length;
        }
        left.max(Duration::from_millis(1))
    }

    /// Rate of one part in one segment.
    pub fn rate(&self, number: usize, part: Part) -> Rate {
        let bytes = self.segments[number].bytes(part);
        Rate::from_bytes_per(bytes, self.playing_time(number))
    }

    /// Peak rate of one part over all whole segments, which admission reserves ([Two-flow §6]); a last segment that is
    /// shorter counts as if it took T.
    pub fn rate_max(&self, part: Part) -> Rate {
        let bytes = self
            .segments
            .iter()
            .map(|segment| segment.bytes(part))
            .max();
        let length = if self.segments.len() == 1 {
            self.playing_time(0)
        } else {
            self.length
        };
        Rate::from_bytes_per(bytes.unwrap_or(0), length)
    }
}

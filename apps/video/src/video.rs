//! A video as origin and proxy both see it: its index, its chunks, and the flow in which each byte travels.
//!
//! Everything here is a pure function of the index, the policy and the length of chunks, so that both sides agree without
//! messages about single frames.

use std::{ops::Range, str::FromStr, time::Duration};

use anabranch::base::Rate;
use anabranch_media::{
    Chunk, FrameType, Index, IndexError, Part, Partition, Policy,
    chunk::chunks,
    segment::{self, Segments},
    write::Progressive,
};
use anabranch_twoflow::{
    Schedule,
    rate::{RETRANSMITTED, target},
};

use crate::{load, wire::Enhanced};

/// Target length of chunks; a chunk begins with a key frame, so that they follow the key frames of the video.
pub const CHUNK_LENGTH: Duration = Duration::from_secs(4);

/// Minimum length of chunks and segments that is accepted from an origin: shorter ones would make many of them, without
/// benefit.
pub(crate) const PART_MIN: Duration = Duration::from_millis(100);

/// Parameters of the division of a video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// Selection of essential data.
    pub policy: Policy,
    /// Target length of chunks.
    pub chunk: Duration,
    /// Length of segments; `None`: derived from the length of the video ([`segment::default_length`]).
    pub segment: Option<Duration>,
}

impl Default for Division {
    /// Key frames and sound; chunks of four seconds.
    fn default() -> Self {
        Self {
            policy: Policy::IntraAudio,
            chunk: CHUNK_LENGTH,
            segment: None,
        }
    }
}

/// The text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' does not specify the essential data; choose intra, intra+audio, intra+referenced, or a rate such as '500 kbit/s'"
)]
pub struct ParsePolicyError(String);

/// Parses a policy.
///
/// # Errors
/// The text is not a policy.
pub fn parse_policy(text: &str) -> Result<Policy, ParsePolicyError> {
    match text.trim() {
        "intra" => Ok(Policy::Intra),
        "intra+audio" => Ok(Policy::IntraAudio),
        "intra+referenced" => Ok(Policy::IntraReferenced),
        rate => match Rate::from_str(rate) {
            Ok(rate) if rate > Rate::ZERO => Ok(Policy::Budget(rate)),
            _ => Err(ParsePolicyError(text.to_owned())),
        },
    }
}

/// A policy in the form that [`parse_policy`] reads.
pub fn policy_text(policy: Policy) -> String {
    match policy {
        Policy::Intra => "intra".to_owned(),
        Policy::IntraReferenced => "intra+referenced".to_owned(),
        Policy::Budget(rate) => format!("{} bit/s", rate.as_bps()),
        _ => "intra+audio".to_owned(),
    }
}

/// A frame of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// Position of its track in the index.
    pub track: usize,
    /// Its position in the track.
    pub sample: usize,
}

/// A video.
#[derive(Debug)]
pub struct Video {
    /// Its name in the catalogue.
    pub name: String,
    /// Changes whenever the file does.
    pub version: String,
    /// Its frames.
    pub index: Index,
    /// Essential and enhanced frames.
    pub partition: Partition,
    /// Parameters of its division.
    pub division: Division,
    /// Its chunks.
    pub chunks: Vec<Chunk>,
    /// Its segments.
    pub segments: Segments,
    /// Time and rate at which each segment is sent; a chunk belongs to the segment in which it begins.
    pub schedule: Schedule,
    /// The progressive file with all tracks.
    pub progressive: Progressive,
    essential_bytes: Vec<u64>,
    enhanced_bytes: Vec<u64>,
    /// Size of the enhanced data on the wire, with the headers of its parts, relative to the data.
    pub(crate) enhanced_on_wire: f64,
}

impl Video {
    /// Divides a video. O(samples · log samples).
    pub fn new(name: &str, version: &str, index: Index, division: Division) -> Self {
        let partition = Partition::new(&index, division.policy);
        let chunks = chunks(&index, division.chunk);
        let length = division
            .segment
            .unwrap_or_else(|| segment::default_length(&index));
        let segments = Segments::new(&index, &partition, length);
        let tracks: Vec<usize> = (0..index.tracks.len()).collect();
        let progressive = Progressive::new(&index, &tracks, &chunks);
        let mut video = Self {
            name: name.to_owned(),
            version: version.to_owned(),
            partition,
            division,
            chunks,
            segments,
            schedule: Schedule::of_bytes(&[], CHUNK_LENGTH, CHUNK_LENGTH, RETRANSMITTED),
            progressive,
            essential_bytes: Vec::new(),
            enhanced_bytes: Vec::new(),
            enhanced_on_wire: 1.0,
            index,
        };
        let bytes = |part| -> Vec<u64> {
            let sum = |chunk| {
                let frames = video.frames(chunk, part);
                frames.map(|frame| u64::from(video.size(frame))).sum()
            };
            (0..video.count()).map(sum).collect()
        };
        let (essential, enhanced) = (bytes(Part::Essential), bytes(Part::Enhanced));
        let sizes = (0..video.count())
            .flat_map(|chunk| video.frames(chunk, Part::Enhanced))
            .map(|frame| video.size(frame) as usize);
        let on_wire: u64 = sizes.map(load::enhanced_bytes).sum();
        video.enhanced_on_wire = on_wire as f64 / enhanced.iter().sum::<u64>().max(1) as f64;
        let length = video.segments.length;
        let mut sums = vec![[0; 2]; video.segments.segments.len()];
        for (chunk, bytes) in video.chunks.iter().zip(essential.iter().zip(&enhanced)) {
            let number = chunk.start.as_nanos() / length.as_nanos().max(1);
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            let last = sums.len().saturating_sub(1);
            if let Some(sum) = sums.get_mut(number.min(last)) {
                sum[0] += bytes.0;
                sum[1] += bytes.1;
            }
        }
        let film = video.start(u32::MAX);
        video.schedule = Schedule::of_bytes(&sums, length, film, RETRANSMITTED);
        video.essential_bytes = essential;
        video.enhanced_bytes = enhanced;
        video
    }

    /// A video from an index in the format of [`Index::encode`].
    ///
    /// # Errors
    /// The bytes are not an index.
    pub fn decode(
        name: &str,
        version: &str,
        index: &[u8],
        division: Division,
    ) -> Result<Self, IndexError> {
        Ok(Self::new(name, version, Index::decode(index)?, division))
    }

    /// Number of chunks; at least one.
    pub fn count(&self) -> u32 {
        u32::try_from(self.chunks.len()).unwrap_or(u32::MAX)
    }

    /// Frames of one part of a chunk, in the order in which their bytes travel and are stored: by track, then by position.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn frames(&self, chunk: u32, part: Part) -> impl Iterator<Item = FrameId> + '_ {
        let tracks = self.chunks[chunk as usize].samples.iter().enumerate();
        tracks.flat_map(move |(track, samples): (usize, &Range<usize>)| {
            let samples = samples.clone();
            let chosen = samples.filter(move |&sample| self.partition.part(track, sample) == part);
            chosen.map(move |sample| FrameId { track, sample })
        })
    }

    /// Bytes of a frame.
    pub fn size(&self, frame: FrameId) -> u32 {
        self.index.tracks[frame.track].samples[frame.sample].size
    }

    /// Type of a frame.
    pub fn kind(&self, frame: FrameId) -> FrameType {
        self.index.tracks[frame.track].samples[frame.sample].frame
    }

    /// The type of the enhanced frame that this part completes; `None`: more parts follow, or it is no part of that chunk.
    pub(crate) fn ended_by(&self, part: &Enhanced) -> Option<FrameType> {
        let (track, sample) = (usize::from(part.track), part.sample as usize);
        let samples = self.chunks.get(part.chunk as usize)?.samples.get(track)?;
        if !samples.contains(&sample) || self.partition.part(track, sample) != Part::Enhanced {
            return None;
        }
        let frame = FrameId { track, sample };
        let end = u64::from(part.offset) + part.data.len() as u64;
        (end == u64::from(self.size(frame))).then(|| self.kind(frame))
    }

    /// Time at which its decoding begins.
    pub fn decode_start(&self, frame: FrameId) -> Duration {
        let track = &self.index.tracks[frame.track];
        track.decode_start(&track.samples[frame.sample])
    }

    /// Bytes of one part of a chunk.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn bytes(&self, chunk: u32, part: Part) -> u64 {
        match part {
            Part::Essential => self.essential_bytes[chunk as usize],
            Part::Enhanced => self.enhanced_bytes[chunk as usize],
        }
    }

    /// Start of a chunk; the end of the video beyond the last.
    pub fn start(&self, chunk: u32) -> Duration {
        match self.chunks.get(chunk as usize) {
            Some(chunk) => chunk.start,
            None => self
                .chunks
                .last()
                .map_or(Duration::ZERO, |last| last.start + last.duration),
        }
    }

    /// The chunks of the first `time` of the video: those that begin within it, at least one.
    pub fn prefix(&self, time: Duration) -> u32 {
        let count = self.chunks.partition_point(|chunk| chunk.start < time);
        u32::try_from(count).unwrap_or(u32::MAX).max(1)
    }

    /// End of the segment after that of `chunk`, as a chunk: the essential flow sends up to there while this segment's enhanced
    /// data plays [Two-flow §3].
    pub fn essential_until(&self, chunk: u32) -> u32 {
        let length = self.segments.length;
        let number = self.start(chunk).as_nanos() / length.as_nanos().max(1);
        let end = u32::try_from(number + 2).map_or(Duration::MAX, |n| length.saturating_mul(n));
        let until = self.chunks.partition_point(|chunk| chunk.start < end);
        u32::try_from(until)
            .unwrap_or(u32::MAX)
            .max(chunk.saturating_add(1))
            .min(self.count())
    }

    /// Maximum load on schedule: the next segment's essential part, some of which is sent twice, and this one's enhanced part.
    pub(crate) fn load_max(&self) -> Rate {
        let segments = &self.segments;
        let count = segments.segments.len();
        // A shorter last segment counts as if it were as long as the others.
        let time = match count {
            1 => segments.playing_time(0),
            _ => segments.length,
        };
        let each = (0..count).map(|number| {
            let next = number + 1;
            let essential = if next < count {
                let bytes = segments.segments[next].essential_bytes;
                target(bytes, time, RETRANSMITTED)
            } else {
                Rate::ZERO
            };
            let enhanced = segments.segments[number].enhanced_bytes;
            let enhanced = Rate::from_bytes_per(enhanced, time) * self.enhanced_on_wire;
            load::reliable(essential) + enhanced
        });
        // The essential part of a film of one segment is sent while it plays.
        let first = load::reliable(segments.rate(0, Part::Essential));
        each.max().unwrap_or_default().max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// Chunks of two seconds: pictures 50 to 99 are in the second.
    #[test]
    fn the_part_that_ends_a_frame_is_known() {
        let film = samples::film(6);
        let part = |chunk, sample, offset: u32, bytes: u32| Enhanced {
            sequence: 0,
            timestamp: 0,
            chunk,
            track: 0,
            sample,
            offset,
            data: bytes::Bytes::from(vec![0; bytes as usize]),
        };
        let predicted = samples::SIZES[1];
        let ended = |part| film.ended_by(&part);
        assert_eq!(
            ended(part(1, 51, predicted - 9, 9)),
            Some(FrameType::Predicted)
        );
        assert_eq!(ended(part(1, 51, 0, predicted - 9)), None);
        // Of another chunk, of the essential flow, of no track, of no chunk.
        assert_eq!(ended(part(0, 51, predicted - 9, 9)), None);
        assert_eq!(ended(part(1, 50, 0, samples::SIZES[0])), None);
        let elsewhere = Enhanced {
            track: 7,
            ..part(1, 51, predicted - 9, 9)
        };
        assert_eq!(ended(elsewhere), None);
        assert_eq!(ended(part(9, 51, predicted - 9, 9)), None);
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in ["intra", "intra+audio", "intra+referenced", "500000 bit/s"] {
            assert_eq!(policy_text(parse_policy(text).unwrap()), text);
        }
        assert_eq!(
            parse_policy("1 Mbit/s"),
            Ok(Policy::Budget(Rate::from_mbps(1)))
        );
        for text in ["", "all", "0 bit/s"] {
            let error = parse_policy(text).unwrap_err().to_string();
            assert!(error.contains("intra+audio"), "{error}");
        }
    }
}

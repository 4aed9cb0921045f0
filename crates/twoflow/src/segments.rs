//! Segmentation of a film: pieces of equal time [Two-flow §3].

use std::{ops::Range, time::Duration};

use crate::frame::Frame;

/// Largest number of segments of a film.
pub const SEGMENTS_MAX: usize = 100_000;
/// Longest default length of a segment: that of the paper's experiments.
const LENGTH_MAX: Duration = Duration::from_secs(256);
/// Shortest default length.
const LENGTH_MIN: Duration = Duration::from_secs(4);
/// Default number of segments of a film of medium length: as many as the paper's of 100 minutes has.
const PIECES: u32 = 24;

/// A segment of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start of the segment, from the beginning of the film.
    pub start: Duration,
    /// Playing time; equal for all but the last.
    pub length: Duration,
    /// Its frames, as indices of the list from which the film was made.
    pub frames: Range<usize>,
    /// Bytes of its essential frames.
    pub essential_bytes: u64,
    /// Bytes of its enhanced frames.
    pub enhanced_bytes: u64,
}

impl Segment {
    /// End of the segment, where the next begins.
    pub fn end(&self) -> Duration {
        self.start + self.length
    }
}

/// Error of a list of frames that cannot be segmented.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentsError {
    /// There are no frames.
    #[error("a film without frames; give at least one frame")]
    Empty,
    /// Frames are not in order of time.
    #[error("frame {index} is needed before the one that it follows; sort frames by decoding time")]
    Order {
        /// The first that is out of order.
        index: usize,
    },
    /// A length that gives no segments, or too many.
    #[error(
        "segments of {length:?} for {film:?} of film; give a length above zero that makes at most 100000 segments"
    )]
    Length {
        /// The length asked for.
        length: Duration,
        /// The playing time of the film.
        film: Duration,
    },
}

/// All segments of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    all: Vec<Segment>,
    length: Duration,
}

impl Segments {
    /// Divides `frames`, in order of time, of a film that plays for `film`. The last segment is shorter where `length` does not divide
    /// it; frames beyond the end belong to the last. O(n).
    ///
    /// # Errors
    /// No frames, frames out of order, or a length that makes no sense.
    pub fn new(frames: &[Frame], film: Duration, length: Duration) -> Result<Self, SegmentsError> {
        let last = frames.last().ok_or(SegmentsError::Empty)?;
        let disorder = frames.windows(2).position(|pair| pair[1].at < pair[0].at);
        if let Some(before) = disorder {
            return Err(SegmentsError::Order { index: before + 1 });
        }
        // A film whose given end precedes its last frame ends with that frame.
        let film = film.max(last.at + Duration::from_nanos(1));
        let nanos = length.as_nanos();
        let count = if nanos == 0 {
            u128::MAX
        } else {
            film.as_nanos().div_ceil(nanos)
        };
        if count > SEGMENTS_MAX as u128 {
            return Err(SegmentsError::Length { length, film });
        }
        let mut all = Vec::with_capacity(count as usize);
        let mut next = 0;
        for index in 0..count as u32 {
            let start = length * index;
            let end = (start + length).min(film);
            let from = next;
            let mut bytes = [0; 2];
            while let Some(frame) = frames.get(next).filter(|frame| frame.at < end) {
                bytes[usize::from(frame.class.is_essential())] += u64::from(frame.bytes);
                next += 1;
            }
            all.push(Segment {
                start,
                length: end - start,
                frames: from..next,
                essential_bytes: bytes[1],
                enhanced_bytes: bytes[0],
            });
        }
        Ok(Self { all, length })
    }

    /// Default length for a film: a 24th of it in whole seconds, 4 s at least, 256 s at most.
    pub fn default_length(film: Duration) -> Duration {
        let seconds = (film / PIECES).as_secs();
        Duration::from_secs(seconds).clamp(LENGTH_MIN, LENGTH_MAX)
    }

    /// The segments, in order; there is one at least.
    pub fn all(&self) -> &[Segment] {
        &self.all
    }

    /// Playing time of all segments but the last.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The segment that plays at this time of the film; `None` after its end. O(1).
    pub fn at(&self, time: Duration) -> Option<usize> {
        let index = usize::try_from(time.as_nanos() / self.length.as_nanos()).ok()?;
        let segment = self.all.get(index)?;
        (time < segment.end()).then_some(index)
    }

    /// End of the film.
    pub fn film(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, Segment::end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::Class;

    fn frame(bytes: u32, at_ms: u64, is_essential: bool) -> Frame {
        Frame {
            bytes,
            at: Duration::from_millis(at_ms),
            class: if is_essential {
                Class::Essential
            } else {
                Class::Enhanced { rank: 1 }
            },
        }
    }

    #[test]
    fn a_film_is_cut_at_equal_times() {
        let frames = [
            frame(100, 0, true),
            frame(10, 500, false),
            frame(200, 1_000, true),
            frame(20, 1_999, false),
            frame(30, 2_100, false),
        ];
        let second = Duration::from_secs(1);
        let film = Duration::from_millis(2_500);
        let segments = Segments::new(&frames, film, second).unwrap();
        let shape: Vec<_> = segments
            .all()
            .iter()
            .map(|s| (s.frames.clone(), s.essential_bytes, s.enhanced_bytes))
            .collect();
        assert_eq!(shape, [(0..2, 100, 10), (2..4, 200, 20), (4..5, 0, 30)]);
        assert_eq!(segments.all()[2].length, second / 2);
        assert_eq!(segments.at(second), Some(1));
        assert_eq!(segments.at(film), None);
        assert_eq!(segments.film(), film);
    }

    #[test]
    fn an_invalid_film_is_refused() {
        let second = Duration::from_secs(1);
        let of = |frames: &[Frame], length| Segments::new(frames, second, length);
        assert_eq!(of(&[], second), Err(SegmentsError::Empty));
        let swapped = [frame(1, 10, true), frame(1, 9, true)];
        assert_eq!(of(&swapped, second), Err(SegmentsError::Order { index: 1 }));
        for length in [Duration::ZERO, Duration::from_nanos(1)] {
            let refused = of(&[frame(1, 0, true)], length);
            assert!(matches!(refused, Err(SegmentsError::Length { .. })));
        }
    }

    #[test]
    fn the_usual_length_follows_the_film() {
        let of =
            |minutes: u64| Segments::default_length(Duration::from_secs(60 * minutes)).as_secs();
        assert_eq!([of(1), of(10), of(100), of(240)], [4, 25, 250, 256]);
    }

    proptest! {
        /// Every frame is in one segment, and every byte is counted once.
        #[test]
        fn nothing_is_lost_and_nothing_twice(
            sizes in prop::collection::vec((0u32..10_000, 0u64..200, any::<bool>()), 1..200),
            length_ms in 1u64..5_000,
        ) {
            let mut at = 0;
            let frames: Vec<Frame> = sizes
                .iter()
                .map(|&(bytes, step, essential)| {
                    at += step;
                    frame(bytes, at, essential)
                })
                .collect();
            let length = Duration::from_millis(length_ms);
            let segments = Segments::new(&frames, Duration::ZERO, length).unwrap();
            let mut next = 0;
            for segment in segments.all() {
                prop_assert_eq!(segment.frames.start, next);
                next = segment.frames.end;
                for frame in &frames[segment.frames.clone()] {
                    prop_assert!((segment.start..segment.end()).contains(&frame.at));
                }
            }
            prop_assert_eq!(next, frames.len());
            let bytes: u64 = segments.all().iter().map(|s| s.essential_bytes + s.enhanced_bytes).sum();
            prop_assert_eq!(bytes, frames.iter().map(|f| u64::from(f.bytes)).sum::<u64>());
        }
    }
}

//! A synthetic film for tests.

use std::time::Duration;

use anabranch_media::{FrameType, Index, Policy, Sample, StandIns, Track, TrackKind};
use bytes::Bytes;

use crate::video::{Division, Video};

/// Sizes of frames by type: I, P, B.
pub(crate) const SIZES: [u32; 3] = [10_000, 3_000, 500];

/// A film of so many seconds of 25 pictures: I and eight times P, B, B each second; chunks of 2 s, segments of 6 s.
pub(crate) fn film(seconds: u32) -> Video {
    let mut samples = Vec::new();
    for number in 0..25 * seconds {
        let (frame, composition_offset) = match number % 25 {
            0 => (FrameType::Intra, 1),
            n if n % 3 == 1 => (FrameType::Predicted, 3),
            _ => (FrameType::Bidirectional, 0),
        };
        let size = match frame {
            FrameType::Intra => SIZES[0],
            FrameType::Predicted => SIZES[1],
            _ => SIZES[2],
        };
        samples.push(Sample {
            offset: 0,
            decode_time: number.into(),
            size,
            duration: 1,
            composition_offset,
            frame,
            is_sync: frame == FrameType::Intra,
            is_referenced: frame != FrameType::Bidirectional,
        });
    }
    let track = Track {
        id: 1,
        timescale: 25,
        codec: "avc1.64001f".to_owned(),
        kind: TrackKind::Video {
            width: 480,
            height: 270,
        },
        language: *b"und",
        delay: 0,
        media_time: 1,
        entry: Bytes::new(),
        samples,
        stand_ins: StandIns::default(),
    };
    let index = Index {
        tracks: vec![track],
        duration: Duration::from_secs(seconds.into()),
        file_bytes: 0,
    };
    let division = Division {
        policy: Policy::Intra,
        chunk: Duration::from_secs(2),
        segment: Some(Duration::from_secs(6)),
    };
    Video::new("film", "1", index, division)
}

//! Tests on the real file in the test data, whose content is known.

use crate::common;

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_media::{
    FrameType, Index, Part, Partition, Policy, TrackKind,
    segment::{self, Segments},
};
use common::{BIKES, bikes};

#[test]
fn types_and_references() {
    let index = bikes();
    assert_eq!(index.tracks.len(), 1);
    let track = &index.tracks[0];
    assert_eq!(track.codec, "avc1.640015");
    let size = TrackKind::Video {
        width: 640,
        height: 272,
    };
    assert_eq!(track.kind, size);
    assert_eq!(index.duration, Duration::from_secs(10));
    let counts = FrameType::ALL.map(|frame| track.count(frame));
    assert_eq!(counts, [6, 69, 175, 0, 0]);
    let disposable = track.samples.iter().filter(|s| s.is_disposable()).count();
    assert_eq!(disposable, 115);
    let syncs = track.samples.iter().filter(|s| s.is_sync).count();
    assert_eq!(syncs, 6);
    assert_eq!(index.file_bytes, BIKES.len() as u64);
}

#[test]
fn shares_of_the_types() {
    let index = bikes();
    let share = |frame| {
        let samples = index.tracks[0].samples.iter();
        let bytes: u64 = samples
            .filter(|sample| sample.frame == frame)
            .map(|sample| u64::from(sample.size))
            .sum();
        (100.0 * bytes as f64 / index.media_bytes() as f64).round()
    };
    assert_eq!(share(FrameType::Intra), 18.0);
    assert_eq!(share(FrameType::Predicted), 47.0);
    assert_eq!(share(FrameType::Bidirectional), 34.0);
}

#[test]
fn policies() {
    let index = bikes();
    let count = |policy| {
        let partition = Partition::new(&index, policy);
        let samples = 0..index.tracks[0].samples.len();
        samples
            .filter(|&at| partition.part(0, at) == Part::Essential)
            .count()
    };
    assert_eq!(count(Policy::Intra), 6);
    assert_eq!(count(Policy::IntraAudio), 6);
    assert_eq!(count(Policy::IntraReferenced), 75);
    assert_eq!(count(Policy::Budget(Rate::ZERO)), 6);
    assert_eq!(count(Policy::Budget(Rate::from_mbps(10))), 250);
    let middle = count(Policy::Budget(Rate::from_kbps(200)));
    assert!((20..200).contains(&middle), "{middle}");
}

#[test]
fn segments_hold_everything_once() {
    let index = bikes();
    let partition = Partition::new(&index, Policy::Intra);
    assert_eq!(segment::default_length(&index), Duration::from_secs(4));
    let segments = Segments::new(&index, &partition, Duration::from_secs(4));
    assert_eq!(segments.segments.len(), 3);
    let total = |part| -> u64 { segments.segments.iter().map(|s| s.bytes(part)).sum() };
    assert_eq!(
        total(Part::Essential),
        partition.bytes(&index, Part::Essential)
    );
    assert_eq!(
        total(Part::Enhanced),
        partition.bytes(&index, Part::Enhanced)
    );
    let whole = partition.rate(&index, Part::Essential) + partition.rate(&index, Part::Enhanced);
    let expected = index.media_bytes() * 8 / 10;
    assert!(whole.as_bps().abs_diff(expected) <= 2, "{whole:?}");
    assert!(segments.rate_max(Part::Enhanced) >= partition.rate(&index, Part::Enhanced));
    assert_eq!(segments.playing_time(2), Duration::from_secs(2));
}

#[test]
fn importance_falls_along_a_group() {
    let index = bikes();
    let partition = Partition::new(&index, Policy::Intra);
    let track = &index.tracks[0];
    for (at, sample) in track.samples.iter().enumerate() {
        let importance = partition.importance(0, at);
        match sample.frame {
            FrameType::Intra => assert!(importance > 0, "{at}"),
            _ if sample.is_disposable() => assert_eq!(importance, 0, "{at}"),
            _ => {}
        }
    }
    // The whole first group depends on its key.
    let next = track.samples[1..].iter().position(|s| s.is_sync);
    assert_eq!(partition.importance(0, 0) as usize, next.expect("six keys"));
}

#[test]
fn stored_form_is_the_same_index() {
    let index = bikes();
    let bytes = index.encode();
    assert!(bytes.len() < 250 * 16 + 400, "{}", bytes.len());
    assert_eq!(Index::decode(&bytes).expect("valid"), index);
    for cut in 0..bytes.len() {
        assert!(Index::decode(&bytes[..cut]).is_err(), "{cut}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Index::decode(&changed).is_err(), "{at}");
    }
}

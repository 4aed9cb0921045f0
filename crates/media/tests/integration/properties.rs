//! Properties of every film: all samples once, nothing out of range, sizes known beforehand.

use crate::common;

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_media::{
    FrameType, Index, Part, Partition, Policy, Sample, StandIns, Track, TrackKind,
    chunk::chunks,
    depend::{self, Dependents, Role},
    hls,
    segment::{Segments, in_order},
    write::Layout,
};
use bytes::Bytes;
use common::{Merged, merged};
use proptest::prelude::*;

/// A sample entry without codec settings.
fn entry(kind: &[u8; 4]) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0];
    bytes.extend_from_slice(kind);
    if kind == b"avc1" {
        bytes.resize(8 + 78, 0);
        bytes.extend_from_slice(&[0, 0, 0, 15]);
        bytes.extend_from_slice(b"avcC\x01\x64\x00\x1e\xff\xe0\x00");
    } else {
        bytes.resize(8 + 28, 0);
        bytes.extend_from_slice(&[0, 0, 0, 19]);
        bytes.extend_from_slice(b"dOps\x00\x01\x00\x00\x00\x00\xbb\x80\x00\x00\x00");
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[8 + 6..8 + 8].copy_from_slice(&[0, 1]);
    bytes.into()
}

#[derive(Debug, Clone)]
struct Picture {
    kind: u8,
    size: u32,
    reorder: u8,
}

fn picture() -> impl Strategy<Value = Picture> {
    (0u8..12, 5u32..60, 0u8..4).prop_map(|(kind, size, reorder)| Picture {
        kind,
        size,
        reorder,
    })
}

/// A film of generated pictures and audio, with its bytes: pictures are single H.264 slices.
fn film(pictures: &[Picture], sounds: &[u32]) -> (Index, Vec<u8>) {
    let mut data: Vec<u8> = b"\0\0\0\x08free".to_vec();
    let mut samples = Vec::new();
    for (at, picture) in pictures.iter().enumerate() {
        let (frame, is_sync, is_referenced, head) = match picture.kind {
            _ if at == 0 => (FrameType::Intra, true, true, [0x65, 0x88]),
            0 => (FrameType::Intra, true, true, [0x65, 0x88]),
            1 => (FrameType::Intra, false, true, [0x61, 0x88]),
            2..6 => (FrameType::Predicted, false, true, [0x41, 0x98]),
            6..8 => (FrameType::Bidirectional, false, true, [0x21, 0x9c]),
            _ => (FrameType::Bidirectional, false, false, [0x01, 0x9c]),
        };
        let offset = data.len() as u64;
        let size = picture.size + 6;
        data.extend_from_slice(&(size - 4).to_be_bytes());
        data.extend_from_slice(&head);
        data.resize(data.len() + picture.size as usize, at as u8);
        samples.push(Sample {
            offset,
            decode_time: 512 * at as u64,
            size,
            duration: 512,
            composition_offset: 512 * i32::from(picture.reorder),
            frame,
            is_sync,
            is_referenced,
        });
    }
    let mut tracks = vec![Track {
        id: 1,
        timescale: 12_800,
        codec: "avc1.64001e".to_owned(),
        kind: TrackKind::Video {
            width: 640,
            height: 360,
        },
        language: *b"und",
        delay: 0,
        media_time: 512,
        entry: entry(b"avc1"),
        samples,
        stand_ins: StandIns::default(),
    }];
    if !sounds.is_empty() {
        let mut samples = Vec::new();
        for (at, &size) in sounds.iter().enumerate() {
            samples.push(Sample {
                offset: data.len() as u64,
                decode_time: 960 * at as u64,
                size,
                duration: 960,
                composition_offset: 0,
                frame: FrameType::Audio,
                is_sync: true,
                is_referenced: false,
            });
            data.resize(data.len() + size as usize, at as u8);
        }
        tracks.push(Track {
            id: 2,
            timescale: 48_000,
            codec: "opus".to_owned(),
            kind: TrackKind::Audio {
                channels: 1,
                sample_rate: 0,
            },
            language: *b"eng",
            delay: 480,
            media_time: 0,
            entry: entry(b"Opus"),
            samples,
            stand_ins: StandIns::default(),
        });
    }
    let ends = tracks.iter().map(Track::duration);
    let index = Index {
        duration: ends.max().unwrap_or_default(),
        tracks,
        file_bytes: data.len() as u64,
    };
    (index, data)
}

fn films() -> impl Strategy<Value = (Index, Vec<u8>)> {
    let pictures = prop::collection::vec(picture(), 1..80);
    let sounds = prop::collection::vec(1u32..40, 0..150);
    (pictures, sounds).prop_map(|(pictures, sounds)| film(&pictures, &sounds))
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Intra),
        Just(Policy::IntraAudio),
        Just(Policy::IntraReferenced),
        (0u64..200).prop_map(|kbps| Policy::Budget(Rate::from_kbps(kbps))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn stored_form((index, _) in films()) {
        let bytes = index.encode();
        prop_assert_eq!(&Index::decode(&bytes).expect("valid"), &index);
        prop_assert_eq!(bytes, index.encode());
    }

    #[test]
    fn chunks_hold_every_sample_once((index, _) in films(), length_ms in 0u64..3_000) {
        let length = Duration::from_millis(length_ms);
        let chunks = chunks(&index, length);
        for (place, track) in index.tracks.iter().enumerate() {
            let mut next = 0;
            for chunk in &chunks {
                let range = chunk.samples[place].clone();
                prop_assert_eq!(range.start, next);
                prop_assert!(range.end >= next);
                next = range.end;
            }
            prop_assert_eq!(next, track.samples.len());
        }
        for (number, chunk) in chunks.iter().enumerate() {
            prop_assert_eq!(chunk.number as usize, number);
            let first = index.tracks[0].samples[chunk.samples[0].start];
            prop_assert_eq!(chunk.is_independent, first.is_sync);
        }
        for pair in chunks.windows(2) {
            prop_assert_eq!(pair[0].start + pair[0].duration, pair[1].start);
        }
        let list = hls::media_playlist(&index, 0, &chunks, "i", &|n| n.to_string());
        prop_assert_eq!(list.matches("#EXTINF").count(), chunks.len());
    }

    #[test]
    fn partition_is_exact((index, _) in films(), policy in policies()) {
        let partition = Partition::new(&index, policy);
        let both = [Part::Essential, Part::Enhanced].map(|part| partition.bytes(&index, part));
        prop_assert_eq!(both[0] + both[1], index.media_bytes());
        let segments = Segments::new(&index, &partition, Duration::from_secs(1));
        let total = |part| segments.segments.iter().map(|s| s.bytes(part)).sum::<u64>();
        prop_assert_eq!(total(Part::Essential), both[0]);
        prop_assert_eq!(total(Part::Enhanced), both[1]);
        let order: Vec<_> = in_order(&index).collect();
        prop_assert!(order.is_sorted_by_key(|(at, _)| *at));
        let samples: usize = index.tracks.iter().map(|t| t.samples.len()).sum();
        prop_assert_eq!(order.len(), samples);
        for (at, sample) in index.tracks[0].samples.iter().enumerate() {
            if sample.frame == FrameType::Intra {
                prop_assert_eq!(partition.part(0, at), Part::Essential);
            }
        }
    }

    /// The selection of a budget can be shown without the rest.
    #[test]
    fn budgets_are_closed(
        mut pictures in prop::collection::vec(picture(), 1..80),
        kbps in 0u64..200,
    ) {
        for (at, picture) in pictures.iter_mut().enumerate() {
            // Leading pictures need the group before, and an intra frame that is no key is essential even where it
            // follows frames that are not.
            if at == 0 || picture.kind == 0 {
                picture.reorder = 0;
            } else if picture.kind == 1 {
                picture.kind = 2;
            }
        }
        let (index, data) = film(&pictures, &[]);
        let partition = Partition::new(&index, Policy::Budget(Rate::from_kbps(kbps)));
        let is_there = |track: usize, at: usize| partition.part(track, at) == Part::Essential;
        let near = Dependents::LeaveOutNear;
        let near = merged(&index, &data, Layout::Compact, near, &is_there);
        let all = merged(&index, &data, Layout::Compact, Dependents::Keep, &is_there);
        prop_assert_eq!(near.left_out, all.left_out);
    }

    /// Reading a written film gives the kept samples; in the stable layout nothing moves (which `merged` checks).
    #[test]
    fn written_films_are_read_again(
        (index, data) in films(),
        seed in any::<u64>(),
        is_stable in any::<bool>(),
        loss in 0u64..60,
    ) {
        let layout = if is_stable { Layout::Stable } else { Layout::Compact };
        let is_there = |track: usize, at: usize| {
            let bits = (seed ^ (track as u64) << 40 ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (track == 0 && index.tracks[0].samples[at].is_sync) || (bits >> 32) % 100 >= loss
        };
        for dependents in [Dependents::LeaveOut, Dependents::LeaveOutNear, Dependents::Keep] {
            let Merged { file, left_out, .. } = merged(&index, &data, layout, dependents, &is_there);
            let again = common::read(&file);
            let samples = |index: &Index| -> usize {
                index.tracks.iter().map(|track| track.samples.len()).sum()
            };
            prop_assert_eq!(samples(&again) + left_out.total() as usize, samples(&index));
            for new in &again.tracks {
                // A track with no samples left is omitted.
                let track = usize::from(!new.is_video());
                let old = &index.tracks[track];
                // Times are kept: available frames are shown at their times, and the film ends at its time.
                if track == 0 {
                    prop_assert_eq!(new.duration(), old.duration());
                }
                let mut kept = old.samples.iter().enumerate();
                for sample in &new.samples {
                    let shown = new.presentation_time(sample);
                    let (at, before) = kept
                        .find(|(_, before)| before.decode_time + old.delay == sample.decode_time + new.delay)
                        .expect("a sample of the film");
                    prop_assert!(is_there(track, at));
                    prop_assert_eq!(shown, old.presentation_time(before));
                    let old_bytes = &data[before.offset as usize..before.end() as usize];
                    let new_bytes = &file[sample.offset as usize..sample.end() as usize];
                    // Filler may follow.
                    prop_assert!(new_bytes.starts_with(old_bytes));
                    let is_filled = is_stable && track == 0;
                    prop_assert!(new_bytes.len() == old_bytes.len() || is_filled);
                    prop_assert_eq!(sample.frame, before.frame);
                    prop_assert_eq!(sample.is_referenced, before.is_referenced);
                }
            }
        }
    }

    #[test]
    fn dependents_follow_the_roles((index, _) in films()) {
        let track = &index.tracks[0];
        let roles = depend::roles(track);
        let counts = depend::dependents(track);
        for (at, role) in roles.iter().enumerate() {
            prop_assert_eq!(*role == Role::Key, track.samples[at].is_sync);
            if *role == Role::Disposable {
                prop_assert_eq!(counts[at], 0);
            }
            prop_assert!((counts[at] as usize) < track.samples.len() - at);
        }
    }
}

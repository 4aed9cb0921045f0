//! What is written is what players take: ffmpeg decodes it without a word.

#![allow(
    clippy::disallowed_methods,
    reason = "ffmpeg reads files; the room itself has none"
)]

mod common;

use std::time::Duration;

use anabranch_media::{
    Index,
    chunk::chunks,
    depend::Dependents,
    write::{Counts, Layout, Options, Progressive, fragment, fragment_bytes, init_segment},
};
use bytes::Bytes;
use common::{BIKES, bikes, decode, has_ffmpeg, pictures};

/// A whole progressive file of the samples that are there, and what was left out.
fn merged(
    index: &Index,
    data: &[u8],
    options: Options,
    is_there: &dyn Fn(usize, usize) -> bool,
) -> (Vec<u8>, Counts) {
    let tracks: Vec<usize> = (0..index.tracks.len()).collect();
    let chunks = chunks(index, Duration::from_secs(2));
    let layout = Progressive::new(index, &tracks, &chunks);
    let mut file = match options.layout {
        Layout::Stable => layout.head().to_vec(),
        Layout::Compact => init_segment(index, &tracks).to_vec(),
    };
    let get = |track: usize, sample: usize| {
        let sample_at = &index.tracks[track].samples[sample];
        let range = sample_at.offset as usize..sample_at.end() as usize;
        is_there(track, sample).then(|| Bytes::copy_from_slice(&data[range]))
    };
    let mut left_out = Counts::default();
    for (number, chunk) in chunks.iter().enumerate() {
        let fragment = fragment(index, &tracks, chunk, &get, options);
        if options.layout == Layout::Stable {
            let place = layout.place(number);
            assert_eq!(place.start, file.len() as u64);
            assert_eq!(place.end - place.start, fragment.bytes.len() as u64);
        } else if fragment.left_out.total() == 0 {
            let bytes = fragment_bytes(index, &tracks, chunk, Layout::Compact);
            assert_eq!(bytes, fragment.bytes.len() as u64);
        }
        left_out += fragment.left_out;
        file.extend_from_slice(&fragment.bytes);
    }
    if options.layout == Layout::Stable {
        assert_eq!(file.len() as u64, layout.bytes());
    }
    (file, left_out)
}

/// A coin for each sample, the same on every run.
fn coin(seed: u64, sample: usize) -> u64 {
    let mut z = (seed << 32 | sample as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ z >> 31
}

const LAYOUTS: [Layout; 2] = [Layout::Compact, Layout::Stable];

#[test]
fn complete_file_decodes_to_the_same_pictures() {
    let index = bikes();
    for layout in LAYOUTS {
        let options = Options {
            layout,
            ..Options::default()
        };
        let (file, left_out) = merged(&index, BIKES, options, &|_, _| true);
        assert_eq!(left_out, Counts::default());
        // What is written can be read, and is the same film.
        let again = common::read(&file);
        assert_eq!(again.duration, index.duration);
        for (new, old) in again.tracks[0].samples.iter().zip(&index.tracks[0].samples) {
            let moved = anabranch_media::Sample {
                offset: old.offset,
                ..*new
            };
            assert_eq!(moved, *old);
        }
        if !has_ffmpeg() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("merged.mp4");
        let original = folder.path().join("bikes.mp4");
        std::fs::write(&path, &file).expect("written");
        std::fs::write(&original, BIKES).expect("written");
        let (text, count) = decode(&path);
        assert_eq!((text.as_str(), count), ("", 250));
        assert_eq!(pictures(&path), pictures(&original));
    }
}

#[test]
fn decoders_go_on_when_enhanced_frames_are_missing() {
    let index = bikes();
    let samples = &index.tracks[0].samples;
    let folder = tempfile::tempdir().expect("a folder");
    for (number, layout) in LAYOUTS.into_iter().cycle().take(8).enumerate() {
        for dependents in [Dependents::LeaveOut, Dependents::Strict] {
            let seed = number as u64 / 2;
            let options = Options { layout, dependents };
            let is_there =
                |_: usize, at: usize| samples[at].is_sync || !coin(seed, at).is_multiple_of(20);
            let (file, left_out) = merged(&index, BIKES, options, &is_there);
            let again = common::read(&file);
            let kept = samples.len() - left_out.total() as usize;
            assert_eq!(again.tracks[0].samples.len(), kept);
            assert_eq!(again.duration, index.duration);
            if !has_ffmpeg() {
                continue;
            }
            let path = folder.path().join("lossy.mp4");
            std::fs::write(&path, &file).expect("written");
            let (text, count) = decode(&path);
            assert_eq!(count, kept, "{layout:?} {dependents:?}: {text}");
            // What an anchor says about a frame between anchors that is not there.
            let is_known = |line: &str| {
                line.ends_with("mmco: unref short failure") && dependents == Dependents::LeaveOut
            };
            let rest: Vec<&str> = text
                .lines()
                .filter(|l| !l.is_empty() && !is_known(l))
                .collect();
            assert_eq!(rest, [""; 0], "{layout:?} {dependents:?}");
        }
    }
}

//! Compatibility of written fragments with players: ffmpeg decodes them without a warning.

#![allow(
    clippy::disallowed_methods,
    reason = "ffmpeg reads files; the crate itself does no I/O"
)]

use crate::common;

use anabranch_media::{
    Sample,
    depend::{self, Dependents, Role},
    write::{Counts, Layout},
};
use common::{BIKES, bikes, decode, has_ffmpeg, hashes, merged, probe};

/// A pseudo-random number for each sample, the same on every run.
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
        let whole = merged(&index, BIKES, layout, Dependents::LeaveOut, &|_, _| true);
        let file = whole.file;
        assert_eq!(whole.left_out, Counts::default());
        // The output can be read, and is the same film.
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
        assert_eq!(decode(&path), "");
        assert_eq!(probe(&path), probe(&original));
    }
}

#[test]
fn decoders_continue_when_enhanced_frames_are_missing() {
    let index = bikes();
    let samples = &index.tracks[0].samples;
    let folder = tempfile::tempdir().expect("a folder");
    for (seed, layout) in (0..2).flat_map(|seed| LAYOUTS.map(|layout| (seed, layout))) {
        for dependents in [
            Dependents::LeaveOut,
            Dependents::LeaveOutNear,
            Dependents::PassOn,
        ] {
            let is_there =
                |_: usize, at: usize| samples[at].is_sync || !coin(seed, at).is_multiple_of(20);
            let film = merged(&index, BIKES, layout, dependents, &is_there);
            let again = common::read(&film.file);
            let kept = samples.len() - (film.left_out.total() - film.replaced.total()) as usize;
            assert_eq!(again.tracks[0].samples.len(), kept);
            assert_eq!(again.duration, index.duration);
            // Every referenced frame that was left out has a stand-in.
            let referenced =
                |samples: &[Sample]| samples.iter().filter(|s| s.is_referenced).count();
            assert_eq!(referenced(&again.tracks[0].samples), referenced(samples));
            if !has_ffmpeg() {
                continue;
            }
            let path = folder.path().join("lossy.mp4");
            std::fs::write(&path, &film.file).expect("written");
            let what = format!("{seed} {layout:?} {dependents:?}");
            assert_eq!(decode(&path), "", "{what}");
            assert_eq!(probe(&path).pictures.len(), kept, "{what}");
        }
    }
}

#[test]
fn a_stand_in_repeats_the_picture_before() {
    if !has_ffmpeg() {
        return;
    }
    let index = bikes();
    let track = &index.tracks[0];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, BIKES).expect("written");
    let whole = hashes(&path);
    assert_eq!(whole.len(), 250);
    let roles = depend::roles(track);
    for role in [Role::Anchor, Role::Between] {
        // One in the middle of a group, for each role.
        let lost = (60..250)
            .find(|&at| roles[at] == role)
            .expect("there are some");
        let shown = track.presentation_time(&track.samples[lost]);
        let film = merged(
            &index,
            BIKES,
            Layout::Stable,
            Dependents::PassOn,
            &|_, at| at != lost,
        );
        assert_eq!((film.left_out.total(), film.replaced.total()), (1, 1));
        std::fs::write(&path, &film.file).expect("written");
        let lossy = hashes(&path);
        assert_eq!(lossy.len(), 250);
        // The last frame that was decoded before it and shown before it.
        let before = (0..lost)
            .filter(|&at| track.samples[at].is_referenced)
            .map(|at| track.presentation_time(&track.samples[at]))
            .filter(|&at| at < shown)
            .max()
            .expect("the film has begun");
        assert_eq!(lossy[&shown], whole[&before], "{role:?}");
        assert_ne!(lossy[&shown], whole[&shown], "{role:?}");
        // Frames before and after its group are not affected.
        let next = (lost..250).find(|&at| roles[at] == Role::Key);
        let key = track.presentation_time(&track.samples[next.expect("a later group")]);
        for (time, hash) in &whole {
            if *time < before || *time >= key {
                assert_eq!(lossy[time], *hash, "{role:?} at {time}");
            }
        }
    }
}

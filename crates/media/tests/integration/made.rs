//! Files made by ffmpeg, each compared with ffprobe: types, times, and the output written from them.

#![allow(
    clippy::disallowed_methods,
    reason = "ffmpeg writes and reads files; the crate itself does no I/O"
)]

use crate::common;

use std::path::Path;

use anabranch_media::{FrameType, Index, TrackKind, depend::Dependents, write::Layout};
use common::{Probe, decode, ffmpeg, has_ffmpeg, hashes, merged, probe};

const PICTURES: &str = "-f lavfi -i testsrc2=size=192x112:rate=25:duration=2";
const SOUND: &str = "-f lavfi -i sine=frequency=440:sample_rate=44100:duration=2";
const H264: &str = "-pix_fmt yuv420p -c:v libx264 -preset fast -g 25";

/// Makes a file, reads it, and compares types and times with ffprobe's; then writes it again, whole, in both
/// layouts, and compares once more. `None` where an encoder is missing.
fn check(arguments: &str) -> Option<Index> {
    check_named(arguments, "made.mp4")
}

fn check_named(arguments: &str, name: &str) -> Option<Index> {
    if !has_ffmpeg() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    if !ffmpeg(arguments, &path) {
        return None;
    }
    let bytes = std::fs::read(&path).expect("a file");
    let index = common::read(&bytes);
    let before = probe(&path);
    compare(&index, &before, arguments);
    let is_there = &|_, _| true;
    let original = path;
    let path = folder.path().join("merged.mp4");
    for layout in [Layout::Compact, Layout::Stable] {
        let whole = merged(&index, &bytes, layout, Dependents::default(), is_there);
        assert_eq!(whole.left_out.total(), 0, "{arguments}");
        std::fs::write(&path, whole.file).expect("written");
        // Both layouts contain the same bytes.
        if layout == Layout::Compact {
            assert_eq!(decode(&path), "", "{arguments}");
        }
        let after = probe(&path);
        compare(&index, &after, arguments);
        assert_eq!(before.pictures.len(), after.pictures.len(), "{arguments}");
        // ffmpeg shows fragments with negative offsets one picture late; those written here have none.
        let is_late = arguments.contains("negative_cts") || arguments.contains("cmaf");
        for (one, other) in before.pictures.iter().zip(&after.pictures) {
            let late = one.1 - other.1;
            let is_same = late.abs() < 0.001 || is_late && (late - 0.04).abs() < 0.001;
            assert!(is_same, "{arguments}: {one:?} {other:?}");
        }
    }
    lose(&index, &bytes, &path, arguments);
    lose_disposable(&index, &bytes, &path, &original, arguments);
    Some(index)
}

/// Drops every seventh enhanced frame: decoders report nothing about the result.
fn lose(index: &Index, bytes: &[u8], path: &Path, made: &str) {
    let is_there = |track: usize, at: usize| {
        let sample = &index.tracks[track].samples[at];
        sample.frame == FrameType::Intra || sample.frame == FrameType::Audio || at % 7 != 3
    };
    let film = merged(
        index,
        bytes,
        Layout::Stable,
        Dependents::default(),
        &is_there,
    );
    std::fs::write(path, &film.file).expect("written");
    assert_eq!(decode(path), "", "{made}, with losses");
    let video = &index.tracks[index.video()];
    let shown = video.samples.len() as u32 + film.replaced.total() - film.left_out.total();
    assert_eq!(
        probe(path).pictures.len(),
        shown as usize,
        "{made}, with losses"
    );
}

/// Drops every frame marked as disposable: the others are identical to the bit.
fn lose_disposable(index: &Index, bytes: &[u8], path: &Path, whole: &Path, made: &str) {
    let is_there = |track: usize, at: usize| {
        let sample = &index.tracks[track].samples[at];
        sample.is_referenced || sample.frame == FrameType::Audio
    };
    let film = merged(
        index,
        bytes,
        Layout::Compact,
        Dependents::default(),
        &is_there,
    );
    assert_eq!(film.replaced.total(), 0, "{made}");
    std::fs::write(path, &film.file).expect("written");
    // ffmpeg shows fragments with negative offsets at other times.
    if made.contains("negative_cts") || made.contains("cmaf") {
        return;
    }
    let (before, after) = (hashes(whole), hashes(path));
    let video = &index.tracks[index.video()];
    let disposable = video.samples.iter().filter(|s| s.is_disposable()).count();
    assert_eq!(after.len(), before.len() - disposable, "{made}");
    for (time, hash) in &after {
        assert_eq!(before.get(time), Some(hash), "{made}, {time}");
    }
}

/// Types in the order in which pictures are shown; sizes and keys of packets in decode order.
fn compare(index: &Index, probe: &Probe, made: &str) {
    let track = &index.tracks[index.video()];
    let mut shown: Vec<_> = track.samples.iter().collect();
    shown.sort_by_key(|sample| track.presentation_time(sample));
    // A gradual refresh begins with a P frame from which decoding can begin: the index counts it as an I frame.
    let is_gradual = made.contains("intra-refresh");
    assert_eq!(shown.len(), probe.pictures.len(), "{made}");
    for (at, (sample, picture)) in shown.iter().zip(&probe.pictures).enumerate() {
        let is_same = sample.frame.letter() == picture.0;
        assert!(
            is_same || is_gradual && sample.is_sync,
            "{made}: {at}: {sample:?} {picture:?}"
        );
    }
    assert_eq!(index.tracks.len(), probe.packets.len(), "{made}");
    for (track, packets) in index.tracks.iter().zip(&probe.packets) {
        let ours = track.samples.iter().map(|s| (s.size, s.is_sync));
        assert!(
            ours.eq(packets.iter().copied()),
            "{made}: track {}",
            track.id
        );
    }
}

#[test]
fn h264_with_b_frames() {
    let Some(index) = check(&format!("{PICTURES} {H264} -bf 2")) else {
        return;
    };
    assert_eq!(index.tracks[0].count(FrameType::Intra), 2);
    assert!(index.tracks[0].count(FrameType::Bidirectional) > 15);
}

#[test]
fn h264_pyramid_open_groups_and_slices() {
    check(&format!(
        "{PICTURES} {H264} -bf 5 -x264-params b-pyramid=normal"
    ));
    check(&format!("{PICTURES} {H264} -bf 3 -x264-params open-gop=1"));
    check(&format!("{PICTURES} {H264} -bf 3 -x264-params slices=4"));
    check(&format!("{PICTURES} {H264} -bf 0 -tune zerolatency"));
    check(&format!(
        "{PICTURES} {H264} -x264-params intra-refresh=1:keyint=25"
    ));
    check(&format!("{PICTURES} {H264} -flags +ildct+ilme"));
}

#[test]
fn fragmented() {
    for flags in [
        "frag_keyframe+empty_moov",
        "frag_keyframe+empty_moov+default_base_moof",
        "cmaf+frag_keyframe",
        "frag_keyframe+negative_cts_offsets",
        "frag_keyframe",
        "dash+delay_moov+frag_keyframe",
    ] {
        check(&format!(
            "{PICTURES} {SOUND} {H264} -bf 2 -c:a aac -movflags {flags}"
        ));
    }
    // Its audio times are wrong in every second fragment.
    let flags = "frag_every_frame+empty_moov+omit_tfhd_offset";
    check(&format!("{PICTURES} {H264} -bf 2 -movflags {flags}"));
}

#[test]
fn with_audio() {
    for (sound, codec) in [
        ("aac", "mp4a.40.2"),
        ("libopus", "opus"),
        ("flac -strict -2", "fLaC"),
        ("ac3", "ac-3"),
        ("libmp3lame", "mp4a.6B"),
    ] {
        let made = format!("{PICTURES} {SOUND} {H264} -bf 2 -c:a {sound}");
        let Some(index) = check(&made) else {
            continue;
        };
        let track = &index.tracks[1];
        assert_eq!(track.codec, codec);
        assert_eq!(track.count(FrameType::Audio), track.samples.len());
        if matches!(sound, "aac" | "libopus") {
            assert!(matches!(track.kind, TrackKind::Audio { channels: 1, .. }));
        }
        assert!(track.samples.iter().all(|s| s.is_sync && s.is_disposable()));
    }
}

#[test]
fn moov_first_late_audio_and_two_audio_tracks() {
    check(&format!(
        "{PICTURES} {SOUND} {H264} -c:a aac -movflags faststart"
    ));
    check(&format!(
        "{PICTURES} -itsoffset 0.7 {SOUND} {H264} -c:a aac"
    ));
    check(&format!(
        "{PICTURES} {SOUND} {SOUND} -map 0 -map 1 -map 2 {H264} -c:a aac -metadata:s:a:0 language=deu"
    ));
    check(&format!(
        "{PICTURES} {H264} -aspect 4:3 -video_track_timescale 30000"
    ));
}

#[test]
fn h265() {
    let x265 = "-pix_fmt yuv420p -c:v libx265 -preset fast -tag:v hvc1 -x265-params log-level=none";
    for parameters in [
        "keyint=25:bframes=4:b-pyramid=1",
        "keyint=25:bframes=3:open-gop=1",
        "keyint=25:bframes=0",
        "keyint=25:temporal-layers=1:bframes=3",
    ] {
        let Some(index) = check(&format!("{PICTURES} {x265}:{parameters}")) else {
            return;
        };
        let track = &index.tracks[0];
        assert!(track.codec.starts_with("hvc1.1."), "{}", track.codec);
        let disposable = track.samples.iter().filter(|s| s.is_disposable()).count();
        assert_eq!(
            disposable > 0,
            !parameters.contains("bframes=0"),
            "{parameters}"
        );
    }
}

#[test]
fn av1() {
    let pixels = "-pix_fmt yuv420p -g 25";
    for encoder in ["libsvtav1 -preset 10", "libaom-av1 -cpu-used 8"] {
        let Some(index) = check(&format!("{PICTURES} {pixels} -c:v {encoder}")) else {
            continue;
        };
        assert!(index.tracks[0].codec.starts_with("av01.0."));
    }
}

#[test]
fn quicktime() {
    let made = format!("{PICTURES} {SOUND} {H264} -bf 2 -c:a aac");
    if let Some(index) = check_named(&made, "made.mov") {
        assert_eq!(index.tracks[1].codec, "mp4a.40.2");
    }
}

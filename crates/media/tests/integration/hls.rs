//! Playlists: their text, and their playback by ffmpeg.

#![allow(
    clippy::disallowed_methods,
    reason = "ffmpeg writes and reads files; the crate itself does no I/O"
)]

use crate::common;

use std::time::Duration;

use anabranch_media::{
    Chunk, FrameType, Index,
    chunk::chunks,
    hls,
    write::{Layout, Options, fragment, fragment_bytes, init_segment},
};
use bytes::Bytes;
use common::{bikes, decode, ffmpeg, has_ffmpeg, probe};

#[test]
fn text_of_a_film_without_audio() {
    let index = bikes();
    let chunks = chunks(&index, Duration::from_secs(2));
    let master = hls::master_playlist(&index, &chunks, &|track| format!("{track}.m3u8"));
    // Largest segment, and the mean.
    let bits = |chunk: &Chunk| 8.0 * fragment_bytes(&index, &[0], chunk, Layout::Compact) as f64;
    let peak = chunks
        .iter()
        .map(|chunk| bits(chunk) / chunk.duration.as_secs_f64());
    let peak = peak.fold(0.0, f64::max) as u64;
    let mean = (chunks.iter().map(bits).sum::<f64>() / 10.0) as u64;
    assert!(mean < peak && peak < 2 * mean, "{mean} {peak}");
    let expected = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\
        #EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={mean},CODECS=\"avc1.640015\",\
        RESOLUTION=640x272,FRAME-RATE=25.000\n0.m3u8\n"
    );
    assert_eq!(master, expected);
    let list = hls::media_playlist(&index, 0, &chunks, "init.mp4", &|n| format!("{n}.m4s"));
    let expected = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:3\n#EXT-X-MEDIA-SEQUENCE:0\n\
        #EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4\"\n";
    assert!(list.starts_with(expected), "{list}");
    assert!(list.ends_with("#EXT-X-ENDLIST\n"), "{list}");
    let lengths = list
        .lines()
        .filter_map(|line| line.strip_prefix("#EXTINF:"));
    let lengths = lengths.map(|text| text.trim_end_matches(',').parse::<f64>().expect("seconds"));
    let total: f64 = lengths.sum();
    assert!((total - 10.0).abs() < 1e-6, "{total}");
}

#[test]
fn ffmpeg_plays_video_and_audio() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("film.mp4");
    let made = "-f lavfi -i testsrc2=size=192x112:rate=25:duration=5 \
        -f lavfi -i sine=frequency=440:sample_rate=44100:duration=5 \
        -pix_fmt yuv420p -c:v libx264 -preset fast -g 25 -bf 2 -c:a aac";
    if !ffmpeg(made, &path) {
        return;
    }
    let bytes = std::fs::read(&path).expect("a file");
    let index: Index = common::read(&bytes);
    let chunks = chunks(&index, Duration::from_secs(2));
    let write = |name: String, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    };
    let master = hls::master_playlist(&index, &chunks, &|track| format!("{track}.m3u8"));
    assert!(
        master.contains("CODECS=\"avc1.64000b,mp4a.40.2\""),
        "{master}"
    );
    write("master.m3u8".into(), master.as_bytes());
    for (track, content) in index.tracks.iter().enumerate() {
        let init = format!("{track}-init.mp4");
        let uri = |number: u32| format!("{track}-{number}.m4s");
        let list = hls::media_playlist(&index, track, &chunks, &init, &uri);
        write(format!("{track}.m3u8"), list.as_bytes());
        write(init, &init_segment(&index, &[track]));
        // One frame in eleven is missing, except keys and audio.
        let get = |track: usize, at: usize| {
            let sample = &index.tracks[track].samples[at];
            let is_there = sample.is_sync || at % 11 != 5;
            let range = sample.offset as usize..sample.end() as usize;
            is_there.then(|| Bytes::copy_from_slice(&bytes[range]))
        };
        for chunk in &chunks {
            let written = fragment(&index, &[track], chunk, &get, Options::default());
            let missing = written.missing;
            assert_eq!(
                missing.of(FrameType::Intra) + missing.of(FrameType::Audio),
                0
            );
            assert_eq!(missing.total() > 0, content.is_video());
            write(uri(chunk.number), &written.bytes);
        }
    }
    let master = folder.path().join("master.m3u8");
    assert_eq!(decode(&master), "");
    let (before, after) = (probe(&path), probe(&master));
    assert_eq!(after.packets.len(), 2);
    // ffmpeg puts the lists in any order; the audio is complete.
    assert!(after.packets.contains(&before.packets[1]));
    // The available pictures keep their presentation times.
    let times: Vec<f64> = before.pictures.iter().map(|picture| picture.1).collect();
    assert!(after.pictures.len() > times.len() / 2);
    for (_, time) in &after.pictures {
        assert!(times.iter().any(|one| (one - time).abs() < 0.001), "{time}");
    }
}

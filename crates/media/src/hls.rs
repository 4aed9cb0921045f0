//! Playlists (RFC 8216): CMAF chunks, with video and audio in playlists of their own.

use std::{fmt::Write, time::Duration};

use anabranch_base::Rate;

use crate::{
    chunk::Chunk,
    index::{Index, Track, TrackKind, time},
    write::{Layout, fragment_bytes},
};

/// Writes the master playlist. `uri` gives the address of a track's media playlist by the track's position, relative to
/// the address of this one.
pub fn master_playlist(index: &Index, chunks: &[Chunk], uri: &dyn Fn(usize) -> String) -> String {
    let video = index.video();
    let sounds: Vec<usize> = (0..index.tracks.len())
        .filter(|&place| !index.tracks[place].is_video())
        .collect();
    let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
    if chunks.iter().all(|chunk| chunk.is_independent) {
        text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    for (number, &place) in sounds.iter().enumerate() {
        let track = &index.tracks[place];
        let language = String::from_utf8_lossy(&track.language);
        let is_first = if number == 0 { "YES" } else { "NO" };
        let channels = match track.kind {
            TrackKind::Audio { channels, .. } => channels,
            TrackKind::Video { .. } => 0,
        };
        let _ = writeln!(
            text,
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"{} {language}\",LANGUAGE=\"{language}\",\
             DEFAULT={is_first},AUTOSELECT=YES,CHANNELS=\"{channels}\",URI=\"{}\"",
            number + 1,
            uri(place),
        );
    }
    // A player plays the video and one audio track.
    let rate = |place: usize| rates(index, place, chunks);
    let (mut peak, mut mean) = rate(video);
    if let Some((sound_peak, sound_mean)) = sounds.iter().map(|&place| rate(place)).max() {
        peak = peak + sound_peak;
        mean = mean + sound_mean;
    }
    let mut codecs = vec![index.tracks[video].codec.as_str()];
    for &place in &sounds {
        let codec = index.tracks[place].codec.as_str();
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    let _ = write!(
        text,
        "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
        peak.as_bps().max(1),
        mean.as_bps().max(1),
        codecs.join(",")
    );
    let track = &index.tracks[video];
    if let TrackKind::Video { width, height } = track.kind {
        let _ = write!(text, ",RESOLUTION={width}x{height}");
    }
    if let Some(rate) = frame_rate(track) {
        let _ = write!(text, ",FRAME-RATE={rate:.3}");
    }
    if !sounds.is_empty() {
        text.push_str(",AUDIO=\"sound\"");
    }
    let _ = writeln!(text, "\n{}", uri(video));
    text
}

/// Writes the media playlist of one track, by position. `init` is the address of its init segment; `uri` gives the
/// address of a chunk's fragment by the chunk's number. Chunks without samples of the track are not listed.
pub fn media_playlist(
    index: &Index,
    track: usize,
    chunks: &[Chunk],
    init: &str,
    uri: &dyn Fn(u32) -> String,
) -> String {
    let listed = || {
        let chunks = chunks.iter();
        chunks.filter(|chunk| !chunk.samples[track].is_empty())
    };
    let longest = listed()
        .map(|chunk| playing_time(index, track, chunk))
        .max();
    // Rounded to the nearest second, no segment may be longer (RFC 8216 §4.3.3.1).
    let target = longest.unwrap_or_default().as_secs_f64().round().max(1.0);
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{target:.0}\n#EXT-X-MEDIA-SEQUENCE:0\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n"
    );
    if listed().all(|chunk| chunk.is_independent || !index.tracks[track].is_video()) {
        text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    let _ = writeln!(text, "#EXT-X-MAP:URI=\"{init}\"");
    for chunk in listed() {
        let seconds = playing_time(index, track, chunk).as_secs_f64();
        let _ = writeln!(text, "#EXTINF:{seconds:.6},\n{}", uri(chunk.number));
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}

/// Playing time of the samples of one track in a chunk.
fn playing_time(index: &Index, track: usize, chunk: &Chunk) -> Duration {
    let content = &index.tracks[track];
    let range = &chunk.samples[track];
    let units = content.decode_end(range.end) - content.decode_end(range.start);
    time(units, content.timescale)
}

/// Largest rate of a complete segment, and the mean rate.
fn rates(index: &Index, track: usize, chunks: &[Chunk]) -> (Rate, Rate) {
    let bytes = |chunk: &Chunk| fragment_bytes(index, &[track], chunk, Layout::Compact);
    let rate = |chunk: &Chunk| {
        let playing = playing_time(index, track, chunk).max(Duration::from_millis(1));
        Rate::from_bytes_per(bytes(chunk), playing)
    };
    let peak = chunks.iter().map(rate).max().unwrap_or(Rate::ZERO);
    let all: u64 = chunks.iter().map(bytes).sum();
    let mean = Rate::from_bytes_per(all, index.tracks[track].duration());
    (peak, mean)
}

/// Pictures per second.
fn frame_rate(track: &Track) -> Option<f64> {
    let seconds = track.duration().as_secs_f64();
    (seconds > 0.0).then(|| track.samples.len() as f64 / seconds)
}

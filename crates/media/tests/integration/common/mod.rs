//! Test files: the one in the test data, and those that ffmpeg makes.
#![allow(dead_code, reason = "each test module uses a part")]

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use anabranch_media::{
    Index,
    chunk::chunks,
    depend::Dependents,
    write::{Counts, Layout, Options, Progressive, fragment, fragment_bytes, init_segment},
};
use bytes::Bytes;

pub(crate) const BIKES: &[u8] = include_bytes!("../../data/bikes.mp4");

pub(crate) fn read(bytes: &[u8]) -> Index {
    let mut file = bytes;
    Index::read(&mut file, bytes.len() as u64).expect("a readable file")
}

pub(crate) fn bikes() -> Index {
    read(BIKES)
}

/// True if ffmpeg and ffprobe are installed; prints a line if not.
pub(crate) fn has_ffmpeg() -> bool {
    let there = ["ffmpeg", "ffprobe"]
        .iter()
        .all(|tool| Command::new(tool).arg("-version").output().is_ok());
    if !there {
        eprintln!("skipped: no ffmpeg");
    }
    there
}

/// Runs ffmpeg on a file; `false` if it fails (an encoder that this build lacks).
pub(crate) fn ffmpeg(arguments: &str, output: &Path) -> bool {
    let result = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y"])
        .args(arguments.split_whitespace())
        .arg(output)
        .output()
        .expect("ffmpeg runs");
    if !result.status.success() {
        let text = String::from_utf8_lossy(&result.stderr);
        eprintln!(
            "skipped: ffmpeg {arguments}: {}",
            text.lines().next().unwrap_or("")
        );
    }
    result.status.success()
}

/// Messages of ffmpeg while it decodes a whole file.
pub(crate) fn decode(path: &Path) -> String {
    let result = Command::new("ffmpeg")
        .args(["-v", "warning", "-nostdin", "-threads", "1", "-i"])
        .arg(path)
        .args(["-map", "0", "-f", "null", "-"])
        .output()
        .expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success(), "{}: {text}", path.display());
    text
}

/// Streams of a file as ffprobe reports them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Probe {
    /// Type letter and time of the decoded pictures, in the order in which they are shown.
    pub(crate) pictures: Vec<(char, f64)>,
    /// Size and key flag of each stream's packets, in decode order.
    pub(crate) packets: Vec<Vec<(u32, bool)>>,
}

pub(crate) fn probe(path: &Path) -> Probe {
    let entries = "packet=stream_index,size,flags:frame=media_type,pict_type,pts_time";
    let result = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-threads",
            "1",
            "-show_packets",
            "-show_frames",
        ])
        .args(["-show_entries", entries, "-of", "compact"])
        .arg(path)
        .output()
        .expect("ffprobe runs");
    let mut probe = Probe::default();
    for line in String::from_utf8_lossy(&result.stdout).lines() {
        let field = |name: &str| {
            let mut fields = line.split('|').filter_map(|field| field.split_once('='));
            fields.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if line.starts_with("packet|") {
            let stream: usize = field("stream_index")
                .expect("a stream")
                .parse()
                .expect("a number");
            let size = field("size").expect("a size").parse().expect("a number");
            let is_key = field("flags").expect("flags").starts_with('K');
            if probe.packets.len() <= stream {
                probe.packets.resize(stream + 1, Vec::new());
            }
            probe.packets[stream].push((size, is_key));
        } else if field("media_type") == Some("video") {
            let letter = field("pict_type").and_then(|letters| letters.chars().next());
            let time = field("pts_time").and_then(|time| time.parse().ok());
            let picture = (letter.unwrap_or('?'), time.unwrap_or(f64::NAN));
            probe.pictures.push(picture);
        }
    }
    probe
}

/// A film as written.
pub(crate) struct Merged {
    pub(crate) file: Vec<u8>,
    pub(crate) left_out: Counts,
    pub(crate) replaced: Counts,
}

/// Writes a whole progressive file of the available samples; returns also what was left out.
pub(crate) fn merged(
    index: &Index,
    data: &[u8],
    layout: Layout,
    dependents: Dependents,
    is_there: &dyn Fn(usize, usize) -> bool,
) -> Merged {
    let tracks: Vec<usize> = (0..index.tracks.len()).collect();
    let chunks = chunks(index, Duration::from_secs(2));
    let places = Progressive::new(index, &tracks, &chunks);
    let mut file = match layout {
        Layout::Stable => places.head().to_vec(),
        Layout::Compact => init_segment(index, &tracks).to_vec(),
    };
    let get = |track: usize, sample: usize| {
        let sample_at = &index.tracks[track].samples[sample];
        let range = sample_at.offset as usize..sample_at.end() as usize;
        is_there(track, sample).then(|| Bytes::copy_from_slice(&data[range]))
    };
    let mut left_out = Counts::default();
    let mut replaced = Counts::default();
    for (number, chunk) in chunks.iter().enumerate() {
        let fragment = fragment(index, &tracks, chunk, &get, Options { layout, dependents });
        if layout == Layout::Stable {
            let place = places.place(number);
            assert_eq!(place.start, file.len() as u64);
            assert_eq!(place.end - place.start, fragment.bytes.len() as u64);
        } else if fragment.left_out.total() == 0 {
            let bytes = fragment_bytes(index, &tracks, chunk, Layout::Compact);
            assert_eq!(bytes, fragment.bytes.len() as u64);
        }
        left_out += fragment.left_out;
        replaced += fragment.replaced;
        file.extend_from_slice(&fragment.bytes);
    }
    if layout == Layout::Stable {
        assert_eq!(file.len() as u64, places.bytes());
    }
    Merged {
        file,
        left_out,
        replaced,
    }
}

/// Presentation time of each picture (in 1/12,800 s), and a hash of its content.
pub(crate) fn hashes(path: &Path) -> BTreeMap<i64, String> {
    let result = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-threads", "1", "-copyts", "-i"])
        .arg(path)
        .args(["-map", "0:v:0"])
        .args([
            "-fps_mode",
            "passthrough",
            "-enc_time_base",
            "1:12800",
            "-f",
            "framemd5",
            "-",
        ])
        .output()
        .expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            (fields[2].parse().expect("a time"), fields[5].to_owned())
        })
        .collect()
}

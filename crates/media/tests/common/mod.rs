//! Files to read: the one beside the tests, and those that ffmpeg makes.
#![allow(dead_code, reason = "every test program uses a part")]

use std::{path::Path, process::Command};

use anabranch_media::Index;

pub(crate) const BIKES: &[u8] = include_bytes!("../data/bikes.mp4");

pub(crate) fn read(bytes: &[u8]) -> Index {
    let mut file = bytes;
    Index::read(&mut file, bytes.len() as u64).expect("a readable file")
}

pub(crate) fn bikes() -> Index {
    read(BIKES)
}

/// Whether ffmpeg and ffprobe are there; says so in one line if not.
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

/// What ffmpeg says while it decodes everything, and how many pictures it gets.
pub(crate) fn decode(path: &Path) -> (String, usize) {
    let result = Command::new("ffmpeg")
        .args(["-v", "warning", "-nostdin", "-i"])
        .arg(path)
        .args(["-map", "0", "-f", "null", "-"])
        .output()
        .expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success(), "{}: {text}", path.display());
    (text, pictures(path).len())
}

/// The type letters of the decoded pictures, in the order in which they are shown.
pub(crate) fn pictures(path: &Path) -> Vec<(char, f64)> {
    let result = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v:0", "-of", "csv=p=0"])
        .args(["-show_entries", "frame=pict_type,pts_time"])
        .arg(path)
        .output()
        .expect("ffprobe runs");
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut fields = line.split(',');
            let time = fields.next().and_then(|field| field.parse().ok());
            let letter = fields.next().and_then(|field| field.chars().next());
            (letter.unwrap_or('?'), time.unwrap_or(f64::NAN))
        })
        .collect()
}

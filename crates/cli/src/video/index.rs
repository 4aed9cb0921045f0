//! `anabranch video index`: the contents of a video file.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use anabranch_video::{
    media::{FrameType, Index, Part, Track, TrackKind},
    video::{Video, policy_text},
};
use serde_json::{Value, json};

use super::Dividing;
use crate::exit::{Failure, Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Video file.
    file: PathBuf,
    /// Print JSON: rates in bit/s, times in seconds, sizes in bytes.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dividing: Dividing,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    let failed =
        |error: &dyn std::fmt::Display| Failure::file(format!("{}: {error}", path.display()));
    let division = arguments.dividing.division()?;
    let mut file = File::open(path).map_err(|error| failed(&error))?;
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        return Err(failed(&"this is not a regular file; give one video"));
    }
    let bytes = metadata.len();
    let mut read = |offset: u64, into: &mut [u8]| {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    };
    let index = Index::read(&mut read, bytes).map_err(|error| failed(&error))?;
    let video = Video::new("", "", index, division);
    if arguments.json {
        return print_line(&json_of(&video).to_string());
    }
    for line in lines(&video) {
        print_line(&line)?;
    }
    Ok(())
}

fn json_of(video: &Video) -> Value {
    let tracks = video.index.tracks.iter().map(|track| {
        let counts = FrameType::ALL.into_iter().map(|frame| {
            let count = track.count(frame);
            (frame.letter().to_string(), json!(count))
        });
        let counts: serde_json::Map<String, Value> = counts.collect();
        json!({
            "id": track.id,
            "codec": track.codec,
            "is_video": track.is_video(),
            "duration_s": track.duration().as_secs_f64(),
            "bytes": track.bytes(),
            "frames": counts,
        })
    });
    let segments = &video.segments;
    let flow = |part| {
        json!({
            "bytes": video.partition.bytes(&video.index, part),
            "rate_bps": video.partition.rate(&video.index, part).as_bps(),
            "rate_max_bps": segments.rate_max(part).as_bps(),
        })
    };
    let listed = segments.segments.iter().map(|segment| {
        json!({
            "essential_bytes": segment.essential_bytes,
            "enhanced_bytes": segment.enhanced_bytes,
            "essential_frames": segment.essential_samples,
            "enhanced_frames": segment.enhanced_samples,
        })
    });
    json!({
        "duration_s": video.index.duration.as_secs_f64(),
        "bytes": video.index.file_bytes,
        "tracks": tracks.collect::<Vec<_>>(),
        "policy": policy_text(video.division.policy),
        "essential": flow(Part::Essential),
        "enhanced": flow(Part::Enhanced),
        "chunks": video.count(),
        "segment_s": segments.length.as_secs_f64(),
        "segments": listed.collect::<Vec<_>>(),
    })
}

fn lines(video: &Video) -> Vec<String> {
    let index = &video.index;
    let mut lines = vec![format!(
        "{:.1} s, {:.2} MB",
        index.duration.as_secs_f64(),
        index.file_bytes as f64 / 1e6
    )];
    lines.extend(index.tracks.iter().map(track_line));
    for (name, part) in [("essential", Part::Essential), ("enhanced", Part::Enhanced)] {
        lines.push(format!(
            "{name:<9} {:>12} on average, {:>12} in the largest segment",
            video.partition.rate(index, part).to_string(),
            video.segments.rate_max(part).to_string()
        ));
    }
    let segments = &video.segments;
    lines.push(format!(
        "{} chunks; {} segments of {:.0} s:",
        video.count(),
        segments.segments.len(),
        segments.length.as_secs_f64()
    ));
    lines.push("  segment  essential           enhanced".to_owned());
    for (number, _) in segments.segments.iter().enumerate() {
        let rate = |part| segments.rate(number, part).to_string();
        lines.push(format!(
            "  {number:>7}  {:<18}  {}",
            rate(Part::Essential),
            rate(Part::Enhanced)
        ));
    }
    lines
}

fn track_line(track: &Track) -> String {
    let kind = match track.kind {
        TrackKind::Video { width, height } => format!("{width}×{height}"),
        TrackKind::Audio {
            channels,
            sample_rate,
        } => format!("{channels} channels, {sample_rate} Hz"),
    };
    let counts = FrameType::ALL
        .into_iter()
        .map(|frame| (frame, track.count(frame)));
    let counts: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(frame, count)| format!("{count} {}", frame.letter()))
        .collect();
    format!(
        "track {} {} {kind}, {:.2} MB: {}",
        track.id,
        track.codec,
        track.bytes() as f64 / 1e6,
        counts.join(", ")
    )
}

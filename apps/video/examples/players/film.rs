//! A film of a given rate, made by ffmpeg: H.264 with B frames, and sound.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Outcome;

/// Rate of the sound, in kbit/s.
const SOUND_KBPS: u32 = 96;

pub(crate) fn make(folder: &Path, seconds: u32, rate_kbps: u32) -> Outcome<PathBuf> {
    let path = folder.join("film.mp4");
    let picture = format!("{}k", rate_kbps.saturating_sub(SOUND_KBPS).max(100));
    let pattern = format!("testsrc2=size=640x360:rate=25:duration={seconds},noise=alls=14:allf=t");
    let made = Command::new("ffmpeg")
        .args([
            "-hide_banner",
            "-loglevel",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            &pattern,
        ])
        .args([
            "-f",
            "lavfi",
            "-i",
            &format!("sine=frequency=440:duration={seconds}"),
        ])
        .args([
            "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p",
        ])
        .args([
            "-g", "50", "-bf", "3", "-b:v", &picture, "-maxrate", &picture,
        ])
        .args([
            "-bufsize",
            &picture,
            "-c:a",
            "aac",
            "-b:a",
            &format!("{SOUND_KBPS}k"),
        ])
        .args(["-movflags", "+faststart"])
        .arg(&path)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| {
            format!("ffmpeg, which makes the film: {error}; or name one with --film")
        })?;
    if !made.success() {
        return Err("ffmpeg could not make the film".into());
    }
    let bytes = std::fs::metadata(&path)?.len();
    let rate = bytes as f64 * 8e-3 / f64::from(seconds);
    println!("film: {seconds} s, {rate:.0} kbit/s");
    Ok(path)
}

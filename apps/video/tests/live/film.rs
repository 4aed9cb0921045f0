//! A film: made by ffmpeg with B frames and sound, or the one in the repository.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// True if a program can be started.
pub(crate) fn has(program: &str) -> bool {
    let run = Command::new(program)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// A film of so many seconds made by ffmpeg; the repository's film where there is no ffmpeg.
pub(crate) fn film(seconds: u32) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/media/tests/data/bikes.mp4");
    if !has("ffmpeg") {
        println!("ffmpeg is not installed: the film of the repository is used");
        return own;
    }
    let _making = MAKING.lock().unwrap();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap());
    let path = folder.path().join(format!("film-{seconds}.mp4"));
    if !path.exists() {
        let made = Command::new("ffmpeg")
            .args([
                "-hide_banner",
                "-loglevel",
                "error",
                "-y",
                "-f",
                "lavfi",
                "-i",
            ])
            .arg(format!("testsrc2=size=480x270:rate=25:duration={seconds}"))
            .args(["-f", "lavfi", "-i"])
            .arg(format!("sine=frequency=440:duration={seconds}"))
            .args([
                "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "50",
            ])
            .args([
                "-bf",
                "3",
                "-b:v",
                "900k",
                "-c:a",
                "aac",
                "-b:a",
                "64k",
                "-movflags",
                "+faststart",
            ])
            .arg(&path)
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "ffmpeg makes the film");
    }
    path
}

/// Counts of ffprobe: frames by type in decoding order of the first video stream, and its packets of sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) intra: usize,
    pub(crate) predicted: usize,
    pub(crate) bidirectional: usize,
    pub(crate) sound: usize,
}

impl Seen {
    pub(crate) fn pictures(&self) -> usize {
        self.intra + self.predicted + self.bidirectional
    }
}

/// Runs ffprobe over a file or an address.
pub(crate) async fn probe(input: &str) -> Seen {
    let run = tokio::process::Command::new("ffprobe")
        .args(["-hide_banner", "-loglevel", "error", "-show_entries"])
        .args(["frame=media_type,pict_type", "-of", "csv=p=0", input])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(super::setting::TIMEOUT, run)
        .await
        .expect("ffprobe ends")
        .unwrap();
    let mut seen = Seen::default();
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let mut fields = line.split(',');
        match (fields.next(), fields.next()) {
            (Some("video"), Some("I")) => seen.intra += 1,
            (Some("video"), Some("P")) => seen.predicted += 1,
            (Some("video"), Some("B")) => seen.bidirectional += 1,
            (Some("audio"), _) => seen.sound += 1,
            _ => {}
        }
    }
    seen
}

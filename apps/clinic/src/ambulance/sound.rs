//! Packets of speech from a file of Opus, as it is, or from an ffmpeg process that encodes.

use std::path::{Path, PathBuf};

use tokio::{
    io::AsyncReadExt as _,
    time::{Instant, sleep_until},
};

use super::film::{begun, ended, words};
use crate::{
    error::ClinicError,
    speech::{PACKET_TIME, Source, SpeechError},
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 8 << 10;
/// Rate at which speech is encoded, as an option of ffmpeg.
const RATE: &str = "24k";

/// Source of the speech.
#[derive(Clone, Debug, PartialEq)]
pub enum Sound {
    /// A file of Opus with packets of 20 ms (Ogg), played as it is.
    File(PathBuf),
    /// A process that writes such a file to its standard output, in time.
    Process {
        /// Name or path of the program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl Sound {
    /// The process ffmpeg that encodes its input, which comes in time.
    pub fn ffmpeg(input: &[String]) -> Self {
        let before = words(&["-nostdin", "-loglevel", "error"]);
        let encoded = words(&["-vn", "-ac", "1", "-ar", "48000", "-c:a", "libopus"]);
        let speech = words(&[
            "-b:a",
            RATE,
            "-application",
            "voip",
            "-frame_duration",
            "20",
        ]);
        // Each packet at once.
        let format = [
            "-page_duration",
            "20000",
            "-flush_packets",
            "1",
            "-f",
            "ogg",
            "-",
        ];
        Self::Process {
            program: "ffmpeg".to_owned(),
            arguments: [before, input.to_vec(), encoded, speech, words(&format)].concat(),
        }
    }

    /// A file: as it is, if it is one of Opus with packets of 20 ms; else by ffmpeg. O(bytes of the file).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, ClinicError> {
        use std::io::Read as _;
        let failed = |why| ClinicError::file(path, why);
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let (mut source, mut piece) = (Source::default(), vec![0; PIECE_BYTES]);
        let is_speech = loop {
            let read = file.read(&mut piece).map_err(failed)?;
            if read == 0 {
                break source.finish().is_ok();
            }
            if source.push(&piece[..read]).is_err() {
                break false;
            }
        };
        Ok(match is_speech {
            true => Self::File(path.to_owned()),
            false => {
                let file = path.display().to_string();
                Self::ffmpeg(&words(&["-re", "-i", &file]))
            }
        })
    }

    /// Plays it to its end: gives each packet at its time.
    ///
    /// # Errors
    /// The file cannot be read, the process fails, or the packets are of another length than 20 ms.
    pub async fn play(&self, mut give: impl FnMut(Vec<u8>)) -> Result<(), ClinicError> {
        match self {
            Self::File(path) => {
                let failed = |why| ClinicError::file(path, why);
                let mut file = tokio::fs::File::open(path).await.map_err(failed)?;
                let mut source = Source::default();
                let mut piece = vec![0; PIECE_BYTES];
                let mut due = Instant::now();
                loop {
                    let read = file.read(&mut piece).await.map_err(failed)?;
                    if read == 0 {
                        return Ok(source.finish()?);
                    }
                    for packet in source.push(&piece[..read])? {
                        due += PACKET_TIME;
                        sleep_until(due).await;
                        give(packet);
                    }
                }
            }
            Self::Process { program, arguments } => {
                let failed = |why| ClinicError::File {
                    file: program.clone(),
                    why,
                };
                let (process, mut output, said) = begun(program, arguments).map_err(failed)?;
                let mut source = Source::default();
                let mut piece = vec![0; PIECE_BYTES];
                let wrong: Option<SpeechError> = loop {
                    let read = output.read(&mut piece).await.map_err(failed)?;
                    if read == 0 {
                        break source.finish().err();
                    }
                    match source.push(&piece[..read]) {
                        Ok(packets) => packets.into_iter().for_each(&mut give),
                        Err(wrong) => break Some(wrong),
                    }
                };
                // One that goes on writing must end, too.
                drop(output);
                ended(program, process, wrong.map(ClinicError::from), said).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::speech::Track;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_played_in_time_and_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.opus");
        let mut track = Track::open(&path, 1).unwrap();
        for place in 0..50 {
            track.append(place, &[8, place as u8]).unwrap();
        }
        let sound = Sound::of_file(&path).unwrap();
        assert_eq!(sound, Sound::File(path.clone()));
        let (begin, mut times) = (Instant::now(), Vec::new());
        let given = |packet: Vec<u8>| times.push((packet[1], begin.elapsed()));
        sound.play(given).await.unwrap();
        assert_eq!(times.len(), 50);
        for (number, time) in times {
            let due = PACKET_TIME * u32::from(number + 1);
            assert!(
                time >= due && time < due + Duration::from_millis(20),
                "{number}: {time:?}"
            );
        }
        let other = folder.path().join("b.wav");
        std::fs::write(&other, b"RIFF").unwrap();
        assert!(matches!(Sound::of_file(&other), Ok(Sound::Process { .. })));
        let missing = Sound::of_file(&folder.path().join("c")).unwrap_err();
        assert!(missing.to_string().contains("c: "), "{missing}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sound_is_encoded_in_packets_of_20_ms() {
        let input = "sine=frequency=440:duration=1";
        let sound = Sound::ffmpeg(&words(&["-re", "-f", "lavfi", "-i", input]));
        let mut packets = 0;
        match sound.play(|_| packets += 1).await {
            // Without ffmpeg, there is nothing to test.
            Err(ClinicError::File { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => {}
            played => {
                played.unwrap();
                assert!((50..=52).contains(&packets), "{packets}");
            }
        }
        let silent = Sound::Process {
            program: "true".to_owned(),
            arguments: Vec::new(),
        };
        let words = silent.play(|_| {}).await.unwrap_err().to_string();
        assert!(words.contains("no sound in Opus"), "{words}");
    }
}

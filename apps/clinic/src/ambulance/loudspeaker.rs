//! Output of the hospital's speech: a file, or an ffmpeg process that plays it on a device.

use std::{path::PathBuf, process::Stdio};

use tokio::{io::AsyncWriteExt as _, process::Command, sync::mpsc, task::JoinSet};

use super::film::{ended, last_words, words};
use crate::{
    error::ClinicError,
    speech::{Pages, Timeline, Track},
    wire::Speech,
};

/// Packets that wait for a process; beyond, they are lost.
const WAITING_MAX: usize = 50;
/// Losses that a process conceals; a longer gap is a pause.
const CONCEALED_MAX: u64 = 10;
/// Serial number of the stream of Ogg.
const SERIAL: u32 = 1;

/// Place for what the hospital says.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A file (Ogg Opus), which is extended if it is there.
    File(PathBuf),
    /// A process that reads such a file from its standard input while it grows.
    Process {
        /// Name or path of the program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl Output {
    /// The process ffmpeg that plays on an output.
    pub fn ffmpeg(output: &[String]) -> Self {
        let input = [
            "-loglevel",
            "error",
            "-fflags",
            "nobuffer",
            "-flags",
            "low_delay",
        ];
        let begin = [
            "-probesize",
            "32",
            "-analyzeduration",
            "0",
            "-f",
            "ogg",
            "-i",
            "-",
        ];
        Self::Process {
            program: "ffmpeg".to_owned(),
            arguments: [words(&input), words(&begin), output.to_vec()].concat(),
        }
    }

    /// Opens it, or begins it.
    pub(super) fn open(self) -> Result<Loudspeaker, ClinicError> {
        match self {
            Self::File(path) => {
                let track =
                    Track::open(&path, SERIAL).map_err(|why| ClinicError::file(&path, why))?;
                Ok(Loudspeaker::File { path, track })
            }
            Self::Process { program, arguments } => {
                let failed = |why| ClinicError::File {
                    file: program.clone(),
                    why,
                };
                let mut process = Command::new(&program)
                    .args(arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(failed)?;
                let mut stdin = process.stdin.take().expect("it is piped");
                let said = process.stderr.take().expect("it is piped");
                let (input, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
                let mut task = JoinSet::new();
                task.spawn(async move {
                    let said = tokio::spawn(last_words(said));
                    while let Some(bytes) = waiting.recv().await {
                        if stdin.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                    drop(stdin);
                    ended(&program, process, None, said).await
                });
                let pages = Pages::new(SERIAL);
                let last = None;
                Ok(Loudspeaker::Process {
                    input: Some(input),
                    task,
                    pages,
                    last,
                })
            }
        }
    }
}

/// An output that is open.
#[derive(Debug)]
pub(super) enum Loudspeaker {
    File {
        path: PathBuf,
        track: Track,
    },
    Process {
        input: Option<mpsc::Sender<Vec<u8>>>,
        task: JoinSet<Result<(), ClinicError>>,
        pages: Pages,
        /// Number of the last packet.
        last: Option<u64>,
    },
}

/// Places of the packets of a session.
#[derive(Debug)]
pub(super) struct Places {
    begin: u64,
    timeline: Timeline,
}

impl Loudspeaker {
    /// A session begins, whose packets follow what is there.
    pub(super) fn begin(&mut self) -> Places {
        let begin = match self {
            Self::File { track, .. } => track.next(),
            Self::Process { last, .. } => {
                *last = None;
                0
            }
        };
        Places {
            begin,
            timeline: Timeline::default(),
        }
    }

    /// Plays a packet; packets come in order.
    pub(super) async fn play(
        &mut self,
        places: &mut Places,
        packet: &Speech,
    ) -> Result<(), ClinicError> {
        match self {
            Self::File { path, track } => {
                let place = places.timeline.place(packet.number, packet.captured_us);
                let Some(place) = place.and_then(|place| place.checked_add(places.begin)) else {
                    let why = "speech of a time that is more than a day away".to_owned();
                    return Err(ClinicError::Protocol(why));
                };
                let written = track.append(place, &packet.bytes);
                written.map_err(|why| ClinicError::file(path, why))
            }
            Self::Process {
                input,
                task,
                pages,
                last,
            } => {
                let gap = last.map_or(0, |last| {
                    packet.number.saturating_sub(last.saturating_add(1))
                });
                *last = Some(packet.number);
                let concealed = if gap > CONCEALED_MAX { 0 } else { gap };
                let bytes = pages.put(pages.next() + concealed, &packet.bytes);
                // A process that does not keep up loses packets.
                let is_closed = match input.as_ref().map(|input| input.try_send(bytes)) {
                    Some(Err(mpsc::error::TrySendError::Closed(_))) => true,
                    Some(_) => return Ok(()),
                    None => false,
                };
                if !is_closed {
                    return Ok(());
                }
                *input = None;
                match task.join_next().await {
                    Some(Ok(Err(error))) => Err(error),
                    _ => {
                        let why = std::io::Error::other("the output has ended");
                        Err(ClinicError::File {
                            file: "speech".to_owned(),
                            why,
                        })
                    }
                }
            }
        }
    }

    /// No packet follows: waits until the rest is played.
    #[cfg(test)]
    async fn end(self) -> Result<(), ClinicError> {
        if let Self::Process {
            input, mut task, ..
        } = self
        {
            drop(input);
            if let Some(Ok(ended)) = task.join_next().await {
                return ended;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, captured_us: u64) -> Speech {
        Speech {
            captured_us,
            number,
            bytes: vec![8, number as u8].into(),
        }
    }

    #[tokio::test]
    async fn a_file_has_pauses_and_goes_on_with_the_next_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heard.opus");
        let mut open = Output::File(path.clone()).open().unwrap();
        for _ in 0..2 {
            let mut places = open.begin();
            for (number, captured_us) in [(0, 0), (1, 20_000), (2, 1_040_000)] {
                open.play(&mut places, &packet(number, captured_us))
                    .await
                    .unwrap();
            }
            assert!(open.play(&mut places, &packet(3, u64::MAX)).await.is_err());
        }
        assert_eq!(Track::open(&path, 2).unwrap().next(), 2 * 53);
    }

    #[tokio::test]
    async fn a_process_plays_a_stream_and_its_end_is_an_error() {
        // It plays to nobody.
        let silent = Output::ffmpeg(&words(&["-f", "null", "-"])).open();
        if let Ok(mut open) = silent {
            let mut places = open.begin();
            for number in [0, 1, 4, 90] {
                open.play(&mut places, &packet(number, 0)).await.unwrap();
            }
            // Bytes that are no sound of a person are played as noise, or reported by the decoder.
            let _ = open.end().await;
        }
        let mut open = Output::Process {
            program: "false".to_owned(),
            arguments: Vec::new(),
        }
        .open()
        .unwrap();
        let mut places = open.begin();
        let why = loop {
            tokio::task::yield_now().await;
            if let Err(why) = open.play(&mut places, &packet(1, 0)).await {
                break why;
            }
        };
        assert!(why.to_string().contains("it ended with"), "{why}");
    }
}

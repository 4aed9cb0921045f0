//! Pictures of a byte stream (Annex B) at the rate of a camera, or of an ffmpeg process.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anabranch::base::text::{REASON_CHARS, printable};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStdout, Command},
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    ambulance::{
        encoder::{self, Source},
        keys::Keys,
    },
    annexb::{AccessUnit, Reader},
    error::ClinicError,
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of what a process writes to its standard error that are kept: the last ones.
const WORDS_BYTES: u64 = 16 << 10;

/// Wishes that an encoder follows.
#[derive(Debug)]
pub(super) struct Wishes<'a> {
    /// Rate, in bit/s.
    pub(super) rate: watch::Receiver<u64>,
    /// Pictures at which a decoder can begin.
    pub(super) keys: &'a Keys,
}

/// Source of the video.
#[derive(Clone, Debug, PartialEq)]
pub enum Film {
    /// A file with a byte stream (Annex B), played at a rate.
    File {
        /// The file.
        path: PathBuf,
        /// Pictures per second; above 0.
        rate: f64,
    },
    /// A process that writes a byte stream to its standard output, in time.
    Process {
        /// Name or path of the program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// Pictures that are encoded at the rate that the paths have for them.
    Encoded(Source),
}

impl Film {
    /// The process ffmpeg that plays `input` in time, as it is.
    pub fn ffmpeg(input: &[String]) -> Self {
        let mut arguments = words(&["-nostdin", "-loglevel", "error", "-re"]);
        arguments.extend_from_slice(input);
        arguments.push("-an".to_owned());
        arguments.extend(words(&["-c:v", "copy", "-bsf:v", "h264_mp4toannexb"]));
        arguments.extend(words(&["-f", "h264", "-"]));
        Self::Process {
            program: "ffmpeg".to_owned(),
            arguments,
        }
    }

    /// Plays it to its end: gives each picture at its time. An encoder follows `wishes`, and reports what becomes of it.
    pub(super) async fn play(
        &self,
        wishes: Wishes<'_>,
        report: impl Fn(encoder::Event),
        mut give: impl FnMut(AccessUnit),
    ) -> Result<(), ClinicError> {
        match self {
            Self::Encoded(source) => source.play(wishes, report, give).await,
            Self::File {
                path,
                rate: per_second,
            } => {
                let failed = |why| ClinicError::file(path, why);
                let file = tokio::fs::File::open(path).await.map_err(failed)?;
                let begin = Instant::now();
                let mut number = 0_u32;
                let mut input = Input::new(file);
                while let Some(units) = input.next().await.map_err(failed)? {
                    for unit in units? {
                        let due = f64::from(number) / per_second;
                        sleep_until(begin + Duration::from_secs_f64(due)).await;
                        give(unit);
                        number += 1;
                    }
                }
                Ok(())
            }
            Self::Process { program, arguments } => {
                let failed = |why| ClinicError::File {
                    file: program.clone(),
                    why,
                };
                let (process, output, said) = begun(program, arguments).map_err(failed)?;
                let mut input = Input::new(output);
                let mut wrong = None;
                while let Some(units) = input.next().await.map_err(failed)? {
                    match units {
                        Ok(units) => units.into_iter().for_each(&mut give),
                        Err(error) => {
                            wrong = Some(error);
                            break;
                        }
                    }
                }
                ended(program, process, wrong.map(ClinicError::from), said).await
            }
        }
    }
}

pub(super) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

/// Begins a process without an input; returns it with its output, and what it writes last.
///
/// # Errors
/// It cannot be started.
pub(super) fn begun(
    program: &str,
    arguments: &[String],
) -> std::io::Result<(Child, ChildStdout, tokio::task::JoinHandle<String>)> {
    let mut process = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = process.stdout.take().expect("it is piped");
    let said = process.stderr.take().expect("it is piped");
    Ok((process, output, tokio::spawn(last_words(said))))
}

/// The end of a process: its own failure is the reason, if it has one.
pub(super) async fn ended(
    program: &str,
    mut process: Child,
    wrong: Option<ClinicError>,
    said: tokio::task::JoinHandle<String>,
) -> Result<(), ClinicError> {
    if let Some(
        wrong @ ClinicError::Video(
            crate::annexb::AnnexBError::Bidirectional | crate::annexb::AnnexBError::Long,
        ),
    ) = wrong
    {
        return Err(wrong);
    }
    let status = process.wait().await;
    let status = status.map_err(|why| ClinicError::File {
        file: program.to_owned(),
        why,
    })?;
    match (status.success(), wrong) {
        (true, None) => Ok(()),
        (true, Some(wrong)) => Err(wrong),
        (false, _) => {
            let said = said.await.unwrap_or_default();
            let why = format!("it ended with {status}: {said}");
            Err(ClinicError::File {
                file: program.to_owned(),
                why: std::io::Error::other(why),
            })
        }
    }
}

/// The last line that a process writes.
pub(super) async fn last_words(mut input: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut piece = vec![0; 4_096];
    while let Ok(read @ 1..) = input.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        let surplus = kept.len().saturating_sub(WORDS_BYTES as usize);
        kept.drain(..surplus);
    }
    let text = String::from_utf8_lossy(&kept);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    printable(last.unwrap_or("it wrote no reason"), REASON_CHARS)
}

/// Access units of an input, until its end.
pub(super) struct Input<R> {
    input: R,
    reader: Option<Reader>,
}

impl<R: AsyncRead + Unpin> Input<R> {
    pub(super) fn new(input: R) -> Self {
        let reader = Some(Reader::default());
        Self { input, reader }
    }

    /// The next units; `None` after the last.
    pub(super) async fn next(
        &mut self,
    ) -> std::io::Result<Option<Result<Vec<AccessUnit>, crate::annexb::AnnexBError>>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let mut piece = vec![0; PIECE_BYTES];
        match self.input.read(&mut piece).await? {
            0 => Ok(self.reader.take().map(Reader::finish)),
            read => Ok(Some(reader.push(&piece[..read]))),
        }
    }
}

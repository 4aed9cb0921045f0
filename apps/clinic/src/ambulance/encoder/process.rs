//! One encoder: a process that takes raw pictures and gives an access unit for each, and what is expected of it.

use std::{process::Stdio, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

use super::{
    super::film::{Input, ended, last_words, words},
    Source,
};
use crate::{annexb::AccessUnit, error::ClinicError};

/// Pictures between two at which a decoder can begin.
const GROUP: u32 = 50;
/// Time for a process to begin.
pub(super) const BEGIN_TIME: Duration = Duration::from_millis(300);
/// Shortest time between two changes of the rate: what the paths have for a stream comes and goes, and each change costs a key picture.
const CHANGE_TIME: Duration = Duration::from_secs(1);
/// Shortest time between two key pictures on request.
pub(super) const KEY_TIME: Duration = Duration::from_secs(1);
/// Smallest change that is worth another process: one in so many.
const CHANGE: u64 = 6;
/// Raw pictures that wait for an encoder, and access units that come from it.
const WAITING_MAX: (usize, usize) = (4, 64);
/// Pictures without their units that are no reason to wait for any: the end of a unit is known by the next one.
const OWED: u64 = 4;
/// Time without a unit after which an encoder that owes some has failed. It keeps no picture back, but may share the machine.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// An encoder process.
#[derive(Debug)]
pub(super) struct Encoder {
    rate_bps: u64,
    begun: Instant,
    /// Raw pictures; `None`: no more come.
    input: Option<mpsc::Sender<Arc<[u8]>>>,
    units: mpsc::Receiver<Result<AccessUnit, ClinicError>>,
    /// Pictures that it was given and whose units have not come.
    owed: u64,
    /// Time from which on it owes the next unit.
    heard: Instant,
    _tasks: JoinSet<()>,
}

impl Encoder {
    /// Starts a process for pictures with this head.
    pub(super) fn start(source: &Source, rate_bps: u64, head: &[u8]) -> Result<Self, ClinicError> {
        let mut process = Command::new(&source.program)
            .args(arguments(rate_bps))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| source.failed(why))?;
        let stdin = process.stdin.take().expect("it is piped");
        let output = process.stdout.take().expect("it is piped");
        let said = process.stderr.take().expect("it is piped");
        let (input, pictures) = mpsc::channel(WAITING_MAX.0);
        let (sender, units) = mpsc::channel(WAITING_MAX.1);
        let mut tasks = JoinSet::new();
        tasks.spawn(feed(stdin, head.to_vec(), pictures));
        let program = source.program.clone();
        tasks.spawn(async move {
            let said = tokio::spawn(last_words(said));
            let wrong = read(output, &sender).await;
            if let Err(error) = ended(&program, process, wrong, said).await {
                // Without a receiver, the video has ended.
                let _ = sender.send(Err(error)).await;
            }
        });
        let now = Instant::now();
        Ok(Self {
            rate_bps,
            begun: now,
            input: Some(input),
            units,
            owed: 0,
            heard: now,
            _tasks: tasks,
        })
    }

    /// The way in for pictures; `None`: it gets no more.
    pub(super) fn input(&self) -> Option<&mpsc::Sender<Arc<[u8]>>> {
        self.input.as_ref()
    }

    /// True if it has had the time to begin.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.elapsed() >= BEGIN_TIME
    }

    /// Ends it after what it has.
    pub(super) fn close(&mut self) {
        if self.input.take().is_some() {
            self.heard = Instant::now();
        }
    }

    /// It has been given one more picture.
    pub(super) fn was_given(&mut self) {
        self.owed += 1;
        if self.owed == OWED {
            self.heard = Instant::now();
        }
    }

    /// Its units are taken from now on.
    pub(super) fn is_first(&mut self) {
        self.heard = Instant::now();
    }

    /// The next unit; `None`: it has ended as it was wished.
    ///
    /// # Errors
    /// It failed: ended too early or with an error, gave no unit for 5 s, or more units than it was given pictures. It is of no use any more.
    pub(super) async fn next(&mut self) -> Result<Option<AccessUnit>, ClinicError> {
        let is_owed = self.input.is_none() || self.owed >= OWED;
        let unit = match is_owed {
            true => tokio::time::timeout_at(self.heard + SILENCE_MAX, self.units.recv()).await,
            false => Ok(self.units.recv().await),
        };
        let wrong = |why: &str| Err(ClinicError::Encoder(why.to_owned()));
        match unit {
            Err(_) => wrong("it gave no picture for 5 s"),
            Ok(None) if self.input.is_some() => wrong("it ended before the pictures did"),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => wrong(&error.to_string()),
            Ok(Some(Ok(_))) if self.owed == 0 => wrong("it gives more pictures than it is given"),
            Ok(Some(Ok(unit))) => {
                self.owed -= 1;
                self.heard = Instant::now();
                Ok(Some(unit))
            }
        }
    }

    /// True if it has given a key picture, and one of an encoder that is started now would be late enough after the last one.
    pub(super) fn may_be_followed(&self, key_at: Option<Instant>) -> bool {
        key_at.is_some_and(|at| at >= self.begun && at.elapsed() + BEGIN_TIME >= KEY_TIME)
    }

    /// True if the rate is so far from that of this encoder that another one is worth it.
    pub(super) fn is_other(&self, rate_bps: u64) -> bool {
        self.begun.elapsed() >= CHANGE_TIME
            && rate_bps.abs_diff(self.rate_bps) > self.rate_bps / CHANGE
    }
}

/// Arguments of an encoder without B pictures and without delay.
fn arguments(rate_bps: u64) -> Vec<String> {
    let fixed = [
        "-loglevel",
        "error",
        "-probesize",
        "32",
        "-f",
        "yuv4mpegpipe",
        "-i",
        "-",
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-tune",
        "zerolatency",
        "-pix_fmt",
        "yuv420p",
        "-bf",
        "0",
    ];
    let rate = rate_bps.to_string();
    let buffer = (rate_bps / 2).to_string();
    let group = GROUP.to_string();
    let variable = [
        "-g", &group, "-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer, "-f", "h264", "-",
    ];
    [words(&fixed), words(&variable)].concat()
}

/// Writes pictures to an encoder until no more come, or it has ended.
async fn feed(mut stdin: ChildStdin, head: Vec<u8>, mut pictures: mpsc::Receiver<Arc<[u8]>>) {
    let mut fed = stdin.write_all(&head).await;
    while fed.is_ok() {
        let Some(picture) = pictures.recv().await else {
            break;
        };
        fed = stdin.write_all(&picture).await;
    }
}

/// Gives the units of an encoder; returns the error of its output.
async fn read(
    output: ChildStdout,
    units: &mpsc::Sender<Result<AccessUnit, ClinicError>>,
) -> Option<ClinicError> {
    let mut input = Input::new(output);
    loop {
        match input.next().await {
            Ok(Some(Ok(more))) => {
                for unit in more {
                    units.send(Ok(unit)).await.ok()?;
                }
            }
            Ok(Some(Err(error))) => return Some(error.into()),
            Ok(None) | Err(_) => return None,
        }
    }
}

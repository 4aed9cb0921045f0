//! Encoder that follows a rate: raw pictures of one process are encoded by another, which is replaced when the rate changes.
//!
//! The process at the new rate is started while the old one encodes. Once it has had time to begin, pictures go to it; the old one gets no
//! more, and ends with what it has. So every picture is encoded once, in order, and the first at the new rate is one at which a decoder can
//! begin. A wish for such a picture is answered in the same way, at the same rate. One that fails is replaced, too, and what it had is lost.

use std::{collections::VecDeque, ops::RangeInclusive, time::Duration};

use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdout},
    time::{Instant, timeout},
};

use self::process::Encoder;
use super::film::{Wishes, begun, ended, words};
use crate::{ambulance::y4m, annexb::AccessUnit, error::ClinicError};

mod process;
#[cfg(test)]
mod tests;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Longest time without a picture of the camera.
const CAMERA_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time until one that failed is replaced.
const AGAIN_TIME: Duration = Duration::from_secs(1);
/// Failures of encoders within a time, after which the video ends.
const FAILURES_MAX: (usize, Duration) = (3, Duration::from_secs(60));

/// Input of ffmpeg that is encoded, at a rate that is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Name or path of ffmpeg.
    pub program: String,
    /// Its arguments for the input.
    pub input: Vec<String>,
    /// Lowest and highest rate, in bit/s; the first is half of the highest, or the lowest.
    pub rates_bps: RangeInclusive<u64>,
}

/// Event of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// One is started at this rate, in bit/s.
    Rate(u64),
    /// One failed; another one follows.
    Failed(String),
}

impl Source {
    /// Rate to begin with, in bit/s.
    pub(super) fn first_bps(&self) -> u64 {
        self.held(self.rates_bps.end() / 2)
    }

    /// The nearest rate between the lowest and the highest.
    pub(super) fn held(&self, rate_bps: u64) -> u64 {
        rate_bps
            .min(*self.rates_bps.end())
            .max(*self.rates_bps.start())
    }

    fn failed(&self, why: std::io::Error) -> ClinicError {
        ClinicError::File {
            file: self.program.clone(),
            why,
        }
    }

    /// Plays it to its end as it is wished, and gives each picture.
    pub(super) async fn play(
        &self,
        wishes: Wishes<'_>,
        report: impl Fn(Event),
        mut give: impl FnMut(AccessUnit),
    ) -> Result<(), ClinicError> {
        let mut camera = Camera::start(self)?;
        let mut encoders = Encoders::new(self, wishes, report);
        // Of the camera, for an encoder.
        let mut waiting = VecDeque::<Vec<u8>>::new();
        let mut is_over = false;
        while !(is_over && waiting.is_empty() && encoders.all.is_empty()) {
            if waiting.is_empty() {
                if is_over {
                    encoders.close();
                }
            } else if let Some(head) = camera.reader.head() {
                encoders.choose(head)?;
            }
            let fed = encoders.fed();
            let input = fed.and_then(|at| encoders.all[at].input().cloned());
            let has_input = input.is_some();
            let front = encoders.all.front_mut();
            let has_front = front.is_some();
            tokio::select! {
                biased;
                unit = async { front.expect("there is one").next().await }, if has_front => match unit {
                    Ok(Some(unit)) => {
                        if unit.is_key {
                            encoders.key_at = Some(Instant::now());
                        }
                        give(unit);
                    }
                    Ok(None) => encoders.pop(),
                    Err(error) => {
                        encoders.pop();
                        encoders.replace(error)?;
                    }
                },
                place = async { input.expect("there is one").reserve_owned().await },
                    if has_input && !waiting.is_empty() =>
                {
                    let picture = waiting.pop_front().expect("one waits");
                    // One that has ended is seen by its units.
                    if let (Ok(place), Some(at)) = (place, fed) {
                        place.send(picture.into());
                        encoders.all[at].was_given();
                    }
                }
                // Without an encoder, pictures are left out: those of a camera do not wait.
                () = std::future::ready(()), if !has_input && !waiting.is_empty() => waiting.clear(),
                pictures = camera.next(), if waiting.is_empty() && !is_over => {
                    match pictures.map_err(|why| self.failed(why))? {
                        Some(pictures) => waiting.extend(pictures),
                        None => is_over = true,
                    }
                }
            }
        }
        ended(&self.program, camera.process, None, camera.said).await
    }
}

/// The process that captures or reads pictures.
#[derive(Debug)]
struct Camera {
    process: Child,
    output: ChildStdout,
    said: tokio::task::JoinHandle<String>,
    reader: y4m::Reader,
    piece: Vec<u8>,
}

impl Camera {
    fn start(source: &Source) -> Result<Self, ClinicError> {
        let arguments = [
            words(&["-nostdin", "-loglevel", "error", "-re"]),
            source.input.clone(),
            words(&["-an", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]),
        ];
        let started = begun(&source.program, &arguments.concat());
        let (process, output, said) = started.map_err(|why| source.failed(why))?;
        Ok(Self {
            process,
            output,
            said,
            reader: y4m::Reader::default(),
            piece: vec![0; PIECE_BYTES],
        })
    }

    /// Pictures that are whole with the next bytes; `None` after the last. Nothing is lost if it is cancelled.
    ///
    /// # Errors
    /// It gives no pictures, or nothing for 10 s.
    async fn next(&mut self) -> std::io::Result<Option<Vec<Vec<u8>>>> {
        let read = timeout(CAMERA_SILENCE_MAX, self.output.read(&mut self.piece)).await;
        let silent = |_| std::io::Error::other("no picture came from the camera for 10 s");
        match read.map_err(silent)?? {
            0 => Ok(None),
            read => {
                let pictures = self.reader.push(&self.piece[..read]);
                pictures.map(Some).map_err(std::io::Error::other)
            }
        }
    }
}

/// The encoders of a video. The first one gives units; the last one is the next, or the same.
struct Encoders<'a, F> {
    source: &'a Source,
    wishes: Wishes<'a>,
    report: F,
    all: VecDeque<Encoder>,
    /// Last picture at which a decoder can begin.
    key_at: Option<Instant>,
    failures: Vec<Instant>,
}

impl<'a, F: Fn(Event)> Encoders<'a, F> {
    fn new(source: &'a Source, wishes: Wishes<'a>, report: F) -> Self {
        Self {
            source,
            wishes,
            report,
            all: VecDeque::new(),
            key_at: None,
            failures: Vec::new(),
        }
    }

    /// The one that gets pictures.
    fn fed(&self) -> Option<usize> {
        (self.all.iter()).position(|encoder| encoder.input().is_some())
    }

    /// Starts another one where the wishes ask for it; the first one gets no more once the next one has begun.
    fn choose(&mut self, head: &[u8]) -> Result<(), ClinicError> {
        let wanted = self.source.held(*self.wishes.rate.borrow());
        let is_other = self.all.back().is_none_or(|last| {
            last.is_other(wanted)
                || self.wishes.keys.is_wanted() && last.may_be_followed(self.key_at)
        });
        let may_start = (self.failures.last()).is_none_or(|at| at.elapsed() >= AGAIN_TIME);
        if is_other && may_start && self.all.len() < 2 {
            match Encoder::start(self.source, wanted, head) {
                Ok(encoder) => {
                    self.all.push_back(encoder);
                    (self.report)(Event::Rate(wanted));
                }
                Err(error) => self.replace(error)?,
            }
        }
        if self.all.get(1).is_some_and(Encoder::has_begun)
            && let Some(first) = self.all.front_mut()
        {
            first.close();
        }
        Ok(())
    }

    /// No more pictures come.
    fn close(&mut self) {
        // One that has not had its turn has nothing to give.
        if self.fed() == Some(0) {
            self.all.truncate(1);
        }
        self.all.iter_mut().for_each(Encoder::close);
    }

    /// Removes the first one.
    fn pop(&mut self) {
        self.all.pop_front();
        if let Some(first) = self.all.front_mut() {
            first.is_first();
        }
    }

    /// One has failed and is gone.
    ///
    /// # Errors
    /// Too many have.
    fn replace(&mut self, error: ClinicError) -> Result<(), ClinicError> {
        let (count, time) = FAILURES_MAX;
        self.failures.retain(|at| at.elapsed() < time);
        self.failures.push(Instant::now());
        if self.failures.len() > count {
            return Err(error);
        }
        (self.report)(Event::Failed(error.to_string()));
        Ok(())
    }
}

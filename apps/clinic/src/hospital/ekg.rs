//! The record of a case: frames are written as they come, and counted in its header within a second.

use std::time::Duration;

use anabranch::AduStream;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::{
    Report,
    case::{Case, next, notify},
};
use crate::{
    error::ClinicError,
    wfdb::{
        Header, Lead, WfdbError,
        files::{HOLE_FRAMES_MAX, Writer},
    },
    wire::{Data, Notice, Purpose, Request, Samples, WireError, decode, is_message},
};

/// Name of the record.
const NAME: &str = "ekg";
/// Time between two notices of what is held.
const HELD_TIME: Duration = Duration::from_millis(200);
/// Time between two headers.
const HEADER_TIME: Duration = Duration::from_secs(1);
/// Time in which an ambulance has to end the stream.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// Pause before a disk that cannot be written is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Receives the record until the ambulance has sent it.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let first = next(stream)
        .await?
        .ok_or_else(|| WireError("no leads".to_owned()))?;
    let Request::Leads { header, .. } = decode(&first.data)? else {
        return Err(WireError("frames before the leads".to_owned()).into());
    };
    let mut record = match open(case, &header) {
        Ok(writer) => Record {
            writer,
            flushed: (Instant::now(), 0),
            has_failed: false,
        },
        Err(error) => {
            case.failed(Purpose::Ekg, &error);
            let why = error.to_string();
            notify(stream, &Notice::Refused { why }).await?;
            return leave(stream).await;
        }
    };
    let begun = record.writer.frames();
    notify(stream, &Notice::Begun { next: begun }).await?;
    let missing = record.writer.holes().frames();
    case.live()
        .leads(case.number, record.writer.header(), begun, missing);
    case.report(Report::Ekg {
        leads: record
            .writer
            .header()
            .leads
            .iter()
            .map(Lead::name)
            .collect(),
        next: begun,
    });
    let received = record.frames(stream, case).await;
    let synced = record.writer.sync();
    if received.is_ok() {
        synced?;
        let frames = record.writer.frames();
        case.live().ended(case.number);
        notify(stream, &Notice::Ended { frames }).await?;
        case.report(Report::Ended {
            frames,
            missing: record.writer.holes().frames(),
        });
        return leave(stream).await;
    }
    received
}

/// Waits until the ambulance has seen the last notice, and ends the stream.
async fn leave<T: AduStream>(stream: &T) -> Result<(), ClinicError> {
    let leaving = async { while let Ok(Some(_)) = next(stream).await {} };
    // One that stays is left.
    let _ = timeout(LEAVE_TIME, leaving).await;
    Ok(())
}

/// The record of this case, begun or gone on with.
fn open(case: &Case, header: &str) -> Result<Writer, ClinicError> {
    let header = Header::read(header.as_bytes())?;
    let Some(writer) = Writer::resume(&case.folder, NAME)? else {
        return Ok(Writer::create(&case.folder, NAME, &header)?);
    };
    let shape = |header: &Header| {
        let leads = header.leads.iter();
        let leads: Vec<_> = leads
            .map(|lead| {
                (
                    lead.gain,
                    lead.baseline,
                    lead.zero,
                    lead.description.clone(),
                )
            })
            .collect();
        (leads, header.frequency)
    };
    match shape(writer.header()) == shape(&header) {
        true => Ok(writer),
        false => Err(ClinicError::Protocol(
            "the record of this case has other leads".to_owned(),
        )),
    }
}

struct Record {
    writer: Writer,
    /// Time of the last header, and its frames.
    flushed: (Instant, u64),
    /// True once the disk took no frames, or no header, until it takes a header again.
    has_failed: bool,
}

impl Record {
    async fn frames<T: AduStream>(&mut self, stream: &T, case: &Case) -> Result<(), ClinicError> {
        let mut ticks = interval(HELD_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut held = self.writer.frames();
        loop {
            let adu = tokio::select! {
                _ = ticks.tick() => {
                    let frames = self.writer.frames();
                    if frames != held {
                        held = frames;
                        // Frames are in their file; the header counts them when it can be written again.
                        if let Err(error) = self.flush() {
                            self.fault(error, case);
                        }
                        notify(stream, &Notice::Held { next: held }).await?;
                    }
                    continue;
                }
                adu = next(stream) => adu?,
            };
            let Some(adu) = adu else {
                return Err(ClinicError::Over(
                    "the record ended before its time".to_owned(),
                ));
            };
            if is_message(&adu.data) {
                return match decode(&adu.data)? {
                    Request::Ended { frames } => self.end(frames, case),
                    _ => Err(WireError("another message among frames".to_owned()).into()),
                };
            }
            let Data::Samples(samples) = Data::read(adu.data)? else {
                return Err(WireError("other data among frames".to_owned()).into());
            };
            self.append(&samples, case).await?;
        }
    }

    /// Appends frames; a disk that is full holds the stream up, and nothing is lost while the ambulance has them.
    async fn append(&mut self, samples: &Samples, case: &Case) -> Result<(), ClinicError> {
        let leads = self.writer.header().leads.len();
        if !samples.samples.len().is_multiple_of(leads) {
            return Err(WireError("frames with other leads".to_owned()).into());
        }
        self.is_near(samples.first)?;
        let dated = case.dated(samples.captured_us);
        case.live().samples(case.number, samples, leads, dated);
        loop {
            match self.writer.append(samples.first, &samples.samples) {
                Ok(hole) => {
                    if let Some(hole) = hole {
                        case.live().hole(case.number, hole);
                        case.report(Report::Hole(hole));
                    }
                    return Ok(());
                }
                Err(error) => self.fault(error, case),
            }
            sleep(PAUSE).await;
        }
    }

    /// Reports that the disk does not take something: once for frames and header together.
    fn fault(&mut self, error: WfdbError, case: &Case) {
        if !std::mem::replace(&mut self.has_failed, true) {
            case.failed(Purpose::Ekg, &error.into());
        }
    }

    fn is_near(&self, first: u64) -> Result<(), ClinicError> {
        match first.saturating_sub(self.writer.frames()) > HOLE_FRAMES_MAX {
            true => Err(WireError(format!("frame {first} is too far from the last")).into()),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), WfdbError> {
        let (at, frames) = self.flushed;
        if at.elapsed() >= HEADER_TIME || frames == 0 {
            self.writer.flush()?;
            self.has_failed = false;
            self.flushed = (Instant::now(), self.writer.frames());
        }
        Ok(())
    }

    /// The record has so many frames; those after the last that came are a hole.
    fn end(&mut self, frames: u64, case: &Case) -> Result<(), ClinicError> {
        self.is_near(frames)?;
        if let Some(hole) = self.writer.extend(frames)? {
            case.live().hole(case.number, hole);
            case.report(Report::Hole(hole));
        }
        Ok(())
    }
}

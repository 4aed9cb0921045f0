//! The record of a case: frames are written as they come, and counted in its header within a second. An ambulance that sends the newest first
//! fills the holes behind them.

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
        Header, Hole, Lead, WfdbError,
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
/// Time after which frames do not come any more, by that of later ones, in seconds: twice as long as an ambulance keeps them.
const OPEN_S: f64 = 60.0;
/// Most holes in a notice: the newest.
const HOLES_MAX: usize = 64;
/// Pause before a disk that cannot be written is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Receives the record until the ambulance has sent it.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let first = next(stream)
        .await?
        .ok_or_else(|| WireError("no leads".to_owned()))?;
    let Request::Leads {
        header,
        newest_first,
        ..
    } = decode(&first.data)?
    else {
        return Err(WireError("frames before the leads".to_owned()).into());
    };
    let mut record = match open(case, &header) {
        Ok(writer) => Record {
            settled: 0,
            is_in_order: !newest_first,
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
    record.settled = match record.is_in_order {
        true => begun,
        false => record.open_from(),
    };
    let holes = record.open_holes();
    notify(stream, &Notice::Begun { next: begun, holes }).await?;
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
        let missing = record.writer.holes().frames();
        let ended = Notice::Ended {
            frames,
            missing: Some(missing),
        };
        notify(stream, &ended).await?;
        case.report(Report::Ended { frames, missing });
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
    /// Frames come in their order, so that one that is left out never comes.
    is_in_order: bool,
    /// Frames before this one do not come any more, and their holes were reported.
    settled: u64,
    /// Time of the last header, and its frames.
    flushed: (Instant, u64),
    /// True once the disk took no frames, or no header, until it takes a header again.
    has_failed: bool,
}

impl Record {
    async fn frames<T: AduStream>(&mut self, stream: &T, case: &Case) -> Result<(), ClinicError> {
        let mut ticks = interval(HELD_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let held = |writer: &Writer| (writer.frames(), writer.holes().frames());
        let mut noticed = held(&self.writer);
        loop {
            let adu = tokio::select! {
                _ = ticks.tick() => {
                    let now = held(&self.writer);
                    if now != noticed {
                        noticed = now;
                        // Frames are in their file; the header counts them when it can be written again.
                        if let Err(error) = self.flush() {
                            self.fault(error, case);
                        }
                        if !self.is_in_order {
                            self.settle(self.open_from(), case);
                        }
                        let holes = self.open_holes();
                        notify(stream, &Notice::Held { next: now.0, holes }).await?;
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
            match self.write(samples) {
                Ok(has_changed) => {
                    if has_changed {
                        let missing = self.writer.holes().frames();
                        case.live().missing(case.number, missing);
                    }
                    if self.is_in_order {
                        self.settle(self.writer.frames(), case);
                    }
                    return Ok(());
                }
                Err(error) => self.fault(error, case),
            }
            sleep(PAUSE).await;
        }
    }

    /// Writes frames to their places; true if that changed what is missing.
    fn write(&mut self, samples: &Samples) -> Result<bool, WfdbError> {
        let filled = match self.is_in_order {
            true => 0,
            false => self.writer.fill(samples.first, &samples.samples)?,
        };
        let hole = self.writer.append(samples.first, &samples.samples)?;
        Ok(filled > 0 || hole.is_some())
    }

    /// The first frame that may still come, if frames come in any order.
    fn open_from(&self) -> u64 {
        let open = (OPEN_S * self.writer.header().frequency) as u64;
        self.writer.frames().saturating_sub(open)
    }

    /// The holes that may still be filled: the newest ones.
    fn open_holes(&self) -> Vec<Hole> {
        if self.is_in_order {
            return Vec::new();
        }
        let mut holes = self
            .writer
            .holes()
            .within(self.open_from()..self.writer.frames());
        holes.drain(..holes.len().saturating_sub(HOLES_MAX));
        holes
    }

    /// Reports the holes that end before a frame, which are final.
    fn settle(&mut self, before: u64, case: &Case) {
        let holes = self.writer.holes();
        let holes = holes.within(self.settled..self.writer.frames());
        for hole in holes.into_iter().take_while(|hole| hole.end() <= before) {
            self.settled = hole.end();
            case.report(Report::Hole(hole));
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
        if self.writer.extend(frames)?.is_some() {
            let missing = self.writer.holes().frames();
            case.live().missing(case.number, missing);
        }
        self.settle(self.writer.frames(), case);
        Ok(())
    }
}

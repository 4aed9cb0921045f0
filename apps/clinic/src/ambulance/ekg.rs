//! The record played as if it were measured, and its stream: 40 ms an ADU, the newest first of those that the hospital lacks.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{AduSession, AduStream, StreamParameters};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    Desk, Report,
    buffer::Buffer,
    streams::{self, receive, send},
    unexpected,
    unsent::Unsent,
    vitals::Vitals,
};
use crate::{
    error::ClinicError,
    wfdb::{Hole, files::Reader},
    wire::{Data, Notice, Purpose, Request, SAMPLES_BYTES_MAX, Samples},
};

/// Time of one ADU: that of one packet of twelve leads at 1 kHz.
const ADU_TIME: Duration = Duration::from_millis(40);
/// Time for the last frames to reach the hospital.
const END_TIME: Duration = Duration::from_secs(30);
/// ADUs that wait in the stream, where the newest is chosen here: those that become due while one is sent.
const WAITING: usize = 4;

/// A record that is played.
#[derive(Debug)]
pub(super) struct Ekg {
    header: String,
    leads: usize,
    frequency: f64,
    /// Time at which the first frame begins.
    begin_us: u64,
    /// Frames of one ADU.
    frames: usize,
    buffer: Mutex<Buffer>,
    changed: Notify,
    held: watch::Sender<Held>,
    desk: Desk,
    playing: Mutex<Option<AbortHandle>>,
}

/// Frames that the hospital has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    /// Frame after the last.
    next: u64,
    /// Frames that it lacks before that, and would take.
    holes: Vec<Hole>,
}

impl Held {
    /// Frames that it has, as far as it states what it lacks.
    fn frames(&self) -> u64 {
        let missing: u64 = self.holes.iter().map(|hole| hole.frames).sum();
        self.next.saturating_sub(missing)
    }
}

impl Ekg {
    /// Opens a record and begins to play it, with the numbers that are derived of it.
    pub(super) fn play(
        path: &Path,
        is_looping: bool,
        desk: &Desk,
    ) -> Result<(Arc<Self>, Arc<Vitals>), ClinicError> {
        let mut reader = Reader::open(path)?;
        for missing in reader.missing() {
            desk.report(Report::Missing(missing.clone()));
        }
        // The first frames show a file that cannot be read at once.
        reader.read(1)?;
        reader.rewind()?;
        let header = reader.header();
        let (leads, frequency) = (header.leads.len(), header.frequency);
        let frames = (frequency * ADU_TIME.as_secs_f64()).round() as usize;
        let frames = frames.clamp(1, SAMPLES_BYTES_MAX / 2 / leads);
        let ekg = Arc::new(Self {
            header: header.to_text(),
            leads,
            frequency,
            begin_us: desk.now_us(),
            frames,
            buffer: Mutex::new(Buffer::new(leads, frequency)),
            changed: Notify::new(),
            held: watch::Sender::default(),
            desk: desk.clone(),
            playing: Mutex::default(),
        });
        let vitals = Vitals::of(header, desk);
        let playing = tokio::spawn(ekg.clone().playing(reader, is_looping, vitals.clone()));
        *ekg.lock_playing() = Some(playing.abort_handle());
        Ok((ekg, vitals))
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_playing(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the playing.
    pub(super) fn stop(&self) {
        if let Some(playing) = self.lock_playing().take() {
            playing.abort();
        }
    }

    async fn playing(self: Arc<Self>, reader: Reader, is_looping: bool, vitals: Arc<Vitals>) {
        let played = self.frames_in_time(reader, is_looping, &vitals).await;
        if let Err(error) = played {
            self.desk.report(Report::Failed {
                purpose: Purpose::Ekg,
                why: error.to_string(),
            });
        }
        self.lock().end();
        self.changed.notify_waiters();
        vitals.end();
    }

    /// Adds the frames that are due, each at its time.
    async fn frames_in_time(
        &self,
        mut reader: Reader,
        is_looping: bool,
        vitals: &Vitals,
    ) -> Result<(), ClinicError> {
        let frequency = reader.header().frequency;
        let begin = Instant::now();
        let mut ticks = interval(ADU_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut played = 0_u64;
        loop {
            ticks.tick().await;
            let due = (begin.elapsed().as_secs_f64() * frequency) as u64;
            while played < due {
                // A few kB of a local file.
                let samples = reader.read((due - played).min(1 << 16) as usize)?;
                if samples.is_empty() {
                    for deviation in reader.deviations() {
                        self.desk.report(Report::Deviation(deviation));
                    }
                    if !is_looping || reader.frames() == 0 {
                        return Ok(());
                    }
                    reader.rewind()?;
                    continue;
                }
                let leads = reader.header().leads.len();
                played += (samples.len() / leads) as u64;
                self.lock().push(&samples);
                vitals.push(&samples, leads);
            }
            self.changed.notify_waiters();
        }
    }

    /// Sends the record in a session, until the hospital holds all of it.
    /// `fills`: the hospital takes frames in any order.
    pub(super) async fn send<S: AduSession>(
        &self,
        session: &S,
        fills: bool,
    ) -> Result<(), ClinicError> {
        let spec = streams::record(self.leads, self.frequency, fills);
        let opened = session.open_stream(spec).await;
        let stream = opened.map_err(|error| ClinicError::of(&error))?;
        if fills {
            let adu_bytes = 2 * self.frames * self.leads;
            let parameters = StreamParameters {
                unsent_max: Some(NonZeroU32::new((WAITING * adu_bytes) as u32)),
                ..StreamParameters::default()
            };
            let limited = stream.adjust(parameters).await;
            limited.map_err(|error| ClinicError::of(&error))?;
        }
        let leads = Request::Leads {
            header: self.header.clone(),
            first: self.lock().first(),
            newest_first: fills,
        };
        send::<S>(&stream, &leads).await?;
        let held = match receive::<S>(&stream).await? {
            Some(Notice::Begun { next, holes }) => Held { next, holes },
            Some(Notice::Refused { why }) => return Err(super::refused(&why)),
            other => return Err(unexpected(other.as_ref())),
        };
        let next = held.next;
        self.held.send_replace(held.clone());
        self.desk.report(Report::Begun { next: Some(next) });
        let sending = async {
            let frames = match fills {
                true => self.newest_first::<S>(&stream, held).await?,
                false => self.samples::<S>(&stream, next).await?,
            };
            send::<S>(&stream, &Request::Ended { frames }).await?;
            // The answer ends the stream.
            sleep(END_TIME).await;
            Ok(None)
        };
        let ended: Result<Option<u64>, ClinicError> = tokio::select! {
            sent = sending => sent,
            ended = self.listen::<S>(&stream) => ended.map(Some),
            failed = self.promises::<S>(&stream) => Err(failed),
        };
        let held = ended?.unwrap_or_else(|| self.held.borrow().frames());
        let frames = self.lock().next();
        self.desk.report(Report::Ended { frames, held });
        // An error means that the session is over, and the hospital holds everything.
        let _ = stream.finish();
        Ok(())
    }

    /// Sends frames as they come; returns their number at the end of the record.
    async fn samples<S: AduSession>(
        &self,
        stream: &S::Stream,
        from: u64,
    ) -> Result<u64, ClinicError> {
        let mut next = from;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let (taken, is_done) = {
                let buffer = self.lock();
                let taken = buffer.take(next, self.frames);
                (taken, buffer.has_ended() && next >= buffer.next())
            };
            match taken {
                Some((first, samples)) => next = self.put::<S>(stream, first, samples).await?,
                None if is_done => return Ok(next),
                None => changed.await,
            }
        }
    }

    /// Sends frames as they come, and what the hospital lacks behind them; returns their number at the end of the record, once it has all
    /// that it can have.
    async fn newest_first<S: AduSession>(
        &self,
        stream: &S::Stream,
        held: Held,
    ) -> Result<u64, ClinicError> {
        let mut unsent = Unsent::new(held.next, &held.holes);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let (taken, there, has_ended) = {
                let buffer = self.lock();
                let there = buffer.first()..buffer.next();
                let has_ended = buffer.has_ended();
                let range = unsent.take(there.clone(), self.frames as u64, has_ended);
                let taken = range
                    .and_then(|range| buffer.take(range.start, (range.end - range.start) as usize));
                (taken, there, has_ended)
            };
            match (taken, has_ended) {
                (Some((first, samples)), _) => {
                    self.put::<S>(stream, first, samples).await?;
                }
                (None, true) => {
                    let mut held = self.held.subscribe();
                    let is_old = |hole: &Hole| hole.end() <= there.start;
                    let has_all =
                        |held: &Held| held.next >= there.end && held.holes.iter().all(is_old);
                    // What is still on the paths comes in this time, or not at all.
                    let _ = timeout(END_TIME, held.wait_for(has_all)).await;
                    return Ok(there.end);
                }
                (None, false) => changed.await,
            }
        }
    }

    /// Sends frames from `first` on; returns the number of the next.
    async fn put<S: AduSession>(
        &self,
        stream: &S::Stream,
        first: u64,
        samples: Vec<i16>,
    ) -> Result<u64, ClinicError> {
        let next = first + (samples.len() / self.leads) as u64;
        let captured_us = self.begin_us + (next as f64 / self.frequency * 1e6) as u64;
        let samples = Samples {
            captured_us,
            first,
            samples,
        };
        let sent = stream.send(Data::Samples(samples).to_adu()).await;
        sent.map_err(|error| ClinicError::of(&error))?;
        Ok(next)
    }

    /// Takes the notices of the hospital until the record is on its disk; returns the frames that are in it.
    async fn listen<S: AduSession>(&self, stream: &S::Stream) -> Result<u64, ClinicError> {
        loop {
            match receive::<S>(stream).await? {
                Some(Notice::Held { next, holes }) => {
                    self.held.send_replace(Held { next, holes });
                }
                Some(Notice::Ended { frames, missing }) => {
                    let missing = missing.unwrap_or_default();
                    return Ok(frames.saturating_sub(missing));
                }
                Some(Notice::Refused { why }) => return Err(super::refused(&why)),
                other => return Err(unexpected(other.as_ref())),
            }
        }
    }

    /// Reports what becomes of the promise; returns when the stream is over.
    async fn promises<S: AduSession>(&self, stream: &S::Stream) -> ClinicError {
        loop {
            match stream.next_promise().await {
                Ok(event) => self.desk.report(Report::Promise(event.to_string())),
                Err(error) => return ClinicError::of(&error),
            }
        }
    }
}

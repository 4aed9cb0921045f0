//! The record played as if it were measured, and its stream: 40 ms an ADU, from the first frame that the hospital lacks.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{AduSession, AduStream};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    Desk, Report,
    buffer::Buffer,
    streams::{self, receive, send},
    unexpected,
    vitals::Vitals,
};
use crate::{
    error::ClinicError,
    wfdb::files::Reader,
    wire::{Data, Notice, Purpose, Request, SAMPLES_BYTES_MAX, Samples},
};

/// Time of one ADU: that of one packet of twelve leads at 1 kHz.
const ADU_TIME: Duration = Duration::from_millis(40);
/// Time for the last frames to reach the hospital.
const END_TIME: Duration = Duration::from_secs(30);

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
    /// First frame that the hospital lacks.
    held: watch::Sender<u64>,
    desk: Desk,
    playing: Mutex<Option<AbortHandle>>,
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
            held: watch::Sender::new(0),
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
    pub(super) async fn send<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let opened = session
            .open_stream(streams::record(self.leads, self.frequency))
            .await;
        let stream = opened.map_err(|error| ClinicError::of(&error))?;
        let leads = Request::Leads {
            header: self.header.clone(),
            first: self.lock().first(),
        };
        send::<S>(&stream, &leads).await?;
        let next = match receive::<S>(&stream).await? {
            Some(Notice::Begun { next }) => next,
            Some(Notice::Refused { why }) => return Err(super::refused(&why)),
            other => return Err(unexpected(other.as_ref())),
        };
        self.held.send_replace(next);
        self.desk.report(Report::Begun { next: Some(next) });
        let sending = async {
            let frames = self.samples::<S>(&stream, next).await?;
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
        let held = ended?.unwrap_or_else(|| *self.held.borrow());
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
                Some((first, samples)) => {
                    next = first + (samples.len() / self.leads) as u64;
                    let captured_us = self.begin_us + (next as f64 / self.frequency * 1e6) as u64;
                    let samples = Samples {
                        captured_us,
                        first,
                        samples,
                    };
                    let sent = stream.send(Data::Samples(samples).to_adu()).await;
                    sent.map_err(|error| ClinicError::of(&error))?;
                }
                None if is_done => return Ok(next),
                None => changed.await,
            }
        }
    }

    /// Takes the notices of the hospital until the record is on its disk; returns its frames.
    async fn listen<S: AduSession>(&self, stream: &S::Stream) -> Result<u64, ClinicError> {
        loop {
            match receive::<S>(stream).await? {
                Some(Notice::Held { next }) => {
                    self.held.send_replace(next);
                }
                Some(Notice::Ended { frames }) => return Ok(frames),
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

//! Stream of the hospital's speech, and its output.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch::{AduSession, AduStream};
use tokio::{sync::Mutex, time::sleep};

use super::{
    Desk, Output, Report,
    loudspeaker::Loudspeaker,
    streams::{open, send},
};
use crate::{
    error::ClinicError,
    speech::{LIFETIME, Ordered},
    wire::{Data, Purpose, Request, WireError},
};

/// A stream that is finished when this is dropped, for which the hospital waits at the end.
struct Finished<T: AduStream>(T);

impl<T: AduStream> Drop for Finished<T> {
    fn drop(&mut self) {
        // An error means that the session is over.
        let _ = self.0.finish();
    }
}

/// Listener to the hospital, in all sessions.
#[derive(Debug)]
pub(super) struct Listener {
    loudspeaker: Mutex<Loudspeaker>,
    received: AtomicU64,
    missing: AtomicU64,
}

impl Listener {
    /// Opens the output.
    pub(super) fn begin(output: Output) -> Result<Arc<Self>, ClinicError> {
        Ok(Arc::new(Self {
            loudspeaker: Mutex::new(output.open()?),
            received: AtomicU64::new(0),
            missing: AtomicU64::new(0),
        }))
    }

    /// Plays what comes in a session; returns when that or the stream is over.
    pub(super) async fn receive<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let stream = open::<S>(session, Purpose::SpeechDown).await?;
        let stream = Finished(stream);
        let stream = &stream.0;
        send::<S>(stream, &Request::Listen).await?;
        let mut loudspeaker = self.loudspeaker.lock().await;
        let mut places = loudspeaker.begin();
        let mut ordered = Ordered::default();
        let mut last = None;
        loop {
            let (adu, is_over) = tokio::select! {
                adu = stream.recv() => {
                    let adu = adu.map_err(|error| ClinicError::of(&error))?;
                    let is_over = adu.is_none();
                    (adu, is_over)
                }
                // At the end of what is said, nothing follows that would end the wait.
                () = sleep(LIFETIME), if ordered.is_waiting() => (None, false),
            };
            let ready = match adu {
                None => ordered.finish(),
                Some(adu) => match Data::read(adu.data)? {
                    Data::Speech(packet) => ordered.push(packet.number, packet),
                    _ => return Err(WireError("other data among speech".to_owned()).into()),
                },
            };
            for (number, packet) in ready {
                let lost =
                    last.map_or(0, |last: u64| number.saturating_sub(last.saturating_add(1)));
                last = Some(number);
                self.missing.fetch_add(lost, Ordering::Relaxed);
                self.received.fetch_add(1, Ordering::Relaxed);
                loudspeaker.play(&mut places, &packet).await?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Reports what came in all sessions, if there was any.
    pub(super) fn report(&self, desk: &Desk) {
        let received = self.received.load(Ordering::Relaxed);
        let missing = self.missing.load(Ordering::Relaxed);
        if received > 0 {
            desk.report(Report::Heard { received, missing });
        }
    }
}

//! Stream of the ambulance's speech: packets as they come.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch::{AduSession, AduStream, Failure as _};
use tokio::{
    sync::{broadcast, watch},
    task::AbortHandle,
};

use super::{Desk, Report, Sound, streams};
use crate::{
    error::ClinicError,
    wire::{Data, Purpose, Speech},
};

/// Packets that wait for a session.
const WAITING_MAX: usize = 32;

/// Speech that is played.
#[derive(Debug)]
pub(super) struct Voice {
    packets: broadcast::Sender<Speech>,
    /// True once there was a session: it begins with the first packet.
    has_begun: watch::Sender<bool>,
    has_ended: watch::Sender<bool>,
    skipped: AtomicU64,
    playing: std::sync::OnceLock<AbortHandle>,
}

impl Voice {
    /// Speech that plays from the first session on.
    pub(super) fn play(sound: Sound, desk: &Desk) -> Arc<Self> {
        let voice = Arc::new(Self {
            packets: broadcast::Sender::new(WAITING_MAX),
            has_begun: watch::Sender::new(false),
            has_ended: watch::Sender::new(false),
            skipped: AtomicU64::new(0),
            playing: std::sync::OnceLock::new(),
        });
        let playing = tokio::spawn(voice.clone().playing(sound, desk.clone()));
        let _ = voice.playing.set(playing.abort_handle());
        voice
    }

    /// Ends the playing.
    pub(super) fn stop(&self) {
        if let Some(playing) = self.playing.get() {
            playing.abort();
        }
    }

    async fn playing(self: Arc<Self>, sound: Sound, desk: Desk) {
        let mut has_begun = self.has_begun.subscribe();
        // The sender is this task's.
        let _ = has_begun.wait_for(|has_begun| *has_begun).await;
        let mut number = 0;
        let give = |packet: Vec<u8>| {
            let packet = Speech {
                captured_us: desk.now_us(),
                number,
                bytes: packet.into(),
            };
            number += 1;
            if self.packets.send(packet).is_err() {
                self.skip(1);
            }
        };
        if let Err(error) = sound.play(give).await {
            desk.report(Report::Failed {
                purpose: Purpose::SpeechUp,
                why: error.to_string(),
            });
        }
        desk.report(Report::Spoken {
            packets: number,
            skipped: self.skipped.load(Ordering::Relaxed),
        });
        self.has_ended.send_replace(true);
    }

    fn skip(&self, packets: u64) {
        self.skipped.fetch_add(packets, Ordering::Relaxed);
    }

    /// Sends packets in a session, until the speech has ended.
    pub(super) async fn send<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let mut packets = self.packets.subscribe();
        let mut has_ended = self.has_ended.subscribe();
        let opened = session.open_stream(streams::speech()).await;
        let stream = opened.map_err(|error| ClinicError::of(&error))?;
        self.has_begun.send_replace(true);
        loop {
            let next = tokio::select! {
                biased;
                next = packets.recv() => next,
                _ = has_ended.wait_for(|has_ended| *has_ended) => break,
            };
            match next {
                Ok(packet) => match stream.try_send(Data::Speech(packet).to_adu()) {
                    Ok(_) => {}
                    Err(error) if error.send_error().is_some() => self.skip(1),
                    Err(error) => return Err(ClinicError::of(&error)),
                },
                Err(broadcast::error::RecvError::Lagged(packets)) => self.skip(packets),
                Err(broadcast::error::RecvError::Closed) => break,
            }
        }
        // An error means that the session is over, and there is nothing left to send.
        if stream.finish().is_ok() {
            let _ = stream.delivered().await;
        }
        Ok(())
    }
}

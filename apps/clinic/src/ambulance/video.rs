//! Stream of the video: pictures as they come, from one on at which a decoder can begin.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    AduSession, AduStream, Failure as _, StreamEvent,
    net::{Field, Outgoing},
};
use tokio::{
    sync::{broadcast, watch},
    task::AbortHandle,
};

use super::{Desk, Film, Report, encoder::Event, film::Wishes, keys::Keys, streams, thin::Thinner};
use crate::{
    error::ClinicError,
    wire::{Data, Picture, Purpose},
};

/// Pictures that wait for a session.
const WAITING_MAX: usize = 32;
/// Part of the rate of the stream at which its pictures are encoded, which leaves space for headers and for what is sent again.
const PART: f64 = 0.75;

/// A video that is played.
#[derive(Debug)]
pub(super) struct Video {
    pictures: broadcast::Sender<Picture>,
    is_repaired: bool,
    /// True if pictures that do not fit are left out: of a film, which is not encoded at the rate of the stream.
    is_thinned: bool,
    /// True once there was a session: it begins with the first picture.
    has_begun: watch::Sender<bool>,
    has_ended: watch::Sender<bool>,
    /// Rate that an encoder follows, in bit/s.
    rate: watch::Sender<u64>,
    keys: Keys,
    skipped: AtomicU64,
    playing: std::sync::OnceLock<AbortHandle>,
}

impl Video {
    /// A video that plays from the first session on; lost parts of pictures are sent again, if it is repaired.
    pub(super) fn play(
        film: Film,
        is_repaired: bool,
        desk: &Desk,
    ) -> Result<Arc<Self>, ClinicError> {
        if let Film::File { path, .. } = &film {
            // A file that is not there is reported at once.
            std::fs::File::open(path).map_err(|why| ClinicError::file(path, why))?;
        }
        let video = Arc::new(Self {
            pictures: broadcast::Sender::new(WAITING_MAX),
            is_repaired,
            is_thinned: !matches!(film, Film::Encoded(_)),
            has_begun: watch::Sender::new(false),
            has_ended: watch::Sender::new(false),
            rate: watch::Sender::new(match &film {
                Film::Encoded(source) => source.first_bps(),
                _ => 0,
            }),
            keys: Keys::new(matches!(film, Film::Encoded(_))),
            skipped: AtomicU64::new(0),
            playing: std::sync::OnceLock::new(),
        });
        let playing = tokio::spawn(video.clone().playing(film, desk.clone()));
        let _ = video.playing.set(playing.abort_handle());
        Ok(video)
    }

    /// Ends the playing.
    pub(super) fn stop(&self) {
        if let Some(playing) = self.playing.get() {
            playing.abort();
        }
    }

    async fn playing(self: Arc<Self>, film: Film, desk: Desk) {
        let mut has_begun = self.has_begun.subscribe();
        // The sender is this task's.
        let _ = has_begun.wait_for(|has_begun| *has_begun).await;
        let (mut number, mut group) = (0, 0);
        let give = |unit: crate::annexb::AccessUnit| {
            group += u32::from(unit.is_key);
            if unit.is_key {
                self.keys.made(number);
            }
            let picture = Picture {
                captured_us: desk.now_us(),
                number,
                kind: unit.kind,
                is_key: unit.is_key,
                group,
                bytes: unit.bytes.into(),
            };
            number += 1;
            if self.pictures.send(picture).is_err() {
                self.skip(1);
            }
        };
        let report = |event| {
            desk.report(match event {
                Event::Rate(rate_bps) => Report::Rate { rate_bps },
                Event::Failed(why) => Report::EncoderFailed { why },
            });
        };
        let wishes = Wishes {
            rate: self.rate.subscribe(),
            keys: &self.keys,
        };
        let played = film.play(wishes, report, give).await;
        if let Err(error) = played {
            desk.report(Report::Failed {
                purpose: Purpose::Video,
                why: error.to_string(),
            });
        }
        desk.report(Report::Film {
            pictures: number,
            skipped: self.skipped.load(Ordering::Relaxed),
            requests: self.keys.counts(),
        });
        self.has_ended.send_replace(true);
    }

    /// The hospital asks for a key picture after the one with this number.
    pub(super) fn request(&self, after: u64, desk: &Desk) {
        if self.keys.request(after) {
            desk.report(Report::KeyIgnored);
        }
    }

    fn skip(&self, pictures: u64) {
        self.skipped.fetch_add(pictures, Ordering::Relaxed);
    }

    /// Follows the rate that the stream may send; does not return.
    async fn follow<S: AduSession>(&self, stream: &S::Stream) -> std::convert::Infallible {
        while let Ok(event) = stream.next_event().await {
            if let StreamEvent::Throttle { rate } = event {
                self.rate.send_replace((rate.as_bps() as f64 * PART) as u64);
            }
        }
        // The session is over, which the sending notices.
        std::future::pending().await
    }

    /// True if a picture is sent; false if it is left out.
    async fn fits<S: AduSession>(
        &self,
        stream: &S::Stream,
        thinner: &mut Thinner,
        picture: &Picture,
    ) -> Result<bool, ClinicError> {
        if !self.is_thinned {
            return Ok(true);
        }
        let captured = Duration::from_micros(picture.captured_us);
        let lifetime = stream.spec().lifetime.unwrap_or(Duration::MAX);
        let Some(questions) = thinner.asks(captured, picture.is_key, picture.bytes.len(), lifetime)
        else {
            return Ok(thinner.takes([]));
        };
        let mut chances = [None; 2];
        let questions = questions.into_iter().flatten();
        for (chance, question) in chances.iter_mut().zip(questions) {
            let answer = stream.chances(question.bytes, question.within).await;
            let chances = answer.map_err(|error| ClinicError::of(&error))?;
            *chance = chances.map(|chances| chances.unless_lost);
        }
        Ok(thinner.takes(chances))
    }

    /// Sends pictures in a session, until the video has ended.
    pub(super) async fn send<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let mut pictures = self.pictures.subscribe();
        let mut has_ended = self.has_ended.subscribe();
        let opened = session.open_stream(streams::video(self.is_repaired)).await;
        let stream = opened.map_err(|error| ClinicError::of(&error))?;
        self.has_begun.send_replace(true);
        self.keys.begin();
        let mut has_begun = false;
        let mut thinner = Thinner::default();
        let mut following = std::pin::pin!(self.follow::<S>(&stream));
        loop {
            let next = tokio::select! {
                biased;
                next = pictures.recv() => next,
                never = &mut following => match never {},
                _ = has_ended.wait_for(|has_ended| *has_ended) => break,
            };
            match next {
                Ok(picture) if has_begun || picture.is_key => {
                    has_begun = true;
                    if !self.fits::<S>(&stream, &mut thinner, &picture).await? {
                        self.skip(1);
                        continue;
                    }
                    match stream.try_send(adu(picture)) {
                        Ok(_) => {}
                        Err(error) if error.send_error().is_some() => self.skip(1),
                        Err(error) => return Err(ClinicError::of(&error)),
                    }
                }
                Ok(_) => self.skip(1),
                Err(broadcast::error::RecvError::Lagged(pictures)) => self.skip(pictures),
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

/// A picture with the fields that objectives may use.
fn adu(picture: Picture) -> Outgoing {
    let fields = vec![
        (
            "frame_type".to_owned(),
            Field::Text(picture.kind.letter().to_owned()),
        ),
        ("group".to_owned(), Field::Number(f64::from(picture.group))),
    ];
    Outgoing {
        fields,
        ..Data::Picture(picture).to_adu().into()
    }
}

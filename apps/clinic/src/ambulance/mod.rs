//! Ambulance: plays a case, and sends it to a hospital in one session after the other.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Ambulance`]: its parts, and one session |
//! | `report` | [`Report`]: what it reports |
//! | `streams` | streams with what their contents need, and their messages |
//! | `buffer` | the last 30 s of the record |
//! | `ekg` | the record played, and its stream |
//! | `vitals` | numbers of each second, and their stream |
//! | `film` | pictures of a byte stream or of an ffmpeg process |
//! | `encoder`, `y4m` | an encoder that follows the rate of the paths, and the raw pictures that it gets |
//! | `keys` | requests for pictures at which a decoder can begin |
//! | `thin` | pictures of a film that are left out |
//! | `video` | the stream of the video |
//! | `sound` | packets of speech from a file or an encoder |
//! | `speech` | the stream of the ambulance's speech |
//! | `loudspeaker`, `listen` | the output of the hospital's speech, and its stream |
//! | `objectives` | tallies of the objectives by which it sends |
//! | `stills` | the watched folder, and its stream |

mod buffer;
mod ekg;
mod encoder;
mod film;
mod keys;
mod listen;
mod loudspeaker;
mod objectives;
mod report;
mod sound;
mod speech;
mod stills;
pub mod streams;
mod thin;
mod unsent;
mod video;
mod vitals;
pub mod y4m;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anabranch::{AduSession, AduStream, base::ids::encode_base32, ticket::Secret};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use self::{
    ekg::Ekg,
    listen::Listener,
    speech::Voice,
    stills::Stills,
    streams::{open, receive, send},
    video::Video,
    vitals::Vitals,
};
pub use self::{
    encoder::Source,
    film::Film,
    keys::Requests,
    loudspeaker::Output,
    report::Report,
    sound::Sound,
    thin::{Question, Thinner},
};
use crate::{
    error::ClinicError,
    wire::{Contents, Notice, Purpose, Request},
};

/// Time that a hospital may take for its first answer, and to keep the last that came.
const WELCOME_TIME: Duration = Duration::from_secs(10);

/// Settings of an ambulance.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of the case, chosen at random.
    pub run: u64,
    /// Secret of the hospital's ticket.
    pub secret: Secret,
    /// Header of the record that is played.
    pub ekg: Option<PathBuf>,
    /// The record begins anew at its end; frames go on being counted.
    pub is_looping: bool,
    /// The video.
    pub film: Option<Film>,
    /// Parts of pictures that were lost are sent again within their lifetime; pictures after them wait meanwhile.
    pub is_video_repaired: bool,
    /// The speech.
    pub sound: Option<Sound>,
    /// Output of what the hospital says; `None`: it is not heard.
    pub output: Option<Output>,
    /// Folder whose files are sent.
    pub stills: Option<PathBuf>,
    /// Origin of the contents, which the hospital's page shows.
    pub contents: Contents,
    /// Time after its end for which the patient consents to have the case kept; zero: it is to be removed then.
    pub consent: Duration,
}

/// Time of an ambulance, and reports: what all of its parts share.
#[derive(Clone, Debug)]
struct Desk {
    begun: Instant,
    reports: mpsc::Sender<Report>,
}

impl Desk {
    fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn report(&self, report: Report) {
        // Without space, nobody reads the reports.
        let _ = self.reports.try_send(report);
    }
}

/// An ambulance. Its record, its video and its folder go on between sessions.
#[derive(Debug)]
pub struct Ambulance {
    secret: Secret,
    run: u64,
    contents: Contents,
    consent: Duration,
    desk: Desk,
    ekg: Option<Arc<Ekg>>,
    vitals: Option<Arc<Vitals>>,
    video: Option<Arc<Video>>,
    voice: Option<Arc<Voice>>,
    listener: Option<Arc<Listener>>,
    stills: Option<Arc<Stills>>,
}

impl Ambulance {
    /// An ambulance whose case begins now; what happens is reported to `reports`, as long as that has space. Its parts run until it is
    /// dropped.
    ///
    /// # Errors
    /// The record, the video, the output of the speech or the folder cannot be opened.
    pub fn begin(settings: Settings, reports: mpsc::Sender<Report>) -> Result<Self, ClinicError> {
        let desk = Desk {
            begun: Instant::now(),
            reports,
        };
        let stills = settings.stills.as_deref();
        let stills = stills
            .map(|folder| Stills::watch(folder, &desk))
            .transpose()?;
        let video = settings
            .film
            .map(|film| Video::play(film, settings.is_video_repaired, &desk))
            .transpose()?;
        let listener = settings.output.map(Listener::begin).transpose()?;
        let voice = settings.sound.map(|sound| Voice::play(sound, &desk));
        let ekg = settings.ekg.as_deref();
        let ekg = ekg
            .map(|path| Ekg::play(path, settings.is_looping, &desk))
            .transpose()?;
        let (ekg, vitals) = match ekg {
            Some((ekg, vitals)) => (Some(ekg), Some(vitals)),
            None => (None, None),
        };
        Ok(Self {
            secret: settings.secret,
            run: settings.run,
            contents: settings.contents,
            consent: settings.consent,
            desk,
            ekg,
            vitals,
            video,
            voice,
            listener,
            stills,
        })
    }

    /// Sends in a session until the record, the video, the speech, and the files that are there then, are done; with files alone, until the session is
    /// over.
    /// In a later session, what the hospital lacks and is not too old is sent.
    ///
    /// # Errors
    /// The hospital refuses, or does not keep to the protocol; the session is over.
    pub async fn run<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let case = open::<S>(session, Purpose::Case).await?;
        let hello = Request::Hello {
            secret: encode_base32(&self.secret.0),
            run: self.run,
            contents: self.contents,
            takes_key: self.video.is_some(),
            consent_s: self.consent.as_secs(),
        };
        send::<S>(&case, &hello).await?;
        let welcome = timeout(WELCOME_TIME, receive::<S>(&case)).await;
        let (fills, takes_objectives) = match welcome
            .map_err(|_| ClinicError::Over("the hospital does not answer".to_owned()))??
        {
            Some(Notice::Welcome {
                kept_s,
                fills,
                takes_objectives,
            }) => {
                let kept = kept_s.map(Duration::from_secs);
                self.desk.report(Report::Keeps(kept));
                (fills, takes_objectives)
            }
            Some(Notice::Refused { why }) => return Err(refused(&why)),
            other => return Err(unexpected(other.as_ref())),
        };
        let streams = async {
            let is_last = watch::Sender::new(false);
            // A part that fails leaves the others alone; one whose session is over ends all.
            let live = async {
                let parts = tokio::try_join!(
                    self.part(
                        Purpose::Ekg,
                        self.ekg.as_ref().map(|ekg| ekg.send(session, fills))
                    ),
                    self.part(
                        Purpose::Vitals,
                        self.vitals.as_ref().map(|vitals| vitals.send(session))
                    ),
                    self.part(
                        Purpose::Video,
                        self.video.as_ref().map(|video| video.send(session))
                    ),
                    self.part(
                        Purpose::SpeechUp,
                        self.voice.as_ref().map(|voice| voice.send(session))
                    ),
                );
                if self.has_live() {
                    is_last.send_replace(true);
                }
                parts
            };
            let stills = self
                .stills
                .as_ref()
                .map(|stills| stills.send(session, is_last.subscribe()));
            let all = tokio::try_join!(live, self.part(Purpose::Stills, stills));
            if all.is_ok() && !self.has_live() && self.stills.is_none() && self.listener.is_some() {
                // It only listens.
                std::future::pending::<()>().await;
            }
            all.map(drop)
        };
        let ended = tokio::select! {
            ended = streams => ended,
            ended = self.answer::<S>(&case) => ended,
            ended = self.hear(session) => ended,
            ended = objectives::send(session, &case, &self.desk), if takes_objectives => ended,
        };
        if let Some(listener) = &self.listener {
            listener.report(&self.desk);
        }
        ended?;
        // The hospital closes the session once it has kept everything.
        let _ = case.finish();
        let _ = timeout(WELCOME_TIME, async {
            while let Ok(Some(_)) = receive::<S>(&case).await {}
        })
        .await;
        Ok(())
    }

    /// True if there is something that ends, after which files that are there are the last.
    fn has_live(&self) -> bool {
        self.ekg.is_some() || self.video.is_some() || self.voice.is_some()
    }

    /// Plays what the hospital says; returns when the session is over.
    async fn hear<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let listener = self.listener.as_ref();
        let receiving = listener.map(|listener| listener.receive(session));
        self.part(Purpose::SpeechDown, receiving).await?;
        std::future::pending().await
    }

    async fn part(
        &self,
        purpose: Purpose,
        part: Option<impl Future<Output = Result<(), ClinicError>>>,
    ) -> Result<(), ClinicError> {
        let Some(part) = part else { return Ok(()) };
        match part.await {
            Err(error) if !error.is_interruption() => {
                let why = error.to_string();
                self.desk.report(Report::Failed { purpose, why });
                Ok(())
            }
            ended => ended,
        }
    }

    /// Answers the questions of the hospital about the clock; returns when the session is over.
    async fn answer<S: AduSession>(&self, case: &S::Stream) -> Result<(), ClinicError> {
        loop {
            match receive::<S>(case).await? {
                Some(Notice::Clock { at_us }) => {
                    let own_us = self.desk.now_us();
                    send::<S>(case, &Request::Clock { at_us, own_us }).await?;
                }
                Some(Notice::Key { after }) => {
                    if let Some(video) = &self.video {
                        video.request(after, &self.desk);
                    }
                }
                Some(Notice::Refused { why }) => return Err(refused(&why)),
                None => {
                    return Err(ClinicError::Over(
                        "the hospital ended the session".to_owned(),
                    ));
                }
                other => return Err(unexpected(other.as_ref())),
            }
        }
    }
}

impl Drop for Ambulance {
    fn drop(&mut self) {
        if let Some(ekg) = &self.ekg {
            ekg.stop();
        }
        if let Some(video) = &self.video {
            video.stop();
        }
        if let Some(voice) = &self.voice {
            voice.stop();
        }
        if let Some(stills) = &self.stills {
            stills.stop();
        }
    }
}

fn refused(why: &str) -> ClinicError {
    use anabranch::base::text::{REASON_CHARS, printable};
    ClinicError::Refused(printable(why, REASON_CHARS))
}

fn unexpected(notice: Option<&Notice>) -> ClinicError {
    match notice {
        None => ClinicError::Over("the hospital ended a stream".to_owned()),
        Some(notice) => ClinicError::Protocol(format!("{notice:?}").chars().take(100).collect()),
    }
}

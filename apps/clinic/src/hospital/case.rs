//! One session with an ambulance: clock, and a task for each stream.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    AduStream, Session, Stream,
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    net::limited,
    peer_clock::{Age, PeerClock},
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    Report, Shared, ekg,
    greeting::{Hello, admit, greeting},
    keys::Keys,
    live::{self, Dated, Live},
    speech, stills, video, vitals,
};
use crate::{
    error::ClinicError,
    wire::{CODE_MALFORMED, Notice, Purpose, Request, decode, encode},
};

/// Time for the greeting.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Time between two questions about the clock.
const CLOCK_TIME: Duration = Duration::from_secs(1);
/// Time between two looks at the paths, for viewers.
const PATHS_TIME: Duration = Duration::from_millis(500);

/// Folder, clock, view and reports, shared by the streams of a session.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) folder: PathBuf,
    /// Number of the case in the view.
    pub(super) number: u32,
    pub(super) keys: Keys,
    shared: Arc<Shared>,
    clock: Mutex<PeerClock>,
}

impl Case {
    pub(super) fn report(&self, report: Report) {
        self.shared.report(report);
    }

    pub(super) fn failed(&self, purpose: Purpose, error: &ClinicError) {
        let why = printable(&error.to_string(), REASON_CHARS);
        self.live().failed(self.number, purpose, &why);
        self.report(Report::Failed { purpose, why });
    }

    fn clock(&self) -> MutexGuard<'_, PeerClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Age of what the ambulance captured at this time; `None`: its clock is not known yet.
    pub(super) fn age(&self, captured_us: u64) -> Option<Age> {
        self.clock().age(self.shared.now_us(), captured_us)
    }

    /// Time of what the ambulance captured at this time, by the hospital's clock.
    pub(super) fn dated(&self, captured_us: u64) -> Dated {
        let now_us = self.shared.now_us();
        live::dated(now_us, self.clock().age(now_us, captured_us))
    }

    /// The view of the newest case.
    pub(super) fn live(&self) -> &Live {
        &self.shared.live
    }

    /// Time of the hospital.
    pub(super) fn now_us(&self) -> u64 {
        self.shared.now_us()
    }
}

/// Serves a session until it is over.
pub(super) async fn serve(session: Session, shared: Arc<Shared>) {
    let node = session.peer();
    let greeted = timeout(HELLO_TIME, greeting(&session, &shared)).await;
    let Ok(greeted) = greeted else {
        return session.close(1, "no greeting");
    };
    let admitted = async {
        let (control, hello) = greeted?;
        // A slow disk, on which the node is noted, is not the peer's delay.
        admit(&control, node, &shared).await?;
        Ok::<_, String>((control, hello))
    };
    let (control, hello) = match admitted.await {
        Ok(admitted) => admitted,
        Err(end) => {
            let why = printable(&end, REASON_CHARS);
            limited!(info, peer = %node, error = why, "a session of the clinic was refused");
            // The notice has its time to arrive; the peer may close before.
            let _ = timeout(HELLO_TIME, session.closed()).await;
            session.close(1, &why);
            return;
        }
    };
    let served = converse(&session, &control, hello, &shared).await;
    let why = match served {
        Ok(()) => "the ambulance has sent everything".to_owned(),
        Err(error) => printable(&error.to_string(), REASON_CHARS),
    };
    session.close(0, &why);
    shared.report(Report::Left { node, why });
}

async fn converse(
    session: &Session,
    control: &Stream,
    hello: Hello,
    shared: &Arc<Shared>,
) -> Result<(), ClinicError> {
    let node: NodeId = session.peer();
    let mut place = shared
        .door
        .enter(hello.run)
        .await
        .map_err(ClinicError::Over)?;
    let folder = shared.store.join(format!("{node}-{:016x}", hello.run));
    let kept = Kept::begin(shared, folder.clone(), hello.consent_s);
    let made = tokio::fs::create_dir_all(folder.join("stills")).await;
    made.map_err(|why| ClinicError::file(&folder, why))?;
    kept.note();
    shared.report(Report::Begun {
        node,
        folder: folder.clone(),
        kept: kept.time,
    });
    let kept_s = Some(kept.time.as_secs());
    let sent = control
        .send(encode(&Notice::Welcome {
            kept_s,
            fills: true,
            takes_objectives: true,
        }))
        .await;
    sent.map_err(|error| ClinicError::Over(error.to_string()))?;
    // From here on, the end of the session ends the view.
    let number = shared
        .live
        .begin((node, hello.run), hello.contents, kept.time);
    let case = Arc::new(Case {
        folder,
        number,
        keys: Keys::default(),
        shared: shared.clone(),
        clock: Mutex::default(),
    });
    // Tasks end with the set: nothing writes when the turn is given on.
    let mut streams = JoinSet::new();
    let ended = tokio::select! {
        ended = attend(control, &case) => ended,
        ended = accept(session, &case, &mut streams) => ended,
        never = look(session, &case) => match never {},
        failed = request_keys(control, &case), if hello.takes_key => Err(failed),
        () = place.taken() => Err(ClinicError::Over("the ambulance has begun another session".to_owned())),
    };
    if ended.is_ok() {
        // What is here is kept before the end.
        let _ = timeout(HELLO_TIME, async {
            while streams.join_next().await.is_some() {}
        })
        .await;
    }
    streams.shutdown().await;
    let why = match &ended {
        Ok(()) => "the ambulance has sent everything".to_owned(),
        Err(error) => error.to_string(),
    };
    shared.live.end(number, &why);
    kept.end(ended.is_ok());
    ended
}

/// A case that is open, and with it kept.
#[derive(Debug)]
struct Kept<'s> {
    shared: &'s Shared,
    folder: PathBuf,
    /// Time for which it is kept after its end.
    time: Duration,
    is_complete: bool,
}

impl<'s> Kept<'s> {
    fn begin(shared: &'s Shared, folder: PathBuf, consent_s: u64) -> Self {
        Self {
            time: shared.keeping.begin(&folder, consent_s),
            shared,
            folder,
            is_complete: false,
        }
    }

    /// Writes the note of the case. A disk that is full is no reason to refuse it.
    fn note(&self) {
        if let Err(why) = self.shared.keeping.note(&self.folder) {
            let (purpose, why) = (
                Purpose::Case,
                format!("the time for which it is kept cannot be noted: {why}"),
            );
            self.shared.report(Report::Failed { purpose, why });
        }
    }

    fn end(mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        // Also when the session's task is ended.
        if let Err(error) = self.shared.keeping.end(&self.folder, self.is_complete) {
            tracing::warn!(folder = %self.folder.display(), %error, "the end of a case cannot be noted");
        }
    }
}

/// Takes streams; returns when the session is over.
async fn accept(
    session: &Session,
    case: &Arc<Case>,
    streams: &mut JoinSet<()>,
) -> Result<(), ClinicError> {
    let mut taken = Vec::new();
    loop {
        let stream = tokio::select! {
            stream = session.accept_stream() => stream,
            Some(_) = streams.join_next() => continue,
        };
        let stream = stream.map_err(|error| ClinicError::Over(error.to_string()))?;
        let purpose = Purpose::of_label(&stream.spec().label);
        match purpose {
            Some(purpose) if purpose != Purpose::Case && !taken.contains(&purpose) => {
                taken.push(purpose);
                streams.spawn(receive(purpose, stream, case.clone()));
            }
            _ => refuse(&stream),
        }
    }
}

/// Looks at the paths of the session, for viewers; does not return.
async fn look(session: &Session, case: &Case) -> std::convert::Infallible {
    let mut ticks = interval(PATHS_TIME);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        case.live().paths(case.number, &session.channels());
    }
}

/// Asks for key pictures; returns when the session is over.
async fn request_keys(control: &Stream, case: &Case) -> ClinicError {
    let mut waits = case.live().waits();
    loop {
        let after = tokio::select! {
            after = case.keys.next() => after,
            changed = waits.changed() => {
                // The sender is as old as the view.
                if changed.is_ok() && *waits.borrow() == case.number {
                    case.keys.want();
                }
                continue;
            }
        };
        if let Err(error) = notify(control, &Notice::Key { after }).await {
            return error;
        }
    }
}

fn refuse(stream: &Stream) {
    // An error means that it is over.
    let _ = (stream.reset(CODE_MALFORMED), stream.stop(CODE_MALFORMED));
}

async fn receive(purpose: Purpose, stream: Stream, case: Arc<Case>) {
    let received = match purpose {
        Purpose::Ekg => ekg::receive(&stream, &case).await,
        Purpose::Vitals => vitals::receive(&stream, &case).await,
        Purpose::Video => video::receive(&stream, &case).await,
        Purpose::Stills => stills::receive(&stream, &case).await,
        Purpose::SpeechUp => speech::receive(&stream, &case).await,
        Purpose::SpeechDown => speech::speak(&stream, &case).await,
        Purpose::Case => Ok(()),
    };
    match received {
        Ok(()) => {}
        Err(error) if error.is_interruption() => {}
        Err(error) => {
            case.failed(purpose, &error);
            refuse(&stream);
        }
    }
}

/// Asks for the clock of the ambulance, and takes the tallies of its objectives; returns when it has sent everything.
async fn attend(control: &Stream, case: &Case) -> Result<(), ClinicError> {
    let mut ticks = interval(CLOCK_TIME);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let adu = tokio::select! {
            _ = ticks.tick() => {
                let at_us = case.shared.now_us();
                let asked = AduStream::send(control, encode(&Notice::Clock { at_us })).await;
                asked.map_err(|error| ClinicError::of(&error))?;
                continue;
            }
            adu = AduStream::recv(control) => adu,
        };
        match adu.map_err(|error| ClinicError::of(&error))? {
            None => return Ok(()),
            Some(adu) => match decode(&adu.data)? {
                Request::Clock { at_us, own_us } => {
                    let now_us = case.shared.now_us();
                    case.clock().answered(at_us, own_us, now_us);
                }
                Request::Objectives { at_us, objectives } => {
                    let dated = case.dated(at_us);
                    case.live().objectives(case.number, objectives, dated);
                }
                _ => {
                    return Err(ClinicError::Protocol(
                        "another message on the stream 'case'".to_owned(),
                    ));
                }
            },
        }
    }
}

/// The next ADU of a stream.
pub(super) async fn next<T: AduStream>(
    stream: &T,
) -> Result<Option<anabranch::net::session::Adu>, ClinicError> {
    stream.recv().await.map_err(|error| ClinicError::of(&error))
}

/// Sends a notice.
pub(super) async fn notify<T: AduStream>(stream: &T, notice: &Notice) -> Result<(), ClinicError> {
    let sent = stream.send(encode(notice)).await;
    sent.map(drop).map_err(|error| ClinicError::of(&error))
}

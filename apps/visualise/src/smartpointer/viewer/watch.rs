//! Streams of a session with a source.

use std::time::Duration;

use anabranch::{AduSession, AduStream, Priority, StreamSpec, peer_clock::PeerClock};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    Arrived, Report, Shared, Viewer,
    account::{Account, record},
};
use crate::{
    error::VisualiseError,
    smartpointer::{
        frame::{FramePart, HEADER_BYTES, Part},
        wire::{Begun, Label, Notice, Request, Sent},
    },
    wire::encode,
};

/// Time after which a frame is of no use: what has not been sent by then is skipped.
const LIFETIME: Duration = Duration::from_secs(2);
/// Time between two questions for the clock of the source.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);
/// Frames that wait to be taken in.
const FRAMES_MAX: usize = 16;

/// Something that a stream with frames received.
enum Received {
    Frame(Part, FramePart),
    Watched(Part, u64),
    Promise(Part, Option<u64>, String),
    Ended(String),
    Failed(VisualiseError),
}

impl Viewer {
    /// Watches a molecule until its source shows nothing more; returns the reason.
    ///
    /// # Errors
    /// The source has no such molecule, or not for this node; it does not keep to the protocol; the session is over.
    pub async fn watch<S: AduSession>(&self, session: &S) -> Result<String, VisualiseError> {
        let shared = &self.shared;
        let control = open(session, shared, Priority::URGENT, None).await?;
        send::<S>(&control, shared, &Request::Look).await?;
        let begun = match received::<S>(&control, shared).await? {
            Sent::Notice(Notice::Begun(begun)) if begun.period_us > 0 => begun,
            other => return Err(unexpected(&other)),
        };
        let elements = match received::<S>(&control, shared).await? {
            Sent::Elements(elements) if elements.len() == begun.atoms as usize => elements,
            other => return Err(unexpected(&other)),
        };
        {
            let mut inner = shared.inner();
            inner.session = shared.session();
            inner.begun = Some(begun);
            inner.elements = elements;
            inner.parts = Default::default();
            inner.clock = PeerClock::default();
            inner.why = None;
        }
        shared.report(Report::Begun(begun));
        let (sender, arriving) = mpsc::channel(FRAMES_MAX);
        let mut reading = JoinSet::new();
        for part in Part::ALL {
            let priority = match part.is_promised() {
                true => Priority::NORMAL,
                false => Priority::BULK,
            };
            let stream = open(session, shared, priority, Some(LIFETIME)).await?;
            let viewer = begun.viewer;
            send::<S>(&stream, shared, &Request::Watch { viewer, part }).await?;
            let (sender, shared) = (sender.clone(), self.shared.clone());
            reading.spawn(async move { read::<S>(&stream, part, &sender, &shared).await });
        }
        drop(sender);
        let watched = tokio::select! {
            watched = take(shared, &begun, arriving) => watched,
            failed = converse::<S>(&control, shared) => Err(failed),
        };
        let why = match &watched {
            Ok(why) => why.clone(),
            Err(error) => error.to_string(),
        };
        let accounts = {
            let mut inner = shared.inner();
            inner.why = Some(why.clone());
            inner.parts.clone()
        };
        let count = |of: fn(&Account) -> u64| accounts.each_ref().map(of);
        shared.report(Report::Ended {
            why,
            frames: count(|account| account.frames),
            skipped: count(|account| account.skipped),
        });
        watched
    }
}

fn of<S: AduSession>(error: &S::Error, shared: &Shared) -> VisualiseError {
    let name = shared.settings.name.clone();
    let command = format!("anabranch smartpointer source --name {name}");
    let label = Label { name }.to_string();
    VisualiseError::of(error, &shared.settings.name, label, command)
}

async fn open<S: AduSession>(
    session: &S,
    shared: &Shared,
    priority: Priority,
    lifetime: Option<Duration>,
) -> Result<S::Stream, VisualiseError> {
    let name = shared.settings.name.clone();
    let spec = StreamSpec {
        priority,
        lifetime,
        duplex: true,
        label: Label { name }.to_string(),
        ..StreamSpec::default()
    };
    let stream = session.open_stream(spec).await;
    stream.map_err(|error| of::<S>(&error, shared))
}

async fn send<S: AduSession>(
    stream: &S::Stream,
    shared: &Shared,
    request: &Request,
) -> Result<(), VisualiseError> {
    let sent = stream.send(encode(request)).await;
    sent.map(drop).map_err(|error| of::<S>(&error, shared))
}

/// The next ADU of a stream.
async fn received<S: AduSession>(
    stream: &S::Stream,
    shared: &Shared,
) -> Result<Sent, VisualiseError> {
    let adu = stream.recv().await;
    let adu = adu.map_err(|error| of::<S>(&error, shared))?;
    let ended = || VisualiseError::Over("the source ended a stream".to_owned());
    Ok(Sent::read(&adu.ok_or_else(ended)?.data)?)
}

fn unexpected(sent: &Sent) -> VisualiseError {
    let words = format!("{sent:?}");
    VisualiseError::Protocol(words.chars().take(100).collect())
}

/// Sends views as they change, and asks for the clock of the source; returns on failure only.
async fn converse<S: AduSession>(control: &S::Stream, shared: &Shared) -> VisualiseError {
    let mut views = shared.view.subscribe();
    let sending = async {
        let mut ticks = interval(CLOCK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let is_changed = views.borrow().0 > 0;
        if is_changed {
            views.mark_changed();
        }
        loop {
            let request = tokio::select! {
                _ = ticks.tick() => Request::Clock { at_us: shared.micros(Instant::now()) },
                // The sender is of this viewer.
                _ = views.changed() => {
                    let (number, planes) = views.borrow_and_update().clone();
                    Request::View { number, planes }
                }
            };
            if let Err(error) = send::<S>(control, shared, &request).await {
                return error;
            }
        }
    };
    let receiving = async {
        loop {
            match received::<S>(control, shared).await {
                Ok(Sent::Notice(Notice::Clock { at_us, own_us })) => {
                    let now = shared.micros(Instant::now());
                    // Before the first frame, the source has no clock.
                    if own_us > 0 {
                        shared.inner().clock.answered(at_us, own_us, now);
                    }
                }
                // The streams with frames end by themselves.
                Ok(Sent::Notice(Notice::Ended { .. })) => std::future::pending().await,
                Ok(other) => return unexpected(&other),
                Err(error) => return error,
            }
        }
    };
    tokio::select! {
        error = sending => error,
        error = receiving => error,
    }
}

/// Takes in what the streams with frames receive, until all have ended or one fails.
async fn take(
    shared: &Shared,
    begun: &Begun,
    mut arriving: mpsc::Receiver<Received>,
) -> Result<String, VisualiseError> {
    let mut ended = 0;
    loop {
        match arriving.recv().await {
            Some(Received::Frame(part, sent)) => {
                let arrived = note(shared, part, &sent, begun)?;
                shared.give(&record(&sent));
                if let Some(told) = &shared.settings.arrived {
                    // Without space, nobody reads them.
                    let _ = told.try_send(arrived);
                }
            }
            Some(Received::Watched(part, next)) => {
                shared.inner().parts[part.index()].begun(next);
            }
            Some(Received::Promise(part, rate_bps, why)) => {
                {
                    let account = &mut shared.inner().parts[part.index()];
                    account.rate_bps = rate_bps;
                    account.why.clone_from(&why);
                }
                shared.report(Report::Promise {
                    part,
                    rate_bps,
                    why,
                });
            }
            Some(Received::Ended(why)) => {
                ended += 1;
                if ended == Part::ALL.len() {
                    return Ok(why);
                }
            }
            Some(Received::Failed(error)) => return Err(error),
            None => return Err(VisualiseError::Over("the streams are over".to_owned())),
        }
    }
}

/// Notes a frame in the account of its part.
fn note(
    shared: &Shared,
    part: Part,
    sent: &FramePart,
    begun: &Begun,
) -> Result<Arrived, VisualiseError> {
    let at = Instant::now();
    let mut inner = shared.inner();
    inner.parts[part.index()].arrived(part, sent, begun, at)?;
    Ok(Arrived {
        part,
        frame: sent.frame,
        view: sent.view,
        count: sent.count(),
        bytes: HEADER_BYTES + sent.body.len(),
        at,
        age: inner.age(sent.frame, shared.micros(at)),
    })
}

/// Reads a stream with frames until it has ended or failed, or nobody is interested.
async fn read<S: AduSession>(
    stream: &S::Stream,
    part: Part,
    sender: &mpsc::Sender<Received>,
    shared: &Shared,
) {
    loop {
        let next = match received::<S>(stream, shared).await {
            Ok(Sent::Frame(sent)) => Received::Frame(part, sent),
            Ok(Sent::Notice(Notice::Watched { next })) => Received::Watched(part, next),
            Ok(Sent::Notice(Notice::Promise { rate_bps, why })) => {
                Received::Promise(part, rate_bps, why)
            }
            Ok(Sent::Notice(Notice::Ended { why })) => Received::Ended(why),
            Ok(other) => Received::Failed(unexpected(&other)),
            Err(error) => Received::Failed(error),
        };
        let is_over = matches!(next, Received::Ended(_) | Received::Failed(_));
        if sender.send(next).await.is_err() || is_over {
            return;
        }
    }
}

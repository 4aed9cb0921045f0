//! Streams of a session with a simulation, and the frames of the endpoints from their sections.

use std::sync::Arc;

use anabranch::{AduSession, AduStream, Priority, StreamSpec};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch as state},
    task::JoinSet,
};

use super::{
    Report, Shared, Viewer,
    assemble::{Assembled, Assembler},
    room::Room,
    section::{Arrived, Joining},
    steer,
};
use crate::{
    error::VisualiseError,
    imd::{Section, Sections, SessionInfo},
    wire::{Begun, Label, Notice, Purpose, Request, Sent, encode},
};

/// Streams by the sections that they carry, with their priority: energies before all, velocities and forces with what is left.
const STREAMS: [(Sections, Priority); 4] = [
    (
        Sections::of(&[Section::Time, Section::Energies]),
        Priority::URGENT,
    ),
    (
        Sections::of(&[Section::Box, Section::Positions]),
        Priority::NORMAL,
    ),
    (Sections::of(&[Section::Velocities]), Priority::BULK),
    (Sections::of(&[Section::Forces]), Priority::BULK),
];
/// Memory of an endpoint for frames that are not whole.
const PENDING_BYTES: usize = 128 << 20;
/// Frames that a stream may be ahead of another one, if nothing is skipped.
const AHEAD_MAX: u64 = 64;
/// Sections that wait for their assembly.
const SECTIONS_MAX: usize = 16;

/// A stream with frames that has begun.
struct Watched<T> {
    stream: T,
    sections: Sections,
    begun: Begun,
}

/// Something that a stream received.
enum Received {
    Section(usize, Arrived),
    Ended(String),
    Failed(VisualiseError),
}

/// Frames of an endpoint.
struct Endpoint {
    sections: Sections,
    assembler: Assembler,
    whole: u64,
    skipped: u64,
}

impl Viewer {
    /// Watches a simulation and serves its frames until it is over; returns the reason. A viewer that waits begins with its first client.
    ///
    /// # Errors
    /// The source has no such simulation, or not for this node; the session is over. Whole frames that had arrived are served.
    pub async fn watch<S: AduSession>(&mut self, session: &S) -> Result<String, VisualiseError> {
        let wanted = (self.endpoints.iter()).fold(Sections::default(), |all, one| all.or(*one));
        let shared = self.shared.clone();
        if shared.settings.is_waiting {
            tokio::select! {
                () = self.connected() => {}
                _ = session.closed() => {
                    let words = "the session with the source is over";
                    return Err(VisualiseError::Over(words.to_owned()));
                }
            }
        }
        let watched = open(session, &shared, wanted).await?;
        let begun = watched[0].begun;
        if watched.iter().any(|one| one.begun.session != begun.session) {
            let words = "the simulation began anew as it was opened";
            return Err(VisualiseError::Over(words.to_owned()));
        }
        let info = begun.info()?;
        if info.sections.and(wanted).is_empty() {
            return Err(VisualiseError::Nothing {
                sent: info.sections.to_string(),
                wanted: wanted.to_string(),
            });
        }
        shared.report(Report::Begun(info));
        let room = Arc::new(Room::new(info, self.endpoints.iter().copied()));
        let _open = OpenRoom::new(&shared, room.clone());
        let next = watched.iter().map(|one| one.begun.next).max();
        let endpoint = |endpoint| {
            let sections = room.info(endpoint).sections;
            Endpoint {
                sections,
                assembler: Assembler::new(sections, next.unwrap_or_default(), PENDING_BYTES),
                whole: 0,
                skipped: 0,
            }
        };
        let mut endpoints: Vec<_> = (0..self.endpoints.len()).map(endpoint).collect();
        let serving = async {
            if shared.settings.is_waiting {
                room.go.notified().await;
            }
            let go = watched[0].stream.send(encode(&Request::Go)).await;
            go.map_err(|error| of::<S>(&error, &shared))?;
            serve::<S>(watched, info, &mut endpoints, &room, &shared).await
        };
        let served = tokio::select! {
            served = serving => served,
            never = steer::steer(session, &shared, &mut self.steered),
                if shared.settings.is_steering => match never {},
        };
        let why = match &served {
            Ok(why) => why.clone(),
            Err(error) => error.to_string(),
        };
        shared.report(Report::Ended {
            why,
            frames: endpoints.iter().map(|one| one.whole).collect(),
            skipped: endpoints.iter().map(|one| one.skipped).collect(),
        });
        served
    }
}

/// The room that clients enter, until this is dropped.
struct OpenRoom<'a> {
    shared: &'a Shared,
    room: Arc<Room>,
}

impl<'a> OpenRoom<'a> {
    fn new(shared: &'a Shared, room: Arc<Room>) -> Self {
        shared.room.send_replace(Some(room.clone()));
        Self { shared, room }
    }
}

impl Drop for OpenRoom<'_> {
    fn drop(&mut self) {
        self.shared.room.send_replace(None);
        self.room.close();
    }
}

fn of<S: AduSession>(error: &S::Error, shared: &Shared) -> VisualiseError {
    shared.error(error, Purpose::Watch)
}

/// Opens the streams of the sections that are wanted, and waits until they begin.
async fn open<S: AduSession>(
    session: &S,
    shared: &Shared,
    wanted: Sections,
) -> Result<Vec<Watched<S::Stream>>, VisualiseError> {
    let label = Label {
        purpose: Purpose::Watch,
        name: shared.settings.name.clone(),
    };
    let mut streams = Vec::new();
    for (sections, priority) in STREAMS {
        let sections = sections.and(wanted);
        if sections.is_empty() {
            continue;
        }
        let spec = StreamSpec {
            priority,
            duplex: true,
            label: label.to_string(),
            ..StreamSpec::default()
        };
        let stream = session.open_stream(spec).await;
        let stream = stream.map_err(|error| of::<S>(&error, shared))?;
        let request = Request::Watch {
            sections: sections.bits(),
        };
        let sent = stream.send(encode(&request)).await;
        sent.map_err(|error| of::<S>(&error, shared))?;
        streams.push((sections, stream));
    }
    let mut watched = Vec::new();
    for (sections, stream) in streams {
        let begun = loop {
            match received::<S>(&stream, shared).await? {
                Sent::Notice(Notice::Begun(begun)) => break begun,
                Sent::Notice(Notice::Waiting { why }) if watched.is_empty() => {
                    shared.report(Report::Waiting { why });
                }
                Sent::Notice(Notice::Waiting { .. }) => {}
                other => return Err(unexpected(&other)),
            }
        };
        watched.push(Watched {
            stream,
            sections,
            begun,
        });
    }
    Ok(watched)
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

/// Serves frames until all streams have ended, or one fails.
async fn serve<S: AduSession>(
    watched: Vec<Watched<S::Stream>>,
    info: SessionInfo,
    endpoints: &mut [Endpoint],
    room: &Room,
    shared: &Arc<Shared>,
) -> Result<String, VisualiseError> {
    let (sender, mut arriving) = mpsc::channel(SECTIONS_MAX);
    // The frame up to which streams are read, if nothing is skipped.
    let bound = state::Sender::new(match shared.settings.is_waiting {
        true => AHEAD_MAX,
        false => u64::MAX,
    });
    let mut reading = JoinSet::new();
    // The last frame of each stream of which something is sent.
    let mut last = Vec::new();
    let streams = watched.len();
    for (number, one) in watched.into_iter().enumerate() {
        let is_sent = !one.sections.and(info.sections).is_empty();
        last.push(is_sent.then_some(one.begun.next));
        let (sender, bound, shared) = (sender.clone(), bound.subscribe(), shared.clone());
        reading.spawn(read::<S>(one, number, sender, bound, shared));
    }
    if shared.settings.is_waiting {
        bound.send_replace(
            last.iter()
                .flatten()
                .min()
                .map_or(u64::MAX, |next| next + AHEAD_MAX),
        );
    }
    let mut atoms = None;
    let mut ended = 0;
    loop {
        // A sender is here.
        match arriving.recv().await {
            Some(Received::Section(stream, arrived)) => {
                same_atoms(&mut atoms, &arrived)?;
                give(endpoints, &arrived, room, shared).await;
                last[stream] = Some(arrived.frame);
                if shared.settings.is_waiting {
                    let slowest = last.iter().flatten().min();
                    bound.send_replace(slowest.map_or(u64::MAX, |last| last + AHEAD_MAX));
                }
            }
            Some(Received::Ended(why)) => {
                ended += 1;
                if ended == streams {
                    return Ok(why);
                }
            }
            Some(Received::Failed(error)) => return Err(error),
            None => return Err(VisualiseError::Over("the streams are over".to_owned())),
        }
    }
}

/// The number of atoms of a session does not change: a client would not notice where a frame ends.
fn same_atoms(atoms: &mut Option<usize>, arrived: &Arrived) -> Result<(), VisualiseError> {
    if arrived.section.fixed_bytes().is_some() {
        return Ok(());
    }
    let bytes = arrived.body.len();
    match *atoms.get_or_insert(bytes) == bytes {
        true => Ok(()),
        false => Err(VisualiseError::Protocol(format!(
            "frame {} has another number of atoms than those before",
            arrived.frame
        ))),
    }
}

/// Gives a section to the endpoints, and the frames that are whole with it to their clients.
async fn give(endpoints: &mut [Endpoint], arrived: &Arrived, room: &Room, shared: &Shared) {
    for (number, endpoint) in endpoints.iter_mut().enumerate() {
        let Arrived {
            section,
            frame,
            body,
        } = arrived;
        for assembled in endpoint.assembler.arrived(*section, *frame, body) {
            match assembled {
                Assembled::Whole(frame) => {
                    endpoint.whole += 1;
                    let packets: Bytes = frame.packets(endpoint.sections);
                    room.give(number, &packets, shared.settings.is_waiting)
                        .await;
                }
                Assembled::Skipped(frames) => {
                    endpoint.skipped += frames;
                    shared.report(Report::Skipped {
                        sections: endpoint.sections.to_string(),
                        frames,
                    });
                }
            }
        }
    }
}

/// Reads a stream until it has ended or failed, or nobody is interested.
async fn read<S: AduSession>(
    watched: Watched<S::Stream>,
    number: usize,
    sender: mpsc::Sender<Received>,
    mut bound: state::Receiver<u64>,
    shared: Arc<Shared>,
) {
    let mut joining = Joining::new(watched.sections, watched.begun.next);
    loop {
        let next = match received::<S>(&watched.stream, &shared).await {
            Ok(Sent::Part(part)) => match joining.arrived(part) {
                Ok(None) => continue,
                Ok(Some(arrived)) => {
                    let frame = arrived.frame;
                    if bound.wait_for(|bound| frame <= *bound).await.is_err() {
                        return;
                    }
                    Received::Section(number, arrived)
                }
                Err(error) => Received::Failed(error.into()),
            },
            Ok(Sent::Notice(Notice::Promise { rate_bps, why })) => {
                shared.report(Report::Promise { rate_bps, why });
                continue;
            }
            Ok(Sent::Notice(Notice::Ended { why })) => Received::Ended(why),
            Ok(other) => Received::Failed(unexpected(&other)),
            Err(error) => Received::Failed(error),
        };
        let is_over = !matches!(next, Received::Section(..));
        if sender.send(next).await.is_err() || is_over {
            return;
        }
    }
}

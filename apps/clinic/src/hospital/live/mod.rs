//! Live view of the newest case: its state, and samples and pictures as they come, for any number of viewers.
//!
//! Samples and pictures are kept in a ring each, which all viewers share. A viewer that does not read finds the oldest ones gone, which is
//! counted, and holds up neither the case nor other viewers.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Live`]: what sessions give, and viewers get |
//! | `seats` | seats of viewers |
//! | `item` | [`Item`]: samples, pictures and speech |
//! | `state` | [`State`] of the case |
//! | `talk` | what viewers say, one at a time |
//! | `viewer` | [`Viewer`], which reads |

mod item;
mod seats;
mod state;
mod talk;
#[cfg(test)]
mod tests;
mod viewer;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    net::session::ChannelReport,
    peer_clock::Age,
};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::Instant,
};

pub use self::{
    item::Item,
    state::{Dated, Ekg, Failed, Lead, Objectives, PathState, Speaker, State, Still, Vital},
    talk::{Refusal, Utterance},
    viewer::Viewer,
};
use self::{seats::Seats, talk::Talk};
use super::{Packets, Pictures};
use crate::{
    wfdb::Header,
    wire::{Contents, Objective, Picture, Purpose, Samples, Speech},
};

/// Viewers at a time.
pub const VIEWERS_MAX: usize = 8;
/// ADUs of samples that wait for a viewer: those of ten seconds.
const SAMPLES_MAX: usize = 256;
/// Bytes of samples in an ADU that is shown; a longer one is counted only.
const SAMPLES_BYTES_MAX: usize = 64 << 10;
/// Pictures that wait for a viewer: those of one or two seconds.
const PICTURES_MAX: usize = 48;
/// Bytes of a picture that is shown; a larger one is counted only.
const PICTURE_BYTES_MAX: usize = 1 << 20;
/// Packets of speech that wait for a viewer: those of two seconds.
const SPEECH_MAX: usize = 100;
/// Pictures since the last at which a decoder can begin that a new viewer gets, and their bytes.
const GROUP_MAX: (usize, usize) = (300, 8 << 20);

/// The newest case, as viewers see it.
#[derive(Debug)]
pub struct Live {
    begun: Instant,
    inner: Mutex<Inner>,
    samples: broadcast::Sender<Item>,
    pictures: broadcast::Sender<Item>,
    speech: broadcast::Sender<Item>,
    seats: Seats,
    /// Number of the newest case of which a viewer waits for a key picture, changed with each that does.
    waits: watch::Sender<u32>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Node and run of the case.
    key: Option<(NodeId, u64)>,
    /// Pictures from the last on at which a decoder can begin, and their bytes; empty if they are too many.
    group: VecDeque<Item>,
    group_bytes: usize,
    /// Number of the last picture at which a decoder can begin.
    last_key: Option<u64>,
    talk: Talk,
    /// Places of the files that are listed.
    stills: VecDeque<PathBuf>,
}

impl Live {
    /// A view without a case; `begun` is the zero of the hospital's clock.
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            inner: Mutex::default(),
            samples: broadcast::Sender::new(SAMPLES_MAX),
            pictures: broadcast::Sender::new(PICTURES_MAX),
            speech: broadcast::Sender::new(SPEECH_MAX),
            seats: Seats::default(),
            waits: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time of the hospital, in microseconds since its start.
    pub fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// The state now.
    pub fn state(&self) -> State {
        let now_us = self.now_us();
        let mut state = {
            let inner = self.lock();
            let mut state = inner.state.clone();
            inner.talk.describe(now_us, &mut state.speech);
            state
        };
        state.now_us = now_us;
        state.viewers = self.seats.taken();
        state
    }

    /// Place of a file of the case, by its number in the list.
    pub fn still(&self, number: u32) -> Option<PathBuf> {
        let inner = self.lock();
        let at = inner
            .state
            .stills
            .iter()
            .position(|still| still.number == number)?;
        inner.stills.get(at).cloned()
    }

    /// One more viewer, which gets samples and pictures from now on, with the pictures that a decoder needs for the next one; `None`: there
    /// are [`VIEWERS_MAX`], all of which have read in the last 30 s.
    pub fn view(self: &Arc<Self>) -> Option<Viewer> {
        let seat = self.seats.take()?;
        // Pictures are given under the same lock, so that none is missed, and none comes twice.
        let inner = self.lock();
        if inner.group.is_empty() && inner.state.video.received > 0 {
            self.waits.send_replace(inner.state.case);
        }
        let rings = [&self.samples, &self.pictures, &self.speech];
        let rings = rings.map(broadcast::Sender::subscribe);
        Some(Viewer::new(
            (self.clone(), seat),
            rings,
            inner.group.clone(),
        ))
    }

    /// A viewer of this case, which got pictures up to this number, cannot go on before a key picture.
    pub fn want_key(&self, case: u32, after: u64) {
        let inner = self.lock();
        let is_newest = case > 0 && inner.state.case == case;
        // One that came meanwhile is on its way to the viewer.
        if is_newest && inner.last_key.is_none_or(|last| last <= after) {
            self.waits.send_replace(case);
        }
    }

    /// Cases of which a viewer waits for a key picture.
    pub(super) fn waits(&self) -> watch::Receiver<u32> {
        self.waits.subscribe()
    }

    /// A session of a case begins; returns the number of the case, by which its data is given.
    pub(super) fn begin(
        &self,
        (node, run): (NodeId, u64),
        contents: Contents,
        kept: Duration,
    ) -> u32 {
        let mut inner = self.lock();
        if inner.key != Some((node, run)) {
            let case = inner.state.case + 1;
            *inner = Inner {
                state: State::begun(case, node, self.now_us()),
                key: Some((node, run)),
                ..Inner::default()
            };
        }
        inner.state.is_open = true;
        inner.state.why = None;
        inner.state.contents = contents;
        inner.state.kept_s = kept.as_secs();
        inner.state.case
    }

    /// Changes the state of a case, if it is the newest.
    fn change(&self, case: u32, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        if inner.state.case == case {
            change(&mut inner);
        }
    }

    /// The session of the case is over.
    pub(super) fn end(&self, case: u32, why: &str) {
        self.change(case, |inner| {
            inner.state.is_open = false;
            inner.state.why = Some(printable(why, REASON_CHARS));
            inner.state.paths.clear();
        });
    }

    /// Paths of the session now.
    pub(super) fn paths(&self, case: u32, channels: &[ChannelReport]) {
        let paths = channels.iter().map(PathState::of).collect();
        self.change(case, |inner| inner.state.paths = paths);
    }

    /// Tallies of the ambulance's objectives.
    pub(super) fn objectives(&self, case: u32, tallies: Vec<Objective>, dated: Dated) {
        let objectives = Objectives::of(tallies, dated);
        self.change(case, |inner| inner.state.objectives = Some(objectives));
    }

    /// Leads of the record, and the first frame that is lacking.
    pub(super) fn leads(&self, case: u32, header: &Header, next: u64, missing: u64) {
        let ekg = Ekg::of(header, next, missing);
        self.change(case, |inner| inner.state.ekg = Some(ekg));
    }

    pub(super) fn samples(&self, case: u32, samples: &Samples, leads: usize, dated: Dated) {
        self.change(case, |inner| {
            let Some(ekg) = &mut inner.state.ekg else {
                return;
            };
            let next = samples.first + (samples.samples.len() / leads.max(1)) as u64;
            // What comes late changes nothing about the age of the newest.
            if next >= ekg.next {
                ekg.dated = Some(dated);
            }
            ekg.next = ekg.next.max(next);
            if samples.samples.len() * 2 > SAMPLES_BYTES_MAX {
                ekg.not_shown += 1;
                return;
            }
            // Without receivers, nobody looks.
            let _ = self.samples.send(Item::Samples {
                case,
                first: samples.first,
                leads,
                dated,
                samples: samples.samples.as_slice().into(),
            });
        });
    }

    /// So many frames of the record are missing.
    pub(super) fn missing(&self, case: u32, frames: u64) {
        self.change(case, |inner| {
            if let Some(ekg) = &mut inner.state.ekg {
                ekg.missing = frames;
            }
        });
    }

    /// The record is whole.
    pub(super) fn ended(&self, case: u32) {
        self.change(case, |inner| {
            if let Some(ekg) = &mut inner.state.ekg {
                ekg.has_ended = true;
            }
        });
    }

    pub(super) fn vital(&self, case: u32, vital: Vital) {
        self.change(case, |inner| inner.state.vital = Some(vital));
    }

    pub(super) fn origin(&self, case: u32, origin: &str) {
        let origin = printable(origin, REASON_CHARS);
        self.change(case, |inner| inner.state.vitals_origin = Some(origin));
    }

    /// A picture, and the counts of its session with it.
    pub(super) fn picture(&self, case: u32, picture: &Picture, dated: Dated, counts: Pictures) {
        self.change(case, |inner| {
            inner.state.video.counts(counts);
            inner.state.video.dated = Some(dated);
            if picture.is_key {
                inner.last_key = Some(picture.number);
            }
            let bytes = picture.bytes.len();
            if bytes > PICTURE_BYTES_MAX {
                inner.state.video.not_shown += 1;
                return;
            }
            let item = Item::Picture {
                case,
                number: picture.number,
                is_key: picture.is_key,
                dated,
                bytes: picture.bytes.clone(),
            };
            inner.join(&item, bytes);
            let _ = self.pictures.send(item);
        });
    }

    /// A packet of speech, and the counts of its session with it.
    pub(super) fn speech(&self, case: u32, packet: &Speech, dated: Dated, counts: Packets) {
        self.change(case, |inner| {
            inner.state.speech.counts(counts, dated);
            let _ = self.speech.send(Item::Speech {
                case,
                number: packet.number,
                dated,
                bytes: packet.bytes.clone(),
            });
        });
    }

    /// The stream on which the ambulance of a case listens.
    pub(super) fn listens(&self, case: u32, stream: mpsc::Sender<Speech>) {
        self.change(case, |inner| inner.talk.listens(stream));
    }

    /// A file is kept.
    pub(super) fn kept(&self, case: u32, still: Still, path: PathBuf) {
        self.change(case, |inner| {
            if inner.state.stills.len() >= state::STILLS_MAX {
                inner.state.stills.pop_front();
                inner.stills.pop_front();
            }
            inner.state.stills.push_back(still);
            inner.stills.push_back(path);
            inner.state.stills_kept += 1;
        });
    }

    pub(super) fn failed(&self, case: u32, purpose: Purpose, why: &str) {
        let failed = Failed {
            stream: purpose.to_string(),
            why: printable(why, REASON_CHARS),
            at_us: self.now_us(),
        };
        self.change(case, |inner| inner.state.failed = Some(failed));
    }
}

impl Inner {
    /// Adds a picture to those that a new viewer gets, if it follows them.
    fn join(&mut self, item: &Item, bytes: usize) {
        let Item::Picture { number, is_key, .. } = item else {
            return;
        };
        let follows = match self.group.back() {
            Some(Item::Picture { number: last, .. }) => *number == last.saturating_add(1),
            _ => false,
        };
        let is_space = self.group.len() < GROUP_MAX.0 && self.group_bytes + bytes <= GROUP_MAX.1;
        if *is_key || !follows || !is_space {
            self.group.clear();
            self.group_bytes = 0;
        }
        if *is_key || follows && is_space {
            self.group.push_back(item.clone());
            self.group_bytes += bytes;
        }
    }
}

/// Time of something that the ambulance dated, by the hospital's clock.
pub(super) fn dated(now_us: u64, age: Option<Age>) -> Dated {
    match age {
        Some(Age { age, error }) => Dated {
            at_us: now_us.saturating_sub(age.as_micros() as u64),
            error_us: u32::try_from(error.as_micros()).ok(),
        },
        None => Dated {
            at_us: now_us,
            error_us: None,
        },
    }
}

//! State of a case, as viewers get it in JSON. Times are microseconds of the hospital's clock.

use std::collections::VecDeque;

use anabranch::{
    base::{NodeId, text::printable},
    net::session::ChannelReport,
};
use serde::Serialize;

use crate::{
    hospital::{Packets, Pictures},
    wfdb::Header,
    wire::{Contents, OBJECTIVES_MAX, Objective},
};

/// Files that are listed: the last ones.
pub(super) const STILLS_MAX: usize = 32;
/// Characters of the name of an objective that are shown: as many as it can have.
const NAME_CHARS: usize = 64;

/// State of the newest case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    /// Time of the state.
    pub now_us: u64,
    /// Number of the case since the hospital's start, from 1; 0: there was none.
    pub case: u32,
    /// The ambulance.
    pub node: Option<String>,
    /// Beginning of the case, or of its first session since the hospital's start.
    pub since_us: u64,
    /// True while there is a session.
    pub is_open: bool,
    /// Reason for the end of the last session.
    pub why: Option<String>,
    /// Origin of the contents, as the ambulance states it.
    pub contents: Contents,
    /// Time for which the case is kept after its end, in seconds.
    pub kept_s: u64,
    /// The record; `None`: there is none.
    pub ekg: Option<Ekg>,
    /// Numbers of the newest second.
    pub vital: Option<Vital>,
    /// Origin of the numbers, for people.
    pub vitals_origin: Option<String>,
    /// The video in this session.
    pub video: Video,
    /// The speech in this session.
    pub speech: Speech,
    /// Files that are kept: the last ones, the newest at the end.
    pub stills: VecDeque<Still>,
    /// Files that were kept.
    pub stills_kept: u64,
    /// Paths of the session.
    pub paths: Vec<PathState>,
    /// Objectives by which the ambulance sends; `None`: it does not state them.
    pub objectives: Option<Objectives>,
    /// The last failure of a stream.
    pub failed: Option<Failed>,
    /// Viewers of the page.
    pub viewers: usize,
}

impl State {
    pub(super) fn begun(case: u32, node: NodeId, since_us: u64) -> Self {
        Self {
            case,
            node: Some(node.to_string()),
            since_us,
            ..Self::default()
        }
    }
}

/// Time of something that the ambulance dated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dated {
    /// The time by the hospital's clock; that of its arrival while the ambulance's clock is not known.
    pub at_us: u64,
    /// Largest error of it; `None`: the ambulance's clock is not known yet.
    pub error_us: Option<u32>,
}

/// Record of signals.
#[derive(Clone, Debug, Serialize)]
pub struct Ekg {
    /// Its leads.
    pub leads: Vec<Lead>,
    /// Frames per second.
    pub frequency: f64,
    /// Frame after the last that came.
    pub next: u64,
    /// Frames before it that have not come, or not yet.
    pub missing: u64,
    /// Time of the last frame.
    pub dated: Option<Dated>,
    /// True once the ambulance has sent all of it.
    pub has_ended: bool,
    /// ADUs that were too long to be shown.
    pub not_shown: u64,
}

/// A lead.
#[derive(Clone, Debug, Serialize)]
pub struct Lead {
    /// Its name.
    pub name: String,
    /// Units of the converter per physical unit; `None`: not calibrated.
    pub gain: Option<f64>,
    /// Sample that means zero physical units.
    pub baseline: i32,
    /// Physical units.
    pub units: String,
}

impl Ekg {
    pub(super) fn of(header: &Header, next: u64, missing: u64) -> Self {
        let lead = |lead: &crate::wfdb::Lead| Lead {
            name: lead.name(),
            gain: lead.gain,
            baseline: lead.baseline.unwrap_or(lead.zero),
            units: lead.units.clone(),
        };
        Self {
            leads: header.leads.iter().map(lead).collect(),
            frequency: header.frequency,
            next,
            missing,
            dated: None,
            has_ended: false,
            not_shown: 0,
        }
    }
}

/// Numbers of a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Vital {
    /// Number of the second.
    pub number: u64,
    /// Beats per minute; `None`: not known.
    pub heart_rate: Option<f64>,
    /// Time to which they belong.
    pub dated: Dated,
}

/// Video of a session.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Video {
    /// Pictures that came.
    pub received: u64,
    /// Pictures that did not, between the first and the last that came.
    pub missing: u64,
    /// Pictures that came within 800 ms of their capture.
    pub in_time: u64,
    /// Time of the last picture.
    pub dated: Option<Dated>,
    /// Pictures that were too large to be shown.
    pub not_shown: u64,
    /// Key pictures that the ambulance was asked for.
    pub keys_requested: u64,
}

impl Video {
    pub(super) fn counts(&mut self, of: Pictures) {
        (self.received, self.missing, self.in_time) = (of.received, of.missing, of.in_time);
        self.keys_requested = of.keys_requested;
    }
}

/// Speech of a session, of both sides.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Speech {
    /// Packets that came.
    pub received: u64,
    /// Packets that did not, between the first and the last that came.
    pub missing: u64,
    /// Packets that came within 400 ms of their capture.
    pub in_time: u64,
    /// Time of the last packet that came.
    pub dated: Option<Dated>,
    /// The ambulance listens.
    pub is_heard: bool,
    /// The viewer that speaks.
    pub speaker: Option<Speaker>,
    /// Packets that viewers gave.
    pub spoken: u64,
}

impl Speech {
    pub(super) fn counts(&mut self, of: Packets, dated: Dated) {
        (self.received, self.missing, self.in_time) = (of.received, of.missing, of.in_time);
        // One that was overtaken is older.
        let is_newer = |last: Dated| dated.at_us > last.at_us;
        if self.dated.is_none_or(is_newer) {
            self.dated = Some(dated);
        }
    }
}

/// A viewer that speaks.
#[derive(Clone, Debug, Serialize)]
pub struct Speaker {
    /// Its name, for people.
    pub name: String,
    /// Time at which it began.
    pub since_us: u64,
}

/// A file that is kept.
#[derive(Clone, Debug, Serialize)]
pub struct Still {
    /// Its number in the case.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Time at which it was whole here.
    pub at_us: u64,
}

/// Path of a session.
#[derive(Clone, Debug, Serialize)]
pub struct PathState {
    /// Name of the channel.
    pub channel: String,
    /// Address of the ambulance.
    pub remote: String,
    /// True while it responds.
    pub is_active: bool,
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// Application bytes received, duplicates included.
    pub received_bytes: u64,
}

impl PathState {
    pub(super) fn of(report: &ChannelReport) -> Self {
        Self {
            channel: report.channel.to_string(),
            remote: report.remote.to_string(),
            is_active: report.state == anabranch::net::session::ChannelStatus::Active,
            rtt_us: report.stats.rtt_smoothed.as_micros() as u64,
            received_bytes: report.payload_received_bytes,
        }
    }
}

/// Tallies of the ambulance's objectives over the last minute.
#[derive(Clone, Debug, Serialize)]
pub struct Objectives {
    /// Their tallies, the first [`OBJECTIVES_MAX`]; empty: none is in force.
    pub tallies: Vec<Objective>,
    /// Time of the tallies.
    pub dated: Dated,
}

impl Objectives {
    pub(super) fn of(mut tallies: Vec<Objective>, dated: Dated) -> Self {
        tallies.truncate(OBJECTIVES_MAX);
        tallies.shrink_to_fit();
        for tally in &mut tallies {
            let name = tally.name.take();
            tally.name = name.map(|name| printable(&name, NAME_CHARS));
        }
        Self { tallies, dated }
    }
}

/// Failure of a stream; the others go on.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Purpose of the stream.
    pub stream: String,
    /// Reason.
    pub why: String,
    /// Time of the failure.
    pub at_us: u64,
}

//! Messages: requests of an ambulance, notices of a hospital.

use serde::{Deserialize, Serialize};

use crate::wfdb::Hole;

/// Origin of a content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured or filmed now.
    Real,
    /// Real data of another time.
    Replayed,
    /// Made by a program.
    Generated,
    /// Another word, or none.
    #[default]
    #[serde(other)]
    Unstated,
}

/// Origin of the contents of a case, as the ambulance states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contents {
    /// The record of signals.
    pub ekg: Origin,
    /// The video.
    pub video: Origin,
    /// The speech.
    pub speech: Origin,
}

/// Tally of an objective by which the ambulance's node sends: contexts within the last minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Its number in the session.
    pub objective: u64,
    /// Its name; `None`: it has none.
    #[serde(default)]
    pub name: Option<String>,
    /// Contexts that were tried: bindings of its variables to ADUs that were sent.
    pub contexts: u64,
    /// Those in which its goal was met.
    pub contexts_met: u64,
    /// Sum of the utility in these.
    pub utility: f64,
    /// Contexts whose evaluation had a fault.
    pub contexts_faulty: u64,
}

/// Message of an ambulance. Times are microseconds of its own clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// The first message of a session, on the stream `case`.
    Hello {
        /// Secret of the ticket.
        secret: String,
        /// A number for the case, chosen at random; the same after an interruption.
        run: u64,
        /// Origin of the contents.
        #[serde(default)]
        contents: Contents,
        /// The ambulance takes [`Notice::Key`].
        #[serde(default)]
        takes_key: bool,
        /// Time after its end for which the patient consents to have the case kept, in seconds.
        #[serde(default)]
        consent_s: u64,
    },
    /// Answer to a question about the clock.
    Clock {
        /// Time of the question, as it was asked.
        at_us: u64,
        /// Time of the ambulance.
        own_us: u64,
    },
    /// Tallies of the objectives over the last minute, once a second, on the stream `case`; only to a hospital that
    /// [takes](Notice::Welcome) it.
    Objectives {
        /// Time of the tallies.
        at_us: u64,
        /// Objectives in force, the first [`OBJECTIVES_MAX`](super::OBJECTIVES_MAX); rates are none.
        objectives: Vec<Objective>,
    },
    /// The first message of the stream `ekg`.
    Leads {
        /// Header of the record, as a WFDB header.
        header: String,
        /// First frame that can be sent.
        first: u64,
        /// Frames come in any order, the newest first; only to a hospital that [fills](Notice::Welcome) holes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        newest_first: bool,
    },
    /// No frame follows.
    Ended {
        /// Frames of the record.
        frames: u64,
    },
    /// Numbers of one second.
    Vital {
        /// Number of it, from 0.
        number: u64,
        /// Time to which it belongs.
        at_us: u64,
        /// Heart beats per minute; `None`: not known.
        heart_rate: Option<f64>,
    },
    /// The first message of the stream `vitals`.
    Vitals {
        /// Origin of the numbers, for people.
        origin: String,
    },
    /// The first message of the stream `speech_down`: what the hospital says there is heard.
    Listen,
    /// A file begins, on the stream `stills`.
    Still {
        /// Its number in the case, from 0.
        still: u32,
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// All pieces of the file were sent.
    Whole {
        /// Its number.
        still: u32,
        /// BLAKE3 hash, in hexadecimal digits.
        hash: String,
    },
}

/// Message of a hospital.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Notice {
    /// The ticket is right.
    Welcome {
        /// Time for which the case is kept after its end, in seconds; `None`: not stated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_s: Option<u64>,
        /// Frames of the record may come in any order: the hospital fills holes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fills: bool,
        /// The hospital takes [`Request::Objectives`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        takes_objectives: bool,
    },
    /// The ticket is wrong, or the stream is not taken; nothing follows.
    Refused {
        /// Reason and remedy.
        why: String,
    },
    /// Question about the clock, which is answered at once.
    Clock {
        /// Time of the hospital, in microseconds.
        at_us: u64,
    },
    /// A picture at which a decoder can begin is wanted, on the stream `case`; only to an ambulance that takes it.
    Key {
        /// Number that it is to be above: that of the last picture that came.
        after: u64,
    },
    /// Answer to [`Request::Leads`].
    Begun {
        /// Frame after the last in the record.
        next: u64,
        /// Frames that it lacks before that, of the last minute; only if they come in any order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holes: Vec<Hole>,
    },
    /// The frames that are in the record.
    Held {
        /// Frame after the last.
        next: u64,
        /// As in [`Notice::Begun`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holes: Vec<Hole>,
    },
    /// Answer to [`Request::Ended`]: the record is on the disk.
    Ended {
        /// Frames of it, those in holes included.
        frames: u64,
        /// Frames in holes; `None`: the hospital does not state them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<u64>,
    },
    /// A file is whole, and its hash is right; or it could not be kept.
    Kept {
        /// Its number.
        still: u32,
        /// Reason why it is not kept.
        why: Option<String>,
    },
}

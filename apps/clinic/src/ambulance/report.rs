//! Reports of an ambulance.

use std::time::Duration;

use super::Requests;
use crate::{wfdb::files::Missing, wire::Purpose};

/// Something that an ambulance reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// Leads that are left out, because their file is missing.
    Missing(Missing),
    /// The record does not agree with its header.
    Deviation(String),
    /// The hospital has taken a session; frames before this one are held there.
    Begun {
        /// First frame that the hospital lacks; `None`: no record is played.
        next: Option<u64>,
    },
    /// The hospital has taken a session, and keeps the case for this time after its end; `None`: it does not state it.
    Keeps(Option<Duration>),
    /// State of the promise for the record.
    Promise(String),
    /// All frames are held by the hospital, or were too old to be sent.
    Ended {
        /// Frames of the record.
        frames: u64,
        /// Frames that the hospital held at the end; fewer, if it did not answer.
        held: u64,
    },
    /// A file is whole at the hospital, or was refused.
    Kept {
        /// Its name.
        name: String,
        /// Reason why it is not kept.
        why: Option<String>,
    },
    /// A stream ended before its time; the others go on.
    Failed {
        /// Its purpose.
        purpose: Purpose,
        /// Reason.
        why: String,
    },
    /// The video is encoded at another rate, or begins to be.
    Rate {
        /// The rate, in bit/s.
        rate_bps: u64,
    },
    /// An encoder of the video failed, and another one takes its place; pictures until then are left out.
    EncoderFailed {
        /// Reason.
        why: String,
    },
    /// The video has ended.
    Film {
        /// Pictures that were made.
        pictures: u64,
        /// Pictures that no session took: between sessions, or beyond what its buffer holds.
        skipped: u64,
        /// Requests of the hospital for key pictures.
        requests: Requests,
    },
    /// The speech has ended.
    Spoken {
        /// Packets that were made.
        packets: u64,
        /// Packets that no session took: between sessions, or beyond what its buffer holds.
        skipped: u64,
    },
    /// Speech of the hospital up to the end of a session.
    Heard {
        /// Packets that came.
        received: u64,
        /// Packets that did not, or too late, between the first and the last that came.
        missing: u64,
    },
    /// The hospital asks for a key picture of a video that is not encoded here; further requests are counted only.
    KeyIgnored,
}

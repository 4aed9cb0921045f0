//! Reception of a subscriber: ADUs, and news of its pipeline and its promise.

use anabranch_process::{Adu, serve::windows::Part};

use crate::account::Change;

/// Something that a subscriber receives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Received {
    /// A derived ADU; differences of delta coding have been decoded.
    Adu {
        /// The ADU.
        adu: Adu,
        /// Number of the pipeline that it was derived by.
        change: u32,
    },
    /// The subscription has begun, for the first time or again.
    Begun {
        /// Node of the source.
        source: String,
    },
    /// The source cannot reach the processing node at this time, or can again.
    Source {
        /// True if it cannot.
        is_away: bool,
    },
    /// The source's next ADU is derived by this pipeline.
    Changed {
        /// Its number.
        number: u32,
    },
    /// A change was refused; the pipeline is as before.
    NotChanged {
        /// Its number.
        number: u32,
        /// Reason and remedy.
        why: String,
    },
    /// State of the promise.
    Promise {
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
        /// The part of the way for which none is; `None`: one is, or too little is known.
        part: Option<Part>,
        /// Share of windows of a second that is promised over both legs, or that could be; `None`: not known.
        share: Option<f64>,
    },
    /// ADUs that were made in a window came late.
    Late {
        /// Its number: seconds since the source's beginning.
        window: u64,
        /// The first part of the way that was late.
        part: Part,
        /// Of the windows that were judged last, at most 60: those in time, and all.
        kept: (u32, u32),
    },
    /// Derived ADUs that did not come, in all.
    Dropped {
        /// Those that were not taken in time.
        lost: u64,
        /// ADUs of the source that the pipeline could not process.
        failed: u64,
        /// The last failure.
        why: String,
    },
}

impl Received {
    /// Report of a promise that is broken, or kept again, by the windows that were in time here.
    pub(crate) fn changed(change: Change, (kept, known): (u32, u32)) -> Self {
        let (rate_bps, part, why) = match change {
            Change::Broken(part) => {
                let words = "seconds were in time here, fewer than were promised; ask for less, or for a longer deadline";
                (
                    None,
                    Some(part),
                    format!("{part}: {kept} of the last {known} {words}"),
                )
            }
            Change::Kept(rate_bps) => (Some(rate_bps), None, String::new()),
        };
        Self::Promise {
            rate_bps,
            why,
            part,
            share: Some(f64::from(kept) / f64::from(known.max(1))),
        }
    }
}

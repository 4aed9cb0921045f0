//! Interface to the caller's schedule.

use anabranch_base::StreamId;

use crate::fact::{AduFact, StreamFact};

/// A transmission schedule and the transmission history: ADUs, each in its slot or with its outcome, and streams.
/// Objectives are evaluated over it.
///
/// ADUs have numbers from 0, in an order that the caller keeps as long as the set of ADUs is the same.
/// Answers are `f64` as [`AduFact`] specifies, NaN for unknown values; they should not change during an evaluation. All
/// calls should be fast: an evaluation makes many.
pub trait Schedule {
    /// Number of ADUs: those that may be sent, and those of the transmission history.
    fn adus(&self) -> u32;

    /// True if the ADU is in the schedule or in the history. One that is not sent is bound to no variable.
    fn is_sent(&self, _adu: u32) -> bool {
        true
    }

    /// A fact about an ADU below [`adus`](Self::adus).
    fn adu(&self, adu: u32, fact: AduFact) -> f64;

    /// A fact about a stream; NaN if there is no such stream.
    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64;

    /// Streams that can be found by their label, numbered from 0: the stream, and the [`symbol`](crate::symbol) of its label.
    /// `None` beyond the last.
    fn labelled(&self, _number: u32) -> Option<(StreamId, f64)> {
        None
    }

    /// P(both are lost | either is lost) in [0, 1], of two different ADUs in their slots [Horde §6.2].
    fn correlated_loss(&self, one: u32, other: u32) -> f64;
}

/// A schedule of which nothing is known: for constants.
pub(crate) struct Nothing;

impl Schedule for Nothing {
    fn adus(&self) -> u32 {
        0
    }

    fn adu(&self, _: u32, _: AduFact) -> f64 {
        f64::NAN
    }

    fn stream(&self, _: StreamId, _: StreamFact) -> f64 {
        f64::NAN
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        f64::NAN
    }
}

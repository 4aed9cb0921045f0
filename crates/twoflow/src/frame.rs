//! Frames as the two-flow algorithms see them.

use std::time::Duration;

/// Flow in which a frame travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Sent in real time and unreliably; of two frames, the one with the smaller rank is dropped first.
    Enhanced {
        /// Its importance.
        rank: u8,
    },
    /// Sent reliably, ahead of time.
    Essential,
}

impl Class {
    /// True if the frame is sent reliably.
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::Essential)
    }
}

/// A frame, or a run of audio samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its coded size in bytes.
    pub bytes: u32,
    /// Time at which it is needed, from the beginning of the film: its decoding time.
    pub at: Duration,
    /// Flow in which it travels.
    pub class: Class,
}

//! Frames as this room sees them.

use std::time::Duration;

/// Which flow a frame travels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// In real time and unreliably; of two, the one with the smaller rank is given up first.
    Enhanced {
        /// Its importance.
        rank: u8,
    },
    /// Reliably, ahead of time.
    Essential,
}

impl Class {
    /// True if it travels reliably.
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::Essential)
    }
}

/// A frame, or a run of audio samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its coded bytes.
    pub bytes: u32,
    /// When it is needed, from the beginning of the film: its decoding time.
    pub at: Duration,
    /// Which flow it travels in.
    pub class: Class,
}

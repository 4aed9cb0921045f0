//! Codecs: properties of a picture from its bytes, and RFC 6381 names.

pub(crate) mod av1;
pub(crate) mod bits;
pub(crate) mod h264;
pub(crate) mod h265;
pub(crate) mod sound;

use crate::index::FrameType;

/// Properties of a picture as given by its slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) frame: FrameType,
    pub(crate) is_referenced: bool,
    /// Temporal layer: pictures are predicted from the same or lower layers.
    pub(crate) layer: u8,
}

impl Picture {
    /// Joins two slices of one picture: intra only if both are, bidirectional if one is.
    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            frame: self.frame.max(other.frame),
            is_referenced: self.is_referenced || other.is_referenced,
            layer: self.layer,
        }
    }
}

//! Conversion between our instants and QUIC's.

use anabranch_base::Instant;

/// QUIC's instant at our time zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(pub(crate) std::time::Instant);

impl Epoch {
    pub(crate) fn to_std(self, at: Instant) -> std::time::Instant {
        self.0 + at.since_epoch()
    }

    pub(crate) fn at(self, at: std::time::Instant) -> Instant {
        Instant::EPOCH + at.saturating_duration_since(self.0)
    }
}

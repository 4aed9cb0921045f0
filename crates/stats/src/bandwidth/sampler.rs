//! Deliveries become one rate for each window.

use std::time::Duration;

use anabranch_base::{Instant, Rate};

use super::{Bound, Sample};

/// The window is outside of 0.1 to 1 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a bandwidth window of {0:?} is not within 100 ms to 1 s")]
pub struct BadWindow(Duration);

/// Counts what one channel delivered in windows of equal length, which follow each other without gaps.
///
/// Call [`delivered`](Self::delivered) and [`ran_dry`](Self::ran_dry) in the order of time, and
/// [`poll`](Self::poll) until it returns `None` before either of them, or when a window ends.
#[derive(Debug, Clone)]
pub struct Sampler {
    window: Duration,
    start: Instant,
    bytes: u64,
    is_dry: bool,
}

impl Sampler {
    /// Windows of `window`, 100 ms to 1 s [IQ-Paths §VI-A], the first of which starts at `now`.
    ///
    /// # Errors
    /// [`BadWindow`] when it is shorter or longer.
    pub fn new(window: Duration, now: Instant) -> Result<Self, BadWindow> {
        if !(Duration::from_millis(100)..=Duration::from_secs(1)).contains(&window) {
            return Err(BadWindow(window));
        }
        Ok(Self {
            window,
            start: now,
            bytes: 0,
            is_dry: false,
        })
    }

    /// `bytes` were delivered (acknowledged, or reported by the receiver).
    pub fn delivered(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// At some time in this window the channel could have sent and the sender had nothing for it.
    pub fn ran_dry(&mut self) {
        self.is_dry = true;
    }

    /// Time at which the current window ends.
    pub fn ends_at(&self) -> Instant {
        self.start + self.window
    }

    /// The sample of the current window if it has ended by `now`; `None` until then. A window in which
    /// nothing was delivered and the sender never ran dry is a sample of rate 0: the path was down.
    pub fn poll(&mut self, now: Instant) -> Option<Sample> {
        if now < self.ends_at() {
            return None;
        }
        let sample = Sample {
            rate: Rate::from_bytes_per(self.bytes, self.window),
            bound: if self.is_dry {
                Bound::AtLeast
            } else {
                Bound::Exact
            },
        };
        self.start = self.ends_at();
        self.bytes = 0;
        self.is_dry = false;
        Some(sample)
    }
}

//! Pictures at which a decoder can begin, on request: whether one is wanted, and whether it was made.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests for key pictures of a video, shared by its session and its encoder.
#[derive(Debug)]
pub(super) struct Keys {
    /// False for a video that is not encoded here.
    is_encoded: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of the last key picture that was made.
    last: Option<u64>,
    is_wanted: bool,
    counts: Requests,
}

/// Requests of a hospital for key pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Requests that came.
    pub received: u64,
    /// Those without effect, because the video is not encoded here.
    pub ignored: u64,
}

impl Keys {
    pub(super) fn new(is_encoded: bool) -> Self {
        Self {
            is_encoded,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hospital asks for one with a number above `after`. True for the first that is ignored.
    pub(super) fn request(&self, after: u64) -> bool {
        let mut inner = self.lock();
        inner.counts.received += 1;
        if !self.is_encoded {
            inner.counts.ignored += 1;
            return inner.counts.ignored == 1;
        }
        // One that was made meanwhile is on its way.
        inner.is_wanted |= inner.last.is_none_or(|last| last <= after);
        false
    }

    /// A session begins, which can send nothing before the next key picture.
    pub(super) fn begin(&self) {
        let mut inner = self.lock();
        inner.is_wanted |= inner.last.is_some();
    }

    /// A key picture was made.
    pub(super) fn made(&self, number: u64) {
        let mut inner = self.lock();
        inner.last = Some(number);
        inner.is_wanted = false;
    }

    /// True while one is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_encoded && self.lock().is_wanted
    }

    /// Requests up to now.
    pub(super) fn counts(&self) -> Requests {
        self.lock().counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_a_later_picture_than_those_that_were_made() {
        let keys = Keys::new(true);
        // The first picture is a key picture in any case.
        keys.begin();
        assert!(!keys.is_wanted());
        keys.made(0);
        keys.made(50);
        assert!(!keys.request(49) && !keys.is_wanted());
        assert!(!keys.request(50) && keys.is_wanted());
        keys.made(57);
        assert!(!keys.is_wanted());
        keys.begin();
        assert!(keys.is_wanted());
        let counts = Requests {
            received: 2,
            ignored: 0,
        };
        assert_eq!(keys.counts(), counts);
    }

    #[test]
    fn a_file_ignores_requests_and_counts_them() {
        let keys = Keys::new(false);
        keys.made(0);
        assert!(keys.request(3) && !keys.request(9));
        assert!(!keys.is_wanted());
        let counts = Requests {
            received: 2,
            ignored: 2,
        };
        assert_eq!(keys.counts(), counts);
    }
}

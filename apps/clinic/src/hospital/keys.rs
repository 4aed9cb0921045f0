//! Requests for key pictures: after a loss, and for viewers that cannot go on without one.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Shortest time between two requests.
const REQUEST_TIME: Duration = Duration::from_secs(1);

/// Requests of a session.
#[derive(Debug, Default)]
pub(super) struct Keys {
    inner: Mutex<Inner>,
    is_changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of the last picture that came.
    last: Option<u64>,
    /// One is wanted after the picture with this number.
    wanted: Option<u64>,
    requested_at: Option<Instant>,
    requests: u64,
}

impl Inner {
    fn arrived(&mut self, number: u64, is_key: bool) {
        let is_loss = self
            .last
            .is_some_and(|last| number != last.saturating_add(1));
        self.last = Some(number);
        if is_key {
            self.wanted = None;
        } else if is_loss {
            self.wanted = Some(number);
        }
    }

    /// Number after which one is to be requested, and the time from which on it may be.
    fn due(&self) -> Option<(u64, Option<Instant>)> {
        let time = self.requested_at.map(|at| at + REQUEST_TIME);
        self.wanted.map(|after| (after, time))
    }
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A picture came. If others before it did not, a key picture is wanted.
    pub(super) fn arrived(&self, number: u64, is_key: bool) {
        self.lock().arrived(number, is_key);
        self.is_changed.notify_one();
    }

    /// A viewer has no use for pictures before the next key picture. Without a picture yet, the first one is such.
    pub(super) fn want(&self) {
        let mut inner = self.lock();
        inner.wanted = inner.last;
        drop(inner);
        self.is_changed.notify_one();
    }

    /// Number after which a key picture is to be requested now; waits for it.
    pub(super) async fn next(&self) -> u64 {
        loop {
            let due = self.lock().due();
            let changed = self.is_changed.notified();
            match due {
                None => changed.await,
                Some((after, time)) if time.is_none_or(|time| time <= Instant::now()) => {
                    let mut inner = self.lock();
                    inner.wanted = None;
                    inner.requested_at = Some(Instant::now());
                    inner.requests += 1;
                    return after;
                }
                Some((_, time)) => tokio::select! {
                    () = sleep_until(time.unwrap_or_else(Instant::now)) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Requests up to now.
    pub(super) fn requests(&self) -> u64 {
        self.lock().requests
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    async fn is_quiet(keys: &Keys) -> bool {
        timeout(Duration::from_millis(1), keys.next())
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_is_followed_by_one_request_until_the_next_loss() {
        let keys = Keys::default();
        keys.arrived(0, true);
        keys.arrived(1, false);
        assert!(is_quiet(&keys).await);
        keys.arrived(3, false);
        assert_eq!(keys.next().await, 3);
        keys.arrived(4, false);
        advance(REQUEST_TIME * 2).await;
        assert!(is_quiet(&keys).await);
        // The key picture was lost, too.
        keys.arrived(6, false);
        assert_eq!(keys.next().await, 6);
        keys.arrived(9, true);
        keys.want();
        assert!(is_quiet(&keys).await, "a second has not passed");
        keys.arrived(11, false);
        let begin = Instant::now();
        assert_eq!(keys.next().await, 11);
        assert!(begin.elapsed() > REQUEST_TIME / 2);
        assert_eq!(keys.requests(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn any_number_of_an_ambulance_is_taken() {
        let keys = Keys::default();
        keys.arrived(u64::MAX, true);
        keys.arrived(0, false);
        assert_eq!(keys.next().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_picture_that_comes_first_needs_no_request() {
        let keys = Keys::default();
        keys.want();
        assert!(is_quiet(&keys).await, "no picture came");
        keys.arrived(7, false);
        keys.want();
        assert_eq!(keys.next().await, 7);
        keys.arrived(9, false);
        keys.arrived(10, true);
        advance(REQUEST_TIME * 2).await;
        assert!(is_quiet(&keys).await);
    }
}

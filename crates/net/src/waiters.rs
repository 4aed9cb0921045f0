//! Waiting tasks: wakers of the tasks that wait for a change of the state under the host's lock.

use std::task::{Context, Waker};

/// Wakers of the tasks that wait for one condition. Registering and waking happen under the lock that
/// guards the condition itself, so that no change is missed.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<Waker>);

impl Waiters {
    /// Wakes the current task at the next [`Waiters::wake`].
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Wakes all waiting tasks.
    pub(crate) fn wake(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

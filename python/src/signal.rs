//! Wake-up of a pending operation: of the thread that waits for it, or of the event loop whose task does.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Wake,
    thread::Thread,
};

use crate::bridge::Shared;

/// Receiver of a wake-up. Neither kind waits for the interpreter: the caller may hold the lock of a node.
pub(crate) enum Target {
    /// A thread that is parked.
    Thread(Thread),
    /// A task of an event loop, by its token.
    Loop(Arc<Shared>, u64),
}

#[derive(Default)]
struct State {
    /// Woken since the target was last set.
    is_woken: bool,
    target: Option<Target>,
}

/// Waker of one operation.
#[derive(Default)]
pub(crate) struct Signal(Mutex<State>);

impl Signal {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next wake-up go to `target`. Returns false if there was one already: the operation is to be polled now.
    pub(crate) fn aim(&self, target: Target) -> bool {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_woken) {
            return false;
        }
        state.target = Some(target);
        true
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let target = {
            let mut state = self.lock();
            let target = state.target.take();
            state.is_woken = target.is_none();
            target
        };
        match target {
            Some(Target::Thread(thread)) => thread.unpark(),
            Some(Target::Loop(bridge, token)) => bridge.push(token),
            None => {}
        }
    }
}

//! Forks: a child has none of the threads that serve a node, and its locks may be held by threads that it does not have. So a
//! handle that was made before the fork is neither used nor dropped in the child.

use std::{
    mem::ManuallyDrop,
    ops::Deref,
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use pyo3::prelude::*;

use crate::failure::Failed;

/// Number of forks between the process that loaded this module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on, those of other libraries included.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    #[allow(unsafe_code, reason = "libc has no safe form of it")]
    WATCH.call_once(|| {
        // SAFETY: the handler only changes an atomic number, which is allowed after a fork; the module is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The generation of this process.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A handle that belongs to the process that made it.
pub(crate) struct Owned<T> {
    value: ManuallyDrop<T>,
    generation: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            generation: generation(),
        }
    }

    /// The handle.
    ///
    /// # Errors
    /// This process was forked from the one that made it.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match self.generation == generation() {
            true => Ok(self.value.deref()),
            false => Err(Failed::new(
                "ForkedError",
                "this handle was made before the process was forked, and its node serves the parent only; \
                 start the node in the child, or use the start method \"spawn\" of multiprocessing",
            )
            .into()),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.generation == generation() {
            #[allow(
                unsafe_code,
                reason = "the only way to drop it here and not in a child"
            )]
            // SAFETY: nothing uses the value after this.
            unsafe {
                ManuallyDrop::drop(&mut self.value);
            }
        }
    }
}

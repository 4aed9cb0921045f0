//! Bridge to an event loop: a socket that becomes readable when operations of its tasks can continue, and the tokens of those.

use std::{
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::prelude::*;

use crate::fork::Owned;

/// Part of a bridge that wakers share. The socket is open as long as one of them lives, so that none writes to a file
/// descriptor that belongs to something else by then.
pub(crate) struct Shared {
    ready: Mutex<Vec<u64>>,
    writing: UnixStream,
}

impl Shared {
    pub(crate) fn push(&self, token: u64) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ready.is_empty();
        ready.push(token);
        drop(ready);
        if is_first {
            // Full: then it is readable. Closed: then the loop is gone, and its tasks with it.
            let _ = (&self.writing).write(&[1]);
        }
    }
}

struct Ends {
    shared: Arc<Shared>,
    reading: UnixStream,
}

/// Bridge to one event loop.
#[pyclass(frozen)]
pub(crate) struct Bridge(Owned<Ends>);

impl Bridge {
    pub(crate) fn shared(&self) -> PyResult<&Arc<Shared>> {
        Ok(&self.0.get()?.shared)
    }
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (reading, writing) = UnixStream::pair()?;
        reading.set_nonblocking(true)?;
        writing.set_nonblocking(true)?;
        let ready = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { ready, writing });
        Ok(Self(Owned::new(Ends { shared, reading })))
    }

    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.get()?.reading.as_raw_fd())
    }

    /// The tokens of operations that can continue.
    fn take(&self) -> PyResult<Vec<u64>> {
        let ends = self.0.get()?;
        let mut bytes = [0; 64];
        // The bytes first: a token that is pushed after that makes the socket readable again.
        while matches!((&ends.reading).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        let mut ready = ends
            .shared
            .ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *ready))
    }
}

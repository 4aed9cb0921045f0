//! The tokio runtime, which resolves host names, follows interfaces and serves connections to running nodes: one for each
//! process, started with the first handle, and never ended.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::{failure::Failed, fork};

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
/// Generation of the process that started [`RUNTIME`].
static STARTED_BY: AtomicU32 = AtomicU32::new(0);

/// The runtime of this process. A forked child starts its own and leaves that of its parent alone.
pub(crate) fn handle() -> PyResult<&'static Handle> {
    let (mut found, generation) = (RUNTIME.load(Ordering::Acquire), fork::generation());
    if found.is_null() || STARTED_BY.load(Ordering::Acquire) != generation {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("anabranch-io")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Failed::new("StartError", format!("cannot start the runtime: {error}"))
        })?;
        // The interpreter runs one caller at a time up to here; of two, the later one's runtime serves both.
        found = Box::into_raw(Box::new(runtime));
        RUNTIME.store(found, Ordering::Release);
        STARTED_BY.store(generation, Ordering::Release);
    }
    #[allow(unsafe_code, reason = "the runtime lives as long as the process")]
    // SAFETY: what the pointer points to was leaked and is never freed.
    Ok(unsafe { &*found }.handle())
}

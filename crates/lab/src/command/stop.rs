//! End of a live run by a signal, so that what it started and wrote does not stay.

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Completes when the user, or the system, ends the program. `rest` says what is left of the run.
///
/// # Errors
/// Signals cannot be received.
pub(super) fn stopped(rest: &str) -> Result<impl Future<Output = Failure>, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Failure::other(format!("stopped; {rest}"))
    })
}

//! Signals of Unix.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag::register,
    low_level::unregister,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Outcome};

/// Requests to reload, by SIGHUP.
#[derive(Debug)]
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system does not install the handler.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let signal = signal(SignalKind::hangup()).map_err(Failure::other)?;
        Ok(Self(signal))
    }

    /// Waits for the next one; false: none will come.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Requests to give the terminal back to the shell, by SIGTSTP.
#[cfg(feature = "top")]
#[derive(Debug)]
pub(crate) struct Suspensions(Signal);

#[cfg(feature = "top")]
impl Suspensions {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system does not install the handler.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let kind = SignalKind::from_raw(signal_hook::consts::SIGTSTP);
        Ok(Self(signal(kind).map_err(Failure::other)?))
    }

    /// Waits for the next one; false: none will come.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Stops this process, as Ctrl-Z does, until it is continued.
#[cfg(feature = "top")]
pub(crate) fn suspend() -> std::io::Result<()> {
    signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)
}

/// Completes on SIGINT (Ctrl-C) or on SIGTERM, which service managers send. This is the only place where these signals are
/// handled; every command that runs until it is stopped waits for this future. Signals count from the call on, not only
/// from the first poll.
///
/// Tokio alone would lose a signal: it installs its handler before it subscribes, and a signal between the two has no
/// subscriber. Therefore a handler of our own, which is installed first, sets a flag.
///
/// # Errors
/// The system does not install the handler.
pub(crate) fn stopped() -> impl Future<Output = Outcome> {
    stopped_after(|| ())
}

/// As [`stopped`], with `between` called after our handler is installed and before tokio's.
fn stopped_after(between: impl FnOnce()) -> impl Future<Output = Outcome> {
    let flag = Arc::new(AtomicBool::new(false));
    let flagged = [SIGINT, SIGTERM].map(|number| register(number, Arc::clone(&flag)));
    between();
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let ids = flagged.into_iter().collect::<Result<Vec<_>, _>>();
        let ids = ids.map_err(Failure::other)?;
        let [interrupt, terminate] = signals;
        let mut interrupt = interrupt.map_err(Failure::other)?;
        let mut terminate = terminate.map_err(Failure::other)?;
        // From here on, tokio passes on every signal.
        let is_stopped = flag.load(Ordering::SeqCst);
        for id in ids {
            unregister(id);
        }
        if is_stopped {
            return Ok(());
        }
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_before_tokio_listens_is_not_lost() {
        let raise = || signal_hook::low_level::raise(SIGTERM).unwrap();
        let stopped = stopped_after(raise);
        let limit = std::time::Duration::from_secs(10);
        let ended = tokio::time::timeout(limit, stopped).await;
        assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    }
}

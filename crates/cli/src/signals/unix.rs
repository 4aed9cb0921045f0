//! Signals of Unix.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag::register,
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
/// handled; every command that runs until it is stopped waits for this future. Signals count from the first call of the process on: one
/// that comes while nothing waits completes the next call.
///
/// Tokio alone would lose such a signal, because it passes on only those that come after it was asked. Therefore a handler of our own,
/// which is installed first and stays, sets a flag.
///
/// # Errors
/// The system does not install the handler.
pub(crate) fn stopped() -> impl Future<Output = Outcome> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let mut registered = Ok(());
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::default();
        registered = set_on_signals(&flag);
        flag
    });
    let waiting = wait(Arc::clone(flag));
    async move {
        registered.map_err(Failure::other)?;
        waiting.await
    }
}

fn set_on_signals(flag: &Arc<AtomicBool>) -> io::Result<()> {
    for number in [SIGINT, SIGTERM] {
        register(number, Arc::clone(flag))?;
    }
    Ok(())
}

/// Waits until the flag is set, or a signal comes that sets it.
fn wait(flag: Arc<AtomicBool>) -> impl Future<Output = Outcome> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [interrupt, terminate] = signals;
        let mut interrupt = interrupt.map_err(Failure::other)?;
        let mut terminate = terminate.map_err(Failure::other)?;
        // From here on, tokio passes on every signal.
        if flag.load(Ordering::SeqCst) {
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
    async fn a_signal_while_nothing_waits_is_not_lost() {
        let raise = || signal_hook::low_level::raise(SIGTERM).unwrap();
        let limit = std::time::Duration::from_secs(10);
        let flag = Arc::default();
        set_on_signals(&flag).unwrap();
        // Tokio's handler stays behind.
        drop(wait(Arc::clone(&flag)));
        raise();
        for _ in 0..2 {
            let ended = tokio::time::timeout(limit, wait(Arc::clone(&flag))).await;
            assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
        }
    }
}

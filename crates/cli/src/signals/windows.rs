//! Events of the console. None of them asks for a reload; `anabranch reload` needs a control socket.

use crate::exit::{Failure, Outcome};

/// Requests to reload, of which there are none.
#[derive(Debug)]
pub(crate) struct Hangups(());

impl Hangups {
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "the same as on other systems")]
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self(()))
    }

    /// Does not return.
    pub(crate) async fn next(&mut self) -> bool {
        std::future::pending().await
    }
}

/// Requests to give the terminal back to the shell, of which there are none.
#[cfg(feature = "top")]
#[derive(Debug)]
pub(crate) struct Suspensions(());

#[cfg(feature = "top")]
impl Suspensions {
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "the same as on other systems")]
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self(()))
    }

    /// Does not return.
    pub(crate) async fn next(&mut self) -> bool {
        std::future::pending().await
    }
}

/// Does nothing: there is no shell to which the terminal would go.
#[cfg(feature = "top")]
#[expect(clippy::unnecessary_wraps, reason = "the same as on other systems")]
pub(crate) fn suspend() -> std::io::Result<()> {
    Ok(())
}

/// Completes on Ctrl-C, when the console is closed, and when the system shuts down. Events count from the call on.
///
/// # Errors
/// The system does not install the handler.
pub(crate) fn stopped() -> impl Future<Output = Outcome> {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
    let events = (ctrl_c(), ctrl_break(), ctrl_close(), ctrl_shutdown());
    async move {
        let mut interrupt = events.0.map_err(Failure::other)?;
        let mut broken = events.1.map_err(Failure::other)?;
        let mut closed = events.2.map_err(Failure::other)?;
        let mut shutdown = events.3.map_err(Failure::other)?;
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = broken.recv() => Ok(()),
            _ = closed.recv() => Ok(()),
            _ = shutdown.recv() => Ok(()),
        }
    }
}

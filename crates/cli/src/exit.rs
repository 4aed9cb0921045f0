//! Exit codes and output of the command: whatever came from a peer is made fit to be shown here at the latest.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anabranch::base::text::printable_lines;
use tokio::signal::unix::{SignalKind, signal};

/// Printed with `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed for another reason than those below
  2    the arguments, the configuration or the objectives are wrong
  3    the peer cannot be reached
  4    the peer refused, or could not do its part; admit: it would not be promised
  5    interrupted; the same command continues where it stopped
  6    reading or writing a local file failed
  130  stopped by Ctrl-C or SIGTERM";

/// Reason why the command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

/// What a subcommand comes to.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
    pub(crate) fn new(code: u8, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    /// The error.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn other(message: impl ToString) -> Self {
        Self::new(1, message)
    }

    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new(2, message)
    }

    pub(crate) fn unreachable(message: impl ToString) -> Self {
        Self::new(3, message)
    }

    pub(crate) fn refused(message: impl ToString) -> Self {
        Self::new(4, message)
    }

    pub(crate) fn interrupted(message: impl ToString) -> Self {
        Self::new(5, message)
    }

    pub(crate) fn file(message: impl ToString) -> Self {
        Self::new(6, message)
    }

    /// Ctrl-C or SIGTERM, after everything was put in order.
    pub(crate) fn by_signal(message: impl ToString) -> Self {
        Self::new(130, message)
    }
}

impl From<anabranch::transfer::TransferError> for Failure {
    fn from(error: anabranch::transfer::TransferError) -> Self {
        use anabranch::transfer::TransferError as E;
        match &error {
            E::Interrupted(_) => Self::interrupted(error),
            E::Unreachable(_) => Self::unreachable(error),
            E::Refused(_) | E::Failed(_) | E::Ticket(_) | E::Unknown => Self::refused(error),
            E::Read { .. } | E::Write { .. } | E::Exists { .. } | E::NotAFile { .. } => {
                Self::file(error)
            }
            _ => Self::other(error),
        }
    }
}

impl From<anabranch::keys::KeyError> for Failure {
    fn from(error: anabranch::keys::KeyError) -> Self {
        Self::file(error)
    }
}

impl From<anabranch::StartError> for Failure {
    fn from(error: anabranch::StartError) -> Self {
        match &error {
            anabranch::StartError::Place(_) => Self::usage(error),
            _ => Self::other(error),
        }
    }
}

impl From<anabranch::ledger::LedgerError> for Failure {
    fn from(error: anabranch::ledger::LedgerError) -> Self {
        Self::file(error)
    }
}

impl From<anabranch::ConnectError> for Failure {
    fn from(error: anabranch::ConnectError) -> Self {
        Self::unreachable(error)
    }
}

/// Turns the outcome into words and a code.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nowhere is left to say that standard error is gone.
            let message = printable_lines(failure.message.trim_end());
            let _ = writeln!(io::stderr(), "anabranch: {message}");
            ExitCode::from(failure.code)
        }
    }
}

/// Writes to standard output. A reader that has gone, as after `| head`, ends the command quietly.
pub(crate) fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::file(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes findings to standard error, as they are.
pub(crate) fn print_error(text: &str) {
    // Nowhere is left to say that standard error is gone.
    let _ = write!(io::stderr(), "{text}");
}

/// Writes a line, or several, to standard output, as [`print_bytes`]. JSON stays the same JSON.
pub(crate) fn print_line(line: &str) -> Outcome {
    print_bytes(format!("{}\n", printable_lines(line)).as_bytes())
}

/// Writes a line to standard error, with the command's name before it.
pub(crate) fn note(words: &str) {
    // Nowhere is left to say that standard error is gone.
    let _ = writeln!(io::stderr(), "anabranch: {}", printable_lines(words));
}

/// Ready when the program is to end: Ctrl-C, or the signal that a service manager sends. The one place where
/// signals are handled; everything that runs until it is stopped waits for this. Signals count from the call on, not
/// only from the first poll.
///
/// # Errors
/// The system gives no handler.
pub(crate) fn stopped() -> impl Future<Output = Outcome> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [interrupt, terminate] = signals;
        let mut interrupt = interrupt.map_err(Failure::other)?;
        let mut terminate = terminate.map_err(Failure::other)?;
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    }
}

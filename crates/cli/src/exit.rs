//! Exit codes and output of the command. Text from a peer is made safe to display here, if not earlier.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anabranch::{base::text::printable_lines, objectives::ObjectivesFileError};

pub(crate) use crate::signals::stopped;

/// Printed with `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done, or stopped by Ctrl-C or SIGTERM where that is the usual end
  1    failed for a reason not listed below
  2    the arguments, the configuration or the objectives are invalid
  3    the peer cannot be reached
  4    the peer refused, or could not do its part; admit: the demand would not be promised
  5    interrupted; the same command continues where it stopped
  6    reading or writing a local file failed
  7    send, recv --strict: complete, but something was skipped
  130  stopped by Ctrl-C or SIGTERM before it was done";

/// Words for a signal that stops a command which goes on later.
pub(crate) const STOPPED: &str = "stopped; what has arrived is kept, and the same command goes on";

/// Error that ends the command: a message and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

/// Result of a subcommand.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
    pub(crate) fn new(code: u8, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    /// True if other transfers of the same command can succeed in spite of it: the peer refused, a file was not readable, or something
    /// was left out.
    pub(crate) fn is_of_one_transfer(&self) -> bool {
        matches!(self.code, 1 | 4 | 6 | 7)
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The message, without the exit code.
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

    pub(crate) fn left_out(message: impl ToString) -> Self {
        Self::new(7, message)
    }

    /// Failure for Ctrl-C or SIGTERM, after an orderly shutdown.
    pub(crate) fn by_signal(message: impl ToString) -> Self {
        Self::new(130, message)
    }
}

impl From<anabranch::transfer::TransferError> for Failure {
    fn from(error: anabranch::transfer::TransferError) -> Self {
        use anabranch::{ClientError, transfer::TransferError as E};
        match &error {
            _ if error.is_interruption() => Self::interrupted(error),
            E::Attached(ClientError::Refused(_) | ClientError::Limited { .. }) => {
                Self::refused(error)
            }
            E::Unreachable(cause) if cause.is_refusal() => Self::refused(error),
            E::Unreachable(_) => Self::unreachable(error),
            E::Refused(_)
            | E::Failed(_)
            | E::Ticket(_)
            | E::Unknown
            | E::NotTaken
            | E::Unanswered(_)
            | E::NoUpdates => Self::refused(error),
            E::Read { .. }
            | E::Write { .. }
            | E::Exists { .. }
            | E::InTheWay { .. }
            | E::NotAFile { .. } => Self::file(error),
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

impl From<ObjectivesFileError> for Failure {
    fn from(error: ObjectivesFileError) -> Self {
        match error {
            ObjectivesFileError::Read { .. } => Self::file(error),
            _ => Self::usage(error),
        }
    }
}

impl From<anabranch::ConnectError> for Failure {
    fn from(error: anabranch::ConnectError) -> Self {
        match error.is_refusal() {
            true => Self::refused(error),
            false => Self::unreachable(error),
        }
    }
}

/// Result of `work`, or a failure with these words if a signal stops this process first; `work` is dropped then.
pub(crate) async fn unless_stopped<T>(
    words: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        stopped = stopped() => stopped.and(Err(Failure::by_signal(words))),
    }
}

/// Prints the error, if there is one, and returns the exit code.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed, there is no other place to report it.
            let message = printable_lines(failure.message.trim_end());
            let _ = writeln!(io::stderr(), "anabranch: {message}");
            ExitCode::from(failure.code)
        }
    }
}

/// Writes to standard output. A closed pipe, as after `| head`, is not an error.
pub(crate) fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::file(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Writes diagnostics to standard error, unchanged.
pub(crate) fn print_error(text: &str) {
    // If standard error is closed, there is no other place to report it.
    let _ = write!(io::stderr(), "{text}");
}

/// Writes one or more lines to standard output, with [`print_bytes`]. JSON remains equivalent.
pub(crate) fn print_line(line: &str) -> Outcome {
    print_bytes(format!("{}\n", printable_lines(line)).as_bytes())
}

/// Number of files with its noun.
pub(crate) fn files_text(files: u64) -> String {
    match files {
        1 => "1 file".to_owned(),
        _ => format!("{files} files"),
    }
}

/// Writes a line to standard error, with the command's name before it.
pub(crate) fn note(words: &str) {
    // If standard error is closed, there is no other place to report it.
    let _ = writeln!(io::stderr(), "anabranch: {}", printable_lines(words));
}

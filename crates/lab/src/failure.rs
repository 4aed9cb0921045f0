//! Exit codes and output of the program.

use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Printed with `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed for another reason than those below
  2  the arguments are wrong, or match nothing
  6  reading or writing a file failed";

/// Reason why the program did not do its task.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

/// Result of a subcommand.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
    fn new(code: u8, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    pub(crate) fn other(message: impl ToString) -> Self {
        Self::new(1, message)
    }

    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new(2, message)
    }

    pub(crate) fn file(message: impl ToString) -> Self {
        Self::new(6, message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::other(error)
    }
}

/// Prints the error, if any, and returns the exit code.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed, the error cannot be reported anywhere.
            let _ = writeln!(
                io::stderr(),
                "anabranch-lab: {}",
                failure.message.trim_end()
            );
            ExitCode::from(failure.code)
        }
    }
}

/// Writes a line, or several, to standard output. A reader that has gone, as after `| head`, ends the program quietly.
pub(crate) fn print_line(line: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::file(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

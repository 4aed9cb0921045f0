//! Common parts of the demonstrations: output, the end by Ctrl-C, and further processes of this program.

use std::process::Stdio;

use tokio::process::Command;

use crate::exit::{Failure, Outcome, print_line, stopped};

/// Prints the steps of a demonstration, unless only the result is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrator {
    is_quiet: bool,
}

impl Narrator {
    /// With `--json`, only the result is printed.
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_quiet: is_json }
    }

    pub(super) fn say(self, line: impl AsRef<str>) -> Outcome {
        if self.is_quiet {
            Ok(())
        } else {
            print_line(line.as_ref())
        }
    }

    pub(super) fn say_all(self, lines: impl IntoIterator<Item = String>) -> Outcome {
        lines.into_iter().try_for_each(|line| self.say(line))
    }
}

/// Runs a demonstration; Ctrl-C or SIGTERM drops it, together with its processes and sockets.
pub(super) async fn until_ctrl_c(demonstration: impl Future<Output = Outcome>) -> Outcome {
    tokio::select! {
        outcome = demonstration => outcome,
        stopped = stopped() => stopped.and(Err(Failure::by_signal("stopped"))),
    }
}

/// Command that runs this program as another process; the process is killed when its handle is dropped.
pub(super) fn program() -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(Failure::other)?);
    command
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}

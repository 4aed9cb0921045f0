//! Common parts of the demonstrations: output, the end by Ctrl-C, and further processes of this program.

use std::{path::Path, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

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

/// Network in which a process or a socket starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// That of this process.
    Here,
    /// A network namespace, named as in `ip netns`.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "Linux only"))]
    Namespace(&'a str),
}

impl Place<'_> {
    /// Does some work with the network of this place, and with the runtime of the caller.
    ///
    /// # Errors
    /// The namespace cannot be entered; nothing was done.
    pub(super) fn within<T: Send>(self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        match self {
            Self::Here => Ok(work()),
            #[cfg(target_os = "linux")]
            Self::Namespace(name) => {
                let runtime = tokio::runtime::Handle::current();
                let inside = || {
                    let _guard = runtime.enter();
                    work()
                };
                anabranch::net::emulate::tun::within(name, inside).map_err(Failure::other)
            }
            #[cfg(not(target_os = "linux"))]
            Self::Namespace(_) => Err(Failure::usage("network namespaces work on Linux only")),
        }
    }
}

/// Time that a process has to print a line.
const STARTED: Duration = Duration::from_secs(30);
/// Time that a process has to end.
#[cfg(target_os = "linux")]
const ENDED: Duration = Duration::from_secs(10);

/// A process of this program that prints lines; killed when dropped.
pub(super) struct Running {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "kills the process when dropped")
    )]
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(
        place: Place<'_>,
        folder: &Path,
        arguments: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = program()?;
        command
            .args(arguments)
            .current_dir(folder)
            // Beside what the user runs, with files of its own.
            .env("HOME", folder)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("XDG_STATE_HOME")
            .stdout(Stdio::piped());
        let process = place.within(|| command.spawn())?;
        let mut process = process.map_err(Failure::other)?;
        let out = process.stdout.take().expect("it is piped");
        Ok(Self {
            process,
            lines: BufReader::new(out).lines(),
        })
    }

    /// The next line that it prints.
    pub(super) async fn line(&mut self) -> Result<String, Failure> {
        match tokio::time::timeout(STARTED, self.lines.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(_) => Err(Failure::other("a process of the demonstration has ended")),
            Err(_) => Err(Failure::other(
                "a process of the demonstration does not start",
            )),
        }
    }

    /// Ends it as Ctrl-C does, and waits for its end.
    #[cfg(target_os = "linux")]
    pub(super) async fn interrupt(mut self) -> Outcome {
        let process = self.process.id().map(|id| id.to_string());
        let process = process.ok_or_else(|| Failure::other("a process has ended early"))?;
        let mut kill = Command::new("kill");
        let sent = kill.args(["-INT", &process]).status().await;
        sent.map_err(Failure::other)?;
        match tokio::time::timeout(ENDED, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(Failure::other(format!("a process ended with {status}"))),
            Ok(Err(error)) => Err(Failure::other(error)),
            Err(_) => Err(Failure::other("a process does not end")),
        }
    }
}

/// Smallest of some values that this share of them does not exceed; `None` if there are none.
pub(super) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

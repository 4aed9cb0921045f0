//! Child process with a command, which cannot outlive the test.

use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::harness::{self, isolate};

/// Longest wait for a command to end; what is tested takes half a minute at most on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// `anabranch` with arguments, killed when dropped.
pub(crate) struct Process {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// Exit status and output of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Process {
    /// Starts the command in `folder`. Standard output goes to `out`, if given.
    pub(crate) fn start(folder: &Path, arguments: &[&str], out: Option<&Path>) -> Self {
        Self::start_in(None, folder, arguments, out)
    }

    /// As [`Self::start`], in a network namespace.
    pub(crate) fn start_in(
        namespace: Option<&str>,
        folder: &Path,
        arguments: &[&str],
        out: Option<&Path>,
    ) -> Self {
        // A long run uses a copy of the program, which no build replaces meanwhile.
        let program = std::env::var("ANABRANCH_PROGRAM");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_anabranch").to_owned());
        let words = match namespace {
            Some(namespace) => &["ip", "netns", "exec", namespace, &program][..],
            None => &[program.as_str()],
        };
        Self::start_by(words, folder, arguments, out)
    }

    /// As [`Self::start`], with these words for the program; the last one may be preceded by others that start it.
    pub(crate) fn start_by(
        words: &[&str],
        folder: &Path,
        arguments: &[&str],
        out: Option<&Path>,
    ) -> Self {
        let mut command = Command::new(words[0]);
        isolate(&mut command, folder)
            .args(&words[1..])
            .args(arguments)
            .env("RUST_LOG", std::env::var_os("RUST_LOG").unwrap_or_default())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        match out {
            Some(path) => command.stdout(std::fs::File::create(path).unwrap()),
            None => command.stdout(Stdio::piped()),
        };
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        Self { child, out, err }
    }

    /// Sends a signal such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        harness::signal(self.child.id(), name);
    }

    /// Number of the process.
    #[allow(dead_code, reason = "not every program of tests uses it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its standard input.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the command to end.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        let start = Instant::now();
        let mut is_late = false;
        while self.is_running() {
            if start.elapsed() > TIMEOUT && !is_late {
                is_late = true;
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = |thread: &mut Option<JoinHandle<String>>| {
            thread
                .take()
                .map_or_else(String::new, |t| t.join().unwrap())
        };
        let ended = Ended {
            status: self.child.wait().unwrap(),
            out: text(&mut self.out),
            err: text(&mut self.err),
        };
        assert!(!is_late, "it did not end by itself: {ended:?}");
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Checks the exit code, and that standard error contains these words.
    #[track_caller]
    pub(crate) fn is(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "'{word}' is missing: {self:?}");
        }
        self
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

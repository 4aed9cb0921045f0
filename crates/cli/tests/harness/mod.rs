//! Commands and nodes as processes, for the tests of this crate.
#![allow(dead_code, reason = "not every program of tests uses all of it")]

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;

/// Runs a command in a folder, which is also its home, with PATH and nothing else of the environment.
pub(crate) fn isolate<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
}

fn piped(mut command: Command, folder: &Path) -> Command {
    isolate(&mut command, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn command(folder: &Path) -> Command {
    piped(Command::new(env!("CARGO_BIN_EXE_anabranch")), folder)
}

/// A command that is killed after so many seconds, soon after its test, if it does not end.
pub(crate) fn limited(folder: &Path, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "-k", "5", &seconds.to_string()])
        .arg(env!("CARGO_BIN_EXE_anabranch"));
    piped(command, folder)
}

/// Sends a signal, such as `INT`. `timeout` passes it on to its command. After `STOP`, waits until no thread of the process runs any
/// more: on a busy machine, some go on for a while.
#[track_caller]
pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), id.to_string()])
        .status();
    assert!(sent.unwrap().success());
    while name == "STOP" && !is_stopped(id) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// True if every thread of a process is stopped, or if that cannot be seen here.
fn is_stopped(id: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        // The state follows the name, which is in parentheses.
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        stat.map_or(true, |stat| {
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        })
    })
}

/// A process that is killed when the test ends.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // A `timeout` that is killed leaves its command running.
        let id = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", child]).status();
        }
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is asked to end (SIGTERM) when the test ends; `timeout` passes that on to its command.
pub(crate) struct Terminated(pub(crate) Child);

impl Drop for Terminated {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let mut kill = Command::new("kill");
        // It may have ended.
        let _ = kill.args(["-TERM", &id]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// A command whose standard output is read while it runs; killed when the test ends.
pub(crate) struct Running(Killed, BufReader<ChildStdout>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(Killed(child), out)
    }

    /// The same, with the end of its standard input that is written to.
    pub(crate) fn start_writing(command: &mut Command) -> (Self, ChildStdin) {
        let mut running = Self::start(command.stdin(Stdio::piped()));
        let input = running.0.0.stdin.take().unwrap();
        (running, input)
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Reads events until one of this kind.
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the command has ended");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["kind"] == kind {
                return event;
            }
        }
    }

    pub(crate) fn listening(&mut self) -> SocketAddr {
        let event = self.event("listening");
        let at = event["at"].as_str().unwrap();
        at.trim_start_matches("udp:").parse().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.0.id()
    }

    /// Ends it as Ctrl-C does, and returns its exit code.
    pub(crate) fn interrupt(self) -> Option<i32> {
        self.end_by("INT")
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        while !self.line().is_empty() {}
        self.0.0.wait().unwrap().code()
    }

    /// Ends it by a signal, and returns its exit code.
    pub(crate) fn end_by(mut self, name: &str) -> Option<i32> {
        signal(self.id(), name);
        self.0.0.wait().unwrap().code()
    }
}

/// The key of the commands, and its node ID.
pub(crate) fn keygen(folder: &Path) -> String {
    let output = command(folder)
        .args(["keygen", "--key", "mine.key"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let id = words.iter().find(|word| word.len() == 52);
    (*id.unwrap_or_else(|| panic!("no ID in {text}"))).to_owned()
}

/// A port of the loopback address at which nothing listens, neither UDP nor TCP, and which no other call in this process returns.
pub(crate) fn free_port() -> SocketAddr {
    // Below those that the system gives to sockets without one, which may be in use before they are bound here.
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        assert!(tried < 1_000, "no port is free");
        let number = std::process::id().wrapping_mul(61).wrapping_add(tried);
        let port = PORTS.start + number % (PORTS.end - PORTS.start);
        let at = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if std::net::UdpSocket::bind(at).is_ok() && std::net::TcpListener::bind(at).is_ok() {
            return at;
        }
    }
}

/// Writes a configuration in which this node may do so much.
pub(crate) fn configure(folder: &Path, listen: SocketAddr, id: &str, right: &str) {
    let text = format!(
        "key = \"far.key\"\nlisten = [\"{listen}\"]\ncontrol = \"far.sock\"\n\
         [[peer]]\nname = \"near\"\nnode = \"{id}\"\nmay = [\"call\", {right}]\n"
    );
    fs::write(folder.join("far.toml"), text).unwrap();
}

/// Starts the node, and returns its ticket.
pub(crate) fn node(folder: &Path) -> (Running, String) {
    let mut node = Running::start(command(folder).args(["node", "--config", "far.toml"]));
    let id = node.line();
    assert!(id.starts_with("node "), "{id}");
    let line = node.line();
    let ticket = line.rsplit(' ').next().unwrap().to_owned();
    (node, ticket)
}

pub(crate) fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(folder.path(), owner_only).unwrap();
    folder
}

//! Commands and nodes as processes, for the tests of this crate.
#![allow(dead_code, reason = "not every program of tests uses all of it")]

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that is killed when the test ends.
pub(crate) struct Running(Child, BufReader<ChildStdout>);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
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
        self.0.id()
    }

    /// Ends it as Ctrl-C does, and returns its exit code.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code()
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

pub(crate) fn free_port() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
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

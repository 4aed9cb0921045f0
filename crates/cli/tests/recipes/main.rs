//! Recipes of `docs/gateway.md` with the programs that they name. A program that is not installed is reported in a line, and its
//! recipe skipped.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod browser;
#[path = "../harness/mod.rs"]
mod harness;
mod media;
mod postgres;
mod schema;
mod ssh;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use harness::{Running, command, configure, free_port, keygen, node, private_folder};

/// A program on PATH or among those for administrators; reports if there is none.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// A node that allows connections to a target, and a command that forwards to it.
struct Setting {
    folder: tempfile::TempDir,
    _node: Running,
    forward: Running,
    /// Address at which the command accepts connections.
    at: SocketAddr,
}

impl Setting {
    /// With arguments such as `forward -L 0:TARGET`; `allowed` is the pattern of the right.
    fn new(allowed: &str, arguments: &[&str]) -> Self {
        Self::with_rules(allowed, "", arguments)
    }

    /// The same; a file `rules.toml` with this text is where the command runs.
    fn with_rules(allowed: &str, rules: &str, arguments: &[&str]) -> Self {
        let folder = private_folder();
        let path = folder.path();
        std::fs::write(path.join("rules.toml"), rules).unwrap();
        let right = format!("{{ right = \"forward\", to = [\"{allowed}\"] }}");
        configure(path, free_port(), &keygen(path), &right);
        let (node, ticket) = node(path);
        let more = ["--json", "--key", "mine.key", &ticket];
        let mut forward = Running::start(command(path).args(arguments).args(more));
        let at = forward.listening();
        Self {
            folder,
            _node: node,
            forward,
            at,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the command as Ctrl-C does.
    fn end(self) {
        assert_eq!(self.forward.interrupt(), Some(0));
    }
}

/// Runs a command and returns its standard output; it must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {seen}");
    output.stdout
}

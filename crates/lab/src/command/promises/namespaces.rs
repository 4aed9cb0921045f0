//! Network namespaces of a live run, removed when it is over. Needs root.

use std::{fs, path::Path, process::Command};

use crate::failure::Failure;

/// Beginning of the names; the number of the process and the end follow.
const PREFIX: &str = "anablab";
/// Folder in which `ip netns` keeps the namespaces.
const FOLDER: &str = "/var/run/netns";

/// A network namespace; dropping it removes it, with the devices in it.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace for one end of the paths, after those that an earlier run has left behind were removed.
    ///
    /// # Errors
    /// It cannot be made: this needs root, and the command `ip`.
    pub(super) fn new(end: &str) -> Result<Self, Failure> {
        remove_orphans();
        let name = format!("{PREFIX}-{}-{end}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name, as in `ip netns`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that remains is removed by the next run.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

/// Number of the process in the name of a namespace; `None`: it is not one of ours.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('-')?;
    rest.split('-').next()?.parse().ok()
}

/// Removes the namespaces of runs that were killed.
fn remove_orphans() {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_over = |owner: u32| !Path::new(&format!("/proc/{owner}")).exists();
        if owner(&name).is_some_and(is_over) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

/// Runs `ip`.
fn ip(words: &[&str]) -> Result<(), Failure> {
    let failed = |reason: &str| {
        let words = words.join(" ");
        Failure::other(format!(
            "`ip {words}`: {reason}; --netns needs root, and the command `ip` of iproute2"
        ))
    };
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_this_program_have_an_owner() {
        assert_eq!(owner("anablab-17-near"), Some(17));
        for other in [
            "anablab",
            "anablab-x-near",
            "anabgw-17-near",
            "anablab17-near",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}

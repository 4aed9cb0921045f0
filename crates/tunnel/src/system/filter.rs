//! Tables of the kernel's packet filter (nftables), each for as long as this process.
//!
//! A table belongs to a child process, `nft`, which waits for commands at a pipe that only this process holds. When this process ends,
//! however it does, `nft` ends as well, and the kernel removes the table of an owner that is gone (`flags owner`: Linux 5.12, nftables
//! 1.0). No other program can change it meanwhile. If `nft` was ended by somebody, [`Filter::mend`] makes the table again.

use std::{
    ffi::OsString,
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// Time in which the owner of an earlier table ends after its process was killed, and in which `nft` makes a new one.
const WAIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// A table cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There is no `nft`.
    #[error(
        "masquerading needs the program `nft`, which is not here ({0}); install the package nftables (`apt-get install nftables`, \
         `dnf install nftables`, `apk add nftables`)"
    )]
    Missing(#[from] io::Error),
    /// Another process has the table.
    #[error(
        "another process has the table {0} of the packet filter; end the tunnel that has the device of this name, or name another one \
         with --name (`device`)"
    )]
    Taken(String),
    /// `nft` or the kernel refused it.
    #[error(
        "cannot set up masquerading, which needs CAP_NET_ADMIN, Linux 5.12 and nftables 1.0: nft: {0}"
    )]
    Refused(String),
}

/// A table of the packet filter, removed when dropped.
#[derive(Debug)]
pub(super) struct Filter {
    owner: Child,
    table: String,
    script: String,
}

fn command() -> Command {
    // Users other than root may not have the folders of such programs in their path.
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new("nft");
    command
        .env("PATH", path)
        .env("LC_ALL", "C")
        // An interactive nft keeps a history at home.
        .env("HOME", OsString::from("/dev/null"));
    command
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // The lines after the first repeat the script.
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("no reason given").trim().to_owned()
}

/// Checks that there is an `nft`.
///
/// # Errors
/// It cannot be run.
pub(super) fn check_program() -> Result<(), FilterError> {
    let run = command().arg("--version").output()?;
    match run.status.success() {
        true => Ok(()),
        false => Err(FilterError::Refused(words(&run.stderr))),
    }
}

/// Name of the table for a device.
fn name(device: &str) -> String {
    format!("anabranch-{device}")
}

/// One line that replaces a table without an owner and makes a new one with these chains.
fn script(table: &str, chains: &str) -> String {
    let chains: Vec<&str> = chains.split_whitespace().collect();
    format!(
        "add table inet {table}; delete table inet {table}; table inet {table} {{ flags owner; {} }}\n",
        chains.join(" ")
    )
}

fn is_there(table: &str) -> io::Result<bool> {
    let run = command().args(["list", "table", "inet", table]).output()?;
    Ok(run.status.success())
}

/// Has the kernel check a script, which is not carried out.
fn check(script: &str) -> io::Result<Output> {
    let mut child = command()
        .args(["--check", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("it is piped");
    // If it has ended, its words say why.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    child.wait_with_output()
}

impl Filter {
    /// Makes the table of a device, with these chains, each statement of which ends with a semicolon.
    ///
    /// # Errors
    /// There is no `nft`, another process has the table, or it is refused.
    pub(super) fn set(device: &str, chains: &str) -> Result<Self, FilterError> {
        let table = name(device);
        let script = script(&table, chains);
        Self::make(table, script)
    }

    /// Makes the table again if its owner has ended; true if that was so.
    ///
    /// # Errors
    /// As those of [`Filter::set`].
    pub(super) fn mend(&mut self) -> Result<bool, FilterError> {
        let is_over = self.owner.try_wait().is_ok_and(|status| status.is_some());
        if is_over {
            *self = Self::make(self.table.clone(), self.script.clone())?;
        }
        Ok(is_over)
    }

    fn make(table: String, script: String) -> Result<Self, FilterError> {
        let start = Instant::now();
        loop {
            let checked = check(&script)?;
            if checked.status.success() {
                break;
            }
            // A table that is there and cannot be replaced has an owner, which may be about to end.
            if !is_there(&table)? {
                return Err(FilterError::Refused(words(&checked.stderr)));
            }
            if start.elapsed() > WAIT {
                return Err(FilterError::Taken(table));
            }
            std::thread::sleep(POLL);
        }
        let mut owner = command()
            .arg("--interactive")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for this process.
            .process_group(0)
            .spawn()?;
        let input = owner.stdin.as_mut().expect("it is piped");
        let written = input.write_all(script.as_bytes());
        // From here on, dropping it takes the table back.
        let mut filter = Self {
            owner,
            table,
            script,
        };
        written.map_err(|error| FilterError::Refused(error.to_string()))?;
        let start = Instant::now();
        while !is_there(&filter.table)? {
            let is_over = filter.owner.try_wait().is_ok_and(|status| status.is_some());
            if is_over || start.elapsed() > WAIT {
                return Err(FilterError::Refused(filter.last_words()));
            }
            std::thread::sleep(POLL);
        }
        Ok(filter)
    }

    /// Ends the owner; returns what it wrote about its errors.
    fn last_words(&mut self) -> String {
        drop(self.owner.stdin.take());
        let mut text = Vec::new();
        if let Some(errors) = &mut self.owner.stderr {
            // The end of the process ends it.
            let _ = errors.read_to_end(&mut text);
        }
        words(&text)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The end of its input.
        drop(self.owner.stdin.take());
        let _ = self.owner.wait();
    }
}

/// Chains of other programs that drop forwarded packets which no rule of theirs accepts, as `FAMILY TABLE CHAIN`.
pub(super) fn dropping() -> Vec<String> {
    match command().args(["list", "chains"]).output() {
        Ok(run) => dropping_of(&String::from_utf8_lossy(&run.stdout)),
        Err(_) => Vec::new(),
    }
}

fn dropping_of(shown: &str) -> Vec<String> {
    let (mut table, mut chain) = ("", "");
    let mut found = Vec::new();
    for line in shown.lines().map(str::trim) {
        let head = line.strip_suffix(" {").unwrap_or_default();
        if let Some(rest) = head.strip_prefix("table ") {
            table = rest;
        } else if let Some(rest) = head.strip_prefix("chain ") {
            chain = rest;
        } else if line.contains("hook forward") && line.contains("policy drop") {
            found.push(format!("{table} {chain}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_one_line() {
        let script = script("anabranch-x", "chain a {\n    type nat;\n  };\n");
        assert_eq!(
            script,
            "add table inet anabranch-x; delete table inet anabranch-x; table inet anabranch-x { flags owner; chain a { type nat; }; }\n"
        );
    }

    #[test]
    fn chains_that_drop_forwarded_packets_are_found() {
        let shown = "\
table ip filter {
\tchain INPUT {
\t\ttype filter hook input priority filter; policy drop;
\t}
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
\tchain DOCKER {
\t}
}
table inet fw4 {
\tchain forward {
\t\ttype filter hook forward priority filter; policy accept;
\t}
}
";
        assert_eq!(dropping_of(shown), ["ip filter FORWARD"]);
        assert!(dropping_of("").is_empty());
    }
}

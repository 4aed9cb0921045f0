//! Other processes, and their use of resources.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use super::Outcome;

/// Clock ticks per second in `/proc` (`USER_HZ`, the same on all architectures of Linux).
const TICKS: f64 = 100.0;

/// A process with a role; it ends when this is dropped.
pub(crate) struct Role {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// Resources used by a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory.
    pub(crate) resident_mb: f64,
    /// Processor time since it began.
    pub(crate) cpu_s: f64,
}

impl Role {
    pub(crate) fn start(role: &str, arguments: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(role)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        eprintln!("{role}: process {}", child.id());
        let lines = BufReader::new(out);
        Ok(Self { child, lines })
    }

    /// Reads its next line of output.
    pub(crate) fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err("a process ended early".into());
        }
        Ok(line.trim().to_owned())
    }

    pub(crate) fn usage(&self) -> Usage {
        usage(&self.child.id().to_string())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // It also ends by itself when its standard input does.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of this process, in seconds.
pub(crate) fn own() -> f64 {
    usage("self").cpu_s
}

/// Load of the machine.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.trim().to_owned()
}

/// Usage of a process; zero where there is no `/proc`.
fn usage(process: &str) -> Usage {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| {
        let kilobytes = line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?;
        kilobytes.parse::<f64>().ok()
    });
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    Usage {
        resident_mb: resident.unwrap_or(0.0) * 1_024e-6,
        cpu_s: (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS,
    }
}

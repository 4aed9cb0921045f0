//! Memory and CPU time of the victim's process, as the kernel counts them.

use std::{fs, time::Instant};

use crate::Outcome;

/// Clock ticks a second in `/proc/PID/stat`; a constant of Linux's interface.
const TICKS_PER_S: f64 = 100.0;

/// A process under observation.
#[derive(Debug)]
pub(crate) struct Victim {
    pid: u32,
    began: Instant,
    /// Resident bytes: at the start, the maximum so far, the latest.
    pub(crate) rss_before: u64,
    pub(crate) rss_max: u64,
    pub(crate) rss_last: u64,
    cpu_before_s: f64,
    cpu_last_s: f64,
    pub(crate) is_alive: bool,
}

impl Victim {
    pub(crate) fn watch(pid: u32) -> Outcome<Self> {
        let (rss, cpu) = read(pid).ok_or(format!("no process {pid}"))?;
        Ok(Self {
            pid,
            began: Instant::now(),
            rss_before: rss,
            rss_max: rss,
            rss_last: rss,
            cpu_before_s: cpu,
            cpu_last_s: cpu,
            is_alive: true,
        })
    }

    /// Takes one sample; false if the process is gone.
    pub(crate) fn sample(&mut self) -> bool {
        match read(self.pid) {
            Some((rss, cpu)) => {
                self.rss_last = rss;
                self.rss_max = self.rss_max.max(rss);
                self.cpu_last_s = cpu;
            }
            None => self.is_alive = false,
        }
        self.is_alive
    }

    /// CPU seconds since the start.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.cpu_last_s - self.cpu_before_s
    }

    /// Seconds since the start.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// True if the process is alive and never took more than `bytes` above the start.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        self.is_alive && self.rss_max.saturating_sub(self.rss_before) <= bytes
    }
}

/// Resident bytes and CPU seconds; `None` when there is no such process, or only its remains.
fn read(pid: u32) -> Option<(u64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; user and system time are the 12th and 13th words behind it.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || words.next().and_then(|word| word.parse::<f64>().ok());
    let cpu_s = (ticks()? + ticks()?) / TICKS_PER_S;
    Some((kib << 10, cpu_s))
}

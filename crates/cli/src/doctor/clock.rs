//! Looks at the clock, and programs that know if it is synchronised.

use std::{fs, path::Path, time::SystemTime};

use super::{
    facts::{Clock, Node},
    gather::output,
};

/// Bit of `adjtimex` that says that the clock is not synchronised (`linux/timex.h`).
const STA_UNSYNC: u32 = 0x40;

/// The clock as it is now.
pub(super) async fn look() -> Clock {
    let beyond = beyond_uptime_ms();
    Clock {
        is_synchronised: is_synchronised().await,
        unix_s: unix_ms() as u64 / 1_000,
        looks_ms: beyond.map(|at| (at, at)),
        since_node_ms: None,
    }
}

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the machine is what is examined"
)]
fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// True if the kernel's clock counts as synchronised (STA_UNSYNC of `adjtimex`), in the words of the first program that is here.
async fn is_synchronised() -> Option<bool> {
    if let Some(text) = output("timedatectl", "show -p NTPSynchronized --value").await {
        return Some(text.trim() == "yes");
    }
    if let Some(text) = output("chronyc", "-c tracking").await {
        return leap_of_chrony(&text);
    }
    let text = output("adjtimex", "--print").await?;
    status_of_adjtimex(&text)
}

/// The last field of chrony's report: `Normal`, a leap second, or `Not synchronised`.
fn leap_of_chrony(text: &str) -> Option<bool> {
    let leap = text.trim().rsplit(',').next()?;
    (!leap.is_empty()).then_some(leap != "Not synchronised")
}

/// Bit STA_UNSYNC of the status that `adjtimex --print` shows.
fn status_of_adjtimex(text: &str) -> Option<bool> {
    let mut lines = text.lines().map(str::trim);
    let status = lines.find_map(|line| line.strip_prefix("status:"))?;
    let status: u32 = status.trim().parse().ok()?;
    Some(status & STA_UNSYNC == 0)
}

/// Time of the clock beyond the time since the machine started, sleep included, in ms.
fn beyond_uptime_ms() -> Option<i64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(unix_ms() - (uptime_s * 1e3) as i64)
}

/// The looks at the clock with one that is made now in place of the last.
pub(super) fn look_again(looks_ms: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let (first, _) = looks_ms?;
    Some((first, beyond_uptime_ms()?))
}

/// Time by which the clock has moved further than the node's own since the node made its control socket.
pub(super) fn since_node_ms(socket: &Path, node: &Node) -> Option<i64> {
    let made = fs::metadata(socket).ok()?.modified().ok()?;
    let made = made.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(unix_ms() - made.as_millis() as i64 - node.uptime_ms?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_know_the_clock_are_read() {
        // chrony 4.3, then the same without a server.
        let synchronised = "C0248F97,192.36.143.151,2,1767225700.1,0.000021,-0.000012,0.000034,-11.2,0.001,0.05,0.02,0.001,64.2,Normal\n";
        assert_eq!(leap_of_chrony(synchronised), Some(true));
        let not = synchronised.replace("Normal", "Not synchronised");
        assert_eq!(leap_of_chrony(&not), Some(false));
        // adjtimex 1.29: STA_PLL, then with STA_UNSYNC.
        let printed = "         mode: 0\n       offset: -2194\n    frequency: 123456\n       status: 1\n time_constant: 7\n";
        assert_eq!(status_of_adjtimex(printed), Some(true));
        let not = printed.replace("status: 1", "status: 65");
        assert_eq!(status_of_adjtimex(&not), Some(false));
        assert_eq!(status_of_adjtimex("nothing"), None);
    }

    #[test]
    fn a_socket_that_is_older_than_its_node_shows_that_the_clock_was_set() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let node = |uptime_ms| Node {
            uptime_ms: Some(uptime_ms),
            ..Node::default()
        };
        let moved = since_node_ms(file.path(), &node(3_600_000)).unwrap();
        assert!((-3_600_000..-3_000_000).contains(&moved), "{moved}");
        assert_eq!(since_node_ms(file.path(), &Node::default()), None);
    }
}

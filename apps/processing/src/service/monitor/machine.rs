//! Use of the machine's processors, where the system shows it.

/// Processor time of the machine since it was started, in the system's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// In use.
    pub(crate) busy: u64,
    /// In use or idle.
    pub(crate) all: u64,
}

impl Times {
    /// Share of the time since `before` that was in use, [0, 1]; `None` if no time has passed.
    pub(crate) fn share_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        // Some systems correct the time that they waited for devices downwards.
        let busy = self.busy.saturating_sub(before.busy);
        Some((busy as f64 / all as f64).min(1.0))
    }
}

/// The times; `None`: this system does not show them.
pub(crate) async fn times() -> Option<Times> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = tokio::fs::read_to_string("/proc/stat").await.ok()?;
    parse(&text)
}

/// Processors of the machine that this program may use; 0: unknown.
pub(crate) fn cores() -> u32 {
    let cores = std::thread::available_parallelism();
    cores.map_or(0, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Reads the first line of `/proc/stat` (proc_stat(5)): `cpu user nice system idle iowait irq softirq steal …`. The columns after these are
/// part of `user` and `nice`.
fn parse(text: &str) -> Option<Times> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle = times
        .get(3)?
        .checked_add(times.get(4).copied().unwrap_or(0))?;
    let all = times
        .iter()
        .try_fold(0_u64, |sum, time| sum.checked_add(*time))?;
    Some(Times {
        busy: all - idle,
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_time_in_use_is_read() {
        let before = parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!((before.busy, before.all), (150, 1_000));
        let after = parse("cpu  130 5 60 840 60 1 2 2 99 99\n").unwrap();
        assert_eq!((after.busy, after.all), (200, 1_100));
        assert_eq!(after.share_since(before), Some(0.5));
        assert_eq!(after.share_since(after), None);
        assert_eq!(before.share_since(after), None, "clocks do not go back");
        // As the first kernels had it.
        assert_eq!(parse("cpu 1 2 3 4").map(|times| times.all), Some(10));
        for wrong in [
            "",
            "cpu",
            "cpu a b",
            "cpu 1 2 3",
            "intr 1 2 3 4 5",
            "cpu 1 2 3 18446744073709551615",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn this_machine_shows_it_on_linux() {
        assert_eq!(times().await.is_some(), cfg!(target_os = "linux"));
        assert!(cores() > 0);
    }
}

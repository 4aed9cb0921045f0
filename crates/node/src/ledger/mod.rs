//! Usage ledger: bytes sent where sending costs something, kept over restarts.
//!
//! The file is always ahead of what is spent: first a number is written and synced, then it may be used
//! ([`Host::grant`]). Whenever a node dies, no byte was sent that is not in the file; what was granted and not used by
//! then counts as used. A node that ends in order leaves the exact number.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Ledger`]: decides what is written and when |
//! | `change` | other tariffs, and another file, while the host runs |
//! | `file` | the file: its lock, its text and its replacement |

mod change;
mod file;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_net::{BudgetReport, Counted, Host, HostConfig, Place};
use anabranch_session::metering::Meter;

use file::File;
pub use file::LedgerError;

/// Interval between checks that the amount written suffices. There are no more writes than this.
const EVERY: Duration = Duration::from_millis(250);
/// Pause after a failed write.
const RETRY: Duration = Duration::from_secs(2);
/// Amount written ahead, in multiples of the usage between the last two checks: 2 s of it.
const AHEAD_LOOKS: u64 = 8;
/// Least amount written ahead with no cap or a large one: 130 Mbit/s between two checks.
const AHEAD_MIN_BYTES: u64 = 4_000_000;
/// Share of a small cap that is written ahead,
const AHEAD_CAP_SHARE: u64 = 16;
/// but at least this: the initial need of a few channels.
const AHEAD_SMALL_BYTES: u64 = 128_000;

/// An open ledger, which has its file to itself until it is closed or dropped.
#[derive(Debug)]
pub struct Ledger {
    file: Arc<Mutex<File>>,
}

impl Ledger {
    /// Checks that this text of a file is a ledger.
    ///
    /// # Errors
    /// It is of another version or cannot be parsed.
    pub fn check(path: &Path, text: &str) -> Result<(), LedgerError> {
        file::read(path, text).map(|_| ())
    }

    /// Opens a ledger; a new one is created at the first write.
    ///
    /// # Errors
    /// It cannot be read or parsed, or another process has it open. Nothing was changed then.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let file = Arc::new(Mutex::new(File::open(path)?));
        Ok(Self { file })
    }

    /// Sets every tariff of a host that is about to start to the usage in this ledger; the tariffs wait for its grants.
    pub fn load(&self, host: &mut HostConfig) {
        let file = lock(&self.file);
        for tariff in &mut host.tariffs {
            tariff.counted = file.counted(&tariff.place);
            tariff.is_granted = true;
        }
    }

    /// Writes ahead of the usage of a host, until dropped. While this does not run, a host that was [loaded](Self::load) from
    /// this ledger sends nothing where sending costs something.
    pub async fn keep(&self, host: &Host) {
        let mut used_before = BTreeMap::new();
        let mut has_failed = false;
        loop {
            let wanted: Vec<(Place, Counted)> = {
                let file = lock(&self.file);
                let budgets = host.budgets();
                let wanted = budgets.iter().filter_map(|budget| {
                    let recent = recent_bytes(&mut used_before, budget);
                    let written = file.counted(&budget.place);
                    let wanted = ahead(&budget.meter, recent, written)?;
                    Some((budget.place.clone(), wanted))
                });
                wanted.collect()
            };
            if wanted.is_empty() {
                tokio::time::sleep(EVERY).await;
                continue;
            }
            let (file, writing) = (self.file.clone(), wanted.clone());
            let written = tokio::task::spawn_blocking(move || lock(&file).write(writing));
            match written.await {
                Ok(Ok(())) => {
                    has_failed = false;
                    self.grant(host, &wanted);
                    tokio::time::sleep(EVERY).await;
                }
                Ok(Err(error)) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::error!(
                            "{error}; where sending costs something, nothing more is sent until it works"
                        );
                    }
                    tokio::time::sleep(RETRY).await;
                }
                // The runtime is shutting down.
                Err(_) => return,
            }
        }
    }

    /// Permits what was written; nothing if another ledger took the place of this one meanwhile.
    fn grant(&self, host: &Host, written: &[(Place, Counted)]) {
        let file = lock(&self.file);
        if !file.is_closed() {
            for (place, counted) in written {
                host.grant(place, counted.period, counted.used_bytes);
            }
        }
    }

    /// The file that keeps others from a ledger at this path while it is open.
    pub(crate) fn lock_file(path: &Path) -> PathBuf {
        file::lock_file(path)
    }

    /// Writes the exact usage, after [`Host::shutdown`]; nothing is written later.
    ///
    /// # Errors
    /// The file cannot be written. It then holds a little more than was used.
    pub fn close(&self, host: &Host) -> Result<(), LedgerError> {
        let exact = |budget: BudgetReport| {
            let counted = Counted {
                period: budget.meter.period(),
                used_bytes: budget.meter.used_bytes(),
            };
            (budget.place, counted)
        };
        lock(&self.file).write_last(host.budgets().into_iter().map(exact).collect())
    }
}

fn lock(file: &Mutex<File>) -> MutexGuard<'_, File> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Usage since the last check.
fn recent_bytes(used_before: &mut BTreeMap<Place, u64>, budget: &BudgetReport) -> u64 {
    let used = budget.meter.used_bytes();
    let before = used_before.insert(budget.place.clone(), used);
    before.map_or(0, |before| used.saturating_sub(before))
}

/// Entry to write now; `None` if the one written suffices for a while.
fn ahead(meter: &Meter, recent_bytes: u64, written: Option<Counted>) -> Option<Counted> {
    let (used, cap) = (meter.used_bytes(), meter.model().cap_bytes());
    let least = cap.map_or(AHEAD_MIN_BYTES, |cap| {
        (cap / AHEAD_CAP_SHARE).clamp(AHEAD_SMALL_BYTES, AHEAD_MIN_BYTES)
    });
    let ahead = recent_bytes.saturating_mul(AHEAD_LOOKS).max(least);
    let wanted = used.saturating_add(ahead).min(cap.unwrap_or(u64::MAX));
    let wanted = wanted.max(used);
    let written = written.filter(|written| written.period == meter.period());
    let left = written.map(|written| written.used_bytes.saturating_sub(used));
    let suffices = left.is_some_and(|left| left >= (wanted - used).div_ceil(2));
    (!suffices).then_some(Counted {
        period: meter.period(),
        used_bytes: wanted,
    })
}

#[cfg(test)]
mod tests {
    use anabranch_session::metering::Period;

    use super::*;

    fn meter(price: &str, used: u64) -> Meter {
        Meter::new(price.parse().unwrap(), Period(20_758), used)
    }

    fn written(used_bytes: u64) -> Option<Counted> {
        Some(Counted {
            period: Period(20_758),
            used_bytes,
        })
    }

    #[test]
    fn the_written_amount_is_ahead_of_usage() {
        // Little is used, so little is lost in a crash.
        assert_eq!(ahead(&meter("0.01/MB", 7), 0, None), written(4_000_007));
        let small = meter("200 kB then stop", 7);
        assert_eq!(ahead(&small, 0, None), written(128_007));
        // Half of it is left: not yet.
        let later = meter("200 kB then stop", 64_000);
        assert_eq!(ahead(&later, 0, written(128_000)), None);
        let later = meter("200 kB then stop", 64_001);
        assert_eq!(ahead(&later, 0, written(128_000)), written(192_001));
        // Much is used.
        let busy = meter("5 GB then stop", 100_000_000);
        let wanted = ahead(&busy, 10_000_000, written(110_000_000));
        assert_eq!(wanted, written(180_000_000));
        // Never beyond the cap, and the writes stop once the cap is reached.
        let last = meter("200 kB then stop", 150_000);
        assert_eq!(ahead(&last, 90_000, written(160_000)), written(200_000));
        let spent = meter("200 kB then stop", 199_000);
        assert_eq!(ahead(&spent, 0, written(200_000)), None);
        let spent = meter("200 kB then stop", 200_000);
        assert_eq!(ahead(&spent, 0, written(200_000)), None);
        assert_eq!(ahead(&spent, 0, None), written(200_000));
        // A cap that is smaller than the usage so far.
        let smaller = meter("1 kB then stop", 5000);
        assert_eq!(ahead(&smaller, 0, written(5000)), None);
    }

    #[test]
    fn usage_of_another_month_does_not_count() {
        let old = Counted {
            period: Period(20_728),
            used_bytes: 200_000,
        };
        let new = meter("200 kB then stop", 0);
        assert_eq!(ahead(&new, 0, Some(old)), written(128_000));
    }
}

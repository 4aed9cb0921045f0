//! Evidence for promises that outlasts sessions and restarts: how far the capacity of each interface falls below its level.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Evidence`]: collects what sessions learn, and hands it to new ones |
//! | `file` | the file: TOML, replaced as a whole |

mod file;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_net::Host;
use anabranch_session::{Prior, Steadiness};

use crate::record::unix_ms;

/// Interval between two looks at what sessions learnt.
const EVERY: Duration = Duration::from_secs(60);
/// Interfaces kept; of more, those that were measured last.
pub const INTERFACES_MAX: usize = 64;
/// Windows after which evidence has its full weight.
const WINDOWS_FULL: f64 = 300.0;
/// Time after which it has half of it.
const HALF_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Evidence of one interface.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    shares: Steadiness,
    windows: usize,
    /// Time of the last measurement, in milliseconds since 1970.
    measured_ms: u64,
}

impl Known {
    /// Its worth now. Evidence from the future, after a clock was set, is as if it were of now.
    fn prior(&self, now_ms: u64) -> Prior {
        let age = Duration::from_millis(now_ms.saturating_sub(self.measured_ms));
        let halvings = age.as_secs_f64() / HALF_LIFE.as_secs_f64();
        let whole = (self.windows as f64 / WINDOWS_FULL).min(1.0);
        Prior {
            shares: self.shares,
            weight: whole * 0.5_f64.powf(halvings),
        }
    }
}

type Interfaces = BTreeMap<Arc<str>, Known>;

/// The evidence of a node. Its file, if it has one, is created when there is something to keep.
#[derive(Debug)]
pub struct Evidence {
    path: Mutex<Option<PathBuf>>,
    known: Mutex<Interfaces>,
}

/// Another file for evidence, and what it holds.
#[derive(Debug)]
pub(crate) struct OtherFile {
    path: Option<PathBuf>,
    known: Interfaces,
}

impl OtherFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub(crate) fn read(path: Option<PathBuf>) -> std::io::Result<Self> {
        let known = path.as_deref().map(file::read).transpose()?;
        let known = known.unwrap_or_default();
        Ok(Self { path, known })
    }
}

impl Evidence {
    /// Reads the file, if there is one. What cannot be read is as good as unknown: it is learnt again, and said in the log.
    pub fn open(path: Option<PathBuf>) -> Self {
        let known = match path.as_deref().map(|path| (path, file::read(path))) {
            None => Interfaces::new(),
            Some((_, Ok(known))) => known,
            Some((path, Err(error))) => {
                tracing::warn!(
                    "evidence of earlier sessions is not used: {}: {error}",
                    path.display()
                );
                Interfaces::new()
            }
        };
        Self {
            path: Mutex::new(path),
            known: Mutex::new(known),
        }
    }

    /// The file.
    pub fn path(&self) -> Option<PathBuf> {
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        path.clone()
    }

    /// Keeps everything in another file from now on. What was learnt until now is in both; of an interface that both know, the
    /// evidence of more weight stays.
    pub(crate) fn move_to(&self, other: OtherFile, host: &Host) {
        self.close(host);
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = other.path;
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            join(&mut known, other.known, unix_ms());
        }
        host.set_priors(self.priors());
    }

    /// Assumptions of new sessions about the interfaces.
    pub fn priors(&self) -> Arc<BTreeMap<Arc<str>, Prior>> {
        let now_ms = unix_ms();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let priors = known.iter();
        Arc::new(
            priors
                .map(|(name, known)| (name.clone(), known.prior(now_ms)))
                .collect(),
        )
    }

    /// Collects from `host` until dropped, and hands on to its new sessions.
    pub async fn keep(&self, host: &Host) {
        let mut has_failed = false;
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some((path, text)) = self.collect(host) {
                let shown = path.display().to_string();
                let written = tokio::task::spawn_blocking(move || file::write(&path, &text)).await;
                match written {
                    Ok(Ok(())) => has_failed = false,
                    Ok(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                        tracing::warn!("evidence is not kept: {shown}: {error}");
                    }
                    _ => {}
                }
            }
            host.set_priors(self.priors());
        }
    }

    /// Collects for the last time; for the end of the node.
    pub fn close(&self, host: &Host) {
        if let Some((path, text)) = self.collect(host)
            && let Err(error) = file::write(&path, &text)
        {
            tracing::warn!("evidence is not kept: {}: {error}", path.display());
        }
    }

    /// Adds what sessions learnt; the file and its new text, if there is something new to keep.
    fn collect(&self, host: &Host) -> Option<(PathBuf, String)> {
        let learnt = host.evidence();
        if learnt.is_empty() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        merge(&mut known, learnt, unix_ms());
        Some((self.path()?, file::text(&known)))
    }
}

/// Merges what was learnt until now. A short session does not replace what a long one learnt lately.
fn merge(known: &mut Interfaces, learnt: BTreeMap<Arc<str>, (Steadiness, usize)>, now_ms: u64) {
    for (name, (shares, windows)) in learnt {
        let new = Known {
            shares,
            windows,
            measured_ms: now_ms,
        };
        let before = known.get(&name).map(|before| before.prior(now_ms).weight);
        if before.is_none_or(|before| new.prior(now_ms).weight >= before) {
            known.insert(name, new);
        }
    }
    forget_oldest(known);
}

/// Adds evidence of another file.
fn join(known: &mut Interfaces, others: Interfaces, now_ms: u64) {
    for (name, other) in others {
        let before = known.get(&name).map(|before| before.prior(now_ms).weight);
        if before.is_none_or(|before| other.prior(now_ms).weight > before) {
            known.insert(name, other);
        }
    }
    forget_oldest(known);
}

fn forget_oldest(known: &mut Interfaces) {
    while known.len() > INTERFACES_MAX {
        let oldest = known.iter().min_by_key(|(_, known)| known.measured_ms);
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
            return;
        };
        known.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn learnt(name: &str, share: f64, windows: usize) -> BTreeMap<Arc<str>, (Steadiness, usize)> {
        BTreeMap::from([(name.into(), ([share; 5], windows))])
    }

    #[test]
    fn evidence_loses_half_of_its_weight_in_a_day() {
        let known = Known {
            shares: [1.0; 5],
            windows: 500,
            measured_ms: 0,
        };
        assert_eq!(known.prior(0).weight, 1.0);
        assert_eq!(known.prior(24 * HOUR_MS).weight, 0.5);
        assert_eq!(known.prior(48 * HOUR_MS).weight, 0.25);
        let short = Known {
            windows: 150,
            measured_ms: 9,
            ..known
        };
        assert_eq!(short.prior(3).weight, 0.5, "a clock was set back");
    }

    #[test]
    fn a_short_session_replaces_old_evidence_only() {
        let mut known = Interfaces::new();
        merge(&mut known, learnt("lte0", 0.8, 400), 0);
        merge(&mut known, learnt("lte0", 0.3, 100), HOUR_MS);
        assert_eq!(known["lte0"].shares, [0.8; 5]);
        merge(&mut known, learnt("lte0", 0.3, 100), 48 * HOUR_MS);
        assert_eq!(known["lte0"].shares, [0.3; 5]);
    }

    #[test]
    fn of_two_files_the_evidence_of_more_weight_stays() {
        let at = |name: &str, share: f64, measured_ms: u64| {
            let mut known = Interfaces::new();
            merge(&mut known, learnt(name, share, 400), measured_ms);
            known
        };
        let mut known = at("lte0", 0.8, 10 * HOUR_MS);
        join(&mut known, at("lte0", 0.3, 0), 10 * HOUR_MS);
        join(&mut known, at("wlan0", 0.5, 0), 10 * HOUR_MS);
        assert_eq!(known["lte0"].shares, [0.8; 5]);
        assert_eq!(known["wlan0"].shares, [0.5; 5]);
        join(&mut known, at("wlan0", 0.4, HOUR_MS), 10 * HOUR_MS);
        assert_eq!(known["wlan0"].shares, [0.4; 5]);
    }

    #[test]
    fn the_interfaces_measured_last_are_kept() {
        let mut known = Interfaces::new();
        for at in 0..=INTERFACES_MAX as u64 {
            merge(&mut known, learnt(&format!("tun{at}"), 0.5, 100), at);
        }
        assert_eq!(known.len(), INTERFACES_MAX);
        assert!(!known.contains_key("tun0"));
    }
}

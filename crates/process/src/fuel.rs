//! Fuel: how much WebAssembly modules may compute, for one ADU of a source and in the course of time.
//!
//! One unit is about one instruction. All modules of a pipeline have [`Limits::fuel`](crate::Limits) for an ADU of the source together, so that steps which multiply
//! ADUs do not multiply what they cost. And all modules that run for a peer have [`Limits::fuel_per_s`](crate::Limits), so that one that takes as much as it may for
//! each ADU takes a part of a processor, and no more.

use std::sync::{Mutex, PoisonError};

use anabranch_base::Instant;

/// What the modules of a peer may take. It may be overdrawn by what one ADU takes.
#[derive(Debug, Default)]
pub(crate) struct Share(Mutex<Option<Level>>);

#[derive(Clone, Copy, Debug)]
struct Level {
    fuel: f64,
    at: Instant,
}

impl Share {
    /// True if modules may run now. There is as much as for a second, at most and at the beginning.
    pub(crate) fn has_fuel(&self, now: Instant, per_s: u64) -> bool {
        let per_s = per_s as f64;
        let mut level = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = level.unwrap_or(Level {
            fuel: per_s,
            at: now,
        });
        let gained = now.since(before.at).as_secs_f64() * per_s;
        let after = Level {
            fuel: (before.fuel + gained).min(per_s),
            at: before.at.max(now),
        };
        *level = Some(after);
        after.fuel > 0.0
    }

    /// Takes what modules took. Without effect before it was asked for.
    pub(crate) fn take(&self, units: u64) {
        let mut level = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(level) = level.as_mut() {
            level.fuel -= units as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_overdrawn_is_waited_for() {
        let share = Share::default();
        let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
        assert!(share.has_fuel(at(500), 1_000));
        share.take(999);
        assert!(share.has_fuel(at(500), 1_000));
        share.take(501);
        assert!(!share.has_fuel(at(500), 1_000));
        assert!(!share.has_fuel(at(1_000), 1_000));
        assert!(share.has_fuel(at(1_001), 1_000));
        // A clock that stands still, or another time than the last one, gives nothing twice.
        share.take(1);
        assert!(!share.has_fuel(at(1_001), 1_000));
        assert!(!share.has_fuel(at(900), 1_000));
        assert!(share.has_fuel(at(60_000), 1_000));
        share.take(1_000);
        assert!(
            !share.has_fuel(at(60_000), 1_000),
            "a second's worth at most"
        );
    }
}

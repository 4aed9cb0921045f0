//! Load of this node as a program states it that processes streams here.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use anabranch_overlay::Load;
use tokio::time::Instant;

/// Time for which a statement holds.
const HOLDS: Duration = Duration::from_secs(10);

/// A program that states the load, until this is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Author(Arc<()>);

/// The load that was stated last. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stated(Arc<Mutex<Option<Statement>>>);

#[derive(Debug)]
struct Statement {
    by: Weak<()>,
    load: Load,
    at: Instant,
}

impl Statement {
    fn holds(&self, now: Instant) -> bool {
        self.by.strong_count() > 0 && now.duration_since(self.at) < HOLDS
    }
}

impl Stated {
    /// Takes a statement; false if that of another program holds.
    pub(super) fn set(&self, author: &Author, load: Load, now: Instant) -> bool {
        let mut stated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_others = |before: &Statement| {
            before.holds(now) && !std::ptr::eq(before.by.as_ptr(), Arc::as_ptr(&author.0))
        };
        if stated.as_ref().is_some_and(is_others) {
            return false;
        }
        *stated = Some(Statement {
            by: Arc::downgrade(&author.0),
            load,
            at: now,
        });
        true
    }

    /// The load, while its statement holds.
    pub(super) fn load(&self, now: Instant) -> Option<Load> {
        let stated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stated = stated.as_ref().filter(|stated| stated.holds(now))?;
        Some(stated.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_holds_for_a_while_and_as_long_as_its_program() {
        let (stated, now) = (Stated::default(), Instant::now());
        let (one, other) = (Author::default(), Author::default());
        let load = |cores| Load {
            cores,
            ..Load::default()
        };
        assert_eq!(stated.load(now), None);
        assert!(stated.set(&one, load(1), now));
        assert!(!stated.set(&other, load(2), now));
        assert!(stated.set(&one, load(3), now + HOLDS / 2));
        assert_eq!(stated.load(now + HOLDS), Some(load(3)));
        assert_eq!(stated.load(now + 2 * HOLDS), None);
        assert!(stated.set(&other, load(2), now + 2 * HOLDS));
        drop(other);
        assert_eq!(stated.load(now + 2 * HOLDS), None);
        assert!(stated.set(&one, load(1), now + 2 * HOLDS));
    }
}

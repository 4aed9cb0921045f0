//! Verdicts of both ends about the same windows.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::Instant;

use super::windows::{Failed, HISTORY, Part};

/// Time for which a subscriber waits for the verdict of the processing node on a window that was late at its end.
const WAIT: Duration = Duration::from_secs(1);

/// Windows that were late at a subscriber, with the part of the way that was: the one that the processing node names, or else the last leg.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Windows that the processing node found late.
    node: BTreeMap<u64, Part>,
    /// Windows that were late here, and the time since which that is known.
    own: BTreeMap<u64, Instant>,
}

impl Verdicts {
    /// The processing node found a window late.
    pub fn node(&mut self, failed: Failed) {
        self.node.insert(failed.window, failed.part);
        while self.node.len() > HISTORY {
            self.node.pop_first();
        }
    }

    /// A window was late here.
    pub fn own(&mut self, window: u64, now: Instant) {
        self.own.entry(window).or_insert(now);
    }

    /// Verdicts on windows that were late here, once each.
    pub fn due(&mut self, now: Instant) -> Vec<Failed> {
        let mut due = Vec::new();
        self.own.retain(|&window, since| {
            let named = self.node.get(&window).copied();
            let is_over = now.since(*since) >= WAIT;
            let part = named.or(is_over.then_some(Part::LastLeg));
            due.extend(part.map(|part| Failed { window, part }));
            part.is_none()
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_leg_is_late_where_the_node_names_nothing() {
        let mut verdicts = Verdicts::default();
        let at = Instant::from_millis;
        verdicts.own(3, at(0));
        verdicts.own(4, at(0));
        verdicts.node(Failed {
            window: 4,
            part: Part::Processing,
        });
        // In time at the subscriber.
        verdicts.node(Failed {
            window: 5,
            part: Part::SourceLeg,
        });
        let parts = |verdicts: &mut Verdicts, ms| -> Vec<(u64, Part)> {
            let due = verdicts.due(at(ms)).into_iter();
            due.map(|failed| (failed.window, failed.part)).collect()
        };
        assert_eq!(parts(&mut verdicts, 10), [(4, Part::Processing)]);
        assert_eq!(parts(&mut verdicts, 999), []);
        assert_eq!(parts(&mut verdicts, 1_000), [(3, Part::LastLeg)]);
        assert_eq!(parts(&mut verdicts, 5_000), []);
    }
}

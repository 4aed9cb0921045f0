//! Messages that sessions dropped, counted while the console runs: a session that ends takes its own counts with it.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Status;

/// Causes, so that each has a series before something was dropped; others are not counted.
const CAUSES: [&str; 4] = ["lost", "expired", "shed", "unread"];

/// Counts by peer and cause, and what each open session had at the last look.
#[derive(Debug, Default)]
pub(super) struct Drops {
    seen: BTreeMap<(String, &'static str), u64>,
    totals: BTreeMap<(String, &'static str), u64>,
}

impl Drops {
    /// Adds what the sessions have dropped since the last look.
    pub(super) fn count(&mut self, status: &[Status]) {
        let mut open = BTreeSet::new();
        for row in status {
            let Status::Session {
                session,
                peer_name,
                dropped_adus,
                ..
            } = row
            else {
                continue;
            };
            open.insert(session.clone());
            for cause in CAUSES {
                let now = dropped_adus.get(cause).copied().unwrap_or_default();
                let before = self.seen.insert((session.clone(), cause), now);
                // A smaller number is that of another session with this name, after a restart of the node.
                let before = before.filter(|before| *before <= now).unwrap_or_default();
                let total = self.totals.entry((peer_name.clone(), cause)).or_default();
                *total += now - before;
            }
        }
        self.seen.retain(|(session, _), _| open.contains(session));
    }

    /// Totals by peer and cause.
    pub(super) fn totals(&self) -> Vec<(String, &'static str, u64)> {
        let totals = self.totals.iter();
        totals
            .map(|((peer, cause), count)| (peer.clone(), *cause, *count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, lost: u64) -> Status {
        Status::Session {
            session: name.to_owned(),
            peer_name: "studio".to_owned(),
            send_held_bytes: 0,
            recv_held_bytes: 0,
            dropped_adus: [("lost".to_owned(), lost), ("new cause".to_owned(), 5)].into(),
        }
    }

    fn lost(drops: &Drops) -> u64 {
        let totals = drops.totals();
        let lost = totals.iter().find(|(_, cause, _)| *cause == "lost");
        lost.map_or(0, |(_, _, count)| *count)
    }

    #[test]
    fn counts_never_fall() {
        let mut drops = Drops::default();
        drops.count(&[session("session-0", 3), session("session-1", 10)]);
        assert_eq!(lost(&drops), 13);
        // One ends, the other goes on.
        drops.count(&[session("session-0", 4)]);
        assert_eq!(lost(&drops), 14);
        drops.count(&[]);
        assert_eq!(lost(&drops), 14);
        // The node was restarted between two looks.
        drops.count(&[session("session-0", 6)]);
        drops.count(&[session("session-0", 2)]);
        assert_eq!(lost(&drops), 22);
        assert_eq!(drops.totals().len(), CAUSES.len());
    }
}

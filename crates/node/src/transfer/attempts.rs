//! Attempts with wrong tickets: after a few, a node and its addresses are ignored for a while.
//!
//! A secret has 128 random bits, so that guessing is hopeless at any rate; the limit keeps the cost of the attempts down.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anabranch_base::NodeId;

/// Wrong tickets within [`WINDOW`] before further ones are ignored.
const FAILURES_MAX: u32 = 10;
/// Time after which a node that was ignored may try again.
const WINDOW: Duration = Duration::from_secs(600);
/// Limit on the nodes and addresses remembered; beyond it, the oldest is forgotten.
const WHO_MAX: usize = 4096;

/// Wrong tickets by node and by address.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<Who, Failures>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    Node(NodeId),
    /// For IPv6 the network: 64 bits belong to one subscriber line.
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    first: Instant,
}

impl Attempts {
    /// True if this node may try at all.
    pub(super) fn may_try(&self, node: NodeId, addresses: &[IpAddr], now: Instant) -> bool {
        let table = self.lock();
        who(node, addresses).all(|who| {
            table.get(&who).is_none_or(|failures| {
                failures.count < FAILURES_MAX || now.duration_since(failures.first) >= WINDOW
            })
        })
    }

    /// Counts a wrong ticket.
    pub(super) fn failed(&self, node: NodeId, addresses: &[IpAddr], now: Instant) {
        let mut table = self.lock();
        for who in who(node, addresses) {
            if !table.contains_key(&who) && table.len() >= WHO_MAX {
                let oldest = table.iter().min_by_key(|(_, failures)| failures.first);
                if let Some(oldest) = oldest.map(|(who, _)| *who) {
                    table.remove(&oldest);
                }
            }
            let anew = Failures {
                count: 0,
                first: now,
            };
            let failures = table.entry(who).or_insert(anew);
            if now.duration_since(failures.first) >= WINDOW {
                *failures = anew;
            }
            failures.count = failures.count.saturating_add(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Who, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn who(node: NodeId, addresses: &[IpAddr]) -> impl Iterator<Item = Who> {
    let lines = addresses.iter().map(|address| {
        Who::Address(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            v4 => v4,
        })
    });
    std::iter::once(Who::Node(node)).chain(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u16) -> NodeId {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&n.to_be_bytes());
        NodeId::from_public_key(key)
    }

    #[test]
    fn a_guesser_is_ignored_for_a_while_under_any_key() {
        let attempts = Attempts::default();
        let start = Instant::now();
        let here: IpAddr = "2001:db8::1".parse().unwrap();
        let same_line: IpAddr = "2001:db8::2".parse().unwrap();
        let elsewhere: IpAddr = "192.0.2.1".parse().unwrap();
        for n in 0..10 {
            assert!(attempts.may_try(node(n), &[here], start));
            attempts.failed(node(n), &[here], start);
        }
        assert!(!attempts.may_try(node(99), &[same_line], start));
        assert!(attempts.may_try(node(99), &[elsewhere], start));
        assert!(attempts.may_try(node(99), &[here], start + WINDOW));
    }

    #[test]
    fn a_key_is_ignored_from_every_address() {
        let attempts = Attempts::default();
        let start = Instant::now();
        for n in 0..10 {
            attempts.failed(node(1), &[IpAddr::from([192, 0, 2, n])], start);
        }
        assert!(!attempts.may_try(node(1), &[IpAddr::from([198, 51, 100, 1])], start));
        assert!(attempts.may_try(node(2), &[IpAddr::from([198, 51, 100, 1])], start));
    }

    #[test]
    fn the_table_is_bounded() {
        let attempts = Attempts::default();
        let start = Instant::now();
        for n in 0..10_000 {
            let address = IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
            attempts.failed(node(n), &[address], start + Duration::from_millis(n.into()));
        }
        assert!(attempts.lock().len() <= WHO_MAX);
    }
}

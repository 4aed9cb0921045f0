//! Places of sessions: few for those that have shown no ticket yet, and others for those that have.
//!
//! A new stranger replaces the stranger that has been there for the longest, so that an honest proxy, which greets within a
//! round trip, gets in however many come. Knows no session and no clock.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anabranch::base::NodeId;
use tokio::sync::Notify;

/// Maximum number of sessions that have shown no ticket yet, in all and from one address.
const STRANGERS_MAX: usize = 32;
/// See [`STRANGERS_MAX`].
const STRANGERS_OF_ADDRESS_MAX: usize = 8;
/// Places before the greeting for nodes that have shown a ticket before.
const RETURNING_MAX: usize = 16;
/// Maximum number of such nodes that are remembered.
const KNOWN_MAX: usize = 1_024;
/// Maximum number of sessions that have shown a ticket, in all and with one ticket.
const PROXIES_MAX: usize = 256;
/// See [`PROXIES_MAX`].
const PROXIES_OF_TICKET_MAX: usize = 64;
/// Wrong tickets that an address may show in [`ATTEMPTS_PERIOD`]; then none of its tickets is checked until that is over. The
/// same ticket again is no guess: a proxy whose ticket was revoked goes on calling, perhaps from an address that it shares.
const ATTEMPTS_MAX: u32 = 8;
/// See [`ATTEMPTS_MAX`].
const ATTEMPTS_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of addresses whose attempts are counted; beyond it, the oldest counts are dropped.
const COUNTED_MAX: usize = 1_024;

/// Origin of a session: its address and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct From {
    pub(super) node: NodeId,
    pub(super) address: Option<IpAddr>,
}

/// The places.
#[derive(Debug, Default)]
pub(super) struct Door {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Nodes that have shown a ticket, the most recent last.
    known: VecDeque<NodeId>,
    proxies: BTreeMap<u64, String>,
    attempts: HashMap<IpAddr, Attempts>,
}

/// Wrong tickets of one address.
#[derive(Debug)]
struct Attempts {
    since: Instant,
    count: u32,
    last: blake3::Hash,
}

/// A session before its greeting; earlier ones have smaller numbers.
#[derive(Debug)]
struct Waiting {
    address: Option<IpAddr>,
    is_known: bool,
    leave: Arc<Notify>,
}

/// A place before the greeting, or after it; released when dropped.
#[derive(Debug)]
pub(super) struct Place {
    door: Arc<Door>,
    number: u64,
    leave: Arc<Notify>,
}

impl Door {
    /// Takes a place for a new session.
    pub(super) fn enter(self: &Arc<Self>, from: From) -> Place {
        let address = from.address.map(network);
        let mut state = self.lock();
        let is_known = state.known.contains(&from.node);
        let (of_address, most) = match is_known {
            true => (0, RETURNING_MAX),
            false => (state.count(|other| other.address == address), STRANGERS_MAX),
        };
        if !is_known && of_address >= STRANGERS_OF_ADDRESS_MAX {
            state.send_away(|other| other.address == address && !other.is_known);
        } else if state.count(|other| other.is_known == is_known) >= most {
            state.send_away(|other| other.is_known == is_known);
        }
        let number = state.next;
        state.next += 1;
        let leave = Arc::new(Notify::new());
        let waiting = Waiting {
            address,
            is_known,
            leave: leave.clone(),
        };
        state.waiting.insert(number, waiting);
        drop(state);
        Place {
            door: self.clone(),
            number,
            leave,
        }
    }

    /// True if a ticket from this address may be checked.
    pub(super) fn may_try(&self, now: Instant, address: Option<IpAddr>) -> bool {
        let Some(address) = address.map(network) else {
            return true;
        };
        let state = self.lock();
        let counted = state.attempts.get(&address);
        counted.is_none_or(|known| {
            known.count < ATTEMPTS_MAX
                || now.saturating_duration_since(known.since) >= ATTEMPTS_PERIOD
        })
    }

    /// Counts a wrong ticket from this address.
    pub(super) fn failed(&self, now: Instant, address: Option<IpAddr>, secret: &str) {
        let Some(address) = address.map(network) else {
            return;
        };
        let last = blake3::hash(secret.as_bytes());
        let mut state = self.lock();
        let attempts = &mut state.attempts;
        if attempts.len() >= COUNTED_MAX && !attempts.contains_key(&address) {
            let first = attempts.iter().min_by_key(|(_, known)| known.since);
            if let Some(first) = first.map(|(address, _)| *address) {
                attempts.remove(&first);
            }
        }
        let none = Attempts {
            since: now,
            count: 0,
            last,
        };
        let known = attempts.entry(address).or_insert(none);
        if now.saturating_duration_since(known.since) >= ATTEMPTS_PERIOD {
            (known.since, known.count) = (now, 0);
        }
        if known.count == 0 || known.last != last {
            known.count += 1;
            known.last = last;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&self, is_meant: impl Fn(&Waiting) -> bool) -> usize {
        self.waiting
            .values()
            .filter(|other| is_meant(other))
            .count()
    }

    /// Takes the place of the earliest session that matches.
    fn send_away(&mut self, is_meant: impl Fn(&Waiting) -> bool) {
        let mut all = self.waiting.iter();
        let first = all.find(|(_, other)| is_meant(other)).map(|(&n, _)| n);
        if let Some(waiting) = first.and_then(|first| self.waiting.remove(&first)) {
            waiting.leave.notify_one();
        }
    }
}

impl Place {
    /// Gives a session that has shown the ticket `name` one of the proxies' places from now on.
    ///
    /// # Errors
    /// All of them are taken; the text is for people.
    pub(super) fn admit(&self, node: NodeId, name: &str) -> Result<(), &'static str> {
        let mut state = self.door.lock();
        let with_ticket = state.proxies.values().filter(|other| *other == name);
        if with_ticket.count() >= PROXIES_OF_TICKET_MAX {
            return Err(
                "too many proxies use this ticket; make one for each with `anabranch video ticket new`",
            );
        }
        if state.proxies.len() >= PROXIES_MAX {
            return Err("this origin serves the maximum number of proxies");
        }
        state.waiting.remove(&self.number);
        state.proxies.insert(self.number, name.to_owned());
        state.known.retain(|known| *known != node);
        if state.known.len() >= KNOWN_MAX {
            state.known.pop_front();
        }
        state.known.push_back(node);
        Ok(())
    }

    /// Ready when the place was given to another session.
    pub(super) async fn taken(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.door.lock();
        state.waiting.remove(&self.number);
        state.proxies.remove(&self.number);
    }
}

/// The address itself for IPv4, its network for IPv6: one host has all addresses of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn from(node: u8, address: u8) -> From {
        From {
            node: NodeId::from_public_key([node; 32]),
            address: Some(IpAddr::from([192, 0, 2, address])),
        }
    }

    fn is_taken(place: &Place) -> bool {
        let mut taken = Box::pin(place.taken());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        taken.as_mut().poll(&mut cx).is_ready()
    }

    /// Strangers from one address or from many: the latest has a place, and proxies lose none.
    #[test]
    fn strangers_take_no_proxys_place() {
        let door = Arc::new(Door::default());
        let proxy = door.enter(from(1, 1));
        proxy.admit(from(1, 1).node, "one").unwrap();
        let mut places: Vec<_> = (0..100).map(|_| door.enter(from(2, 2))).collect();
        assert_eq!(door.lock().waiting.len(), STRANGERS_OF_ADDRESS_MAX);
        assert!(is_taken(&places[91]) && !is_taken(&places[92]));
        let other = door.enter(from(3, 3));
        assert!(!is_taken(&other));
        places.extend((0..200).map(|n| door.enter(from(2, n))));
        assert_eq!(door.lock().waiting.len(), STRANGERS_MAX);
        let honest = door.enter(from(4, 4));
        assert!(!is_taken(&honest) && !is_taken(&proxy));
        honest.admit(from(4, 4).node, "two").unwrap();
        // A node that was here before waits in no stranger's place.
        drop(honest);
        let back = door.enter(from(4, 4));
        places.extend((0..200).map(|n| door.enter(from(2, n))));
        assert!(!is_taken(&back));
        drop((places, back, other, proxy));
        let state = door.lock();
        assert!(state.waiting.is_empty() && state.proxies.is_empty());
    }

    #[test]
    fn one_ticket_takes_not_all_places() {
        let door = Arc::new(Door::default());
        let enter = |name: &str| {
            let place = door.enter(from(1, 1));
            place.admit(from(1, 1).node, name).map(|()| place)
        };
        let one: Vec<_> = std::iter::from_fn(|| enter("one").ok()).collect();
        assert_eq!(one.len(), PROXIES_OF_TICKET_MAX);
        let two = enter("two");
        assert!(two.is_ok());
        let mut all: Vec<_> = (0..PROXIES_MAX)
            .filter_map(|n| enter(&n.to_string()).ok())
            .collect();
        assert_eq!(all.len() + one.len() + 1, PROXIES_MAX);
        all.pop();
        assert!(enter("three").is_ok());
    }

    #[test]
    fn guesses_are_counted_by_address() {
        let door = Door::default();
        let begun = Clock::system().now();
        let [one, two] = [1, 2].map(|n| from(1, n).address);
        for _ in 0..100 {
            door.failed(begun, one, "revoked");
        }
        for n in 1..ATTEMPTS_MAX {
            assert!(door.may_try(begun, one));
            door.failed(begun, one, &n.to_string());
        }
        assert!(!door.may_try(begun, one) && door.may_try(begun, two));
        assert!(door.may_try(begun + ATTEMPTS_PERIOD, one));
        door.failed(begun + ATTEMPTS_PERIOD, one, "x");
        assert!(door.may_try(begun + ATTEMPTS_PERIOD, one));
        for n in 0..10_000_u32 {
            let address = IpAddr::from(std::net::Ipv4Addr::from(n));
            door.failed(begun + Duration::from_millis(n.into()), Some(address), "x");
        }
        assert_eq!(door.lock().attempts.len(), COUNTED_MAX);
    }
}

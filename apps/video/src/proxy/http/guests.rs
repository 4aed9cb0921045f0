//! Connections of players: their maximum number, and replacement of one by another.
//!
//! A connection that has no request in progress, or whose player reads nothing, gives its place to a new one when all places
//! are taken. So incomplete requests and stalled responses do not keep others out. Knows no socket.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::clock::Clock;

/// Time after which a player that reads nothing may lose its place to another.
const STALLED: Duration = Duration::from_secs(5);

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// In all.
    pub(super) total: usize,
    /// From one address; of IPv6, from one network of 64 bits.
    pub(super) per_address: usize,
}

/// The current connections.
#[derive(Debug)]
pub(super) struct Guests {
    limits: Limits,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    guests: BTreeMap<u64, Guest>,
    addresses: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Guest {
    address: IpAddr,
    /// Time since which it has no request in progress.
    idle: Option<Instant>,
    /// Time since which its player has not read data that is to be sent.
    stalled: Option<Instant>,
    leave: Arc<Notify>,
}

/// The place of one connection; released when dropped.
#[derive(Debug)]
pub(super) struct Place {
    guests: Arc<Guests>,
    number: u64,
    leave: Arc<Notify>,
}

/// A request in progress, until this is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Place>);

impl Guests {
    pub(super) fn new(limits: Limits, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            limits,
            clock,
            state: Mutex::default(),
        })
    }

    /// Takes a place for a connection from `address`; another connection may have to leave. `None`: all places are taken by
    /// requests in progress.
    pub(super) fn admit(self: &Arc<Self>, now: Instant, address: IpAddr) -> Option<Arc<Place>> {
        let address = network(address);
        let mut state = self.lock();
        let here = state.addresses.get(&address).copied().unwrap_or(0);
        if here >= self.limits.per_address {
            state.evict(now, Some(address))?;
        } else if state.guests.len() >= self.limits.total {
            state.evict(now, None)?;
        }
        let number = state.next;
        state.next += 1;
        let leave = Arc::new(Notify::new());
        let guest = Guest {
            address,
            idle: Some(now),
            stalled: None,
            leave: leave.clone(),
        };
        state.guests.insert(number, guest);
        *state.addresses.entry(address).or_default() += 1;
        drop(state);
        Some(Arc::new(Place {
            guests: self.clone(),
            number,
            leave,
        }))
    }

    /// Closes an idle or stalled connection, if there is one: descriptors are short.
    pub(super) fn evict(&self, now: Instant) {
        self.lock().evict(now, None);
    }

    /// Number of connections.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().guests.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Closes the connection that has been idle for the longest, or else stalled; `None`: there is none. O(connections), only
    /// at the limit.
    fn evict(&mut self, now: Instant, from: Option<IpAddr>) -> Option<()> {
        let candidates = self.guests.iter().filter_map(|(&number, guest)| {
            if from.is_some_and(|from| from != guest.address) {
                return None;
            }
            let stalled = guest
                .stalled
                .filter(|&at| now.saturating_duration_since(at) >= STALLED);
            match (guest.idle, stalled) {
                (Some(since), _) => Some((false, since, number)),
                (None, Some(since)) => Some((true, since, number)),
                (None, None) => None,
            }
        });
        let (_, _, number) = candidates.min()?;
        if let Some(guest) = self.remove(number) {
            guest.leave.notify_one();
        }
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Guest> {
        let guest = self.guests.remove(&number)?;
        if let Some(count) = self.addresses.get_mut(&guest.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&guest.address);
            }
        }
        Some(guest)
    }
}

impl Place {
    /// Notes that a request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.change(|guest| guest.idle = None);
        Busy(self.clone())
    }

    /// Notes that its player has read nothing since `since`; `None`: it reads.
    pub(super) fn stalled(&self, since: Option<Instant>) {
        self.change(|guest| guest.stalled = since);
    }

    /// The time by the clock of all places.
    pub(super) fn now(&self) -> Instant {
        self.guests.clock.now()
    }

    /// Ready when the place was given to another connection.
    pub(super) async fn taken(&self) {
        self.leave.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Guest)) {
        if let Some(guest) = self.guests.lock().guests.get_mut(&self.number) {
            change(guest);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = self.0.now();
        self.0.change(|guest| guest.idle = Some(now));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.lock().remove(self.number);
    }
}

/// The unit that counts as one address: a whole IPv4 address, and the network of an IPv6 address, as one host has all addresses
/// of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock::system();
    const LIMITS: Limits = Limits {
        total: 4,
        per_address: 3,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// True if the place of its connection was taken. (Reported once.)
    fn is_taken(place: &Place) -> bool {
        let mut taken = Box::pin(place.taken());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        taken.as_mut().poll(&mut cx).is_ready()
    }

    #[test]
    fn incomplete_requests_keep_no_connection_out() {
        let guests = Guests::new(LIMITS, CLOCK);
        let begun = CLOCK.now();
        let at = |n| begun + Duration::from_millis(n);
        let places: Vec<_> = (0..100)
            .map(|n| guests.admit(at(n), address(1)).expect("a place"))
            .collect();
        assert_eq!(guests.len(), 3, "of one address");
        assert!(is_taken(&places[0]) && is_taken(&places[96]));
        assert!(!is_taken(&places[97]));
        let other = guests.admit(at(100), address(2)).expect("a place");
        let another = guests.admit(at(101), address(3)).expect("a place");
        assert_eq!(guests.len(), 4, "in all");
        assert!(is_taken(&places[97]), "the oldest of all");
        assert!(!is_taken(&other) && !is_taken(&another));
        drop((places, other, another));
        assert_eq!(guests.len(), 0);
        assert!(guests.lock().addresses.is_empty());
    }

    #[test]
    fn requests_under_way_keep_their_places() {
        let guests = Guests::new(LIMITS, CLOCK);
        let now = CLOCK.now();
        let places: Vec<_> = (1..=4)
            .map(|n| guests.admit(now, address(n)).unwrap())
            .collect();
        let mut busy: Vec<_> = places.iter().map(Place::begin).collect();
        assert!(guests.admit(now, address(9)).is_none());
        // One that reads nothing for a while.
        places[2].stalled(Some(now));
        assert!(guests.admit(now + STALLED / 2, address(9)).is_none());
        let late = guests.admit(now + STALLED, address(9)).expect("a place");
        assert!(is_taken(&places[2]) && !is_taken(&places[1]));
        let _late = late.begin();
        // A connection that reads again is no longer a candidate; one whose request is complete is.
        places[1].stalled(Some(now));
        places[1].stalled(None);
        assert!(guests.admit(now + 2 * STALLED, address(9)).is_none());
        busy.remove(0);
        assert!(guests.admit(now + 2 * STALLED, address(9)).is_some());
        assert!(is_taken(&places[0]));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }
}

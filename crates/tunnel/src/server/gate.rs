//! Gate of a server: the destinations that packets of its clients may have, and the answer to others.
//!
//! Addresses of the tunnel itself are always open: those of other clients, and those of the server there. Where no destinations are named,
//! all others are, too, and the operating system decides.

use std::{
    net::IpAddr,
    sync::{PoisonError, RwLock},
};

use anabranch::base::Instant;

use super::member::Member;
use crate::{
    Destinations,
    counters::Counters,
    fq_codel::Packet,
    lease::Pools,
    packet::{self, Cause, Header},
};

#[derive(Debug)]
struct Open {
    pools: Pools,
    destinations: Option<Destinations>,
}

/// The open destinations, which can be replaced while packets pass.
#[derive(Debug)]
pub(crate) struct Gate(RwLock<Open>);

impl Gate {
    pub(super) fn new(pools: Pools, destinations: Option<Destinations>) -> Self {
        Self(RwLock::new(Open {
            pools,
            destinations,
        }))
    }

    pub(super) fn set_pools(&self, pools: Pools) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).pools = pools;
    }

    pub(super) fn set_destinations(&self, destinations: Option<Destinations>) {
        let mut open = self.0.write().unwrap_or_else(PoisonError::into_inner);
        open.destinations = destinations;
    }

    /// True if packets and connections of clients may go to this address.
    pub(crate) fn is_open(&self, to: IpAddr) -> bool {
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(destinations) = &open.destinations else {
            return true;
        };
        let mut networks = open.pools.v4().into_iter().chain(open.pools.v6());
        networks.any(|network| network.contains(to)) || destinations.allows(to)
    }
}

/// Sends the answer to a prohibited packet back to the member that it came from.
pub(super) fn prohibit(
    now: Instant,
    member: &Member,
    counters: &Counters,
    (ip, header): (&[u8], &Header),
) {
    let Some(reply) = packet::answer(ip, header, Cause::Prohibited) else {
        return;
    };
    let header = Header::read(&reply).expect("an answer is a packet");
    for counters in [counters, &member.counters] {
        counters.note_sent(reply.len());
    }
    member.outlet.push(now, Packet::new(&reply), &header);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(destinations: Option<&[&str]>) -> Gate {
        let pools = ["10.77.0.0/24", "fd77::/64"].map(|text| text.parse().unwrap());
        let destinations = destinations.map(|texts| Destinations::parse(texts).unwrap());
        Gate::new(Pools::new(pools).unwrap(), destinations)
    }

    fn opens(gate: &Gate, to: &str) -> bool {
        gate.is_open(to.parse().unwrap())
    }

    #[test]
    fn the_tunnel_and_what_is_named_are_open() {
        let gate = gate(Some(&["internet", "10.20.0.0/16"]));
        for to in ["10.77.0.1", "10.77.0.9", "fd77::1", "9.9.9.9", "10.20.1.1"] {
            assert!(opens(&gate, to), "{to}");
        }
        for to in ["10.78.0.1", "fd78::1", "192.168.0.1", "169.254.169.254"] {
            assert!(!opens(&gate, to), "{to}");
        }
        gate.set_pools(Pools::new(["10.78.0.0/24".parse().unwrap()]).unwrap());
        assert!(opens(&gate, "10.78.0.1") && !opens(&gate, "10.77.0.1"));
        gate.set_destinations(Some(Destinations::parse(["10.77.0.0/24"]).unwrap()));
        assert!(opens(&gate, "10.77.0.1") && !opens(&gate, "9.9.9.9"));
    }

    #[test]
    fn without_a_list_everything_is_open() {
        let gate = gate(None);
        for to in ["10.78.0.1", "9.9.9.9", "169.254.169.254", "ff02::1"] {
            assert!(opens(&gate, to), "{to}");
        }
    }
}

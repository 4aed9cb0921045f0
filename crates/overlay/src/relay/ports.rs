//! Ports of a relay, and the peers on each.
//!
//! A circuit has one peer on its near side and one on its far side, and each is identified by the port it sends to and
//! the address it sends from. So one port serves any number of circuits whose peers differ, and another port is needed
//! only where two peers would be the same: the pool grows with the circuits of the busiest address, not with all
//! circuits.
//!
//! The source port of some peers is known only after their first packet. Such a peer has exclusive use of its IP
//! addresses on that port; otherwise its packets could not be distinguished from those of another circuit.

use std::net::{IpAddr, SocketAddr};

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of `ip`.
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// A port of the relay. Never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    pub(super) index: u32,
    generation: u32,
}

impl PortId {
    /// The ID as one number, for registration elsewhere.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Reverses [`Self::to_bits`].
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// One of the two ends of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Near,
    Far,
}

/// An end of the circuit in `slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) slot: u32,
    pub(super) side: Side,
}

/// Addresses that identify a peer before it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Its address and port.
    At(SocketAddr),
    /// The IP addresses from which it may send, of one family, each once; not empty. Its first packet determines the
    /// address and the port.
    Hosts(Box<[IpAddr]>),
}

impl Peer {
    pub(super) fn family(&self) -> Family {
        self.keys()
            .next()
            .map_or(Family::V4, |(ip, _)| Family::of(ip))
    }

    /// True if both can be on one port.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.keys().all(|(ip, port)| {
            let collides = |(other_ip, other_port): (IpAddr, u16)| {
                ip == other_ip && (port == other_port || port == 0 || other_port == 0)
            };
            !other.keys().any(collides)
        })
    }

    /// Sort keys of its entries. Port 0 stands for any port, and sorts first within an address.
    fn keys(&self) -> impl Iterator<Item = (IpAddr, u16)> {
        let (at, hosts) = match self {
            Self::At(address) => (Some((address.ip(), address.port())), &[][..]),
            Self::Hosts(ips) => (None, &ips[..]),
        };
        at.into_iter().chain(hosts.iter().map(|&ip| (ip, 0)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ip: IpAddr,
    /// 0: any port; the circuit holds the one that was learnt.
    port: u16,
    end: End,
}

#[derive(Debug)]
struct Port {
    generation: u32,
    /// Address at which others reach it.
    address: SocketAddr,
    /// Sorted by address and port; at most one with port 0 for each address, and then no other.
    entries: Vec<Entry>,
    /// Index of the entry of the last packet: the next one is usually from the same peer.
    recent: usize,
    /// True if it takes no other peers.
    is_retired: bool,
}

/// All ports of a relay.
#[derive(Debug, Default)]
pub(super) struct Ports {
    ports: Vec<Option<Port>>,
    free: Vec<u32>,
    generations: u32,
    open: usize,
    /// Ports without peers.
    unused: Vec<PortId>,
}

impl Ports {
    /// Number of open ports.
    pub(super) fn len(&self) -> usize {
        self.open
    }

    /// Adds a port that was opened and can be reached at `address`. It is unused at first.
    pub(super) fn add(&mut self, address: SocketAddr) -> PortId {
        self.generations += 1;
        let port = Port {
            generation: self.generations,
            address,
            entries: Vec::new(),
            recent: 0,
            is_retired: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.ports[index as usize] = Some(port);
                index
            }
            None => {
                self.ports.push(Some(port));
                (self.ports.len() - 1) as u32
            }
        };
        self.open += 1;
        let id = PortId {
            index,
            generation: self.generations,
        };
        self.unused.push(id);
        id
    }

    /// Removes a port without peers from the pool, for the host to close.
    pub(super) fn pop_unused(&mut self) -> Option<PortId> {
        while let Some(id) = self.unused.pop() {
            if self.get(id).is_some_and(|port| port.entries.is_empty()) {
                self.ports[id.index as usize] = None;
                self.free.push(id.index);
                self.open -= 1;
                return Some(id);
            }
        }
        None
    }

    /// Sets whether a port takes no other peers; those that it has stay.
    pub(super) fn set_retired(&mut self, id: PortId, is_retired: bool) {
        if let Some(port) = self.get_mut(id) {
            port.is_retired = is_retired;
        }
    }

    /// Address at which others reach it.
    pub(super) fn address(&self, id: PortId) -> Option<SocketAddr> {
        self.get(id).map(|port| port.address)
    }

    /// True if one of the ports is reached at `address`.
    pub(super) fn is_own(&self, address: SocketAddr) -> bool {
        self.ports
            .iter()
            .flatten()
            .any(|port| port.address == address)
    }

    /// The first port of its family that can take `peer`. O(ports · log circuits).
    pub(super) fn fitting(&self, peer: &Peer) -> Option<PortId> {
        self.all_fitting(peer).next()
    }

    /// As [`Self::fitting`], but excludes `taken`.
    pub(super) fn fitting_beside(&self, peer: &Peer, taken: PortId) -> Option<PortId> {
        self.all_fitting(peer).find(|id| *id != taken)
    }

    fn all_fitting(&self, peer: &Peer) -> impl Iterator<Item = PortId> {
        let family = peer.family();
        let numbered = self.ports.iter().enumerate();
        numbered.filter_map(move |(index, port)| {
            let port = port.as_ref()?;
            let is_open = !port.is_retired && Family::of(port.address.ip()) == family;
            let fits = is_open && port.can_take(peer);
            fits.then_some(PortId {
                index: index as u32,
                generation: port.generation,
            })
        })
    }

    /// Adds a peer to a port that [`Self::fitting`] returned.
    pub(super) fn insert(&mut self, id: PortId, peer: &Peer, end: End) {
        let Some(port) = self.get_mut(id) else {
            return;
        };
        debug_assert!(port.can_take(peer));
        for (ip, number) in peer.keys() {
            let place = port.place(ip, number);
            let entry = Entry {
                ip,
                port: number,
                end,
            };
            port.entries.insert(place, entry);
        }
    }

    /// Removes a peer from a port.
    pub(super) fn remove(&mut self, id: PortId, peer: &Peer) {
        let Some(port) = self.get_mut(id) else {
            return;
        };
        for (ip, number) in peer.keys() {
            let place = port.place(ip, number);
            if port.is_at(place, ip, number) {
                port.entries.remove(place);
            }
        }
        if port.entries.is_empty() {
            port.entries.shrink_to_fit();
            self.unused.push(id);
        }
    }

    /// Owner of a packet, or its possible owner if that peer's port is not known yet. O(log circuits on this port).
    pub(super) fn find(&mut self, id: PortId, from: SocketAddr) -> Option<End> {
        let port = self.get_mut(id)?;
        let (ip, number) = (from.ip(), from.port());
        if number == 0 {
            return None;
        }
        if let Some(recent) = port.entries.get(port.recent)
            && recent.ip == ip
            && (recent.port == number || recent.port == 0)
        {
            return Some(recent.end);
        }
        let first = port.place(ip, 0);
        let place = match port.is_at(first, ip, 0) {
            true => first,
            false => port.place(ip, number),
        };
        let entry = port
            .entries
            .get(place)
            .filter(|entry| entry.ip == ip && (entry.port == number || entry.port == 0))?;
        port.recent = place;
        Some(entry.end)
    }

    fn get(&self, id: PortId) -> Option<&Port> {
        let port = self.ports.get(id.index as usize)?.as_ref()?;
        (port.generation == id.generation).then_some(port)
    }

    fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        let port = self.ports.get_mut(id.index as usize)?.as_mut()?;
        (port.generation == id.generation).then_some(port)
    }

    /// Number of peers on all ports, and number of ports without peers.
    #[cfg(test)]
    pub(super) fn census(&self) -> (usize, usize) {
        let ports = || self.ports.iter().flatten();
        let peers = ports().map(|port| port.entries.len()).sum();
        let empty = ports().filter(|port| port.entries.is_empty()).count();
        (peers, empty)
    }
}

impl Port {
    fn place(&self, ip: IpAddr, number: u16) -> usize {
        self.entries
            .partition_point(|entry| (entry.ip, entry.port) < (ip, number))
    }

    fn is_at(&self, place: usize, ip: IpAddr, number: u16) -> bool {
        let entry = self.entries.get(place);
        entry.is_some_and(|entry| entry.ip == ip && entry.port == number)
    }

    fn can_take(&self, peer: &Peer) -> bool {
        peer.keys().all(|(ip, number)| {
            let first = self.place(ip, 0);
            if number == 0 {
                self.entries.get(first).is_none_or(|entry| entry.ip != ip)
            } else {
                let place = self.place(ip, number);
                !self.is_at(first, ip, 0) && !self.is_at(place, ip, number)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn end(slot: u32) -> End {
        End {
            slot,
            side: Side::Near,
        }
    }

    fn one_port() -> (Ports, PortId) {
        let mut ports = Ports::default();
        let id = ports.add(at("198.51.100.1:5000"));
        (ports, id)
    }

    #[test]
    fn peers_with_different_addresses_share_a_port() {
        let (mut ports, id) = one_port();
        let peers = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"].map(at);
        for (slot, peer) in peers.into_iter().enumerate() {
            assert_eq!(ports.fitting(&Peer::At(peer)), Some(id));
            ports.insert(id, &Peer::At(peer), end(slot as u32));
            assert_eq!(ports.fitting(&Peer::At(peer)), None);
        }
        for (slot, peer) in peers.into_iter().enumerate() {
            assert_eq!(ports.find(id, peer), Some(end(slot as u32)));
        }
        assert_eq!(ports.find(id, at("192.0.2.2:2")), None);
        assert_eq!(ports.find(id, at("192.0.2.3:1")), None);
    }

    #[test]
    fn a_peer_whose_port_is_unknown_has_its_addresses_to_itself() {
        let (mut ports, id) = one_port();
        let ips = ["192.0.2.1", "192.0.2.3"].map(|ip| ip.parse().unwrap());
        let hosts = Peer::Hosts(Box::new(ips));
        ports.insert(id, &hosts, end(7));
        assert_eq!(ports.fitting(&hosts), None);
        for taken in ["192.0.2.1:9", "192.0.2.3:9"].map(at) {
            assert_eq!(ports.fitting(&Peer::At(taken)), None);
            assert!(!Peer::At(taken).goes_with(&hosts));
            assert_eq!(ports.find(id, taken), Some(end(7)));
        }
        let other = Peer::At(at("192.0.2.2:9"));
        assert!(other.goes_with(&hosts) && hosts.goes_with(&other));
        assert_eq!(ports.fitting(&other), Some(id));
        ports.insert(id, &other, end(8));
        assert_eq!(ports.find(id, at("192.0.2.2:9")), Some(end(8)));
        assert_eq!(ports.find(id, at("192.0.2.2:8")), None);
        ports.remove(id, &hosts);
        assert_eq!(ports.find(id, at("192.0.2.1:9")), None);
        assert_eq!(ports.census(), (1, 0));
    }

    #[test]
    fn a_closed_port_is_not_mistaken_for_its_successor() {
        let (mut ports, id) = one_port();
        let peer = at("192.0.2.1:1");
        ports.insert(id, &Peer::At(peer), end(0));
        assert_eq!(ports.pop_unused(), None);
        ports.remove(id, &Peer::At(peer));
        assert_eq!(ports.pop_unused(), Some(id));
        assert_eq!(ports.pop_unused(), None);
        let next = ports.add(at("198.51.100.1:5001"));
        assert_ne!(next, id);
        ports.insert(next, &Peer::At(peer), end(1));
        assert_eq!(ports.find(id, peer), None);
        assert_eq!(ports.find(next, peer), Some(end(1)));
        assert_eq!(PortId::from_bits(next.to_bits()), next);
    }

    #[test]
    fn a_retired_port_keeps_its_peers_and_takes_no_others() {
        let (mut ports, id) = one_port();
        let [first, second] = ["192.0.2.1:1", "192.0.2.2:1"].map(at);
        ports.insert(id, &Peer::At(first), end(0));
        ports.set_retired(id, true);
        assert_eq!(ports.fitting(&Peer::At(second)), None);
        assert_eq!(ports.find(id, first), Some(end(0)));
        ports.set_retired(id, false);
        assert_eq!(ports.fitting(&Peer::At(second)), Some(id));
        ports.set_retired(id, true);
        ports.remove(id, &Peer::At(first));
        assert_eq!(ports.pop_unused(), Some(id));
    }

    #[test]
    fn families_have_ports_of_their_own() {
        let (ports, _) = one_port();
        assert_eq!(ports.fitting(&Peer::At(at("[2001:db8::1]:1"))), None);
    }
}

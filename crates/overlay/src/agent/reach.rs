//! Addresses at which members are dialled.
//!
//! The list of members names addresses, and a member's record names more. The record is signed, but nothing proves that
//! the member is at the addresses that it announces: a node that trusts them sends handshakes to any address that a
//! member chooses. So an address that is only announced is tried seldom, never on this machine or inside its networks,
//! and not again after failures.
//!
//! ```text
//!   listed      always dialled, first
//!   announced   refused by class or port (is_credible) ─► never dialled
//!               unproven ─► dialled within two budgets ─► proven when the member answers there
//!                                                      └► dropped after FAILURES_MAX, for DROPPED and doubling
//! ```

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anabranch_base::{Instant, NodeId};

use super::{Agent, peer::Credit};
use crate::{
    config::Member,
    members::{MemberTable, Moves},
};

/// Failed tries of an unproven address after which it is dropped …
const FAILURES_MAX: u32 = 3;
/// … for this time at first, doubling every time …
const DROPPED: Duration = Duration::from_secs(600);
/// … up to this.
const DROPPED_MAX: Duration = Duration::from_secs(86_400);
/// Dropped addresses remembered of a member; the one that would expire first is replaced.
const DROPPED_COUNT_MAX: usize = 16;
/// Tries of unproven addresses of one member: burst, and rate per second.
const MEMBER_TRIES: (f64, f64) = (4.0, 1.0 / 30.0);
/// The same for all members together.
const ALL_TRIES: (f64, f64) = (32.0, 1.0);

/// Class of an address by the hosts that it can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// To one machine on the Internet.
    Public,
    /// To one machine, within a private network.
    Private,
    /// To a neighbour on the same link.
    LinkLocal,
    /// To this machine.
    Loopback,
    /// To no machine, or to many.
    Never,
}

impl Class {
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) => Self::of_v6(ip),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        let [first, second, ..] = ip.octets();
        if ip.is_loopback() {
            Self::Loopback
        } else if ip.is_link_local() {
            Self::LinkLocal
        } else if first == 0 || first >= 224 {
            // "This network", multicast, reserved, broadcast.
            Self::Never
        } else if ip.is_private() || (first == 100 && second & 0xc0 == 64) {
            // RFC 1918, and RFC 6598 between customers and their translator.
            Self::Private
        } else {
            Self::Public
        }
    }

    fn of_v6(ip: Ipv6Addr) -> Self {
        let segments = ip.segments();
        let v4 = |high: u16, low: u16| {
            let bits = (u32::from(high) << 16) | u32::from(low);
            Self::of_v4(Ipv4Addr::from(bits))
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // Unspecified, and the deprecated IPv4-compatible addresses (RFC 4291 §2.5.5.1).
            [0, 0, 0, 0, 0, 0, ..] => Self::Never,
            // Translators: NAT64 (RFC 6052), 6to4 (RFC 3056).
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => v4(high, low),
            // Teredo: the address of the client is hidden in it (RFC 4380).
            [0x2001, 0, ..] => Self::Never,
            [first, ..] if first & 0xff00 == 0xff00 => Self::Never,
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            // Unique local, and the deprecated site-local.
            [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Self::Private,
            _ => Self::Public,
        }
    }
}

/// One address that a member announces.
#[derive(Clone, Debug)]
struct Candidate {
    address: SocketAddr,
    /// True if the member answered there, with its key.
    is_proven: bool,
    /// Consecutive failures.
    failures: u32,
    /// True if it is part of the dial in progress.
    is_tried: bool,
}

#[derive(Clone, Debug)]
struct DroppedAddress {
    address: SocketAddr,
    until: Instant,
    times: u32,
}

/// Addresses of one member, with their state.
#[derive(Clone, Debug)]
struct Places {
    listed: Vec<SocketAddr>,
    /// Addresses at which its sessions were last seen.
    seen: Vec<IpAddr>,
    announced: Vec<Candidate>,
    dropped: Vec<DroppedAddress>,
    credit: Credit,
}

/// Addresses of all members, indexed by their places in the member table.
#[derive(Debug)]
pub(super) struct Reach {
    places: Vec<Places>,
    credit: Credit,
}

impl Reach {
    pub(super) fn new(member_table: &MemberTable, members: &[Member]) -> Self {
        let places = (0..member_table.len()).map(|at| {
            let node = member_table.entry(at).node;
            let own = members.iter().filter(|member| member.node == node);
            Places {
                listed: own.flat_map(|member| member.addresses.clone()).collect(),
                seen: Vec::new(),
                announced: Vec::new(),
                dropped: Vec::new(),
                credit: Credit::new(MEMBER_TRIES.0, MEMBER_TRIES.1),
            }
        });
        Self {
            places: places.collect(),
            credit: Credit::new(ALL_TRIES.0, ALL_TRIES.1),
        }
    }

    /// Takes over what is known of the addresses of the members that were in `before`, too.
    pub(super) fn succeed(&mut self, mut before: Self, moves: &Moves) {
        for (at, now) in moves.iter() {
            let listed = std::mem::take(&mut self.places[now].listed);
            std::mem::swap(&mut self.places[now], &mut before.places[at]);
            self.places[now].listed = listed;
        }
        self.credit = before.credit;
    }

    /// Addresses at which to dial member `at`, which announces `announced`.
    fn dial(&mut self, at: usize, announced: &[SocketAddr], now: Instant) -> Vec<SocketAddr> {
        let places = &mut self.places[at];
        places.announce(announced);
        let mut addresses = places.listed.clone();
        for place in 0..places.announced.len() {
            let Candidate {
                address, is_proven, ..
            } = places.announced[place];
            let is_allowed = is_proven
                || (places.is_credible(address)
                    && !places.is_dropped(address, now)
                    && places.credit.take(now)
                    && self.credit.take(now));
            places.announced[place].is_tried = is_allowed;
            if is_allowed {
                addresses.push(address);
            }
        }
        addresses
    }
}

impl Places {
    /// Replaces the announced addresses; the state of those that stay is kept.
    fn announce(&mut self, announced: &[SocketAddr]) {
        let before = std::mem::take(&mut self.announced);
        for &address in announced {
            let address = SocketAddr::new(address.ip().to_canonical(), address.port());
            let is_known = |known: &Candidate| known.address == address;
            if self.listed.contains(&address) || self.announced.iter().any(is_known) {
                continue;
            }
            let known = before.iter().find(|known| known.address == address);
            self.announced.push(known.cloned().unwrap_or(Candidate {
                address,
                is_proven: false,
                failures: 0,
                is_tried: false,
            }));
        }
    }

    /// True if an announcement is enough to try this address: it is on the Internet, or in a kind of network in which
    /// the list or a session shows the member; and its port is not that of another well-known service.
    fn is_credible(&self, address: SocketAddr) -> bool {
        const QUIC_PORT: u16 = 443;
        let is_port_free = address.port() == QUIC_PORT || address.port() >= 1024;
        let class = Class::of(address.ip());
        let listed = self.listed.iter().map(SocketAddr::ip);
        let mut known = listed.chain(self.seen.iter().copied());
        let is_place_right = match class {
            Class::Public => true,
            Class::Never => false,
            class => known.any(|ip| Class::of(ip) == class),
        };
        is_port_free && is_place_right
    }

    fn is_dropped(&self, address: SocketAddr, now: Instant) -> bool {
        let mut dropped = self.dropped.iter();
        dropped.any(|dropped| dropped.address == address && now < dropped.until)
    }

    fn failed(&mut self, place: usize, now: Instant) {
        let candidate = &mut self.announced[place];
        candidate.is_tried = false;
        candidate.failures += 1;
        if candidate.failures < FAILURES_MAX {
            return;
        }
        candidate.failures = 0;
        candidate.is_proven = false;
        let address = candidate.address;
        let before = self
            .dropped
            .iter()
            .position(|dropped| dropped.address == address);
        let times = before.map_or(0, |at| self.dropped.swap_remove(at).times);
        if self.dropped.len() >= DROPPED_COUNT_MAX {
            let soonest = (0..self.dropped.len()).min_by_key(|&at| self.dropped[at].until);
            soonest.map(|at| self.dropped.swap_remove(at));
        }
        let pause = DROPPED.saturating_mul(1 << times.min(16)).min(DROPPED_MAX);
        self.dropped.push(DroppedAddress {
            address,
            until: now + pause,
            times: times.saturating_add(1),
        });
    }
}

impl Agent {
    /// Addresses at which the host should dial `node` now: first those listed, then those that the node announces, as
    /// far as they may be tried. Empty: none at present. The host reports the outcome: [`Self::handle_reached`] or
    /// [`Self::handle_unreached`].
    pub fn dial_addresses(&mut self, node: &NodeId, now: Instant) -> Vec<SocketAddr> {
        let Some(at) = self.member_table.find(node) else {
            return Vec::new();
        };
        let announced = self.record(node).map(|record| record.addresses);
        self.reach.dial(at, &announced.unwrap_or_default(), now)
    }

    /// Handles that the session with `node` has channels with these remote addresses, at which the node proved its key.
    /// To be called again when there are more.
    pub fn handle_reached(&mut self, node: &NodeId, remotes: &[SocketAddr], now: Instant) {
        let Some(at) = self.member_table.find(node) else {
            return;
        };
        let places = &mut self.reach.places[at];
        let canonical =
            |remote: &SocketAddr| SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let remotes: Vec<SocketAddr> = remotes.iter().map(canonical).collect();
        if !remotes.is_empty() {
            places.seen = remotes.iter().map(SocketAddr::ip).collect();
        }
        for place in 0..places.announced.len() {
            let candidate = &mut places.announced[place];
            if remotes.contains(&candidate.address) {
                candidate.is_proven = true;
                candidate.failures = 0;
                candidate.is_tried = false;
            } else if candidate.is_tried {
                // Other addresses answered first. If it still answers, that is reported, too.
                places.failed(place, now);
            }
        }
    }

    /// Handles that no address answered.
    pub fn handle_unreached(&mut self, node: &NodeId, now: Instant) {
        let Some(at) = self.member_table.find(node) else {
            return;
        };
        let places = &mut self.reach.places[at];
        for place in 0..places.announced.len() {
            if places.announced[place].is_tried {
                places.failed(place, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(listed: &[&str]) -> Places {
        Places {
            listed: listed.iter().map(|text| text.parse().unwrap()).collect(),
            seen: Vec::new(),
            announced: Vec::new(),
            dropped: Vec::new(),
            credit: Credit::new(MEMBER_TRIES.0, MEMBER_TRIES.1),
        }
    }

    fn is_credible(places: &Places, text: &str) -> bool {
        places.is_credible(text.parse().unwrap())
    }

    #[test]
    fn a_public_member_names_public_addresses_only() {
        let public = places(&["198.51.100.7:4433"]);
        for text in [
            "203.0.113.9:4433",
            "203.0.113.9:443",
            "[2001:db8::7]:4433",
            "[2002:cb00:7109::1]:4433",
            "[64:ff9b::203.0.113.9]:4433",
        ] {
            assert!(is_credible(&public, text), "{text}");
        }
        for text in [
            "127.0.0.1:4433",
            "0.0.0.0:4433",
            "10.0.0.1:4433",
            "172.16.0.1:4433",
            "192.168.1.1:4433",
            "100.64.0.1:4433",
            "169.254.169.254:4433",
            "224.0.0.251:5353",
            "255.255.255.255:4433",
            "240.0.0.1:4433",
            "203.0.113.9:53",
            "203.0.113.9:123",
            "[::]:4433",
            "[::1]:4433",
            "[::ffff:127.0.0.1]:4433",
            "[::127.0.0.1]:4433",
            "[fe80::1]:4433",
            "[fd00::1]:4433",
            "[ff02::1]:4433",
            "[64:ff9b::10.0.0.1]:4433",
            "[2002:7f00:1::1]:4433",
            "[2001:0:1::1]:4433",
        ] {
            assert!(!is_credible(&public, text), "{text}");
        }
    }

    #[test]
    fn a_member_of_a_private_network_may_name_others_there() {
        for (listed, other) in [
            ("10.0.0.7:4433", "192.168.1.1:4433"),
            ("127.0.0.1:4433", "127.0.0.1:5000"),
            ("[fe80::7]:4433", "169.254.1.1:4433"),
            ("[fd00::7]:4433", "[fd00::8]:4433"),
        ] {
            assert!(is_credible(&places(&[listed]), other), "{listed} {other}");
            let mut seen = places(&[]);
            assert!(!is_credible(&seen, other));
            let seen_at: SocketAddr = listed.parse().unwrap();
            seen.seen.push(seen_at.ip());
            assert!(is_credible(&seen, other), "{listed} {other}");
        }
        assert!(!is_credible(&places(&["10.0.0.7:4433"]), "127.0.0.1:4433"));
    }
}

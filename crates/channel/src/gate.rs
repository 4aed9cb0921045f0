//! Gate: limits on unfinished handshakes of peers, and the decision which of them must prove their address first.
//!
//! A handshake costs this node about 60 kB and a signature, and its initiator one packet, whose source address may be
//! forged. So few handshakes run for addresses that are not proved; beyond the limit, the answer is a Retry packet,
//! which keeps no state (RFC 9000 §8.1.2). More handshakes of proved addresses are allowed, with a limit for each
//! address: at the limit, the oldest one is dropped for a new one after [`GRACE`].

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use anabranch_base::{ChannelId, Instant};

/// Limit on handshakes in progress with addresses that are not proved; beyond it, Retry.
pub const UNPROVED_MAX: usize = 48;
/// The same limit for one [`Subnet`].
pub const UNPROVED_PER_SUBNET_MAX: usize = 16;
/// Limit on handshakes in progress with addresses that are proved.
pub const PROVED_MAX: usize = 256;
/// The same limit for one [`Subnet`].
pub const PROVED_PER_SUBNET_MAX: usize = 32;
/// Limit on handshakes in progress with proved addresses from which known peers came, in addition to [`PROVED_MAX`].
pub const KNOWN_MAX: usize = 64;
/// Time that a handshake has before it must give way to another one: usually a round trip.
pub const GRACE: Duration = Duration::from_millis(500);
/// Bytes of packets that a channel of a peer accepts before the peer is trusted: a handshake with retransmissions, path
/// MTU discovery, and the first messages.
pub const INPUT_BEFORE_TRUST_BYTES: usize = 16 << 10;
/// Number of known peers' subnets that are remembered.
const KNOWN_SUBNETS_MAX: usize = 1024;

/// Addresses that count as one: an IPv4 address, or the /64 of an IPv6 address, of which a host may use any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet(IpAddr);

impl From<IpAddr> for Subnet {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            v4 => v4,
        })
    }
}

/// Decision about a peer's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// Another handshake is given up for it.
    AcceptInsteadOf(ChannelId),
    /// The peer must prove its address.
    Retry,
    /// There is no capacity now; the peer repeats its packet.
    Ignore,
}

#[derive(Clone, Copy, Debug)]
struct Handshake {
    subnet: Subnet,
    pool: Pool,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Unproved,
    Proved,
    Known,
}

/// Handshakes in progress that peers began. Key: channel.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Oldest first.
    handshakes: BTreeMap<ChannelId, Handshake>,
    /// Number of them with addresses that are not proved.
    unproved: usize,
    /// Subnets from which known peers came, and the number of the newest entry of each; oldest first in `order`.
    known: BTreeMap<Subnet, u64>,
    order: VecDeque<(Subnet, u64)>,
    next: u64,
}

impl Gate {
    /// O(handshakes in progress), of which there are at most [`UNPROVED_MAX`] + [`PROVED_MAX`] + [`KNOWN_MAX`].
    pub(crate) fn judge(&self, now: Instant, subnet: Subnet, is_proved: bool) -> Verdict {
        if !is_proved && self.unproved >= UNPROVED_MAX {
            // A flood is answered without a search of the handshakes.
            return Verdict::Retry;
        }
        let pool = self.pool(subnet, is_proved);
        let of_pool = self.handshakes.iter().filter(|(_, one)| one.pool == pool);
        let (mut all, mut own) = (0, 0);
        let (mut oldest, mut oldest_own) = (None, None);
        for (&id, one) in of_pool {
            all += 1;
            oldest = oldest.or(Some((id, one.since)));
            if one.subnet == subnet {
                own += 1;
                oldest_own = oldest_own.or(Some((id, one.since)));
            }
        }
        let (all_max, own_max) = match pool {
            Pool::Unproved => (UNPROVED_MAX, UNPROVED_PER_SUBNET_MAX),
            Pool::Proved => (PROVED_MAX, PROVED_PER_SUBNET_MAX),
            Pool::Known => (KNOWN_MAX, PROVED_PER_SUBNET_MAX),
        };
        let in_the_way = match (own >= own_max, all >= all_max) {
            (true, _) => oldest_own,
            (false, true) => oldest,
            (false, false) => return Verdict::Accept,
        };
        match in_the_way {
            _ if pool == Pool::Unproved => Verdict::Retry,
            Some((id, since)) if now.since(since) >= GRACE => Verdict::AcceptInsteadOf(id),
            _ => Verdict::Ignore,
        }
    }

    fn pool(&self, subnet: Subnet, is_proved: bool) -> Pool {
        match is_proved {
            false => Pool::Unproved,
            true if self.known.contains_key(&subnet) => Pool::Known,
            true => Pool::Proved,
        }
    }

    /// Records that a handshake has begun.
    pub(crate) fn enter(&mut self, now: Instant, id: ChannelId, subnet: Subnet, is_proved: bool) {
        let handshake = Handshake {
            subnet,
            pool: self.pool(subnet, is_proved),
            since: now,
        };
        self.unproved += usize::from(handshake.pool == Pool::Unproved);
        self.handshakes.insert(id, handshake);
    }

    /// Records that a handshake is complete, or over.
    pub(crate) fn leave(&mut self, id: ChannelId) {
        if let Some(handshake) = self.handshakes.remove(&id) {
            self.unproved -= usize::from(handshake.pool == Pool::Unproved);
        }
    }

    /// Records that a known peer came from here; the subnet seen longest ago is forgotten for it.
    pub(crate) fn remember(&mut self, subnet: Subnet) {
        self.next += 1;
        self.known.insert(subnet, self.next);
        self.order.push_back((subnet, self.next));
        while self.known.len() > KNOWN_SUBNETS_MAX || self.order.len() > 2 * KNOWN_SUBNETS_MAX {
            let Some((oldest, entry)) = self.order.pop_front() else {
                return;
            };
            // Unless it was seen again since.
            if self.known.get(&oldest) == Some(&entry) {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(number: u32) -> Subnet {
        Subnet::from(IpAddr::from(number.to_be_bytes()))
    }

    fn at(millis: u64) -> Instant {
        Instant::EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn a_subnet_is_an_address_or_a_64() {
        let subnet = |text: &str| Subnet::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(subnet("2001:db8::1"), subnet("2001:db8:0:0:ffff::2"));
        assert_ne!(subnet("2001:db8::1"), subnet("2001:db8:0:1::1"));
        assert_ne!(subnet("192.0.2.1"), subnet("192.0.2.2"));
        assert_eq!(subnet("::ffff:192.0.2.1"), subnet("192.0.2.1"));
    }

    #[test]
    fn unproved_addresses_are_few_and_the_rest_prove_theirs() {
        let mut gate = Gate::default();
        for number in 0..UNPROVED_MAX as u32 {
            assert_eq!(gate.judge(at(0), v4(number), false), Verdict::Accept);
            gate.enter(at(0), ChannelId(number.into()), v4(number), false);
        }
        assert_eq!(gate.judge(at(9_999), v4(9_999), false), Verdict::Retry);
        assert_eq!(gate.judge(at(0), v4(9_999), true), Verdict::Accept);
        gate.leave(ChannelId(0));
        assert_eq!(gate.judge(at(0), v4(9_999), false), Verdict::Accept);
    }

    #[test]
    fn the_oldest_handshake_of_a_crowded_subnet_gives_way_after_its_grace() {
        let mut gate = Gate::default();
        for number in 0..PROVED_PER_SUBNET_MAX as u64 {
            gate.enter(at(number), ChannelId(number), v4(1), true);
        }
        assert_eq!(gate.judge(at(499), v4(1), true), Verdict::Ignore);
        let first = Verdict::AcceptInsteadOf(ChannelId(0));
        assert_eq!(gate.judge(at(500), v4(1), true), first);
        assert_eq!(gate.judge(at(499), v4(2), true), Verdict::Accept);
    }

    #[test]
    fn known_subnets_have_a_capacity_of_their_own_and_are_forgotten_in_turn() {
        let mut gate = Gate::default();
        gate.remember(v4(7));
        for number in 0..PROVED_MAX as u32 {
            gate.enter(at(0), ChannelId(number.into()), v4(100 + number), true);
        }
        assert_eq!(gate.judge(at(0), v4(8), true), Verdict::Ignore);
        assert_eq!(gate.judge(at(0), v4(7), true), Verdict::Accept);
        for number in 0..10_000 {
            gate.remember(v4(7));
            gate.remember(v4(1_000 + number % 1_500));
        }
        assert!(gate.known.len() <= KNOWN_SUBNETS_MAX);
        assert!(gate.order.len() <= 2 * KNOWN_SUBNETS_MAX);
        assert_eq!(gate.judge(at(0), v4(7), true), Verdict::Accept);
    }
}

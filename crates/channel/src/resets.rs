//! Stateless resets (RFC 9000 §10.3): by these, a node that was restarted tells peers that their channels are gone. Limits on them, which
//! bound what packets to no channel cost, and how often this node answers one that echoes what it gets.
//!
//! A reset is smaller than the packet that it answers, so that a forged source gains nothing by it.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use anabranch_base::Instant;

/// Shortest time between two resets: a thousand clients of a server learn of its restart within a second of their next packet.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);
/// Shortest time between two resets to one address.
const INTERVAL_OF_ADDRESS: Duration = Duration::from_millis(100);
/// Addresses that are remembered: those of [`INTERVAL_OF_ADDRESS`].
const ADDRESSES_MAX: usize = 100;

/// Addresses to which resets were sent a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    /// Oldest first.
    recent: VecDeque<(Instant, SocketAddr)>,
}

impl Resets {
    /// True if a reset may be sent to an address now; then it counts.
    pub(crate) fn admit(&mut self, now: Instant, to: SocketAddr) -> bool {
        while let Some((at, _)) = self.recent.front()
            && now.since(*at) >= INTERVAL_OF_ADDRESS
        {
            self.recent.pop_front();
        }
        let is_known = self.recent.iter().any(|(_, other)| *other == to);
        if is_known || self.recent.len() >= ADDRESSES_MAX {
            return false;
        }
        self.recent.push_back((now, to));
        true
    }
}

/// True for an answer that is a reset: it looks like a packet with a short header, and the other stateless answers have long ones.
pub(crate) fn is_reset(response: &[u8]) -> bool {
    response.first().is_some_and(|first| first & 0x80 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_to_one_address_are_rarer_than_resets_to_all() {
        let mut resets = Resets::default();
        let address = |n: u16| SocketAddr::from(([192, 0, 2, 1], n));
        let at = |ms: u64| Instant::EPOCH + Duration::from_millis(ms);
        assert!(resets.admit(at(0), address(1)));
        assert!(!resets.admit(at(1), address(1)));
        assert!(resets.admit(at(1), address(2)));
        assert!(!resets.admit(at(99), address(1)));
        assert!(resets.admit(at(100), address(1)));
        // As many as there may be by the other limit, and no more.
        let mut resets = Resets::default();
        let admitted = (0..1_000).filter(|&n| resets.admit(at(5), address(n)));
        assert_eq!(admitted.count(), ADDRESSES_MAX);
        assert!(resets.admit(at(105), address(1)));
    }
}

//! One direction of an emulated link, with its packets in flight.

use std::collections::BTreeMap;

use anabranch_base::Instant;
use anabranch_link::{Link, Ticket, Verdict};

/// Packets in flight in one direction at most; a queue of a second at 1 Gbit/s. More are
/// dropped, which does not happen with a reasonable queue.
const ON_THE_WAY_MAX: usize = 131_072;

/// Statistics of one direction, as the link model counts them.
pub type LineStats = anabranch_link::Stats;

/// Packets of type `T` on a link. Packets that arrive at the same moment keep their order.
#[derive(Debug)]
pub(super) struct Line<T> {
    on_the_way: BTreeMap<(Instant, u64), (Ticket, T)>,
    accepted: u64,
}

/// A packet that has arrived.
#[derive(Debug)]
pub(super) struct Arrived<T> {
    pub(super) packet: T,
    pub(super) is_marked: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            on_the_way: BTreeMap::new(),
            accepted: 0,
        }
    }
}

impl<T> Line<Arrived<T>> {
    /// Offers a packet of `ip_bytes` to the link; it is dropped or arrives later.
    pub(super) fn offer(
        &mut self,
        link: &mut Link,
        now: Instant,
        ip_bytes: usize,
        is_ecn_capable: bool,
        packet: T,
    ) {
        if self.on_the_way.len() >= ON_THE_WAY_MAX {
            return;
        }
        if let Verdict::Deliver {
            at,
            ticket,
            is_marked,
        } = link.offer(now, ip_bytes, is_ecn_capable)
        {
            self.accepted += 1;
            let arrived = Arrived { packet, is_marked };
            self.on_the_way
                .insert((at, self.accepted), (ticket, arrived));
        }
    }

    /// The next packet that has arrived by `now`; those the link lost when it was cut are skipped.
    pub(super) fn arrived(&mut self, link: &Link, now: Instant) -> Option<Arrived<T>> {
        while let Some(entry) = self.on_the_way.first_entry() {
            if entry.key().0 > now {
                return None;
            }
            let (ticket, packet) = entry.remove();
            if link.still_delivers(ticket) {
                return Some(packet);
            }
        }
        None
    }

    /// Time at which the next packet arrives.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.on_the_way.first_key_value().map(|(&(at, _), _)| at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch_base::{Rate, Seed};
    use anabranch_link::{Config, RateSource};

    use super::*;

    fn link() -> Link {
        let config = Config {
            rate: RateSource::Constant(Rate::from_mbps(12)),
            delay: Duration::from_millis(30),
            ..Config::default()
        };
        Link::new(config, Seed(1)).unwrap()
    }

    #[test]
    fn packets_arrive_in_order_at_the_times_of_the_link() {
        let mut link = link();
        let mut line = Line::default();
        for packet in 0..3 {
            line.offer(&mut link, Instant::EPOCH, 1500, false, packet);
        }
        assert_eq!(line.next_at(), Some(Instant::from_millis(31)));
        assert!(line.arrived(&link, Instant::from_millis(30)).is_none());
        let at = Instant::from_millis(32);
        let first = line.arrived(&link, at).map(|arrived| arrived.packet);
        let second = line.arrived(&link, at).map(|arrived| arrived.packet);
        assert_eq!((first, second), (Some(0), Some(1)));
        assert!(line.arrived(&link, at).is_none());
    }

    #[test]
    fn a_cut_drops_packets_that_have_not_left() {
        let mut link = link();
        let mut line = Line::default();
        line.offer(&mut link, Instant::EPOCH, 1500, false, 0);
        line.offer(&mut link, Instant::EPOCH, 1500, false, 1);
        link.set_up(Instant::from_micros(1500), false);
        let late = Instant::from_secs(1);
        assert_eq!(
            line.arrived(&link, late).map(|arrived| arrived.packet),
            Some(0)
        );
        assert!(line.arrived(&link, late).is_none());
    }
}

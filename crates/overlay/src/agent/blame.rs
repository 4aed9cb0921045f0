//! Penalties of links and relays on paths that fail or fall short.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate};

use super::{Agent, routing::WANTS_MAX};
use crate::paths::{
    Fault,
    trust::{Pair, Trust},
};

/// Interval at which path rates are reported, approximately.
const PATH_WINDOW: Duration = Duration::from_secs(1);
/// Consecutive shortfalls before a route's links are blamed.
const STRIKES: u32 = 2;
/// A route that carries less than this share of the expected rate falls short.
const SHORT: f64 = 0.7;
/// One of this node's own links is not to blame if it was measured within this time.
const MEASURED_LATELY: Duration = Duration::from_secs(5);

impl Agent {
    /// Handles the failure of a path in use: its channel fell silent, or a relay refused it. The faulty part is left
    /// out for a while, twice as long if it fails again soon after; if the fault is not located, everything between the
    /// ends is left out. Other paths are looked for at once.
    pub fn handle_path_failed(
        &mut self,
        to: &NodeId,
        relays: &[NodeId],
        fault: Fault,
        now: Instant,
    ) {
        let Some(nodes) = self.node_route(to, relays) else {
            return;
        };
        let first = self.config.routing.penalty;
        // Index among the nodes visited; the source has index 0.
        let place = |relay| Some(1 + relays.iter().position(|&other| other == relay)?);
        let fail_link = |trust: &mut Trust, from: usize| {
            trust.link_failed((nodes[from], nodes[from + 1]), first, now);
        };
        let known = match fault {
            Fault::Somewhere => None,
            Fault::Relay(relay) | Fault::Before(relay) | Fault::After(relay) => place(relay),
        };
        match (known, fault) {
            (Some(at), Fault::After(_)) => fail_link(&mut self.trust, at),
            // The link to the first relay works: the request went over it.
            (Some(at), Fault::Before(_)) if at > 1 => fail_link(&mut self.trust, at - 1),
            (Some(at), _) => self.trust.relay_failed(nodes[at], first, now),
            (None, _) if relays.is_empty() => fail_link(&mut self.trust, 0),
            (None, _) => {
                for &relay in &nodes[1..nodes.len() - 1] {
                    self.trust.relay_failed(relay, first, now);
                }
            }
        }
        self.paths_stale(true);
        self.settle(now);
    }

    /// Handles the `rate` that a path in use carried over about a second; `is_limited`: it could not carry more,
    /// because there was always data to send. This measurement prevails over published values: always upwards, and
    /// downwards if the path was the limit.
    pub fn handle_path_rate(
        &mut self,
        to: &NodeId,
        relays: &[NodeId],
        (rate, is_limited): (Rate, bool),
        now: Instant,
    ) {
        let Some(nodes) = self.node_route(to, relays) else {
            return;
        };
        // The first link carried at least what the path carried.
        if let Some(tracker) = self.probing.trackers.get_mut(&nodes[1])
            && tracker.sample(rate, PATH_WINDOW, false, now)
        {
            self.paths_stale(true);
        }
        self.refresh_map(now);
        let links: Vec<Pair> = nodes.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let believed: Option<Vec<Rate>> = links
            .iter()
            .map(|&link| Some(self.paths.map.estimate(link)?.bandwidth))
            .collect();
        let Some(believed) = believed else {
            return;
        };
        let expected = believed.iter().min().copied().unwrap_or(Rate::ZERO);
        let is_short = is_limited && rate <= expected * SHORT;
        let of_others =
            (links.iter().zip(&believed)).filter(|(link, _)| link.0 != self.member_table.me);
        for (&link, &bandwidth) in of_others {
            // It is not known which link was the limit; a link with much more than the least bandwidth was not.
            let is_limit = is_limited && expected >= bandwidth * SHORT;
            // A single shortfall does not reduce the trust in a link.
            if !(is_short && is_limit) {
                self.trust.carried(link, rate, is_limit, now);
            }
        }
        if !is_limited {
            return;
        }
        if !is_short {
            self.paths.strikes.remove(&nodes);
            return;
        }
        if self.paths.strikes.len() >= 2 * WANTS_MAX {
            self.paths.strikes.clear();
        }
        let strikes = self.paths.strikes.entry(nodes).or_insert(0);
        *strikes += 1;
        if *strikes < STRIKES {
            return;
        }
        *strikes = 0;
        for (&link, &bandwidth) in links.iter().zip(&believed) {
            let is_own = link.0 == self.member_table.me;
            let is_fresh = self
                .probing
                .trackers
                .get(&link.1)
                .and_then(|tracker| tracker.age(now))
                .is_some_and(|age| age < MEASURED_LATELY);
            if bandwidth > rate && !(is_own && is_fresh) {
                let ratio = rate.as_bps().max(1) as f64 / bandwidth.as_bps() as f64;
                self.trust.fell_short(link, ratio, is_own, now);
            }
        }
        self.paths_stale(true);
        self.settle(now);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::{Config, FakeKeys, Member};

    const NOW: Instant = Instant::from_secs(1);

    fn node(n: u8) -> NodeId {
        NodeId::from_public_key([n; 32])
    }

    /// The relays and links that node 1 leaves out after `fault` on the path over 2 and 3 to 9.
    fn left_out(fault: Fault) -> (Vec<u8>, Vec<(u8, u8)>) {
        let member = |n| Member {
            node: node(n),
            addresses: Vec::new(),
        };
        let members: Vec<Member> = (1..=9).map(member).collect();
        let keys = Box::new(FakeKeys(node(1)));
        let mut agent =
            Agent::new(Config::default(), node(1), &members, keys, Seed(1), NOW).unwrap();
        agent.handle_path_failed(&node(9), &[node(2), node(3)], fault, NOW);
        let place = |n: u8| agent.member_table.find(&node(n)).unwrap();
        let relays = (1..=9).filter(|&n| agent.trust.is_relay_left_out(place(n), NOW));
        let pairs = (1..=9).flat_map(|from| (1..=9).map(move |to| (from, to)));
        let links =
            pairs.filter(|&(from, to)| agent.trust.is_left_out((place(from), place(to)), NOW));
        (relays.collect(), links.collect())
    }

    #[test]
    fn only_the_faulty_part_is_left_out() {
        for (fault, relays, links) in [
            (Fault::Somewhere, &[2, 3][..], &[][..]),
            (Fault::Relay(node(3)), &[3], &[]),
            (Fault::Before(node(3)), &[], &[(2, 3)]),
            (Fault::Before(node(2)), &[2], &[]),
            (Fault::After(node(2)), &[], &[(2, 3)]),
            (Fault::After(node(3)), &[], &[(3, 9)]),
            // A relay that is not on the path does not locate the fault.
            (Fault::Relay(node(7)), &[2, 3], &[]),
        ] {
            let found = left_out(fault);
            assert_eq!(found, (relays.to_vec(), links.to_vec()), "{fault:?}");
        }
    }
}

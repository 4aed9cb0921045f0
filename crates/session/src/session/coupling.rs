//! Coupling: channels that share a bottleneck together take no more than one flow's share of it.
//!
//! Once a second, the share of each channel is set: one over the number of channels that carry data and share its
//! bottleneck, itself included. Its partners are notified of a congestion event of one at once, so that all respond to it
//! as one flow would. The congestion controller decides how to use both (`docs/congestion.md`).

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant};

/// Time between two evaluations.
const PERIOD: Duration = Duration::from_secs(1);
/// Time for which a pair stays coupled after it was last found to share a bottleneck: coupled channels cause less of
/// the queue by which sharing is detected.
const HOLD: Duration = Duration::from_secs(30);
/// A channel that carries less than this part of its busiest partner's data leaves the bottleneck to it.
const IDLE: f64 = 0.05;

/// Key: session.
#[derive(Debug, Default)]
pub(super) struct Couplings {
    judged_at: Option<Instant>,
    /// Bytes of each channel up to the last evaluation, and since the one before.
    sent: BTreeMap<ChannelId, (u64, u64)>,
    /// Time at which two channels were last found to share a bottleneck; the smaller id first.
    found_at: BTreeMap<(ChannelId, ChannelId), Instant>,
}

impl Couplings {
    /// True if the next evaluation is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.judged_at.is_none_or(|at| now.since(at) >= PERIOD);
        if is_due {
            self.judged_at = Some(now);
        }
        is_due
    }

    /// The share of each channel, in their order, from the bytes that each has sent since it opened. O(channels²).
    pub(super) fn shares(
        &mut self,
        now: Instant,
        channels: &[(ChannelId, u64)],
        is_found: impl Fn(ChannelId, ChannelId) -> bool,
    ) -> Vec<f64> {
        let is_open = |id: ChannelId| channels.iter().any(|&(open, _)| open == id);
        self.sent.retain(|&id, _| is_open(id));
        self.found_at
            .retain(|&(one, other), at| is_open(one) && is_open(other) && now.since(*at) < HOLD);
        for (index, &(id, sent)) in channels.iter().enumerate() {
            let before = self.sent.get(&id).map_or(0, |&(total, _)| total);
            self.sent.insert(id, (sent, sent.saturating_sub(before)));
            for &(other, _) in &channels[index + 1..] {
                if is_found(id, other) {
                    self.found_at.insert((id.min(other), id.max(other)), now);
                }
            }
        }
        let this = &*self;
        let lately = |id: ChannelId| this.sent.get(&id).map_or(0.0, |&(_, lately)| lately as f64);
        let shares = channels.iter().map(|&(id, _)| {
            let partners = || {
                let others = channels.iter().map(|&(other, _)| other);
                others.filter(move |&other| other != id && this.are_coupled(id, other))
            };
            let most = partners().map(lately).fold(lately(id), f64::max);
            let busy = partners().filter(|&other| lately(other) > IDLE * most);
            1.0 / (1 + busy.count()) as f64
        });
        shares.collect()
    }
}

impl Couplings {
    pub(super) fn are_coupled(&self, one: ChannelId, other: ChannelId) -> bool {
        let pair = (one.min(other), one.max(other));
        self.found_at.contains_key(&pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ChannelId = ChannelId(1);
    const B: ChannelId = ChannelId(2);
    const C: ChannelId = ChannelId(3);

    fn secs(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn each_takes_its_part_while_others_carry_data() {
        let mut couplings = Couplings::default();
        let found = |one, other| one != C && other != C;
        let shares = couplings.shares(secs(1), &[(A, 1_000), (B, 500), (C, 9_000)], found);
        assert_eq!(shares, [0.5, 0.5, 1.0]);
        // B has sent almost nothing since: A has the bottleneck to itself.
        let shares = couplings.shares(secs(2), &[(A, 2_000), (B, 510), (C, 18_000)], found);
        assert_eq!(shares, [1.0, 0.5, 1.0]);
        let all = couplings.shares(secs(3), &[(A, 3_000), (B, 1_510), (C, 19_000)], |_, _| true);
        assert_eq!(all, [1.0 / 3.0; 3]);
    }

    #[test]
    fn a_pair_is_kept_for_a_while_and_forgotten_with_its_channel() {
        let mut couplings = Couplings::default();
        let sent = |n: u64| [(A, n * 1_000), (B, n * 1_000)];
        couplings.shares(secs(1), &sent(1), |_, _| true);
        assert_eq!(couplings.shares(secs(30), &sent(2), |_, _| false), [0.5; 2]);
        assert_eq!(couplings.shares(secs(31), &sent(3), |_, _| false), [1.0; 2]);
        couplings.shares(secs(32), &sent(4), |_, _| true);
        assert_eq!(
            couplings.shares(secs(33), &[(A, 5_000)], |_, _| true),
            [1.0]
        );
        assert_eq!(couplings.shares(secs(34), &sent(6), |_, _| false), [1.0; 2]);
    }

    #[test]
    fn judged_once_a_second() {
        let mut couplings = Couplings::default();
        assert!(couplings.is_due(secs(1)));
        assert!(!couplings.is_due(Instant::from_millis(1_900)));
        assert!(couplings.is_due(secs(2)));
    }
}

//! Loss probabilities of one channel's packets, alone and together.

use anabranch_stats::loss::{GilbertElliott, Moments, PairLoss};

/// Packets after which the weight of an outcome has fallen to 1/e.
const MEMORY: f64 = 5000.0;
/// Distances at which pairs are counted; beyond, the fitted model is used.
const APART_MAX: usize = 16;
/// Pairs with a loss that a counted figure needs.
const EVIDENCE: usize = 30;

/// A class's rate begins as the average, as if so many packets of it had been seen.
const SHRINK: f64 = 20.0;

/// State of losses when a packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossState {
    /// The last known outcome is an arrival, and none is overdue.
    Calm,
    /// A packet is overdue.
    Overdue,
    /// The last known outcome is a loss.
    Lost,
}

/// Loss statistics of one channel. `observe` O(16), answers O(1), no allocation.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    moments: Moments,
    pairs: PairLoss,
    packets: f64,
    lost: f64,
    /// Packets and losses by [`LossState`].
    loss_states: [(f64, f64); 3],
    /// True if the outcome that was known last is a loss.
    was_lost: bool,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self {
            moments: Moments::new(MEMORY).expect("a memory of at least 10 packets"),
            pairs: PairLoss::new(APART_MAX, MEMORY).expect("distances from 1 to 256"),
            packets: 0.0,
            lost: 0.0,
            loss_states: [(0.0, 0.0); 3],
            was_lost: false,
        }
    }

    /// Adds the outcome of the next packet in the order of sending.
    pub(super) fn observe(&mut self, is_lost: bool) {
        self.moments.observe(is_lost);
        self.pairs.observe(is_lost);
        let keep = 1.0 - 1.0 / MEMORY;
        self.packets = self.packets * keep + 1.0;
        self.lost = self.lost * keep + f64::from(u8::from(is_lost));
        self.was_lost = is_lost;
    }

    /// Adds the outcome of a packet that was sent in this state.
    pub(super) fn score(&mut self, loss_state: LossState, is_lost: bool) {
        let (packets, lost) = &mut self.loss_states[loss_state as usize];
        let keep = 1.0 - 1.0 / MEMORY;
        *packets = *packets * keep + 1.0;
        *lost = *lost * keep + f64::from(u8::from(is_lost));
    }

    /// The present state, with a packet overdue or not.
    pub(super) fn loss_state(&self, is_overdue: bool) -> LossState {
        match (self.was_lost, is_overdue) {
            (true, _) => LossState::Lost,
            (false, true) => LossState::Overdue,
            (false, false) => LossState::Calm,
        }
    }

    /// The fraction lost of late; 0 while nothing is known [Horde §4.1: a simple average].
    pub(super) fn average(&self) -> f64 {
        if self.packets > 0.0 {
            (self.lost / self.packets).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// P(the packet sent after `ahead` others is lost), in this state: measured with what was known when packets were
    /// sent, and the less different from the average the farther ahead, as bursts end.
    pub(super) fn of(&self, loss_state: LossState, ahead: u32) -> f64 {
        let average = self.average();
        let (packets, lost) = self.loss_states[loss_state as usize];
        let here = (lost + SHRINK * average) / (packets + SHRINK);
        let memory = match (ahead, self.fit()) {
            (0, _) => 1.0,
            (_, None) => 0.0,
            (_, Some(fit)) => {
                let memory = 1.0 - fit.good_to_bad - fit.bad_to_good;
                memory.max(0.0).powi(ahead.min(10_000) as i32)
            }
        };
        (average + (here - average) * memory).clamp(0.0, 1.0)
    }

    /// P(both are lost | either is) of two packets so many apart; 1 for one packet.
    pub(super) fn together(&self, apart: u64) -> f64 {
        let near = usize::try_from(apart).ok().filter(|&k| k <= APART_MAX);
        match near {
            Some(0) => return 1.0,
            Some(k) => {
                if let Ok(counted) = self.pairs.both_given_either(k, EVIDENCE) {
                    return counted.clamp(0.0, 1.0);
                }
            }
            None => {}
        }
        let apart = u32::try_from(apart).unwrap_or(u32::MAX);
        match self.fit() {
            Some(fit) => fit.both_given_either(apart).clamp(0.0, 1.0),
            // Independent: m²/(2m − m²).
            None => {
                let average = self.average();
                average / (2.0 - average)
            }
        }
    }

    fn fit(&self) -> Option<GilbertElliott> {
        self.moments
            .gilbert()
            .or_else(|_| self.moments.simple())
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    #[test]
    fn losses_in_bursts() {
        let mut random = Seed(3).stream("bursts");
        let (mut losses, mut bad) = (Losses::new(), false);
        for _ in 0..20_000 {
            let loss_state = losses.loss_state(false);
            bad = random.chance(if bad { 0.8 } else { 0.01 });
            losses.score(loss_state, bad);
            losses.observe(bad);
        }
        let rate = 0.01 / 0.21;
        assert!((losses.average() - rate).abs() < 0.01);
        assert!((losses.of(LossState::Lost, 0) - 0.8).abs() < 0.07);
        assert!((losses.of(LossState::Lost, 60) - rate).abs() < 0.01);
        assert!((losses.of(LossState::Calm, 0) - 0.01).abs() < 0.005);
        let never = losses.of(LossState::Overdue, 0);
        assert!(
            (never - losses.average()).abs() < 1e-9,
            "nothing known of it"
        );
        // Both lost of two neighbours: 0.8 m of (2 − 0.8) m.
        assert!((losses.together(1) - 0.8 / 1.2).abs() < 0.05);
        assert!(losses.together(100) < 0.05);
        assert_eq!(losses.together(0), 1.0);
    }

    #[test]
    fn nothing_known_is_no_loss() {
        let losses = Losses::new();
        assert_eq!(
            (
                losses.average(),
                losses.of(LossState::Calm, 5),
                losses.together(3)
            ),
            (0.0, 0.0, 0.0)
        );
    }
}

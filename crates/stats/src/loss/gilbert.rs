//! The Gilbert–Elliott model and its fits by moments.

use crate::evidence::{EstimateError, enough, within};

/// A hidden state, good or bad, with a loss probability in each; the state may change before each packet.
///
/// All four are probabilities. The good state is the one that loses less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// P(good → bad), per packet.
    pub good_to_bad: f64,
    /// P(bad → good), per packet; its inverse is the mean length of a bad spell in packets.
    pub bad_to_good: f64,
    /// P(lost) in the good state.
    pub loss_good: f64,
    /// P(lost) in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// The model, checked.
    ///
    /// # Errors
    /// One of the four is not a probability, or no state is ever left.
    pub fn validate(self) -> Result<Self, EstimateError> {
        for (name, value) in [
            ("good_to_bad", self.good_to_bad),
            ("bad_to_good", self.bad_to_good),
            ("loss_good", self.loss_good),
            ("loss_bad", self.loss_bad),
        ] {
            within(name, value, "0 to 1", (0.0..=1.0).contains(&value))?;
        }
        let moves = self.good_to_bad + self.bad_to_good;
        within("good_to_bad + bad_to_good", moves, "above 0", moves > 0.0)?;
        Ok(self)
    }

    /// The share of packets sent in the bad state.
    pub fn bad_share(&self) -> f64 {
        self.good_to_bad / (self.good_to_bad + self.bad_to_good)
    }

    /// The fraction of packets lost over a long time.
    pub fn rate(&self) -> f64 {
        let bad = self.bad_share();
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }

    /// P(packets i and i + k are both lost), `k` ≥ 0.
    ///
    /// The state's memory fades as λᵏ with λ = 1 − P(good → bad) − P(bad → good):
    /// rate² + (loss_bad − loss_good)²·share·(1 − share)·λᵏ.
    pub fn both_lost(&self, k: u32) -> f64 {
        let rate = self.rate();
        if k == 0 {
            return rate;
        }
        let bad = self.bad_share();
        let memory = 1.0 - self.good_to_bad - self.bad_to_good;
        let spread = (self.loss_bad - self.loss_good).powi(2) * bad * (1.0 - bad);
        (rate * rate + spread * memory.powi(k.min(1_000_000) as i32)).clamp(0.0, rate)
    }

    /// P(both lost | either lost) of packets `k` apart [Horde §4.2, `lossCorrelation`]; 0 when nothing is
    /// ever lost.
    pub fn both_given_either(&self, k: u32) -> f64 {
        let both = self.both_lost(k);
        let either = 2.0 * self.rate() - both;
        if either > 0.0 { both / either } else { 0.0 }
    }

    /// Correlation of the outcomes of neighbouring packets, in [−1, 1]; 0 when there is nothing to correlate.
    pub fn correlation(&self) -> f64 {
        let rate = self.rate();
        let variance = rate * (1.0 - rate);
        if variance > 0.0 {
            (self.both_lost(1) - rate * rate) / variance
        } else {
            0.0
        }
    }

    /// The same model with the states named so that the bad one loses more.
    pub(crate) fn ordered(self) -> Self {
        if self.loss_bad >= self.loss_good {
            return self;
        }
        Self {
            good_to_bad: self.bad_to_good,
            bad_to_good: self.good_to_bad,
            loss_good: self.loss_bad,
            loss_bad: self.loss_good,
        }
    }
}

/// Counts of short patterns in the outcomes, from which the model follows in closed form.
///
/// `observe`: O(1), no allocation; with forgetting, so the fit follows the channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    packets: f64,
    lost: f64,
    /// Pairs (i, i + 1) by outcome.
    arrived_first: f64,
    lost_after_arrived: f64,
    lost_first: f64,
    lost_after_lost: f64,
    /// Triples whose ends are lost, by the middle.
    lost_arrived_lost: f64,
    lost_lost_lost: f64,
    /// The last two outcomes, the last in front.
    last: [Option<bool>; 2],
    /// Share of a count that remains after a packet.
    keep: f64,
}

impl Moments {
    /// Empty; the weight of a packet falls to 1/e after `memory_packets` (infinite: never).
    ///
    /// # Errors
    /// `memory_packets` below 10 or NaN.
    pub fn new(memory_packets: f64) -> Result<Self, EstimateError> {
        let range = "at least 10 packets";
        within(
            "memory_packets",
            memory_packets,
            range,
            memory_packets >= 10.0,
        )?;
        Ok(Self {
            packets: 0.0,
            lost: 0.0,
            arrived_first: 0.0,
            lost_after_arrived: 0.0,
            lost_first: 0.0,
            lost_after_lost: 0.0,
            lost_arrived_lost: 0.0,
            lost_lost_lost: 0.0,
            last: [None; 2],
            keep: (-1.0 / memory_packets).exp(),
        })
    }

    /// Takes the outcome of the next packet in the order of sending.
    pub fn observe(&mut self, lost: bool) {
        if self.keep < 1.0 {
            for count in [
                &mut self.packets,
                &mut self.lost,
                &mut self.arrived_first,
                &mut self.lost_after_arrived,
                &mut self.lost_first,
                &mut self.lost_after_lost,
                &mut self.lost_arrived_lost,
                &mut self.lost_lost_lost,
            ] {
                *count *= self.keep;
            }
        }
        let one = f64::from(u8::from(lost));
        self.packets += 1.0;
        self.lost += one;
        match self.last {
            [Some(false), _] => {
                self.arrived_first += 1.0;
                self.lost_after_arrived += one;
            }
            [Some(true), _] => {
                self.lost_first += 1.0;
                self.lost_after_lost += one;
            }
            [None, _] => {}
        }
        if let [Some(middle), Some(true)] = self.last {
            *(if middle {
                &mut self.lost_lost_lost
            } else {
                &mut self.lost_arrived_lost
            }) += one;
        }
        self.last = [Some(lost), self.last[0]];
    }

    /// Packets behind the estimate, faded.
    pub fn packets(&self) -> f64 {
        self.packets
    }

    /// Gilbert's simple model: the good state loses nothing, the bad one everything.
    ///
    /// P(good → bad) = P(lost | the one before arrived), P(bad → good) = P(arrives | the one before was
    /// lost): the maximum-likelihood estimate of the visible two-state chain.
    ///
    /// # Errors
    /// Fewer than ten losses or arrivals (a spell of each kind must have been left and entered).
    pub fn simple(&self) -> Result<GilbertElliott, EstimateError> {
        enough("simple Gilbert fit, losses", self.lost_first as usize, 10)?;
        enough(
            "simple Gilbert fit, arrivals",
            self.arrived_first as usize,
            10,
        )?;
        let model = GilbertElliott {
            good_to_bad: self.lost_after_arrived / self.arrived_first,
            bad_to_good: 1.0 - self.lost_after_lost / self.lost_first,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        model.validate()
    }

    /// Gilbert's three-parameter model, by his method [Gilbert 1960, §V]: the good state loses nothing,
    /// the bad one some.
    ///
    /// With a = P(lost), b = P(lost | the one before was lost), c = P(the middle lost | both ends of
    /// three lost): P(bad stays) = (a·c − b²)/(2·a·c − b·(a + c)), loss_bad = b/P(bad stays), P(good →
    /// bad) = a·P(bad → good)/(loss_bad − a).
    ///
    /// # Errors
    /// Too few losses (30, and 10 triples with both ends lost); figures that no such model has, as
    /// happens with few or independent losses. Then use [`Moments::simple`] or the rate alone.
    pub fn gilbert(&self) -> Result<GilbertElliott, EstimateError> {
        const WHAT: &str = "Gilbert fit";
        let triples = self.lost_lost_lost + self.lost_arrived_lost;
        enough("Gilbert fit, losses", self.lost_first as usize, 30)?;
        enough(
            "Gilbert fit, triples with both ends lost",
            triples as usize,
            10,
        )?;
        let a = self.lost / self.packets;
        let b = self.lost_after_lost / self.lost_first;
        let c = self.lost_lost_lost / triples;
        let no_fit = |why| EstimateError::NoFit { what: WHAT, why };
        let denominator = 2.0 * a * c - b * (a + c);
        let stays = (a * c - b * b) / denominator;
        if !(stays > 0.0 && stays < 1.0) {
            return Err(no_fit("the losses are not bursty in the way of two states"));
        }
        let loss_bad = b / stays;
        let good_to_bad = a * (1.0 - stays) / (loss_bad - a);
        let model = GilbertElliott {
            good_to_bad,
            bad_to_good: 1.0 - stays,
            loss_good: 0.0,
            loss_bad,
        };
        model
            .validate()
            .map_err(|_| no_fit("a parameter is outside 0 to 1"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    /// Outcomes drawn from the model.
    pub(crate) fn draw(model: GilbertElliott, packets: usize, seed: u64) -> Vec<bool> {
        let mut random = Seed(seed).stream("outcomes");
        let mut bad = random.chance(model.bad_share());
        (0..packets)
            .map(|_| {
                bad = random.chance(if bad {
                    1.0 - model.bad_to_good
                } else {
                    model.good_to_bad
                });
                random.chance(if bad { model.loss_bad } else { model.loss_good })
            })
            .collect()
    }

    fn moments(outcomes: &[bool]) -> Moments {
        let mut moments = Moments::new(f64::INFINITY).unwrap();
        outcomes.iter().for_each(|&lost| moments.observe(lost));
        moments
    }

    #[test]
    fn recovers_the_simple_model() {
        let truth = GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let fit = moments(&draw(truth, 200_000, 1)).simple().unwrap();
        assert!((fit.good_to_bad - 0.01).abs() < 0.001, "{fit:?}");
        assert!((fit.bad_to_good - 0.25).abs() < 0.015, "{fit:?}");
        assert!((fit.rate() - truth.rate()).abs() < 0.004);
    }

    #[test]
    fn recovers_gilberts_three_parameters() {
        let truth = GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.1,
            loss_good: 0.0,
            loss_bad: 0.6,
        };
        let fit = moments(&draw(truth, 400_000, 2)).gilbert().unwrap();
        assert!((fit.good_to_bad - 0.02).abs() < 0.003, "{fit:?}");
        assert!((fit.bad_to_good - 0.1).abs() < 0.015, "{fit:?}");
        assert!((fit.loss_bad - 0.6).abs() < 0.04, "{fit:?}");
    }

    #[test]
    fn too_little_is_said() {
        let few = moments(&[false, true, false, false]);
        assert!(matches!(few.simple(), Err(EstimateError::TooFew { .. })));
        assert!(matches!(few.gilbert(), Err(EstimateError::TooFew { .. })));
        assert!(moments(&[true; 1000]).simple().is_err(), "never arrived");
        assert!(moments(&[false; 1000]).simple().is_err(), "never lost");
        assert!(Moments::new(f64::NAN).is_err());
    }

    #[test]
    fn follows_a_change() {
        let calm = GilbertElliott {
            good_to_bad: 0.005,
            bad_to_good: 0.5,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let rough = GilbertElliott {
            bad_to_good: 0.1,
            ..calm
        };
        let mut moments = Moments::new(10_000.0).unwrap();
        for lost in draw(calm, 50_000, 3)
            .into_iter()
            .chain(draw(rough, 50_000, 4))
        {
            moments.observe(lost);
        }
        let fit = moments.simple().unwrap();
        assert!((fit.bad_to_good - 0.1).abs() < 0.03, "{fit:?}");
    }

    /// Horde's channel `gprs1` [Figures 7-5, 7-6]: bursts of 1, 2 and 4 packets, each half as long again as
    /// likely as 0.2 of the one before. Outcomes follow the Markov process of Figure 7-6, and the simple
    /// model's mean burst is the process's.
    #[test]
    fn horde_figure_7_6_process() {
        let (q, sizes) = (0.02, [1u32, 2, 4]);
        let weights: Vec<f64> = (1..=sizes.len() as i32).map(|i| 0.2f64.powi(i)).collect();
        let total: f64 = weights.iter().sum();
        let mut random = Seed(5).stream("figure 7-6");
        let mut moments = Moments::new(f64::INFINITY).unwrap();
        for _ in 0..100_000 {
            if random.chance(q) {
                let mut at = random.unit() * total;
                let size = sizes.iter().zip(&weights).find(|&(_, &w)| {
                    at -= w;
                    at < 0.0
                });
                (0..*size.map_or(&4, |(size, _)| size)).for_each(|_| moments.observe(true));
            }
            moments.observe(false);
        }
        // (1·0.2 + 2·0.04 + 4·0.008)/0.248 packets.
        let mean = 0.312 / 0.248;
        let fit = moments.simple().unwrap();
        assert!((1.0 / fit.bad_to_good - mean).abs() < 0.03, "{fit:?}");
        assert!((fit.good_to_bad - q).abs() < 0.002, "{fit:?}");
    }

    proptest! {
        #[test]
        fn pair_probabilities_agree_with_the_chain(
            good_to_bad in 0.001..1.0f64, bad_to_good in 0.001..1.0f64,
            loss_good in 0.0..1.0f64, loss_bad in 0.0..1.0f64, k in 1u32..12,
        ) {
            let model = GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad };
            // P(state i + k | state i) by multiplying the transition matrix out.
            let both: f64 = [(1.0 - model.bad_share(), loss_good, 0.0), (model.bad_share(), loss_bad, 1.0)]
                .into_iter()
                .map(|(share, loss, start)| {
                    let mut bad = start;
                    for _ in 0..k {
                        bad = bad * (1.0 - bad_to_good) + (1.0 - bad) * good_to_bad;
                    }
                    share * loss * (bad * loss_bad + (1.0 - bad) * loss_good)
                })
                .sum();
            prop_assert!((model.both_lost(k) - both).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&model.both_given_either(k)));
            let swapped = model.ordered();
            prop_assert!(swapped.loss_bad >= swapped.loss_good);
            prop_assert!((swapped.rate() - model.rate()).abs() < 1e-12);
        }
    }
}

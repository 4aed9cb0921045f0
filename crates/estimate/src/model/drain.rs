//! A queue that fills and drains with a period of some packets.

/// Round trips that are remembered, one for each packet sent.
const RING: usize = 512;
/// Longest period in packets.
const LAG_MAX: usize = 128;
/// Packets after which the weight of a product has fallen to 1/e.
const MEMORY: f64 = 512.0;
/// Packets between looks for a period, and before the first.
const EVERY: u64 = 64;
const FIRST: u64 = 192;
/// Correlation of packets a period apart that makes it one.
const CORRELATION_MIN: f64 = 0.3;
/// A shorter period that correlates almost as well is the period; the longer one is a multiple.
const ALMOST: f64 = 0.85;
/// Periods back that a guess is the mean of.
const PERIODS: usize = 3;

/// Finds the period of round trips in packets by their autocorrelation, and guesses a coming one from those
/// a whole number of periods before: on CDMA2000 channels round trips fall while a queue drains, and rise again
/// [Horde Figures 7-25, A-9, A-10]. The phase follows from the round trips themselves.
///
/// `observe` O(128), no allocation.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// Round trips by index modulo the length; NaN: lost.
    ring: Box<[f64]>,
    /// The mean, for products.
    mean: f64,
    /// Products of deviations, by lag from 0.
    products: Box<[f64]>,
    keep: f64,
    count: u64,
    /// One more than the last index.
    end: u64,
    period: Option<usize>,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self {
            ring: vec![f64::NAN; RING].into(),
            mean: 0.0,
            products: vec![0.0; LAG_MAX + 1].into(),
            keep: (-1.0 / MEMORY).exp(),
            count: 0,
            end: 0,
            period: None,
        }
    }

    /// The round trip of the next packet in the order of sending; `None`: lost.
    pub(super) fn observe(&mut self, index: u64, rtt_ms: Option<f64>) {
        if index < self.end {
            return;
        }
        // Packets nobody knows anything about, bounded by the ring.
        for skipped in self.end.max(index.saturating_sub(RING as u64))..index {
            self.ring[skipped as usize % RING] = f64::NAN;
        }
        self.end = index + 1;
        self.ring[index as usize % RING] = rtt_ms.unwrap_or(f64::NAN);
        let Some(rtt_ms) = rtt_ms else { return };
        self.count += 1;
        self.mean += (rtt_ms - self.mean) / (self.count as f64).min(MEMORY);
        let here = rtt_ms - self.mean;
        let reach = (LAG_MAX as u64).min(index);
        for lag in 0..=reach {
            let there = self.ring[(index - lag) as usize % RING];
            let product = &mut self.products[lag as usize];
            *product *= self.keep;
            if !there.is_nan() {
                *product += here * (there - self.mean);
            }
        }
        if self.count >= FIRST && self.count.is_multiple_of(EVERY) {
            self.period = self.find();
        }
    }

    /// The period in packets, if there is one.
    pub(super) fn period(&self) -> Option<usize> {
        self.period
    }

    /// Expected round trip of the packet with this index: the mean of those up to three periods before it.
    pub(super) fn guess(&self, index: u64) -> Option<f64> {
        let period = self.period? as u64;
        let ahead = (index + 1).saturating_sub(self.end);
        let nearest = ahead.div_ceil(period).max(1);
        let (mut sum, mut count) = (0.0, 0);
        for back in nearest..nearest + PERIODS as u64 {
            let there = index.checked_sub(back * period)?;
            if there + RING as u64 <= self.end {
                break;
            }
            let rtt_ms = self.ring[there as usize % RING];
            if !rtt_ms.is_nan() {
                sum += rtt_ms;
                count += 1;
            }
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    /// The first peak of the autocorrelation that is as high as the highest, or almost, after a valley.
    fn find(&self) -> Option<usize> {
        let power = self.products[0];
        if power <= 0.0 {
            return None;
        }
        let at = |lag: usize| self.products[lag] / power;
        let mut valley = 1.0_f64;
        let is_peak = |lag: usize, valley: f64| {
            at(lag) >= at(lag - 1)
                && (lag == LAG_MAX || at(lag) >= at(lag + 1))
                && at(lag) >= CORRELATION_MIN
                && at(lag) - valley >= CORRELATION_MIN
        };
        let mut highest = 0.0_f64;
        for lag in 2..=LAG_MAX {
            valley = valley.min(at(lag - 1));
            if is_peak(lag, valley) {
                highest = highest.max(at(lag));
            }
        }
        let mut valley = 1.0_f64;
        (2..=LAG_MAX).find(|&lag| {
            valley = valley.min(at(lag - 1));
            is_peak(lag, valley) && at(lag) >= ALMOST * highest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    #[test]
    fn a_sawtooth_is_found_and_followed() {
        let mut random = Seed(5).stream("sawtooth");
        let mut drain = Drain::new();
        let truth = |index: u64| 800.0 - 45.0 * (index % 11) as f64;
        for index in 0..2000 {
            let is_lost = random.chance(0.05);
            let rtt = truth(index) + random.normal(0.0, 15.0);
            drain.observe(index, (!is_lost).then_some(rtt));
        }
        assert_eq!(drain.period(), Some(11));
        for ahead in 0..20 {
            let index = 2000 + ahead;
            let guess = drain.guess(index).unwrap();
            assert!((guess - truth(index)).abs() < 45.0, "{ahead}: {guess}");
        }
    }

    #[test]
    fn noise_and_slow_change_have_no_period() {
        let mut random = Seed(6).stream("noise");
        let (mut noise, mut walk) = (Drain::new(), Drain::new());
        let mut level = 200.0;
        for index in 0..5000 {
            noise.observe(index, Some(random.normal(100.0, 20.0)));
            level = 200.0 + 0.98 * (level - 200.0) + random.normal(0.0, 5.0);
            walk.observe(index, Some(level));
            assert_eq!((noise.period(), noise.guess(index + 1)), (None, None));
        }
        assert_eq!(walk.period(), None);
    }

    #[test]
    fn every_second_one_is_a_period_of_two() {
        let mut drain = Drain::new();
        for index in 0..1000 {
            drain.observe(index, Some(if index % 2 == 0 { 375.0 } else { 550.0 }));
        }
        assert_eq!(drain.period(), Some(2));
        assert_eq!(drain.guess(1000), Some(375.0));
    }
}

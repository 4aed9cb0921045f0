//! The distribution of a coming round-trip time, given the last one.

use std::time::Duration;

use crate::{
    evidence::{EstimateError, enough, level, within},
    growing,
};

/// Most lags that can be kept.
const LAGS_MAX: usize = 16;
/// Largest lag in packets.
const LAG_MAX: u32 = 256;
/// Weight of a new pair at which all weights are scaled down.
const GAIN_MAX: f64 = 1e12;

/// Parameters of a [`ConditionalRtt`].
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The lags k in packets, 1 to 256, at most 16 of them.
    pub lags: Vec<u32>,
    /// RTTs below this share the lowest bin.
    pub rtt_min: Duration,
    /// RTTs above this share the highest bin.
    pub rtt_max: Duration,
    /// Upper over lower edge of a bin: the relative resolution, above 1.01 and at most 2.
    pub ratio: f64,
    /// Packets after which the weight of a pair has fallen to 1/e.
    pub memory_packets: f64,
    /// Pairs (by their faded weight) that a forecast needs.
    pub evidence_min: usize,
    /// Distance from z, as a factor, at which pairs may be taken when there are too few at z itself; at least 1.
    pub reach: f64,
}

impl Default for Config {
    /// Mobile channels: 1 ms to 20 s in steps of 10 %, the last 2000 packets, z ± 35 %.
    fn default() -> Self {
        Self {
            lags: vec![1, 2, 4, 8],
            rtt_min: Duration::from_millis(1),
            rtt_max: Duration::from_secs(20),
            ratio: 1.1,
            memory_packets: 2000.0,
            evidence_min: 30,
            reach: 1.35,
        }
    }
}

/// p_k(x | z) = P(RTT of packet i + k is x | RTT of packet i is z) [Horde §7.4.2].
///
/// On a channel whose queue fills and drains, the last RTT shows where in the cycle the queue is, which
/// the smoothed RTT does not know. The estimate is a matrix of counts for each lag k, rows z and columns
/// x, both in bins of equal ratio, with exponential forgetting. A forecast uses the row of z and, where
/// that holds too little, its neighbours.
///
/// `observe`: O(lags · log bins) (all weights are scaled once in about 28 memories), and an allocation where a pair is unlike those met
/// before. A forecast: O(bins · rows used). Memory: 8 bytes for each lag, each z met and each x between the smallest and the largest that
/// followed it; at most `lags · bins²` of them, 345 kB as configured by default.
#[derive(Debug, Clone)]
pub struct ConditionalRtt {
    lags: Box<[u32]>,
    bins: Bins,
    /// By lag: rows in increasing order of z, those that have pairs.
    rows: Box<[Vec<Row>]>,
    /// Weight of a new pair.
    gain: f64,
    growth: f64,
    evidence_min: usize,
    reach_bins: usize,
    /// The packets that later ones may pair with, by index modulo its length.
    recent: Box<[Option<(u64, u16)>]>,
}

/// The pairs with one z, from the lowest to the highest x met.
#[derive(Debug, Clone)]
struct Row {
    z: usize,
    /// The x of the first weight.
    low: usize,
    /// In units of which a new pair counts `gain`.
    weights: Vec<f64>,
}

impl Row {
    fn add(&mut self, x: usize, gain: f64) {
        if x < self.low {
            let missing = self.low - x;
            self.weights.reserve_exact(missing);
            self.weights.splice(..0, std::iter::repeat_n(0.0, missing));
            self.low = x;
        }
        let place = x - self.low;
        if place >= self.weights.len() {
            self.weights.reserve_exact(place + 1 - self.weights.len());
            self.weights.resize(place + 1, 0.0);
        }
        self.weights[place] += gain;
    }

    fn weight(&self, x: usize) -> f64 {
        let place = x.checked_sub(self.low);
        let weight = place.and_then(|place| self.weights.get(place));
        weight.copied().unwrap_or(0.0)
    }
}

#[derive(Debug, Clone, Copy)]
struct Bins {
    log_min: f64,
    log_step: f64,
    count: usize,
}

impl Bins {
    fn of(&self, rtt: Duration) -> usize {
        let position = (rtt.as_secs_f64().ln() - self.log_min) / self.log_step;
        // A zero RTT gives −∞, which the cast saturates to 0.
        (position.max(0.0) as usize).min(self.count - 1)
    }

    /// The RTT in seconds at `position` bins from the lowest edge.
    fn edge(&self, position: f64) -> f64 {
        (self.log_min + position * self.log_step).exp()
    }
}

impl ConditionalRtt {
    /// Empty.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(config: &Config) -> Result<Self, EstimateError> {
        let lags = config.lags.len();
        let counts = (1..=LAGS_MAX).contains(&lags);
        within("number of lags", lags as f64, "1 to 16", counts)?;
        for &lag in &config.lags {
            let range = "1 to 256 packets";
            within("lag", f64::from(lag), range, (1..=LAG_MAX).contains(&lag))?;
        }
        let ratio = config.ratio;
        within("ratio", ratio, "1.01 to 2", (1.01..=2.0).contains(&ratio))?;
        let (low, high) = (config.rtt_min.as_secs_f64(), config.rtt_max.as_secs_f64());
        within(
            "rtt_max",
            high,
            "above rtt_min > 0",
            low > 0.0 && high > low,
        )?;
        let memory = config.memory_packets;
        let sane = memory.is_finite() && memory >= 10.0;
        within("memory_packets", memory, "at least 10 packets", sane)?;
        let reach = config.reach;
        within("reach", reach, "1 to 10", (1.0..=10.0).contains(&reach))?;

        let log_step = ratio.ln();
        let count = ((high / low).ln() / log_step).ceil() as usize + 1;
        let bins = Bins {
            log_min: low.ln(),
            log_step,
            count,
        };
        let history = config.lags.iter().max().map_or(1, |&lag| lag as usize + 1);
        Ok(Self {
            lags: config.lags.clone().into(),
            bins,
            rows: vec![Vec::new(); lags].into(),
            gain: 1.0,
            growth: (1.0 / memory).exp(),
            evidence_min: config.evidence_min.max(1),
            reach_bins: (reach.ln() / log_step) as usize,
            recent: vec![None; history].into(),
        })
    }

    /// Takes the RTT of the packet sent as number `index` on this channel.
    ///
    /// Indices count packets sent; a lost packet leaves a hole and pairs with nothing. Acknowledgements
    /// may come in any order as long as a packet is at most the largest lag behind.
    pub fn observe(&mut self, index: u64, rtt: Duration) {
        let bin = self.bins.of(rtt);
        self.gain *= self.growth;
        if self.gain > GAIN_MAX {
            let rows = self.rows.iter_mut().flatten();
            for weight in rows.flat_map(|row| &mut row.weights) {
                *weight /= self.gain;
            }
            self.gain = 1.0;
        }
        for which in 0..self.lags.len() {
            let lag = u64::from(self.lags[which]);
            if let Some(z) = index.checked_sub(lag).and_then(|i| self.bin_of(i)) {
                self.count(which, z, bin);
            }
            if let Some(x) = index.checked_add(lag).and_then(|i| self.bin_of(i)) {
                self.count(which, bin, x);
            }
        }
        let place = self.place(index);
        // A straggler must not displace what is newer.
        if self.recent[place].is_none_or(|(held, _)| held < index) {
            self.recent[place] = Some((index, bin as u16));
        }
    }

    /// The distribution of the RTT `lag` packets after one whose RTT was `last`.
    ///
    /// # Errors
    /// `lag` is not one of those configured; too few pairs near `last` were seen.
    pub fn given(&self, last: Duration, lag: u32) -> Result<Forecast<'_>, EstimateError> {
        let Some(which) = self.lags.iter().position(|&l| l == lag) else {
            return Err(EstimateError::OutOfRange {
                name: "lag",
                value: f64::from(lag),
                range: "one of those configured",
            });
        };
        let z = self.bins.of(last);
        let mut evidence = 0.0;
        for reach in 0..=self.reach_bins {
            let low = z.saturating_sub(reach);
            let high = (z + reach).min(self.bins.count - 1);
            let rows = self.rows(which, low, high);
            let weight: f64 = rows.iter().flat_map(|row| &row.weights).sum();
            evidence = weight / self.gain;
            if evidence >= self.evidence_min as f64 {
                return Ok(Forecast {
                    rows,
                    bins: self.bins,
                    weight,
                    evidence,
                });
            }
        }
        Err(EstimateError::TooFew {
            what: "conditional RTT",
            have: evidence as usize,
            need: self.evidence_min,
        })
    }

    fn place(&self, index: u64) -> usize {
        (index % self.recent.len() as u64) as usize
    }

    fn bin_of(&self, index: u64) -> Option<usize> {
        match self.recent[self.place(index)] {
            Some((held, bin)) if held == index => Some(usize::from(bin)),
            _ => None,
        }
    }

    fn count(&mut self, which: usize, z: usize, x: usize) {
        let rows = &mut self.rows[which];
        let at = rows.partition_point(|row| row.z < z);
        if rows.get(at).is_none_or(|row| row.z != z) {
            let row = Row {
                z,
                low: x,
                weights: Vec::new(),
            };
            growing::reserve(rows, 1, self.bins.count);
            rows.insert(at, row);
        }
        rows[at].add(x, self.gain);
    }

    fn rows(&self, which: usize, low: usize, high: usize) -> &[Row] {
        let rows = &self.rows[which];
        let first = rows.partition_point(|row| row.z < low);
        let end = rows.partition_point(|row| row.z <= high);
        &rows[first..end]
    }
}

/// A distribution of the coming RTT; borrowed from the estimator, nothing is copied.
#[derive(Debug, Clone, Copy)]
pub struct Forecast<'a> {
    rows: &'a [Row],
    bins: Bins,
    weight: f64,
    evidence: f64,
}

impl Forecast<'_> {
    /// The pairs on which it is based, faded by age.
    pub fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The expected RTT, of bin centres.
    pub fn mean(&self) -> Duration {
        let sum: f64 = (0..self.bins.count)
            .map(|x| self.bins.edge(x as f64 + 0.5) * self.column(x))
            .sum();
        Duration::from_secs_f64(sum / self.weight)
    }

    /// P(RTT ≤ `rtt`), log-linear within a bin.
    pub fn at_most(&self, rtt: Duration) -> f64 {
        let bin = self.bins.of(rtt);
        let below: f64 = (0..bin).map(|x| self.column(x)).sum();
        let position = (rtt.as_secs_f64().ln() - self.bins.log_min) / self.bins.log_step;
        let inside = (position - bin as f64).clamp(0.0, 1.0);
        ((below + inside * self.column(bin)) / self.weight).clamp(0.0, 1.0)
    }

    /// The RTT that is not exceeded with probability `p`.
    ///
    /// # Errors
    /// `p` is not strictly between 0 and 1, or asks for more than the evidence holds: fewer than one pair
    /// is expected beyond it.
    pub fn quantile(&self, p: f64) -> Result<Duration, EstimateError> {
        level("p", p)?;
        let need = (1.0 / p.min(1.0 - p)).ceil() as usize;
        enough(
            "quantile of the conditional RTT",
            self.evidence as usize,
            need,
        )?;
        let target = p * self.weight;
        let mut below = 0.0;
        for x in 0..self.bins.count {
            let here = self.column(x);
            if here > 0.0 && below + here >= target {
                let inside = (target - below) / here;
                return Ok(Duration::from_secs_f64(self.bins.edge(x as f64 + inside)));
            }
            below += here;
        }
        // Rounding may leave the target a hair above the sum.
        Ok(Duration::from_secs_f64(
            self.bins.edge(self.bins.count as f64),
        ))
    }

    fn column(&self, x: usize) -> f64 {
        self.rows.iter().map(|row| row.weight(x)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::SmoothedRtt;
    use anabranch_base::Seed;
    use proptest::prelude::*;

    fn ms(value: f64) -> Duration {
        Duration::from_secs_f64(value / 1e3)
    }

    fn build(config: &Config) -> ConditionalRtt {
        ConditionalRtt::new(config).unwrap()
    }

    #[test]
    fn says_when_it_knows_too_little() {
        let mut rtt = build(&Config::default());
        let error = rtt.given(ms(100.0), 1).unwrap_err();
        assert!(matches!(
            error,
            EstimateError::TooFew {
                have: 0,
                need: 30,
                ..
            }
        ));
        for index in 0..20 {
            rtt.observe(index, ms(100.0));
        }
        assert!(matches!(
            rtt.given(ms(100.0), 1),
            Err(EstimateError::TooFew { have: 18..=19, .. })
        ));
        assert!(matches!(
            rtt.given(ms(100.0), 3),
            Err(EstimateError::OutOfRange { .. })
        ));
        for index in 20..60 {
            rtt.observe(index, ms(100.0));
        }
        assert!(rtt.given(ms(100.0), 1).is_ok());
        assert!(
            rtt.given(ms(500.0), 1).is_err(),
            "never saw anything near 500 ms"
        );
        assert!(rtt.given(ms(100.0), 1).unwrap().quantile(0.999).is_err());
    }

    #[test]
    fn refuses_bad_parameters() {
        let bad: [fn(&mut Config); 7] = [
            |c| c.lags.clear(),
            |c| c.lags = vec![0],
            |c| c.ratio = f64::NAN,
            |c| c.rtt_min = Duration::ZERO,
            |c| c.rtt_max = c.rtt_min,
            |c| c.memory_packets = f64::INFINITY,
            |c| c.reach = 0.5,
        ];
        for change in bad {
            let mut config = Config::default();
            change(&mut config);
            assert!(ConditionalRtt::new(&config).is_err(), "{config:?}");
        }
    }

    /// A queue that drains in a sawtooth, as [Horde Figure 7-25] shows on CDMA2000: 800 ms falling by
    /// 50 ms a packet to 300 ms, then up again, with 8 ms of noise.
    fn sawtooth(packets: u64) -> Vec<Duration> {
        let mut random = Seed(7).stream("sawtooth");
        (0..packets)
            .map(|i| ms(800.0 - 50.0 * (i % 11) as f64 + random.normal(0.0, 8.0)))
            .collect()
    }

    #[test]
    fn beats_the_smoothed_rtt_on_a_sawtooth() {
        let mut conditional = build(&Config::default());
        let mut smoothed = SmoothedRtt::new();
        let (mut error_conditional, mut error_smoothed, mut forecasts) = (0.0, 0.0, 0);
        let rtts = sawtooth(4000);
        for (index, pair) in rtts.windows(2).enumerate() {
            conditional.observe(index as u64, pair[0]);
            smoothed.observe(pair[0]);
            if index < 1000 {
                continue;
            }
            let truth = pair[1].as_secs_f64();
            let forecast = conditional
                .given(pair[0], 1)
                .unwrap()
                .quantile(0.5)
                .unwrap();
            error_conditional += (forecast.as_secs_f64() - truth).abs();
            error_smoothed += (smoothed.smoothed().unwrap().as_secs_f64() - truth).abs();
            forecasts += 1;
        }
        assert!(forecasts > 2900);
        assert!(
            error_conditional < 0.3 * error_smoothed,
            "conditional {error_conditional}, smoothed {error_smoothed}"
        );
    }

    #[test]
    fn holes_and_reordering_make_no_false_pairs() {
        let config = Config {
            lags: vec![1],
            evidence_min: 1,
            ..Config::default()
        };
        let mut rtt = build(&config);
        // Packet 1 is lost: no pair of lag 1.
        rtt.observe(0, ms(10.0));
        rtt.observe(2, ms(500.0));
        assert!(rtt.given(ms(10.0), 1).is_err());
        // Acknowledgements swapped: the pair (10 → 11) still counts, once.
        rtt.observe(11, ms(500.0));
        rtt.observe(10, ms(10.0));
        let forecast = rtt.given(ms(10.0), 1).unwrap();
        assert!((forecast.evidence() - 1.0).abs() < 0.01);
        assert!(forecast.at_most(ms(400.0)) < 1e-9);
    }

    #[test]
    fn forgets() {
        let mut rtt = build(&Config {
            memory_packets: 100.0,
            ..Config::default()
        });
        for index in 0..200_000 {
            let now = if index < 199_000 { 100.0 } else { 200.0 };
            rtt.observe(index, ms(if index % 2 == 0 { 50.0 } else { now }));
        }
        let forecast = rtt.given(ms(50.0), 1).unwrap();
        assert!(
            forecast.at_most(ms(150.0)) < 0.001,
            "the old half is forgotten"
        );
        assert!(forecast.evidence() < 101.0);
    }

    proptest! {
        #[test]
        fn is_a_distribution(
            samples in prop::collection::vec(0u64..30_000, 300..600),
            last in 0u64..30_000,
            lag in prop::sample::select(vec![1u32, 2, 4, 8]),
        ) {
            let mut rtt = build(&Config { reach: 10.0, evidence_min: 10, ..Config::default() });
            for (index, &sample) in samples.iter().enumerate() {
                rtt.observe(index as u64, Duration::from_millis(sample));
            }
            if let Ok(forecast) = rtt.given(Duration::from_millis(last), lag) {
                let mut before = 0.0;
                for x in (0..30_000).step_by(97) {
                    let p = forecast.at_most(Duration::from_millis(x));
                    prop_assert!((0.0..=1.0).contains(&p) && p >= before - 1e-12);
                    before = p;
                }
                let median = forecast.quantile(0.5).unwrap();
                prop_assert!((forecast.at_most(median) - 0.5).abs() < 1e-6);
                let (low, high) = (forecast.quantile(0.2).unwrap(), forecast.quantile(0.8).unwrap());
                prop_assert!(low <= median && median <= high);
            }
        }
    }
}

//! Effective bandwidth and least delay of a link.

use std::time::Duration;

use anabranch_base::Rate;

use super::{Line, LineFit, TheilSen, line::Scatter};
use crate::evidence::{EstimateError, enough, within};

/// Place where the least delay comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelaySource {
    /// The intercept of the line.
    Intercept,
    /// The intercept was negative, so the smallest delay measured of a message below one MTU stands in
    /// [Daemons §3].
    SmallMessage,
}

/// Delay of a message on a link: delay(r) ≈ r/EBW + d_min [Daemons Eq. (2)].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEstimate {
    /// EBW, the throughput that this protocol reaches on the link under today's load; above 0.
    pub bandwidth: Rate,
    /// d_min, the delay of a message of size 0.
    pub delay_min: Duration,
    /// Place where `delay_min` comes from.
    pub delay_source: DelaySource,
    /// The line behind it: seconds over bytes.
    pub line: Line,
}

impl LinkEstimate {
    /// The expected delay of a message of `bytes` [Daemons Eq. (2)].
    pub fn delay(&self, bytes: u64) -> Duration {
        self.bandwidth
            .time_to_send(bytes)
            .saturating_add(self.delay_min)
    }
}

/// Estimates a link from the delays of messages of various sizes [Daemons §3].
///
/// Keeps both fits: least squares as published, and Theil–Sen for delays with outliers (a retransmission
/// time-out, a route change). `observe`: O(1), no allocation.
#[derive(Debug, Clone)]
pub struct LinkEstimator {
    squares: LineFit,
    robust: TheilSen,
    small_min: Option<Duration>,
}

impl LinkEstimator {
    /// Least squares with a memory of `messages` messages, Theil–Sen over the last `messages` (5 to 512).
    ///
    /// # Errors
    /// `messages` outside 5 to 512.
    pub fn new(messages: usize) -> Result<Self, EstimateError> {
        let robust = TheilSen::new(messages)?;
        Ok(Self {
            squares: LineFit::new(messages as f64)?,
            robust,
            small_min: None,
        })
    }

    /// Takes the delay of a message of `bytes`, from the start of sending to its complete arrival. The
    /// paper sends each size three times and takes the mean; every delay on its own serves as well.
    ///
    /// # Errors
    /// None with sane durations; the fits refuse what is not finite.
    pub fn observe(&mut self, bytes: u64, delay: Duration) -> Result<(), EstimateError> {
        let (x, y) = (bytes as f64, delay.as_secs_f64());
        self.squares.observe(x, y)?;
        self.robust.observe(x, y)
    }

    /// Takes the delay of a message below one MTU, for the fallback [Daemons §3: "UDP-based minimum message
    /// delay measurement"].
    pub fn observe_small(&mut self, delay: Duration) {
        self.small_min = Some(self.small_min.map_or(delay, |least| least.min(delay)));
    }

    /// The estimate by least squares, as published.
    ///
    /// # Errors
    /// Fewer than three messages or only one size; delay that does not grow with size; a negative
    /// intercept with no small message measured.
    pub fn least_squares(&self) -> Result<LinkEstimate, EstimateError> {
        interpret(self.squares.line()?, self.small_min)
    }

    /// Distance of delays from the line by least squares, in seconds, and what follows for its errors: seconds, and
    /// seconds per byte.
    ///
    /// # Errors
    /// Fewer than three messages or only one size.
    pub fn scatter(&self) -> Result<Scatter, EstimateError> {
        self.squares.scatter()
    }

    /// The estimate by Theil and Sen's line. O(messages²).
    ///
    /// # Errors
    /// As [`LinkEstimator::least_squares`], from five messages on.
    pub fn robust(&mut self) -> Result<LinkEstimate, EstimateError> {
        interpret(self.robust.line()?, self.small_min)
    }
}

fn interpret(line: Line, small_min: Option<Duration>) -> Result<LinkEstimate, EstimateError> {
    let bytes_per_s = 1.0 / line.slope;
    let bps = bytes_per_s * 8.0;
    // Above 2⁶⁴ bit/s, or not above zero, the slope is noise around zero.
    if !(line.slope > 0.0 && (1.0..u64::MAX as f64).contains(&bps)) {
        return Err(EstimateError::NoFit {
            what: "effective bandwidth",
            why: "delay does not grow with size; send larger messages",
        });
    }
    let (delay_min, delay_source) = match (Duration::try_from_secs_f64(line.intercept), small_min) {
        (Ok(intercept), _) => (intercept, DelaySource::Intercept),
        (Err(_), Some(least)) => (least, DelaySource::SmallMessage),
        (Err(_), None) => {
            enough("least delay (negative intercept), small messages", 0, 1)?;
            (Duration::ZERO, DelaySource::SmallMessage)
        }
    };
    Ok(LinkEstimate {
        bandwidth: Rate::from_bps(bps as u64),
        delay_min,
        delay_source,
        line,
    })
}

/// EBW of a path whose links pipeline a large message: the least of its links [Daemons Eq. (3)].
///
/// # Errors
/// No link, or one of rate 0.
pub fn bandwidth_pipelined(links: &[Rate]) -> Result<Rate, EstimateError> {
    checked(links)?;
    Ok(links.iter().copied().min().unwrap_or(Rate::ZERO))
}

/// EBW of a path whose links store and forward a message within one MTU: 1/Σ(1/EBW) [Daemons Eq. (4)].
///
/// # Errors
/// No link, or one of rate 0.
pub fn bandwidth_stored(links: &[Rate]) -> Result<Rate, EstimateError> {
    checked(links)?;
    let seconds_per_bit: f64 = links.iter().map(|rate| 1.0 / rate.as_bps() as f64).sum();
    Ok(Rate::from_bps((1.0 / seconds_per_bit).round() as u64))
}

fn checked(links: &[Rate]) -> Result<(), EstimateError> {
    enough("bandwidth of a path, links", links.len(), 1)?;
    for link in links {
        let bps = link.as_bps();
        within("link rate_bps", bps as f64, "above 0", bps > 0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{Random, Seed};

    /// Delays as [Daemons Figure 2] shows them: LSU to ORNL, EBW about 1.0 Mbit/s, d_min about 35 ms, messages
    /// of up to a megabyte, each size sent three times and averaged.
    fn figure_2(random: &mut Random) -> impl Iterator<Item = (u64, Duration)> {
        (1..=40u64).map(|step| {
            let bytes = step * 25_000;
            let delay = bytes as f64 * 8.0 / 1e6 + 0.035;
            let mean: f64 = (0..3)
                .map(|_| delay + random.normal(0.0, 0.03))
                .sum::<f64>()
                / 3.0;
            (bytes, Duration::from_secs_f64(mean))
        })
    }

    #[test]
    fn figure_2_link() {
        let mut random = Seed(1).stream("figure 2");
        let mut link = LinkEstimator::new(200).unwrap();
        for (bytes, delay) in figure_2(&mut random) {
            link.observe(bytes, delay).unwrap();
        }
        for estimate in [link.least_squares().unwrap(), link.robust().unwrap()] {
            let mbps = estimate.bandwidth.as_bps() as f64 / 1e6;
            assert!((mbps - 1.0).abs() < 0.01, "{estimate:?}");
            let delay_ms = estimate.delay_min.as_secs_f64() * 1e3;
            assert!((delay_ms - 35.0).abs() < 20.0, "{estimate:?}");
            assert_eq!(estimate.delay_source, DelaySource::Intercept);
            let whole = estimate.delay(1_000_000).as_secs_f64();
            assert!((whole - 8.035).abs() < 0.05);
        }
        let error = link.least_squares().unwrap().line.intercept_error.unwrap();
        assert!(
            (0.002..0.02).contains(&error),
            "the intercept is known to {error} s"
        );
    }

    #[test]
    fn negative_intercept_falls_back() {
        let mut link = LinkEstimator::new(10).unwrap();
        for (bytes, delay_ms) in [
            (100_000, 50),
            (200_000, 200),
            (300_000, 350),
            (400_000, 500),
            (500_000, 650),
        ] {
            link.observe(bytes, Duration::from_millis(delay_ms))
                .unwrap();
        }
        let error = link.least_squares().unwrap_err();
        assert!(error.to_string().contains("negative intercept"), "{error}");
        link.observe_small(Duration::from_millis(14));
        link.observe_small(Duration::from_millis(12));
        link.observe_small(Duration::from_millis(13));
        let estimate = link.least_squares().unwrap();
        assert_eq!(estimate.delay_min, Duration::from_millis(12));
        assert_eq!(estimate.delay_source, DelaySource::SmallMessage);
        assert!(link.robust().is_ok());
    }

    #[test]
    fn bad_and_little_input() {
        let mut link = LinkEstimator::new(10).unwrap();
        assert!(matches!(
            link.least_squares(),
            Err(EstimateError::TooFew { .. })
        ));
        for step in 1..=6u32 {
            link.observe(u64::from(step) * 1000, Duration::from_secs(10) / step)
                .unwrap();
        }
        assert!(
            matches!(link.least_squares(), Err(EstimateError::NoFit { .. })),
            "falling delay"
        );
        let mut same = LinkEstimator::new(10).unwrap();
        (0..6).for_each(|_| same.observe(1000, Duration::from_millis(5)).unwrap());
        assert!(matches!(
            same.least_squares(),
            Err(EstimateError::Constant { .. })
        ));
        let mut flat = LinkEstimator::new(10).unwrap();
        (1..7).for_each(|i| flat.observe(i * 1000, Duration::from_millis(5)).unwrap());
        assert!(matches!(
            flat.least_squares(),
            Err(EstimateError::NoFit { .. })
        ));
        assert!(LinkEstimator::new(2).is_err());
    }

    #[test]
    fn equations_3_and_4() {
        let links = [
            Rate::from_mbps(10),
            Rate::from_mbps(15),
            Rate::from_mbps(30),
        ];
        assert_eq!(bandwidth_pipelined(&links).unwrap(), Rate::from_mbps(10));
        assert_eq!(bandwidth_stored(&links).unwrap(), Rate::from_mbps(5));
        assert!(bandwidth_pipelined(&[]).is_err());
        assert!(
            bandwidth_stored(&[Rate::ZERO])
                .unwrap_err()
                .to_string()
                .contains("above 0")
        );
    }
}

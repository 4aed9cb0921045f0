//! The round trip to come, given the last one.

use std::time::Duration;

use anabranch_stats::rtt::{ConditionalRtt, conditional::Config};

use super::{base::Acked, spread::Guess};

/// Lags at which p_k(x|z) is kept: at most a quarter off any lag up to [`LAG_BEYOND`].
const LAGS: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// Round trips this many packets ahead are guessed without the last one.
const LAG_BEYOND: u64 = 160;

/// p_k(x|z) [Horde §7.4.2], z being the round trip of the packet sent last of those that arrived, k the distance to it.
/// A guess is its median, and its quartiles' distance. 560 kB.
#[derive(Clone, Debug)]
pub(super) struct Given {
    conditional: ConditionalRtt,
    /// By index.
    last: Option<(u64, Duration)>,
    /// Guesses since the last round trip, by lag.
    guessed: [Option<Guess>; LAGS.len()],
}

impl Given {
    pub(super) fn new() -> Self {
        let config = Config {
            lags: LAGS.to_vec(),
            ratio: 1.15,
            memory_packets: 3000.0,
            ..Config::default()
        };
        Self {
            conditional: ConditionalRtt::new(&config).expect("parameters within their ranges"),
            last: None,
            guessed: [None; LAGS.len()],
        }
    }

    pub(super) fn observe(&mut self, acked: Acked) {
        let rtt = Duration::from_secs_f64(acked.rtt_ms / 1e3);
        self.conditional.observe(acked.index, rtt);
        self.guessed = [None; LAGS.len()];
        if self.last.is_none_or(|(index, _)| index < acked.index) {
            self.last = Some((acked.index, rtt));
        }
    }

    /// Of the packet with this index. O(71 bins × rows used) for each lag once after a round trip, else O(1).
    pub(super) fn guess(&mut self, index: u64) -> Guess {
        let Some((last, rtt)) = self.last else {
            return Guess::NONE;
        };
        let apart = index.saturating_sub(last).max(1);
        let nearest = (0..LAGS.len()).min_by_key(|&at| u64::from(LAGS[at]).abs_diff(apart));
        let Some(at) = nearest.filter(|_| apart <= LAG_BEYOND) else {
            return Guess::NONE;
        };
        if let Some(guess) = self.guessed[at] {
            return guess;
        }
        let guess = self.forecast(rtt, LAGS[at]).unwrap_or(Guess::NONE);
        self.guessed[at] = Some(guess);
        guess
    }

    fn forecast(&self, rtt: Duration, lag: u32) -> Option<Guess> {
        let forecast = self.conditional.given(rtt, lag).ok()?;
        let quantile = |p| Some(forecast.quantile(p).ok()?.as_secs_f64() * 1e3);
        let (low, high) = (quantile(0.25)?, quantile(0.75)?);
        Some(Guess::new(quantile(0.5)?, (high - low) / 1.35))
    }
}

//! Knowledge of a path's interface from earlier sessions.

use super::probabilities::PROBABILITIES;

/// Shares of a level that hold for ten seconds, for [`PROBABILITIES`]; 0 to 1, descending.
pub type Steadiness = [f64; PROBABILITIES.len()];

/// Knowledge of how far the capacity of an interface falls below its level, from earlier sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Shares of the level that hold for ten seconds, for [`PROBABILITIES`]; 0 to 1, descending.
    pub shares: Steadiness,
    /// Weight beside what holds on any path, 0 to 1: less the older it is, and the fewer windows it is from.
    pub weight: f64,
}

/// Windows before, whose smallest is the level, and after which a share is judged.
const BEFORE: usize = 5;
const AFTER: usize = 10;
/// Fewest shares of which anything is said.
const SHARES_MIN: usize = 200;

/// Shares of its level that a path kept, from the rates of the windows in which it was full; `None` if they are too few.
/// O(n log n) for n windows.
pub(super) fn shares_of(rates_bps: &[f64]) -> Option<Steadiness> {
    let mut shares: Vec<f64> = Vec::new();
    for at in BEFORE..rates_bps.len().saturating_sub(AFTER - 1) {
        let level = rates_bps[at - BEFORE..at].iter().copied();
        let level = level.fold(f64::INFINITY, f64::min);
        // Where nothing is promised, nothing is broken.
        if level > 0.0 {
            let after = rates_bps[at..at + AFTER].iter();
            shares.extend(after.map(|bps| (bps / level).min(1.0)));
        }
    }
    if shares.len() < SHARES_MIN {
        return None;
    }
    shares.sort_unstable_by(f64::total_cmp);
    let quantile = |probability: f64| {
        let missed = ((1.0 - probability) * shares.len() as f64) as usize;
        shares[missed.min(shares.len() - 1)]
    };
    Some(PROBABILITIES.map(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_that_held() {
        assert_eq!(shares_of(&[1e6; 30]), None);
        assert_eq!(shares_of(&[1e6; 60]), Some([1.0; 5]));
        // Every eighth window has half of the rate, and each level is judged by ten.
        let rates: Vec<f64> = (0..400)
            .map(|at| if at % 8 == 0 { 1e6 } else { 2e6 })
            .collect();
        let [_, _, nine, _, most] = shares_of(&rates).unwrap();
        assert_eq!((nine, most), (1.0, 0.5));
    }
}

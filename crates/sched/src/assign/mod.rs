//! Linear assignment: which ADU takes which slot, where the utility of a schedule is the sum over its pairs.
//!
//! | module | holds |
//! |---|---|
//! | [`matching`] | [`Matching`]: the best assignment, kept while rows and columns come, change and go |
//! | `settle` | the same after many changes at once |
//! | `side`, `costs` | one of the two sides of a matching: prices and mates; what their pairs cost |

mod costs;
pub mod matching;
mod settle;
mod side;

pub use matching::Matching;

/// Utility in millionths of a unit. Whole numbers, so that prices that are adjusted for hours do not drift.
pub type Utility = i64;

/// Utilities are kept within ± this, a billion units: sums of prices stay far below 2⁶³.
pub const UTILITY_MAX: Utility = 1_000_000_000_000_000;

/// The nearest [`Utility`] to a number of units; 0 if it is not a number.
pub fn utility(units: f64) -> Utility {
    let millionths = units * 1e6;
    // A cast saturates, and takes NaN to 0. Not `round`, which is a call.
    ((millionths + 0.5_f64.copysign(millionths)) as Utility).clamp(-UTILITY_MAX, UTILITY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilities_are_rounded_and_bounded() {
        assert_eq!(utility(1.5), 1_500_000);
        assert_eq!(utility(-0.000_000_6), -1);
        assert_eq!(utility(1e300), UTILITY_MAX);
        assert_eq!(utility(f64::NEG_INFINITY), -UTILITY_MAX);
        assert_eq!(utility(f64::NAN), 0);
    }
}

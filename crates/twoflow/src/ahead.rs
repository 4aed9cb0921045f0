//! Work ahead: data that a lightly loaded pipe sends before its time [Two-flow §6].

use std::time::Duration;

use anabranch_base::Rate;

/// Share of a residual that is left unused, so that a video that joins finds capacity.
const MARGIN: f64 = 0.05;

/// An enhanced flow that could be sent ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Its own rate.
    pub rate: Rate,
    /// Playing time that the proxy holds beyond the current position.
    pub lead: Duration,
    /// Most that the proxy wants; its memory bounds it.
    pub lead_max: Duration,
}

/// Divides what `capacity` leaves beside `taken` among the flows whose lead is not full: the same playing time for all,
/// each at most its own rate once more. Returns the rates beyond their own, in the order of `flows`. O(n).
pub fn divide(capacity: Rate, taken: Rate, flows: &[Lead]) -> Vec<Rate> {
    let residual = capacity.as_bps() as f64 * (1.0 - MARGIN) - taken.as_bps() as f64;
    let wanting = |flow: &Lead| flow.lead < flow.lead_max;
    let wanted: u64 = flows
        .iter()
        .filter(|flow| wanting(flow))
        .map(|flow| flow.rate.as_bps())
        .sum();
    let part = if wanted > 0 {
        (residual / wanted as f64).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let extra = |flow: &Lead| {
        if wanting(flow) {
            Rate::from_bps((flow.rate.as_bps() as f64 * part) as u64)
        } else {
            Rate::ZERO
        }
    };
    flows.iter().map(extra).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lead(kbps: u64, lead: u64) -> Lead {
        Lead {
            rate: Rate::from_kbps(kbps),
            lead: Duration::from_secs(lead),
            lead_max: Duration::from_secs(10),
        }
    }

    #[test]
    fn the_residual_is_divided_by_rate() {
        let flows = [lead(100, 0), lead(300, 9), lead(500, 10)];
        let divided = divide(Rate::from_kbps(2_000), Rate::from_kbps(1_700), &flows);
        let kbps = Rate::from_kbps;
        assert_eq!(divided, [kbps(50), kbps(150), Rate::ZERO]);
        let full = divide(Rate::from_kbps(1_000), Rate::from_kbps(1_000), &flows);
        assert_eq!(full, [Rate::ZERO; 3]);
        let light = divide(Rate::from_kbps(9_000), Rate::from_kbps(900), &flows);
        assert_eq!(
            light,
            [Rate::from_kbps(100), Rate::from_kbps(300), Rate::ZERO]
        );
    }

    proptest! {
        #[test]
        fn the_pipe_is_not_overbooked(
            capacity in 0u64..9_000,
            flows in prop::collection::vec((1u64..900, 0u64..20), 0..20),
        ) {
            let flows: Vec<Lead> = flows.iter().map(|&(kbps, s)| lead(kbps, s)).collect();
            let taken: u64 = flows.iter().map(|flow| flow.rate.as_bps()).sum();
            let capacity = Rate::from_kbps(capacity);
            let extra = divide(capacity, Rate::from_bps(taken), &flows);
            let sum: u64 = extra.iter().map(|rate| rate.as_bps()).sum();
            prop_assert!(sum == 0 || sum + taken <= capacity.as_bps());
        }
    }
}

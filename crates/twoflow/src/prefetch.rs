//! Prefetch: spare capacity of a pipe goes to the essential flows with the smallest lead over play, so that only a
//! small prefix must be at the proxy beforehand [Two-flow §5.2, Figure 10].
//!
//! A flow at its target S/(T(1 − p̂)) keeps up with play on average over a segment, not at its beginning; the prefix
//! covers the shortfall. Each flow alone has a small part of the spare capacity; but flows begin one after the other,
//! and one that is ahead of play needs nothing more. So a flow that has just begun gets the spare capacity of all.

use anabranch_base::Rate;

/// Time, in seconds, within which flows that are behind should reach the level of the others.
const HORIZON_S: f64 = 8.0;

/// An essential flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lead {
    /// Its own rate: the average size of a second of film; above zero.
    pub rate: Rate,
    /// Film that has arrived beyond what has been played, in seconds; below zero while play would have to wait.
    pub lead_s: f64,
    /// Largest lead that is wanted, in seconds.
    pub lead_max_s: f64,
}

/// Divides `spare` so that the smallest leads rise to one level within the next seconds. Returns the rates beyond the
/// flows' own, in the order of `flows`. Their sum is at most `spare`; less where all have what they want. O(n log n).
pub fn divide(spare: Rate, flows: &[Lead]) -> Vec<Rate> {
    // Cost of a level: flows below it get (level − lead) · rate / horizon.
    let cost = |level: f64| -> f64 {
        let of = |flow: &Lead| (level.min(flow.lead_max_s) - flow.lead_s).max(0.0) * own(flow);
        flows.iter().map(of).sum::<f64>() / HORIZON_S
    };
    let spare = spare.as_bps() as f64;
    // The cost is linear between these levels.
    let mut levels: Vec<f64> = flows
        .iter()
        .flat_map(|flow| [flow.lead_s, flow.lead_max_s.max(flow.lead_s)])
        .collect();
    levels.sort_unstable_by(f64::total_cmp);
    let above = levels.partition_point(|&level| cost(level) <= spare);
    let level = match (
        above.checked_sub(1).map(|below| levels[below]),
        levels.get(above),
    ) {
        (Some(low), Some(&high)) => {
            let (cheap, dear) = (cost(low), cost(high));
            low + (high - low) * (spare - cheap) / (dear - cheap).max(f64::MIN_POSITIVE)
        }
        (Some(highest), None) => highest,
        (None, _) => return vec![Rate::ZERO; flows.len()],
    };
    let extra = |flow: &Lead| {
        let rise = (level.min(flow.lead_max_s) - flow.lead_s).max(0.0);
        Rate::from_bps((rise * own(flow) / HORIZON_S) as u64)
    };
    flows.iter().map(extra).collect()
}

fn own(flow: &Lead) -> f64 {
    flow.rate.as_bps() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lead(kbps: u64, lead_s: f64) -> Lead {
        Lead {
            rate: Rate::from_kbps(kbps),
            lead_s,
            lead_max_s: 20.0,
        }
    }

    #[test]
    fn the_smallest_lead_gets_all_until_it_is_level() {
        let flows = [lead(100, 10.0), lead(100, 0.0), lead(200, 2.0)];
        let kbps = |spare| -> Vec<u64> {
            let divided = divide(Rate::from_kbps(spare), &flows);
            divided
                .iter()
                .map(|rate| (rate.as_bps() + 500) / 1_000)
                .collect()
        };
        // Two seconds of film in eight.
        assert_eq!(kbps(25), [0, 25, 0]);
        // A level of 4 s: 4 s of the second, 2 s of the third.
        assert_eq!(kbps(100), [0, 50, 50]);
        assert_eq!(kbps(0), [0, 0, 0]);
        // All have what they want.
        assert_eq!(kbps(9_000), [125, 250, 450]);
        assert!(divide(Rate::from_kbps(1), &[]).is_empty());
    }

    proptest! {
        /// The sum is at most `spare`, and all of it unless every flow has what it wants; no flow gets anything that is
        /// ahead of another that gets less than it wants.
        #[test]
        fn spare_goes_to_the_least_leads(
            spare in 0u64..5_000,
            flows in prop::collection::vec((1u64..900, -30.0..30.0f64, 0.0..60.0f64), 1..20),
        ) {
            let flows: Vec<Lead> = flows
                .iter()
                .map(|&(kbps, lead_s, lead_max_s)| Lead { rate: Rate::from_kbps(kbps), lead_s, lead_max_s })
                .collect();
            let spare = Rate::from_kbps(spare);
            let extra = divide(spare, &flows);
            let sum: u64 = extra.iter().map(|rate| rate.as_bps()).sum();
            prop_assert!(sum <= spare.as_bps() + 1);
            let after = |at: usize| flows[at].lead_s + extra[at].as_bps() as f64 * HORIZON_S / own(&flows[at]);
            let wants = |at: usize| after(at) + 1e-2 < flows[at].lead_max_s;
            let is_content = (0..flows.len()).all(|at| !wants(at));
            prop_assert!(is_content || sum + flows.len() as u64 >= spare.as_bps(), "{sum} of {spare}");
            for one in (0..flows.len()).filter(|&at| wants(at)) {
                for other in (0..flows.len()).filter(|&at| extra[at] > Rate::ZERO) {
                    prop_assert!(after(other) <= after(one) + 2e-2, "{one} {other}");
                }
            }
        }
    }
}

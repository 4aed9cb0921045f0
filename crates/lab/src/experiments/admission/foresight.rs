//! Rate in force of a perfect forecaster, where there are too many streams for the exact mapping.

use super::customers::Customer;

/// Windows that are foreseen.
const AHEAD: usize = 60;

/// Rate that is promised in windows `1..seconds`, summed over them, in bits per second, if in each window the streams that are there
/// are admitted in the order in which they came, each if all paths together hold it beside those before it as often as it asks
/// in the windows to come. Paths may be split at will: no mapping has more in force in that order.
pub(super) fn in_force(held_bps: &[Vec<f64>], customers: &[Customer], seconds: usize) -> f64 {
    let sums: Vec<f64> = held_bps.iter().map(|paths| paths.iter().sum()).collect();
    let mut total = 0.0;
    for at in 1..seconds.min(sums.len()) {
        let mut ahead = sums[at..sums.len().min(at + AHEAD)].to_vec();
        ahead.sort_unstable_by(f64::total_cmp);
        let mut taken = 0.0;
        let here = |customer: &&Customer| customer.stay.start < at && at < customer.stay.end;
        for customer in customers.iter().filter(here) {
            let missed = ((1.0 - customer.probability) * ahead.len() as f64 + 1e-9) as usize;
            let holds = ahead[missed.min(ahead.len() - 1)];
            let rate = customer.rate.as_bps() as f64;
            if taken + rate <= holds {
                taken += rate;
            }
        }
        total += taken;
    }
    total
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_session::Grade;

    use super::*;

    #[test]
    fn streams_are_admitted_in_order_as_far_as_the_paths_hold() {
        let customer = |stay, mbps, probability| Customer {
            stay,
            rate: Rate::from_mbps(mbps),
            probability,
            is_divisible: true,
            grade: Grade::Renewable,
            takes_offers: false,
        };
        // 10 Mbit/s, and 4 in one window of five.
        let rate = |at: usize| if at.is_multiple_of(5) { 4e6 } else { 10e6 };
        let held: Vec<Vec<f64>> = (0..200).map(|at| vec![rate(at) / 2.0; 2]).collect();
        let sure = [customer(0..200, 3, 0.95), customer(0..200, 3, 0.95)];
        assert_eq!(in_force(&held, &sure, 101), 100.0 * 3e6);
        let often = [customer(0..200, 5, 0.75), customer(0..200, 5, 0.75)];
        assert_eq!(in_force(&held, &often, 101), 100.0 * 1e7);
        let late = [customer(50..200, 5, 0.75)];
        assert_eq!(in_force(&held, &late, 101), 50.0 * 5e6);
    }
}

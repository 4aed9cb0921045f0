//! How the budget for test messages is divided among links, and which sizes are sent.

use std::time::Duration;

use anabranch_base::Rate;

use super::LinkEstimate;
use crate::config::Probing;

/// Messages before a link counts as known.
pub(crate) const FIRST_MESSAGES: u64 = 6;
/// Large messages last about this long on the link, so that they measure its rate and not its noise.
const LARGE_LASTS: Duration = Duration::from_millis(100);
/// Messages of an unknown link grow until one lasts this long beyond the small ones.
const GROW_UNTIL: Duration = Duration::from_millis(60);

/// Bytes a second for each link, from what is known of it. The error of an estimate falls with the square
/// root of the number of messages; the sum of squared relative errors is least when each link gets a share
/// in proportion to the deviation of one message (A-optimality for equal costs, [Daemons §5]). No link gets
/// more than `share` of its rate; what it cannot take goes to the others.
pub(crate) fn divide(links: &[Option<LinkEstimate>], config: &Probing) -> Vec<f64> {
    let budget = config.bytes_per_hour as f64 / 3600.0;
    let weight = |link: &Option<LinkEstimate>| {
        link.and_then(|link| link.deviation)
            .map_or(0.5, |deviation| deviation.clamp(0.02, 1.0))
    };
    let most = |link: &Option<LinkEstimate>| {
        link.map_or(f64::INFINITY, |link| {
            link.bandwidth.as_bytes_per_s() * config.share
        })
    };
    let mut given = vec![0.0; links.len()];
    let mut is_full = vec![false; links.len()];
    let mut left = budget;
    for _ in 0..links.len() {
        let open: f64 = links
            .iter()
            .zip(&is_full)
            .filter(|(_, full)| !**full)
            .map(|(link, _)| weight(link))
            .sum();
        if open <= 0.0 {
            break;
        }
        let over = (0..links.len())
            .find(|&at| !is_full[at] && left * weight(&links[at]) / open > most(&links[at]));
        let Some(at) = over else {
            for (at, link) in links.iter().enumerate().filter(|(at, _)| !is_full[*at]) {
                given[at] = left * weight(link) / open;
            }
            break;
        };
        given[at] = most(&links[at]);
        left -= given[at];
        is_full[at] = true;
    }
    given
}

/// Size of the next message of a link after `messages` messages, the last large one of which took `longest`
/// in all. Half of the messages are small and half are large, which is D-optimal for a line
/// [Daemons §5]; a link of which nothing is known gets ever larger ones.
pub(crate) fn size(
    known: Option<LinkEstimate>,
    messages: u64,
    longest: Duration,
    round_trip: Duration,
    config: &Probing,
) -> u64 {
    if messages.is_multiple_of(2) {
        return config.bytes_min;
    }
    let range = |bytes: u64| bytes.clamp(2 * config.bytes_min, config.bytes_max);
    match known.filter(|_| messages >= FIRST_MESSAGES) {
        Some(link) => range(link.bandwidth.bytes_in(LARGE_LASTS)),
        None => {
            let steps = (messages / 2).min(8) as u32;
            let is_enough = longest > round_trip + GROW_UNTIL;
            let grown = 16_384u64 << (2 * steps.min(4));
            range(if is_enough { grown >> 2 } else { grown })
        }
    }
}

/// Time until the next message of a link that may have `bytes_per_s`, after one of `bytes`.
pub(crate) fn wait(
    bytes: u64,
    bytes_per_s: f64,
    known: Option<Rate>,
    config: &Probing,
) -> Duration {
    let by_budget = bytes as f64 / bytes_per_s.max(1.0);
    let by_share = known.map_or(0.0, |rate| {
        bytes as f64 / (rate.as_bytes_per_s() * config.share).max(1.0)
    });
    Duration::from_secs_f64(by_budget.max(by_share).clamp(0.2, 600.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(mbps: u64, deviation: f64) -> Option<LinkEstimate> {
        Some(LinkEstimate {
            bandwidth: Rate::from_mbps(mbps),
            delay_min: Duration::from_millis(10),
            deviation: Some(deviation),
        })
    }

    #[test]
    fn uncertain_links_get_more_and_slow_ones_no_more_than_their_share() {
        let config = Probing::default();
        let budget = config.bytes_per_hour as f64 / 3600.0;
        let given = divide(&[link(100, 0.1), link(100, 0.4), link(1, 0.4)], &config);
        assert!((given[1] / given[0] - 4.0).abs() < 1e-9, "{given:?}");
        assert!((given[2] - 2_500.0).abs() < 1e-6, "{given:?}");
        assert!((given.iter().sum::<f64>() - budget).abs() < 1e-6);
        let slow = divide(&[link(1, 0.1), None], &config);
        assert!(slow[0] <= 2_500.0 && (slow.iter().sum::<f64>() - budget).abs() < 1e-6);
        assert!(divide(&[], &config).is_empty());
    }

    #[test]
    fn sizes_grow_on_an_unknown_link_until_they_tell_something() {
        let config = Probing::default();
        let round_trip = Duration::from_millis(40);
        let sizes: Vec<u64> = (0..6)
            .map(|n| size(None, n, round_trip, round_trip, &config))
            .collect();
        assert_eq!(sizes, [1_000, 16_384, 1_000, 65_536, 1_000, 262_144]);
        let enough = size(None, 3, round_trip * 4, round_trip, &config);
        assert_eq!(enough, 16_384);
        assert_eq!(
            size(link(8, 0.1), 7, round_trip, round_trip, &config),
            100_000
        );
    }
}

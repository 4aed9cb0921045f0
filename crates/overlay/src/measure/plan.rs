//! Plan of test messages.
//!
//! An unknown link gets ever larger messages, until one takes markedly longer than a small one. After that, once per
//! planning interval, an optimal design ([`anabranch_route::design`], A-optimality) divides the budget among all links:
//! the number and sizes of messages for each. Small messages show the least round trip and that the link is alive. The
//! sizes for the line begin where the transport has reached the link's rate: a smaller message takes whole round trips
//! for its first few packets, which do not depend on the link's bandwidth.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_route::design::{self, Belief, Criterion, Drift, Noise, Task};
use anabranch_stats::regression::Scatter;

use super::LinkEstimate;
use crate::config::Probing;

/// Approximate duration of a large message on the link: enough to measure its rate rather than its noise.
const LARGE_LASTS: Duration = Duration::from_millis(200);
/// A message that takes this much longer than a small one has reached the link's rate …
const GROWN: Duration = Duration::from_millis(60);
/// … if it is at least this large; and no large one is smaller.
const LARGE_MIN_BYTES: u64 = 65_536;
/// Size of the first large message.
const FIRST_BYTES: u64 = 16_384;
/// Ratio of the two sizes of the line.
const RATIO: u64 = 3;
/// Size of the message for which delay estimates should be accurate.
const INTEREST_BYTES: u64 = 10_000_000;
/// Share of the budget for known links. The rest is saved, up to the amount that may be spent at once, so that a
/// requested link can be measured within seconds rather than minutes.
const FOR_KNOWN: f64 = 0.75;
/// Assumed drift of a link's rate in an hour, as a fraction; it devalues old estimates.
const WANDER: f64 = 0.2;

/// Progress of the search for the right size of messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Growth {
    /// Size of the last large message; 0: none yet.
    bytes: u64,
    is_done: bool,
}

impl Growth {
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Size of the next large message of a link that is not known yet; `step` alternates sizes.
    pub(crate) fn next(&self, step: u64, config: &Probing) -> u64 {
        let bytes = match (self.bytes, self.is_done) {
            (0, _) => FIRST_BYTES,
            (bytes, false) => bytes * 4,
            // A line needs three messages, and most of them may be small.
            (bytes, true) if step % 3 < 2 => bytes / RATIO,
            (bytes, true) => bytes,
        };
        bytes.clamp(2 * config.bytes_min, config.bytes_max)
    }

    /// Handles the arrival of a message.
    pub(crate) fn observe(&mut self, bytes: u64, took: Duration, round_trip: Duration, most: u64) {
        if self.is_done || bytes < self.bytes {
            return;
        }
        self.bytes = bytes;
        self.is_done = bytes >= most || bytes >= LARGE_MIN_BYTES && took >= round_trip + GROWN;
    }
}

/// A link to plan for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) known: LinkEstimate,
    pub(crate) scatter: Scatter,
    pub(crate) age: Duration,
}

/// Sizes of the large messages of each link for the time of `config.plan`, in sending order. No link gets more bytes
/// than its share of the rate.
pub(crate) fn agenda(links: &[Subject], others: usize, config: &Probing) -> Vec<Vec<u64>> {
    let seconds = config.plan.as_secs_f64();
    let count = (links.len() + others).max(1) as f64;
    let rate = config.bytes_per_hour as f64 / 3600.0 * FOR_KNOWN;
    let budget = rate * seconds * links.len() as f64 / count;
    let tasks: Vec<Task> = links.iter().map(|link| task(link, config)).collect();
    let plan = design::plan(&tasks, Criterion::A, budget as u64);
    let mut agendas = vec![Vec::new(); links.len()];
    for probe in &plan.probes {
        let most = allowance(links[probe.task].known.bandwidth, config);
        let agenda = &mut agendas[probe.task];
        for _ in 0..probe.count.min(64) {
            if agenda.iter().sum::<u64>() + probe.bytes <= most {
                agenda.push(probe.bytes);
            }
        }
    }
    agendas
}

/// Most bytes of probes on a link in the time of a plan.
fn allowance(bandwidth: Rate, config: &Probing) -> u64 {
    (bandwidth.as_bytes_per_s() * config.share * config.plan.as_secs_f64()) as u64
}

fn task(link: &Subject, config: &Probing) -> Task {
    let known = &link.known;
    let slope = 8.0 / known.bandwidth.as_bps().max(1) as f64;
    let intercept = known.delay_min.as_secs_f64().max(1e-4);
    let large = known
        .bandwidth
        .bytes_in(LARGE_LASTS)
        .clamp(LARGE_MIN_BYTES, config.bytes_max.max(LARGE_MIN_BYTES))
        .min(allowance(known.bandwidth, config))
        .max(2 * config.bytes_min);
    let guess = Belief::guess(intercept, slope);
    let wandered = slope * WANDER;
    let drift = Drift {
        intercept_per_s: (intercept * WANDER).powi(2) / 3600.0,
        slope_per_s: wandered * wandered / 3600.0,
    };
    let deviation = link.scatter.deviation.max(1e-5);
    Task {
        belief: Belief::fitted(&link.scatter, &guess).after(link.age, &drift),
        noise: Noise {
            fixed_s: deviation / std::f64::consts::SQRT_2,
            per_byte_s: deviation / std::f64::consts::SQRT_2 / large as f64,
        },
        sizes: vec![large / RATIO, large],
        overhead_bytes: config.bytes_min,
        interest: design::interest(&[INTEREST_BYTES], intercept, slope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(mbps: u64, deviation_s: f64) -> Subject {
        let slope = 8e-6 / mbps as f64;
        Subject {
            known: LinkEstimate {
                bandwidth: Rate::from_mbps(mbps),
                delay_min: Duration::from_millis(10),
                deviation: Some(0.1),
            },
            scatter: Scatter {
                deviation: deviation_s,
                covariance: [1e-6, 0.0, (0.1 * slope).powi(2)],
            },
            age: Duration::from_secs(60),
        }
    }

    #[test]
    fn the_budget_and_every_links_share_are_kept() {
        let config = Probing::default();
        let links = [subject(100, 0.01), subject(100, 0.04), subject(4, 0.04)];
        let agendas = agenda(&links, 0, &config);
        let bytes: Vec<u64> = agendas.iter().map(|agenda| agenda.iter().sum()).collect();
        // A quarter is saved.
        let budget = config.bytes_per_hour * 30 / 3600 * 3 / 4;
        assert!(bytes.iter().sum::<u64>() <= budget, "{bytes:?}");
        assert!(bytes[2] <= 300_000, "2 % of 4 Mbit/s for 30 s: {bytes:?}");
        assert!(bytes.iter().sum::<u64>() > budget / 2, "{bytes:?}");
        assert_eq!(agenda(&[], 3, &config), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn messages_grow_until_they_show_the_rate() {
        let config = Probing::default();
        let round_trip = Duration::from_millis(40);
        let mut growth = Growth::default();
        let mut sizes = Vec::new();
        while !growth.is_done() {
            let bytes = growth.next(1, &config);
            sizes.push(bytes);
            // 20 Mbit/s.
            let took = round_trip + Rate::from_mbps(20).time_to_send(bytes);
            growth.observe(bytes, took, round_trip, config.bytes_max);
        }
        assert_eq!(sizes, [16_384, 65_536, 262_144]);
        let next = [3, 4, 5].map(|step| growth.next(step, &config));
        assert_eq!(next, [87_381, 87_381, 262_144]);
    }
}

//! Probe design: links, frequencies and message sizes [Daemons §5; Fedorov and Hackl 1997].
//!
//! A link's delay is a line over message size, intercept d_min and slope 1/EBW [Daemons Eq. (2)]. What is known of it is a
//! [`Belief`]: the covariance of the two. A probe of x bytes adds the information x xᵀ/σ²(x), x = (1, x), and costs its bytes.
//! [`plan`] spends a budget of bytes so that what is known afterwards is best, by D-optimality (the volume of
//! the beliefs) or A-optimality (the sum of variances of the delays that matter), over all links together.
//!
//! 1. *Continuous*: an exchange algorithm moves bytes from the probe that tells least per byte to the one that tells most, as far
//!    as that helps, until by the equivalence theorem nothing more than [`Plan::gap`] is to be gained
//!    [Fedorov 1972; Böhning 1986 for the vertex exchange].
//! 2. *Whole probes*: counts are rounded down, the rest goes to what tells most per byte and still fits, then single probes
//!    are exchanged.
//!
//! Without prior knowledge and with equal costs, half of the probes have the smallest size and half the largest, as theory
//! says for a line; where bytes cost, small ones are many and large ones few.
//!
//! As links change, beliefs grow stale ([`Belief::after`]), and the next plan moves probes to those that are known
//! least for what a byte tells there.

mod belief;
mod exchange;
mod others;
mod rounding;

use std::time::Duration;

pub use belief::{Belief, Drift, Noise, Symmetric};
pub use others::{equal, random};

/// What is to be small in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The sum of ln det of the links' covariances: treats relative gains of all links and of both parameters alike, in whatever
    /// units.
    D,
    /// The sum of the variances of the delays that matter: [`Task::interest`].
    #[default]
    A,
}

/// A link that may be probed.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// State of it.
    pub belief: Belief,
    /// Error of a measured delay.
    pub noise: Noise,
    /// Sizes of messages that may be sent, in bytes.
    pub sizes: Vec<u64>,
    /// Bytes that a probe costs besides its message (headers, the report).
    pub overhead_bytes: u64,
    /// What matters: see [`interest`]. For A-optimality only.
    pub interest: Symmetric,
}

/// The weights of a link's variances in the criterion A: the sum, over messages of these sizes, of the variance of the predicted
/// delay relative to its square. `slope_s_per_byte` and `intercept_s` are the best guess of the link.
pub fn interest(messages: &[u64], intercept_s: f64, slope_s_per_byte: f64) -> Symmetric {
    let weights = messages.iter().map(|&bytes| {
        let delay_s = (intercept_s + slope_s_per_byte * bytes as f64).max(1e-6);
        Symmetric::of_size(bytes) * (1.0 / (delay_s * delay_s * messages.len() as f64))
    });
    weights.fold(Symmetric::ZERO, |sum, weight| sum + weight)
}

/// Sizes in geometric steps from a packet to what takes `longest` at this rate, both included; for [`Task::sizes`].
/// At least two.
pub fn sizes(
    count: usize,
    packet_bytes: u64,
    bandwidth: anabranch_base::Rate,
    longest: Duration,
) -> Vec<u64> {
    let packet_bytes = packet_bytes.max(1);
    let most = bandwidth.bytes_in(longest).max(packet_bytes * 2) as f64;
    let steps = count.max(2) - 1;
    let ratio = most / packet_bytes as f64;
    let size = |step| packet_bytes as f64 * ratio.powf(step as f64 / steps as f64);
    let mut sizes: Vec<u64> = (0..=steps).map(|step| size(step).round() as u64).collect();
    sizes.dedup();
    sizes
}

/// Messages of one size on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The link, by its place among the tasks.
    pub task: usize,
    /// Size of the message.
    pub bytes: u64,
    /// How many, in the time for which the budget is.
    pub count: u64,
}

/// What to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Ordered by task and size; none with a count of zero.
    pub probes: Vec<Probe>,
    /// What they cost in all: at most the budget.
    pub cost_bytes: u64,
    /// What the best division of the same budget into fractions of probes could have more of the criterion than the one that
    /// was rounded: in units of ln det for D, relative for A.
    pub gap: f64,
}

/// Probes worth `budget_bytes`, chosen together over all links. A task without sizes gets none.
///
/// O(exchanges · candidates), candidates being links times sizes, exchanges at most 20 for each of them. 56 links of 5 sizes
/// take 0.03 s, the 2,450 links of 50 nodes 0.6 s (`cargo bench --bench design`); a node that plans for the links
/// that leave it has 49 of them.
pub fn plan(tasks: &[Task], criterion: Criterion, budget_bytes: u64) -> Plan {
    let mut design = exchange::Design::new(tasks, criterion, budget_bytes as f64);
    let gap = design.exchange();
    let counts = rounding::whole(
        &mut design,
        budget_bytes,
        &others::equal_counts(tasks, budget_bytes),
    );
    collect(tasks, &counts, gap)
}

/// The beliefs after a plan has been carried out.
pub fn beliefs_after(tasks: &[Task], probes: &[Probe]) -> Vec<Belief> {
    let mut beliefs: Vec<Belief> = tasks.iter().map(|task| task.belief).collect();
    for probe in probes {
        let noise_s = tasks[probe.task].noise.deviation_s(probe.bytes);
        beliefs[probe.task].observe_many(probe.bytes, noise_s, probe.count as f64);
    }
    beliefs
}

/// The criterion after a plan has been carried out; less is better.
pub fn value(tasks: &[Task], criterion: Criterion, probes: &[Probe]) -> f64 {
    let beliefs = beliefs_after(tasks, probes);
    let pairs = tasks.iter().zip(&beliefs);
    let values = pairs.map(|(task, belief)| match criterion {
        Criterion::D => belief.covariance.determinant().ln(),
        Criterion::A => belief.covariance.product_trace(&task.interest),
    });
    values.sum()
}

/// A plan from counts by task and size.
fn collect(tasks: &[Task], counts: &[Vec<u64>], gap: f64) -> Plan {
    let mut probes = Vec::new();
    let mut cost_bytes = 0;
    for ((task, counts), index) in tasks.iter().zip(counts).zip(0..) {
        for (&bytes, &count) in task.sizes.iter().zip(counts) {
            if count > 0 {
                cost_bytes += count * (bytes + task.overhead_bytes);
                probes.push(Probe {
                    task: index,
                    bytes,
                    count,
                });
            }
        }
    }
    probes.sort_by_key(|probe| (probe.task, probe.bytes));
    Plan {
        probes,
        cost_bytes,
        gap,
    }
}

#[cfg(test)]
mod tests;

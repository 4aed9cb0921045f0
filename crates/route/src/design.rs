//! Probe design: links, frequencies and message sizes [Daemons §5; Fedorov and Hackl 1997].
//!
//! A link's delay is a line over message size, with intercept d_min and slope 1/EBW [Daemons Eq. (2)]. The knowledge of
//! it is a [`Belief`]: the covariance of the two. A probe of x bytes adds the information x xᵀ/σ²(x), x = (1, x), and
//! costs its bytes. [`plan`] spends a budget of bytes so that the resulting knowledge is best over all links together, by
//! D-optimality (the volume of the beliefs) or A-optimality (the sum of variances of the delays that matter).
//!
//! 1. *Continuous*: an exchange algorithm moves bytes from the probe that is least informative per byte to the one that is most
//!    informative, as long as that helps, until by the equivalence theorem no more than [`Plan::gap`] is to be gained
//!    [Fedorov 1972; Böhning 1986 for the vertex exchange].
//! 2. *Whole probes*: counts are rounded down, the rest is spent on what is most informative per byte and still fits, then
//!    single probes are exchanged.
//!
//! Without prior knowledge and with equal costs, half of the probes have the smallest size and half the largest, as
//! theory predicts for a line; where bytes cost, small ones are many and large ones few.
//!
//! As links change, beliefs grow stale ([`Belief::after`]), and the next plan moves probes to the links that are known
//! least relative to the information that a byte yields there.

mod belief;
mod exchange;
mod others;
mod rounding;

use std::time::Duration;

pub use belief::{Belief, Drift, Noise, Symmetric};
pub use others::{equal, random};

/// Quantity that the plan minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The sum of ln det of the links' covariances: treats relative gains of all links and of both parameters alike,
    /// regardless of units.
    D,
    /// The sum of the variances of the delays that matter: [`Task::interest`].
    #[default]
    A,
}

/// A link that may be probed.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Current belief about the link.
    pub belief: Belief,
    /// Error of a measured delay.
    pub noise: Noise,
    /// Permitted message sizes, in bytes.
    pub sizes: Vec<u64>,
    /// Bytes that a probe costs besides its message (headers, the report).
    pub overhead_bytes: u64,
    /// Weights of the link's variances: see [`interest`]. For A-optimality only.
    pub interest: Symmetric,
}

/// Weights of a link's variances in criterion A: the sum, over messages of these sizes, of the variance of the predicted
/// delay relative to its square. `slope_s_per_byte` and `intercept_s` are the best guess for the link.
pub fn interest(messages: &[u64], intercept_s: f64, slope_s_per_byte: f64) -> Symmetric {
    let weights = messages.iter().map(|&bytes| {
        let delay_s = (intercept_s + slope_s_per_byte * bytes as f64).max(1e-6);
        Symmetric::of_size(bytes) * (1.0 / (delay_s * delay_s * messages.len() as f64))
    });
    weights.fold(Symmetric::ZERO, |sum, weight| sum + weight)
}

/// Sizes in geometric steps from one packet to the size that takes `longest` at this rate, both included; for
/// [`Task::sizes`]. At least two.
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
    /// Index of the link among the tasks.
    pub task: usize,
    /// Size of the message.
    pub bytes: u64,
    /// Number of messages in the period of the budget.
    pub count: u64,
}

/// Probes to send, and their cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Ordered by task and size; none with a count of zero.
    pub probes: Vec<Probe>,
    /// Total cost of the probes: at most the budget.
    pub cost_bytes: u64,
    /// Upper bound on how much better, by the criterion, any division of the same budget into fractions of probes could
    /// be than the one that was rounded: in units of ln det for D, relative for A.
    pub gap: f64,
}

/// Chooses probes worth `budget_bytes` together over all links. A task without sizes gets none.
///
/// O(exchanges · candidates), where candidates are links times sizes, and exchanges at most 20 per candidate. 56 links of
/// 5 sizes take 0.03 s, the 2,450 links of 50 nodes 0.6 s (`cargo bench --bench design`); a node that plans for its
/// outgoing links has 49 of them.
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

/// Beliefs after a plan has been carried out.
pub fn beliefs_after(tasks: &[Task], probes: &[Probe]) -> Vec<Belief> {
    let mut beliefs: Vec<Belief> = tasks.iter().map(|task| task.belief).collect();
    for probe in probes {
        let noise_s = tasks[probe.task].noise.deviation_s(probe.bytes);
        beliefs[probe.task].observe_many(probe.bytes, noise_s, probe.count as f64);
    }
    beliefs
}

/// Value of the criterion after a plan has been carried out; less is better.
pub fn value(tasks: &[Task], criterion: Criterion, probes: &[Probe]) -> f64 {
    let beliefs = beliefs_after(tasks, probes);
    let pairs = tasks.iter().zip(&beliefs);
    let values = pairs.map(|(task, belief)| match criterion {
        Criterion::D => belief.covariance.determinant().ln(),
        Criterion::A => belief.covariance.product_trace(&task.interest),
    });
    values.sum()
}

/// Builds a plan from counts by task and size.
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

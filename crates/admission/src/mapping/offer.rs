//! Offers: promises that could be made instead [IQ-Paths §V-B.2a: the up-call].

use anabranch_base::{Rate, StreamId};

use super::{Capacity, Request, map};
use anabranch_spec::Demand;

/// Steps of a bisection: to one part in four thousand.
const STEPS: usize = 12;
/// Halvings before anything is accepted.
const HALVINGS_MAX: usize = 24;
/// Streams looked at for a reduction that would free enough capacity, the last in precedence first.
const CANDIDATES: usize = 8;

/// Alternatives to a demand that found no place. Each was mapped, with everything that is promised already,
/// on what was known when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offer {
    /// The largest rate at the same probability, or the same bound on late packets.
    pub rate: Option<Rate>,
    /// The largest probability at the same rate.
    pub probability: Option<f64>,
    /// The smallest reduction of another stream that would free enough capacity.
    pub reduction: Option<Reduction>,
}

/// Reduction of another stream that would free enough capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// That stream.
    pub stream: StreamId,
    /// The rate it would be left with; 0: its promise would have to go.
    pub to: Rate,
}

/// The guarantee that could be given instead of `wanted`, beside `others`.
///
/// A few dozen mappings; only a refusal pays for it.
pub fn offer(wanted: &Request, others: &[Request], capacity: &mut dyn Capacity) -> Offer {
    Offer {
        rate: rate(wanted, others, capacity),
        probability: probability(wanted, others, capacity),
        reduction: reduction(wanted, others, capacity),
    }
}

/// True if all of `requests` find a place.
fn fits(mut requests: Vec<Request>, capacity: &mut dyn Capacity) -> bool {
    Request::sort(&mut requests);
    map(&requests, capacity).is_ok()
}

fn with(wanted: Request, others: &[Request]) -> Vec<Request> {
    others.iter().cloned().chain([wanted]).collect()
}

/// The largest value from 0 to `top` that is accepted, to one part in 2^[`STEPS`] of it; `None`: none is that exceeds one part in
/// 2^[`HALVINGS_MAX`] of `top`.
fn largest(top: f64, mut accept: impl FnMut(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (0.0, top);
    let (mut steps, mut halvings) = (0, 0);
    while steps < STEPS && halvings < HALVINGS_MAX {
        let middle = f64::midpoint(low, high);
        if accept(middle) {
            low = middle;
        } else {
            high = middle;
        }
        // Halving what is far too much costs none of the precision.
        if low > 0.0 {
            steps += 1;
        } else {
            halvings += 1;
        }
    }
    (low > 0.0).then_some(low)
}

/// The largest rate that could be given instead of `wanted`, beside `others`.
pub(crate) fn rate(
    wanted: &Request,
    others: &[Request],
    capacity: &mut dyn Capacity,
) -> Option<Rate> {
    let found = largest(wanted.rate_bps, |rate_bps| {
        let smaller = Request {
            rate_bps,
            ..wanted.clone()
        };
        fits(with(smaller, others), capacity)
    })?;
    Some(Rate::from_bps(found as u64)).filter(|rate| *rate > Rate::ZERO)
}

/// The same, of rates up to that of `wanted`, which is tried itself.
pub(crate) fn rate_up_to(
    wanted: &Request,
    others: &[Request],
    capacity: &mut dyn Capacity,
) -> Option<Rate> {
    if wanted.rate_bps >= 1.0 && fits(with(wanted.clone(), others), capacity) {
        return Some(Rate::from_bps(wanted.rate_bps as u64));
    }
    rate(wanted, others, capacity)
}

fn probability(wanted: &Request, others: &[Request], capacity: &mut dyn Capacity) -> Option<f64> {
    let asked = match wanted.demand {
        Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => probability,
        Demand::Late { .. } => return None,
    };
    let levels = capacity.probabilities().to_vec();
    levels
        .into_iter()
        .filter(|level| *level < asked)
        .find(|&level| {
            let mut weaker = wanted.clone();
            match &mut weaker.demand {
                Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
                    *probability = level;
                }
                Demand::Late { .. } => {}
            }
            fits(with(weaker, others), capacity)
        })
}

fn reduction(
    wanted: &Request,
    others: &[Request],
    capacity: &mut dyn Capacity,
) -> Option<Reduction> {
    let mut order: Vec<usize> = (0..others.len()).collect();
    order.sort_by(|&a, &b| others[b].precedence(&others[a]));
    let mut best: Option<(f64, Reduction)> = None;
    for &index in order.iter().take(CANDIDATES) {
        let other = &others[index];
        let mut left = |rate_bps: f64| {
            let mut requests = with(wanted.clone(), others);
            if rate_bps > 0.0 {
                requests[index].rate_bps = rate_bps;
            } else {
                requests.remove(index);
            }
            fits(requests, capacity)
        };
        if !left(0.0) {
            continue;
        }
        let to_bps = largest(other.rate_bps, &mut left).unwrap_or(0.0);
        let given_up = other.rate_bps - to_bps;
        if best.is_none_or(|(least, _)| given_up < least) {
            let to = Rate::from_bps(to_bps as u64);
            let stream = other.stream;
            best = Some((given_up, Reduction { stream, to }));
        }
    }
    best.map(|(_, reduction)| reduction)
}

//! Resource mapping: which path carries how much of which promised stream [IQ-Paths §V-B.2a].
//!
//! Streams are taken in order of precedence: the highest probability first, then the smallest bound on late
//! packets, then the highest window constraint. Each is mapped to one path if one suffices; to the smallest
//! number of paths together if it may be divided; otherwise the mapping fails and names the stream.
//!
//! | file | holds |
//! |---|---|
//! | [`capacity`] | what sets of paths can hold, as the mapping needs to know it |
//! | [`request`] | a stream to be mapped, and the order of precedence |
//! | `mod` | the mapping |
//! | [`offer`] | what could be promised instead |
//! | `alone` | what one stream could be promised if nothing else were |
//!
//! A stream of probability P that comes after others of total rate ℓ on a set of paths gets its rate r in a
//! window exactly when the set holds ℓ + r in it, since those before it are served first. So the set
//! suffices when what it holds with probability P is at least ℓ + r (Lemma 1); and of its packets, those of
//! E\[(ℓ + r − b)⁺\] − E\[(ℓ − b)⁺\] are late (Lemma 2, twice). Sets are judged by their simultaneous samples,
//! not by sums over paths; see `spec/guarantees.md`.

pub(crate) mod alone;
pub mod capacity;
pub mod offer;
pub mod request;
#[cfg(test)]
mod tests;

use anabranch_spec::{ChannelMask, Demand};

pub use capacity::{Capacity, Term};
pub use offer::{Offer, Reduction};
pub use request::{Hold, Request};

/// Most paths that a stream is divided over.
const DIVIDED_MAX: usize = 8;
/// Rates within this of each other are equal, in bits per second.
const EQUAL_BPS: f64 = 1.0;

/// Placement of one stream: its rate on each path, in bits per second, none of them 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The paths that were found to suffice together; some may carry nothing by plan.
    pub set: ChannelMask,
    /// (path, rate), ascending by path.
    pub shares: Vec<(usize, f64)>,
}

impl Placement {
    /// All of `rate_bps` on one path.
    pub fn only(path: usize, rate_bps: f64) -> Self {
        Self {
            set: ChannelMask::only(path),
            shares: vec![(path, rate_bps)],
        }
    }
}

/// Reason why a stream found no place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortage {
    /// Its index among the requests.
    pub request: usize,
    /// The path, or the set of them, that came closest; `None` while no path was measured long enough.
    pub binding: Option<Binding>,
}

/// The binding constraint: capacity for the stream of the set of paths that came closest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// The paths.
    pub set: ChannelMask,
    /// Capacity that they have with the stream's probability, in bits per second.
    pub holds_bps: f64,
    /// The part of it that streams before it take.
    pub taken_bps: f64,
}

/// Choice among paths that all suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// The one with the largest margin: the promise is kept most often.
    Safest,
    /// The one with the smallest: large gaps stay for those to come.
    Tightest,
}

/// Maps all `requests`, which must be in order of precedence ([`Request::sort`]); the answer is in their
/// order. A stream stays where it was when that still suffices, and in any case with [`Hold::Kept`].
///
/// O(requests² · paths) additions, and O(requests · paths) questions to `capacity`.
///
/// # Errors
/// The first stream that finds no place, when neither the safest nor the tightest choice of paths for those
/// before it leaves one.
pub fn map(requests: &[Request], capacity: &mut dyn Capacity) -> Result<Vec<Placement>, Shortage> {
    attempt(requests, capacity, Fit::Safest)
        .or_else(|shortage| attempt(requests, capacity, Fit::Tightest).map_err(|_| shortage))
}

fn attempt(
    requests: &[Request],
    capacity: &mut dyn Capacity,
    fit: Fit,
) -> Result<Vec<Placement>, Shortage> {
    let mut load = Load::new(capacity.paths());
    let are_kept = requests.iter().filter(|request| request.hold == Hold::Kept);
    are_kept.for_each(|request| load.add(&request.before));
    let mut placements = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        if request.hold == Hold::Kept {
            placements.push(request.before.clone());
            continue;
        }
        let (placement, binding) =
            place(request, &load, capacity, fit).map_err(|binding| Shortage {
                request: index,
                binding,
            })?;
        load.add(&placement);
        debug_assert!(
            load.on(binding.set) <= binding.holds_bps * (1.0 + 1e-9) + EQUAL_BPS,
            "promised {} of {binding:?}",
            load.on(binding.set)
        );
        placements.push(placement);
    }
    Ok(placements)
}

/// Rate promised on each path already, in bits per second. Invariant: on the paths of a placement, when it is added, no
/// more than they were measured to hold for its stream, promises with [`Hold::Kept`] aside.
#[derive(Clone, Debug)]
struct Load(Vec<f64>);

impl Load {
    fn new(paths: usize) -> Self {
        Self(vec![0.0; paths])
    }

    fn add(&mut self, placement: &Placement) {
        for &(path, rate) in &placement.shares {
            if let Some(load) = self.0.get_mut(path) {
                *load += rate;
            }
        }
    }

    fn on(&self, set: ChannelMask) -> f64 {
        set.iter().map(|path| self.0[path]).sum()
    }
}

/// Finds a place for one stream, and what it takes that from; `Err`: the set that came closest.
fn place(
    request: &Request,
    load: &Load,
    capacity: &mut dyn Capacity,
    fit: Fit,
) -> Result<(Placement, Binding), Option<Binding>> {
    let rate = request.rate_bps;
    let mut paths: Vec<(usize, f64, Binding)> = Vec::with_capacity(load.0.len());
    let mut closest: Option<(f64, Binding)> = None;
    for path in request.paths(load.0.len()) {
        let Some(found) = free_capacity(request, ChannelMask::only(path), load, capacity) else {
            continue;
        };
        closest = Some(closer(closest, found));
        paths.push((path, found.0, found.1));
    }
    let suffices = |free: f64| free + EQUAL_BPS >= rate;
    let before = request.before.set;
    let stays = paths
        .iter()
        .find(|(path, free, _)| before == ChannelMask::only(*path) && suffices(*free));
    let fitting = paths.iter().filter(|(_, free, _)| suffices(*free));
    let one = stays.or_else(|| match fit {
        Fit::Safest => fitting.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))),
        Fit::Tightest => fitting.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))),
    });
    if let Some(&(path, _, binding)) = one {
        return Ok((Placement::only(path, rate), binding));
    }
    if request.is_divisible {
        // Together, those with the most capacity of their own first.
        paths.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut set = ChannelMask::NONE;
        for (count, &(path, ..)) in paths.iter().enumerate().take(DIVIDED_MAX) {
            set = set.with(path);
            if count == 0 {
                continue;
            }
            let Some(found) = free_capacity(request, set, load, capacity) else {
                continue;
            };
            closest = Some(closer(closest, found));
            if suffices(found.0) {
                let placement = divide(request, set, &paths[..=count], load, capacity);
                return Ok((placement, found.1));
            }
        }
    }
    Err(closest.map(|(_, binding)| binding))
}

/// The rate that a set still has for the stream, and what that comes from; `None`: too little is known.
fn free_capacity(
    request: &Request,
    set: ChannelMask,
    load: &Load,
    capacity: &mut dyn Capacity,
) -> Option<(f64, Binding)> {
    let taken = load.on(set);
    let holds = match request.demand {
        Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
            let probability = 1.0 - (1.0 - probability) * request.caution;
            request.held(set, probability, capacity)?
        }
        Demand::Late {
            packet_bytes,
            late_packets,
            ..
        } => {
            let late_bps =
                late_packets * f64::from(packet_bytes) * 8.0 / request.window.as_secs_f64();
            let allowed_bps = capacity.allowed(set, late_bps * request.caution, request.term)?;
            let before = capacity.shortfall(set, taken, request.term)?;
            largest_with_shortfall(before + allowed_bps, taken + request.rate_bps, |need| {
                capacity.shortfall(set, need, request.term)
            })?
        }
    };
    let binding = Binding {
        set,
        holds_bps: holds,
        taken_bps: taken,
    };
    Some((holds - taken, binding))
}

/// The largest need up to `wanted` of which no more than `allowed` is missing on average.
fn largest_with_shortfall(
    allowed: f64,
    wanted: f64,
    mut shortfall: impl FnMut(f64) -> Option<f64>,
) -> Option<f64> {
    if shortfall(wanted)? <= allowed {
        return Some(wanted);
    }
    // The shortfall grows with the need, by at most as much.
    let (mut low, mut high) = (0.0, wanted);
    for _ in 0..48 {
        let middle = f64::midpoint(low, high);
        if shortfall(middle)? <= allowed {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

fn closer(best: Option<(f64, Binding)>, next: (f64, Binding)) -> (f64, Binding) {
    best.filter(|best| best.0 >= next.0).unwrap_or(next)
}

/// Divides `rate` over the paths of `set`, given what each has free with the stream's probability. In proportion to that where it is
/// enough; else each path is planned with all of it, and with the same part of what it has free beyond that in half of the windows: that
/// is where what the set holds together, and its paths do not, comes from. Nothing is planned beyond both while another path has room.
fn divide(
    request: &Request,
    set: ChannelMask,
    paths: &[(usize, f64, Binding)],
    load: &Load,
    capacity: &mut dyn Capacity,
) -> Placement {
    let rate = request.rate_bps;
    let sure: f64 = paths.iter().map(|(_, free, _)| free.max(0.0)).sum();
    let parts: Vec<(usize, f64)> = if sure >= rate {
        let own = paths.iter().map(|&(path, free, _)| (path, free.max(0.0)));
        own.map(|(path, free)| (path, rate * free / sure)).collect()
    } else {
        let usual: Vec<f64> = paths
            .iter()
            .map(|&(path, free, _)| {
                let only = ChannelMask::only(path);
                let half = request.held(only, 0.5, capacity);
                let half = half.unwrap_or(0.0) - load.on(only);
                (half - free.max(0.0)).max(0.0)
            })
            .collect();
        let beyond: f64 = usual.iter().sum();
        let missing = rate - sure;
        let each = 1.0 / paths.len() as f64;
        paths
            .iter()
            .zip(usual)
            .map(|(&(path, free, _), usual)| {
                let part = if beyond > 0.0 { usual / beyond } else { each };
                (path, free.max(0.0) + missing * part)
            })
            .collect()
    };
    let mut shares: Vec<(usize, f64)> = parts.into_iter().filter(|(_, r)| *r > 0.0).collect();
    shares.sort_by_key(|(path, _)| *path);
    Placement { set, shares }
}

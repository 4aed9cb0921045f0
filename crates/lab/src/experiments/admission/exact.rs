//! Exact mapping of small instances: the best that any mapping could place.
//!
//! The model is that of [`anabranch_admission::mapping`]. Streams i = 1 … n stand in order of precedence; stream i of rate
//! `r_i` goes on a set `S_i` of paths (one path, or several if it may be divided), with shares `x_ip ≥ 0` on the paths of its
//! set, `Σ_p x_ip = r_i`. Those before it are served first, so its promise is kept if
//!
//! ```text
//! Σ_{j<i} Σ_{p ∈ S_i} x_jp  +  r_i  ≤  holds(S_i, P_i)
//! ```
//!
//! This is the condition of the mapping itself, so that it covers everything the mapping places: the result is an upper bound
//! on the mapping. It may be unattainable, because the condition does not bound the load that a plan puts on one path of a set,
//! and the best of all plans uses that; the mapping's rule does not.
//!
//! This is a mixed-integer program: the set is a choice among finitely many, the shares are real. The heuristic
//! ([`anabranch_admission::mapping::map`]) tries few sets and one rule for the shares; here all are tried.
//!
//! *Sets* by depth-first search in order of precedence. A further stream adds constraints on the shares of those before it and
//! removes none, so if the first k streams cannot be placed with some choice of sets, no choice for the others helps: the
//! branch is cut. In a search for a subset, a branch is also cut if its rate plus that of all streams still to come does not
//! exceed the best found so far. Neither cut loses a solution.
//!
//! *Shares* of given sets by linear programming, with the equalities relaxed: maximise `Σ x_jp` subject to `Σ_p x_jp ≤ r_j` and
//! the constraints above, all of the form a·x ≤ b with b ≥ 0. So x = 0 is an initial vertex, and the sets are feasible exactly
//! if the maximum is `Σ r_j`. The simplex method with Bland's rule terminates, because it repeats no basis [Bland 1977].

use anabranch_admission::mapping::{Capacity, Request};
use anabranch_spec::{ChannelMask, Demand};

/// Limit on the paths: the number of sets doubles with each.
pub const PATHS_MAX: usize = 4;
/// Limit on the streams.
pub const STREAMS_MAX: usize = 6;
/// Limit on the choices examined before a search gives up.
const NODES_MAX: usize = 60_000;
/// Rates within this of each other are equal, in Mbit/s: the mapping's tolerance.
const EQUAL_MBPS: f64 = 1e-6;
/// Tolerance of the simplex method, relative to values of some Mbit/s.
const EPSILON: f64 = 1e-9;

/// Cause of a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// More paths or streams than the search handles, or a bound on late packets, which is not linear.
    TooMuch,
    /// The search was given up.
    GaveUp,
}

/// A choice of streams that can all be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// True for each request that is placed, by index.
    pub is_placed: Vec<bool>,
    /// The sum of their rates, in bits per second.
    pub rate_bps: f64,
}

/// Returns whether all `requests`, which must be in order of precedence, can be placed.
///
/// # Errors
/// The answer is not known.
pub fn fits(requests: &[Request], capacity: &mut dyn Capacity) -> Result<bool, Unanswered> {
    let mut search = Search::new(requests, capacity)?;
    search.needs_all = true;
    search.descend(0, 0.0);
    search.answer().map(|chosen| chosen.is_some())
}

/// The subset of `requests`, which must be in order of precedence, with the largest sum of rates that can be
/// placed.
///
/// # Errors
/// The answer is not known.
pub fn best(requests: &[Request], capacity: &mut dyn Capacity) -> Result<Chosen, Unanswered> {
    let mut search = Search::new(requests, capacity)?;
    search.descend(0, 0.0);
    let none = Chosen {
        is_placed: vec![false; requests.len()],
        rate_bps: 0.0,
    };
    Ok(search.answer()?.unwrap_or(none))
}

/// Requests of `requests` that are admitted one after the other in the order of `arrival` (indices), each if it can be placed
/// beside all before it, which may move.
///
/// The answer is not known.
/// It is not known.
pub fn in_order(
    requests: &[Request],
    arrival: &[usize],
    capacity: &mut dyn Capacity,
) -> Result<Chosen, Unanswered> {
    let mut chosen = Chosen {
        is_placed: vec![false; requests.len()],
        rate_bps: 0.0,
    };
    for &next in arrival {
        chosen.is_placed[next] = true;
        let mut among: Vec<Request> = requests
            .iter()
            .zip(&chosen.is_placed)
            .filter(|(_, placed)| **placed)
            .map(|(request, _)| request.clone())
            .collect();
        Request::sort(&mut among);
        chosen.is_placed[next] = fits(&among, capacity)?;
        if chosen.is_placed[next] {
            chosen.rate_bps += requests[next].rate_bps;
        }
    }
    Ok(chosen)
}

/// A stream on a set of paths.
#[derive(Clone, Copy, Debug)]
struct Choice {
    rate: f64,
    set: ChannelMask,
    /// Capacity of the set that streams before it may take.
    left: f64,
}

struct Search {
    /// By stream: its rate in Mbit/s, and the sets that hold it when they carry nothing else, with the capacity left beside it,
    /// largest first.
    streams: Vec<(f64, Vec<(ChannelMask, f64)>)>,
    /// True if only a placement of all counts.
    needs_all: bool,
    chosen: Vec<Choice>,
    is_placed: Vec<bool>,
    best: Option<(f64, Vec<bool>)>,
    nodes: usize,
}

impl Search {
    fn new(requests: &[Request], capacity: &mut dyn Capacity) -> Result<Self, Unanswered> {
        let paths = capacity.paths();
        if paths > PATHS_MAX || requests.len() > STREAMS_MAX {
            return Err(Unanswered::TooMuch);
        }
        let mut streams = Vec::with_capacity(requests.len());
        for request in requests {
            let (Demand::Rate { probability, .. } | Demand::Packets { probability, .. }) =
                request.demand
            else {
                return Err(Unanswered::TooMuch);
            };
            let rate = request.rate_bps / 1e6;
            let mut sets = Vec::new();
            for bits in 1..1_usize << paths {
                let members = (0..paths).filter(|path| bits >> path & 1 == 1);
                let set = members.clone().fold(ChannelMask::NONE, ChannelMask::with);
                let holds = request.held(set, probability, capacity);
                let holds = holds.map(|bps| bps / 1e6);
                let is_one = bits.is_power_of_two();
                let is_permitted = members.clone().all(|path| request.permitted.contains(path));
                let is_allowed = is_permitted && (is_one || request.is_divisible);
                if !is_allowed {
                    continue;
                }
                if let Some(holds) = holds {
                    let left = holds - rate + EQUAL_MBPS;
                    if left >= 0.0 {
                        sets.push((set, left));
                    }
                }
            }
            // A placement is found sooner on sets with more capacity left.
            sets.sort_by(|a, b| b.1.total_cmp(&a.1));
            streams.push((rate, sets));
        }
        Ok(Self {
            is_placed: vec![false; streams.len()],
            streams,
            needs_all: false,
            chosen: Vec::new(),
            best: None,
            nodes: 0,
        })
    }

    fn answer(self) -> Result<Option<Chosen>, Unanswered> {
        let is_settled = self.needs_all && self.best.is_some();
        if self.nodes >= NODES_MAX && !is_settled {
            return Err(Unanswered::GaveUp);
        }
        Ok(self.best.map(|(rate, is_placed)| Chosen {
            is_placed,
            rate_bps: rate * 1e6,
        }))
    }

    /// Chooses for the stream `at` and all after it; those before it have `rate` in all.
    fn descend(&mut self, at: usize, rate: f64) {
        let best = self.best.as_ref().map_or(-1.0, |(rate, _)| *rate);
        let to_come: f64 = self.streams[at..].iter().map(|(rate, _)| rate).sum();
        if rate + to_come <= best + EQUAL_MBPS || self.nodes >= NODES_MAX {
            return;
        }
        if at == self.streams.len() {
            self.best = Some((rate, self.is_placed.clone()));
            return;
        }
        let own = self.streams[at].0;
        self.is_placed[at] = true;
        for index in 0..self.streams[at].1.len() {
            let (set, left) = self.streams[at].1[index];
            self.nodes += 1;
            self.chosen.push(Choice {
                rate: own,
                set,
                left,
            });
            if can_share(&self.chosen) {
                self.descend(at + 1, rate + own);
            }
            self.chosen.pop();
        }
        self.is_placed[at] = false;
        if !self.needs_all {
            self.descend(at + 1, rate);
        }
    }
}

/// True if shares exist with which every stream of `chosen`, in order of precedence, gets the capacity it needs.
fn can_share(chosen: &[Choice]) -> bool {
    // One variable for each path of each stream that is divided.
    let mut variables: Vec<(usize, usize)> = Vec::new();
    for (stream, choice) in chosen.iter().enumerate() {
        if !is_one(choice.set) {
            variables.extend(choice.set.iter().map(|path| (stream, path)));
        }
    }
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for (stream, choice) in chosen.iter().enumerate() {
        let before = &chosen[..stream];
        let fixed = before.iter().filter(|other| is_one(other.set));
        let fixed: f64 = fixed
            .filter(|other| other.set.iter().all(|path| choice.set.contains(path)))
            .map(|other| other.rate)
            .sum();
        let left = choice.left - fixed;
        if left < 0.0 {
            return false;
        }
        let is_before =
            |&(other, path): &(usize, usize)| other < stream && choice.set.contains(path);
        let row: Vec<f64> = variables.iter().map(|v| f64::from(is_before(v))).collect();
        if row.contains(&1.0) {
            rows.push((row, left));
        }
    }
    if rows.is_empty() {
        return true;
    }
    let mut wanted = 0.0;
    for (stream, choice) in chosen.iter().enumerate() {
        if !is_one(choice.set) {
            let row = variables.iter().map(|&(of, _)| f64::from(of == stream));
            rows.push((row.collect(), choice.rate));
            wanted += choice.rate;
        }
    }
    largest_sum(rows) >= wanted - EQUAL_MBPS
}

fn is_one(set: ChannelMask) -> bool {
    set.iter().nth(1).is_none()
}

/// max Σ x subject to a·x ≤ b for each row (a, b), x ≥ 0; b must not be negative, and every variable bounded
/// by some row. Dense tableau, Bland's rule.
fn largest_sum(rows: Vec<(Vec<f64>, f64)>) -> f64 {
    let variables = rows.first().map_or(0, |(row, _)| row.len());
    let slacks = rows.len();
    let width = variables + slacks + 1;
    let mut tableau: Vec<Vec<f64>> = Vec::with_capacity(slacks);
    for (index, (row, bound)) in rows.into_iter().enumerate() {
        let mut line = row;
        line.resize(width, 0.0);
        line[variables + index] = 1.0;
        line[width - 1] = bound;
        tableau.push(line);
    }
    // Gain of one more unit of each column.
    let mut gains = vec![0.0; width];
    gains[..variables].fill(1.0);
    let mut basis: Vec<usize> = (variables..variables + slacks).collect();
    while let Some(enters) = (0..width - 1).find(|&column| gains[column] > EPSILON) {
        let ratio = |row: usize| tableau[row][width - 1] / tableau[row][enters];
        let leaves = (0..slacks)
            .filter(|&row| tableau[row][enters] > EPSILON)
            .min_by(|&a, &b| {
                let (one, other) = (ratio(a), ratio(b));
                if (one - other).abs() <= EPSILON {
                    basis[a].cmp(&basis[b])
                } else {
                    one.total_cmp(&other)
                }
            });
        let Some(leaves) = leaves else {
            return f64::INFINITY;
        };
        let pivot = tableau[leaves][enters];
        for value in &mut tableau[leaves] {
            *value /= pivot;
        }
        let line = tableau[leaves].clone();
        let reduce = |row: &mut Vec<f64>| {
            let factor = row[enters];
            if factor != 0.0 {
                for (value, by) in row.iter_mut().zip(&line) {
                    *value -= factor * by;
                }
            }
        };
        for (index, row) in tableau.iter_mut().enumerate() {
            if index != leaves {
                reduce(row);
            }
        }
        reduce(&mut gains);
        basis[leaves] = enters;
    }
    // The last cell has counted down from 0.
    -gains[width - 1]
}

#[cfg(test)]
mod tests {
    use anabranch_admission::mapping::{Term, map};
    use anabranch_base::{Rate, StreamId};
    use anabranch_spec::Guarantee;
    use proptest::prelude::*;

    use super::*;
    use crate::experiments::admission::Rows;

    /// A request with id `id` for `mbps` Mbit/s.
    fn request(id: u64, mbps: u64, probability: f64, is_divisible: bool) -> Request {
        let guarantee = Guarantee::rate(Rate::from_mbps(mbps), probability);
        Request {
            is_divisible,
            ..Request::new(StreamId(id), &guarantee, Term::Renewable)
        }
    }

    fn constant(paths_mbps: &[f64]) -> Rows {
        Rows::new(vec![paths_mbps.iter().map(|mbps| mbps * 1e6).collect(); 4])
    }

    #[test]
    fn programs_worked_by_hand() {
        // x + y at most 3, x at most 2, y at most 2.
        let rows = vec![
            (vec![1.0, 1.0], 3.0),
            (vec![1.0, 0.0], 2.0),
            (vec![0.0, 1.0], 2.0),
        ];
        assert!((largest_sum(rows) - 3.0).abs() < 1e-9);
        // Three pairwise sums of at most 1: a half each.
        let rows = vec![
            (vec![1.0, 1.0, 0.0], 1.0),
            (vec![0.0, 1.0, 1.0], 1.0),
            (vec![1.0, 0.0, 1.0], 1.0),
        ];
        assert!((largest_sum(rows) - 1.5).abs() < 1e-9);
        let degenerate = vec![(vec![1.0], 0.0), (vec![1.0], 5.0)];
        assert_eq!(largest_sum(degenerate), 0.0);
    }

    #[test]
    fn streams_that_fill_paths_completely() {
        // 3 and 4 on the 7, 5 on the 5.
        let mut capacity = constant(&[7.0, 5.0]);
        let all = [
            request(1, 3, 0.99, false),
            request(3, 4, 0.95, false),
            request(5, 5, 0.9, false),
        ];
        assert_eq!(fits(&all, &mut capacity), Ok(true));
        let mut tight = constant(&[6.0, 5.0]);
        assert_eq!(fits(&all, &mut tight), Ok(false));
        let chosen = best(&all, &mut tight).expect("small");
        assert_eq!(chosen.is_placed, [false, true, true]);
        assert!((chosen.rate_bps - 9e6).abs() < 10.0, "{chosen:?}");
        let ordered = in_order(&all, &[0, 1, 2], &mut tight).expect("small");
        assert_eq!(ordered.is_placed, [true, true, false]);
    }

    #[test]
    fn shares_that_no_fixed_rule_finds() {
        // The first is divided; the second's needs on path 0 leave 2 there for the first.
        let mut capacity = constant(&[6.0, 6.0]);
        let all = [request(1, 8, 0.99, true), request(3, 4, 0.9, false)];
        assert_eq!(fits(&all, &mut capacity), Ok(true));
        let more = [request(1, 8, 0.99, true), request(3, 7, 0.9, false)];
        assert_eq!(fits(&more, &mut capacity), Ok(false));
        // Halved, as by the rule, the first leaves the second 2 on either path.
        assert!(map(&all, &mut capacity).is_err());
    }

    #[test]
    fn too_large_instances_are_not_answered() {
        let mut wide = constant(&[1.0; PATHS_MAX + 1]);
        let one = [request(1, 1, 0.9, true)];
        assert_eq!(fits(&one, &mut wide), Err(Unanswered::TooMuch));
        let mut capacity = constant(&[1.0]);
        let many: Vec<Request> = (0..=STREAMS_MAX as u64)
            .map(|id| request(id, 1, 0.9, true))
            .collect();
        assert_eq!(fits(&many, &mut capacity), Err(Unanswered::TooMuch));
    }

    /// Every choice of sets and of whole-number shares on two paths. With whole numbers for rates and
    /// capacities that is exact: with `x_j` on the first path and `r_j − x_j` on the second, constraints are
    /// sums over streams that follow each other among those divided (an interval matrix, which is totally
    /// unimodular).
    fn by_force(requests: &[Request], capacity: &mut Rows, load: [i64; 2]) -> bool {
        let Some((first, rest)) = requests.split_first() else {
            return true;
        };
        let Demand::Rate { rate, probability } = first.demand else {
            unreachable!()
        };
        let rate = (rate.as_bps() / 1_000_000) as i64;
        let mut holds = |bits: usize| {
            let members = (0..2).filter(|path| bits >> path & 1 == 1);
            let set = members.fold(ChannelMask::NONE, ChannelMask::with);
            let holds = capacity.holds(set, probability, Term::Renewable);
            (holds.expect("rows") / 1e6).round() as i64
        };
        let holds = [0, holds(1), holds(2), holds(3)];
        let mut splits = Vec::new();
        if load[0] + rate <= holds[1] {
            splits.push([rate, 0]);
        }
        if load[1] + rate <= holds[2] {
            splits.push([0, rate]);
        }
        if first.is_divisible && load[0] + load[1] + rate <= holds[3] {
            splits.extend((0..=rate).map(|one| [one, rate - one]));
        }
        splits
            .into_iter()
            .any(|[one, other]| by_force(rest, capacity, [load[0] + one, load[1] + other]))
    }

    prop_compose! {
        fn instance(paths: usize)(
            rows in prop::collection::vec(prop::collection::vec(0_u32..12, paths), 4..12),
            streams in prop::collection::vec((1_u64..7, 0_usize..4, any::<bool>()), 1..5),
        ) -> (Rows, Vec<Request>) {
            let levels = [0.5, 0.75, 0.9, 0.99];
            let mut requests: Vec<Request> = streams
                .iter()
                .enumerate()
                .map(|(id, &(mbps, level, is_divisible))| {
                    request(id as u64, mbps, levels[level], is_divisible)
                })
                .collect();
            Request::sort(&mut requests);
            let row = |row: Vec<u32>| row.iter().map(|mbps| f64::from(*mbps) * 1e6).collect();
            (Rows::new(rows.into_iter().map(row).collect()), requests)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_brute_force((mut capacity, requests) in instance(2)) {
            let forced = by_force(&requests, &mut capacity, [0, 0]);
            prop_assert_eq!(fits(&requests, &mut capacity), Ok(forced));
            // The best subset, too.
            let mut most = 0.0;
            for bits in 0..1_usize << requests.len() {
                let some: Vec<Request> = requests
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| bits >> index & 1 == 1)
                    .map(|(_, request)| request.clone())
                    .collect();
                if by_force(&some, &mut capacity, [0, 0]) {
                    most = f64::max(most, some.iter().map(|request| request.rate_bps).sum());
                }
            }
            let chosen = best(&requests, &mut capacity).expect("small");
            prop_assert!((chosen.rate_bps - most).abs() < 10.0, "{} {most}", chosen.rate_bps);
        }

        #[test]
        fn placements_of_the_heuristic_are_feasible((mut capacity, requests) in instance(3)) {
            if map(&requests, &mut capacity).is_ok() {
                prop_assert_eq!(fits(&requests, &mut capacity), Ok(true));
            }
            let all = best(&requests, &mut capacity).expect("small");
            let arrival: Vec<usize> = (0..requests.len()).collect();
            let ordered = in_order(&requests, &arrival, &mut capacity).expect("small");
            prop_assert!(ordered.rate_bps <= all.rate_bps + 10.0);
        }
    }
}

//! Rounding of fractions of probes to whole ones.

use super::exchange::Design;

/// Candidates from which probes are taken in one exchange: those with the least informative probes.
const GIVERS: usize = 16;
/// Approximate number of evaluations of the criterion for exchanges; bounds the time for large overlays.
const EVALUATIONS: usize = 200_000;
/// Part of the remaining budget that is spent at once when filling up.
const PORTION: f64 = 0.02;

/// Numbers of whole probes under construction.
struct Counts {
    costs: Vec<f64>,
    counts: Vec<u64>,
    left: f64,
}

/// Counts by task and size that cost at most the budget: the better of the rounded continuous design and of `other`, both
/// improved by single exchanges. `design` becomes that of these counts.
pub(super) fn whole(
    design: &mut Design<'_>,
    budget_bytes: u64,
    other: &[Vec<u64>],
) -> Vec<Vec<u64>> {
    // A value just below a whole number counts as that number.
    let pairs = design.spent.iter().zip(&design.candidates);
    let rounded: Vec<u64> = pairs
        .map(|(spent, candidate)| (spent / candidate.cost + 1e-6).floor() as u64)
        .collect();
    let other: Vec<u64> = other.iter().flatten().copied().collect();
    let mut best: Option<(f64, Vec<u64>)> = None;
    for start in [rounded, other] {
        let mut whole = Counts::new(design, budget_bytes, &start);
        whole.fill(design);
        whole.improve(design);
        let loss = design.total();
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, whole.counts));
        }
    }
    let counts = best.map_or_else(Vec::new, |(_, counts)| counts);
    let tasks = design.candidates.last().map_or(0, |last| last.task + 1);
    let mut by_task = vec![Vec::new(); tasks];
    for (candidate, count) in design.candidates.iter().zip(counts) {
        debug_assert_eq!(candidate.size, by_task[candidate.task].len());
        by_task[candidate.task].push(count);
    }
    by_task
}

impl Counts {
    /// The given counts, as far as they fit.
    fn new(design: &mut Design<'_>, budget_bytes: u64, start: &[u64]) -> Self {
        let mut whole = Self {
            costs: design.candidates.iter().map(|c| c.cost).collect(),
            counts: vec![0; design.candidates.len()],
            left: budget_bytes as f64,
        };
        design.clear();
        for (at, &count) in start.iter().enumerate() {
            let fits = (whole.left / whole.costs[at]).floor();
            whole.add(design, at, (count as f64).min(fits));
        }
        whole
    }

    /// Spends the rest on the probes that gain most per byte and fit.
    fn fill(&mut self, design: &mut Design<'_>) {
        loop {
            let fitting = (0..self.costs.len()).filter(|&at| self.costs[at] <= self.left);
            let gains = fitting.map(|at| {
                let task = design.candidates[at].task;
                let gain =
                    design.loss_with(task, &[]) - design.loss_with(task, &[(at, self.costs[at])]);
                (gain / self.costs[at], at)
            });
            let Some((_, at)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            let count = (self.left * PORTION / self.costs[at]).floor().max(1.0);
            self.add(design, at, count);
        }
    }

    /// Replaces probes of one candidate by one or more of another, as long as that is better.
    fn improve(&mut self, design: &mut Design<'_>) {
        let candidates = self.costs.len();
        for _ in 0..EVALUATIONS / (GIVERS * candidates).max(1) {
            let best = self
                .givers(design)
                .into_iter()
                .filter_map(|from| self.exchange(design, from));
            let Some((change, moves)) = best.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            if change >= -1e-9 * design.total().abs() {
                return;
            }
            for (at, count) in moves {
                self.add(design, at, count);
            }
        }
    }

    /// The used candidates whose last probe is least informative for its bytes.
    fn givers(&self, design: &Design<'_>) -> Vec<usize> {
        let used = (0..self.costs.len()).filter(|&at| self.counts[at] > 0);
        let mut losses: Vec<(f64, usize)> = used
            .map(|at| {
                let task = design.candidates[at].task;
                let loss =
                    design.loss_with(task, &[(at, -self.costs[at])]) - design.loss_with(task, &[]);
                (loss / self.costs[at], at)
            })
            .collect();
        losses.sort_by(|a, b| a.0.total_cmp(&b.0));
        losses.into_iter().take(GIVERS).map(|(_, at)| at).collect()
    }

    /// Best use of the cost of some probes of a candidate: the change of the criterion, and the changes of counts.
    fn exchange(&self, design: &Design<'_>, from: usize) -> Option<(f64, [(usize, f64); 2])> {
        let giver = design.candidates[from].task;
        let base = design.loss_with(giver, &[]);
        let others = (0..self.costs.len()).filter(|&to| to != from);
        let changes = others.filter_map(|to| {
            let short = (self.costs[to] - self.left) / self.costs[from];
            let given = short.ceil().max(1.0);
            if given > self.counts[from] as f64 {
                return None;
            }
            let taken = ((self.left + given * self.costs[from]) / self.costs[to]).floor();
            let less = (from, -given * self.costs[from]);
            let more = (to, taken * self.costs[to]);
            let taker = design.candidates[to].task;
            let change = if taker == giver {
                design.loss_with(giver, &[less, more]) - base
            } else {
                design.loss_with(giver, &[less]) - base + design.loss_with(taker, &[more])
                    - design.loss_with(taker, &[])
            };
            Some((change, [(from, -given), (to, taken)]))
        });
        changes.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn add(&mut self, design: &mut Design<'_>, at: usize, count: f64) {
        if count == 0.0 {
            return;
        }
        design.spend(at, self.costs[at] * count);
        design.refresh(design.candidates[at].task);
        self.counts[at] = self.counts[at].saturating_add_signed(count as i64);
        self.left -= self.costs[at] * count;
    }
}

//! Continuous design: bytes move from the least informative probe to the most informative one.

use std::cmp::Ordering;

use super::{Criterion, Symmetric, Task};

/// Largest number of exchanges per candidate.
const EXCHANGES: usize = 20;
/// Largest number of exchanges between two passes over all candidates; below it, one for this many candidates.
const BATCHES: usize = 16;
const BATCH_MAX: usize = 256;
/// Gain per parameter (D), or relative gain (A), below which the search ends.
const GAP_ENOUGH: f64 = 1e-3;
/// Bisection steps in the search for the number of bytes to move.
const HALVINGS: u32 = 40;
/// Bytes below which a candidate no longer counts as used, relative to the budget.
const NOTHING: f64 = 1e-12;

/// A candidate: one size of a link's probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) task: usize,
    /// Index among the sizes of the task.
    pub(super) size: usize,
    pub(super) bytes: u64,
    pub(super) cost: f64,
    /// 1/σ².
    precision: f64,
}

/// Bytes spent on every candidate, and the information that they yield.
#[derive(Debug)]
pub(super) struct Design<'a> {
    tasks: &'a [Task],
    criterion: Criterion,
    pub(super) candidates: Vec<Candidate>,
    /// Index of the first candidate of each task; and the end.
    first: Vec<usize>,
    /// Bytes spent.
    pub(super) spent: Vec<f64>,
    /// Inverse covariance of each task.
    information: Vec<Symmetric>,
    /// Gain of one more byte on each candidate.
    pub(super) gains: Vec<f64>,
    budget: f64,
}

impl<'a> Design<'a> {
    /// Divides the budget equally among links, and between their extreme sizes.
    pub(super) fn new(tasks: &'a [Task], criterion: Criterion, budget: f64) -> Self {
        let mut design = Self {
            tasks,
            criterion,
            candidates: Vec::new(),
            first: vec![0],
            spent: Vec::new(),
            information: tasks
                .iter()
                .map(|task| task.belief.covariance.inverse())
                .collect(),
            gains: Vec::new(),
            budget,
        };
        let probed = tasks.iter().filter(|task| !task.sizes.is_empty()).count();
        let share = budget / probed.max(1) as f64;
        for (task, index) in tasks.iter().zip(0..) {
            let extremes = [task.sizes.iter().min(), task.sizes.iter().max()];
            let ends = if extremes[0] == extremes[1] { 1.0 } else { 2.0 };
            let mut left = ends as usize;
            for (&bytes, size) in task.sizes.iter().zip(0..) {
                let noise_s = task.noise.deviation_s(bytes);
                design.candidates.push(Candidate {
                    task: index,
                    size,
                    bytes,
                    cost: (bytes + task.overhead_bytes).max(1) as f64,
                    precision: 1.0 / (noise_s * noise_s),
                });
                let is_extreme = extremes.contains(&Some(&bytes)) && left > 0;
                left -= usize::from(is_extreme);
                design.spent.push(0.0);
                if is_extreme {
                    design.spend(design.spent.len() - 1, share / ends);
                }
            }
            design.first.push(design.candidates.len());
        }
        design.gains = vec![0.0; design.candidates.len()];
        (0..tasks.len()).for_each(|task| design.refresh(task));
        design
    }

    /// Spends bytes more (or fewer) on a candidate; gains are not refreshed.
    pub(super) fn spend(&mut self, at: usize, bytes: f64) {
        let candidate = self.candidates[at];
        self.spent[at] = (self.spent[at] + bytes).max(0.0);
        self.information[candidate.task] = self.information_with(candidate, bytes);
    }

    fn information_with(&self, candidate: Candidate, bytes: f64) -> Symmetric {
        let weight = bytes / candidate.cost * candidate.precision;
        self.information[candidate.task] + Symmetric::of_size(candidate.bytes) * weight
    }

    /// Recomputes the gains of a task's candidates after something was spent there. The information is summed up anew, so
    /// that rounding errors do not accumulate.
    pub(super) fn refresh(&mut self, task: usize) {
        let range = self.first[task]..self.first[task + 1];
        let mut information = self.tasks[task].belief.covariance.inverse();
        for at in range.clone() {
            let Candidate {
                bytes,
                cost,
                precision,
                ..
            } = self.candidates[at];
            information =
                information + Symmetric::of_size(bytes) * (self.spent[at] / cost * precision);
        }
        self.information[task] = information;
        let covariance = information.inverse();
        for at in range {
            self.gains[at] = self.gain(&covariance, self.candidates[at]);
        }
    }

    /// Gain of the first additional byte on a candidate: the derivative of the criterion.
    fn gain(&self, covariance: &Symmetric, candidate: Candidate) -> f64 {
        let derivative = match self.criterion {
            Criterion::D => covariance.at_size(candidate.bytes),
            Criterion::A => {
                covariance.sandwich_at(&self.tasks[candidate.task].interest, candidate.bytes)
            }
        };
        derivative * candidate.precision / candidate.cost
    }

    /// The criterion of one task with this information; less is better.
    fn loss(&self, task: usize, information: &Symmetric) -> f64 {
        match self.criterion {
            Criterion::D => -information.determinant().ln(),
            Criterion::A => information
                .inverse()
                .product_trace(&self.tasks[task].interest),
        }
    }

    /// The criterion of one task if more (or fewer) bytes were spent on some of its candidates.
    pub(super) fn loss_with(&self, task: usize, changes: &[(usize, f64)]) -> f64 {
        let mut information = self.information[task];
        for &(at, bytes) in changes {
            let candidate = self.candidates[at];
            let weight = bytes / candidate.cost * candidate.precision;
            information = information + Symmetric::of_size(candidate.bytes) * weight;
        }
        self.loss(task, &information)
    }

    /// The criterion of all tasks; less is better.
    pub(super) fn total(&self) -> f64 {
        let all = self.information.iter().zip(0..);
        all.map(|(information, task)| self.loss(task, information))
            .sum()
    }

    /// Resets to nothing spent.
    pub(super) fn clear(&mut self) {
        self.spent.fill(0.0);
        (0..self.tasks.len()).for_each(|task| self.refresh(task));
    }

    /// Exchanges until little is to be gained; returns an upper bound on the remaining gain.
    pub(super) fn exchange(&mut self) -> f64 {
        if self.candidates.is_empty() || self.budget <= 0.0 {
            return 0.0;
        }
        let batch = (self.candidates.len() / BATCHES).clamp(1, BATCH_MAX);
        for _ in 0..EXCHANGES * self.candidates.len() / batch {
            let (givers, takers) = self.extremes(batch);
            let Some(&most) = takers.first() else {
                break;
            };
            if self.gap(most) < GAP_ENOUGH {
                break;
            }
            let pairs = givers.into_iter().zip(takers);
            if pairs.filter(|&(from, to)| self.shift(from, to)).count() == 0 {
                break;
            }
        }
        let (_, takers) = self.extremes(1);
        takers.first().map_or(0.0, |&most| self.gap(most))
    }

    /// Moves bytes from one candidate to another as far as that helps. Returns true if any were moved.
    fn shift(&mut self, from: usize, to: usize) -> bool {
        // Earlier exchanges may have changed the gains of both.
        if self.gains[from] >= self.gains[to] {
            return false;
        }
        let bytes = self.worth_moving(from, to);
        if bytes <= 0.0 {
            return false;
        }
        // Exactly zero, not a rounding error.
        let is_all = self.spent[from] - bytes <= NOTHING * self.budget;
        self.spend(from, if is_all { -self.spent[from] } else { -bytes });
        self.spend(to, bytes);
        let tasks = [from, to].map(|at| self.candidates[at].task);
        self.refresh(tasks[0]);
        if tasks[1] != tasks[0] {
            self.refresh(tasks[1]);
        }
        true
    }

    /// The used candidates of least gain, and those of greatest gain among all, in order.
    fn extremes(&self, count: usize) -> (Vec<usize>, Vec<usize>) {
        let all = 0..self.candidates.len();
        let by_gain = |a: &usize, b: &usize| self.gains[*a].total_cmp(&self.gains[*b]);
        let used: Vec<usize> = all.clone().filter(|&at| self.spent[at] > 0.0).collect();
        let first = |mut places: Vec<usize>, order: &dyn Fn(&usize, &usize) -> Ordering| {
            if places.len() > count {
                places.select_nth_unstable_by(count, order);
                places.truncate(count);
            }
            places.sort_by(order);
            places
        };
        let takers = first(all.collect(), &|a, b| by_gain(b, a).then(a.cmp(b)));
        (first(used, &|a, b| by_gain(a, b).then(a.cmp(b))), takers)
    }

    /// Upper bound on how much better any other design could be [equivalence theorem; the criterion is convex].
    fn gap(&self, most: usize) -> f64 {
        let spent = self.spent.iter().zip(&self.gains);
        let present: f64 = spent.map(|(spent, gain)| spent * gain).sum();
        let gap = (self.budget * self.gains[most] - present).max(0.0);
        match self.criterion {
            Criterion::D => gap / (2 * self.tasks.len()) as f64,
            Criterion::A => gap / self.total(),
        }
    }

    /// Number of bytes to move from one candidate to another: until both gain the same, or all.
    fn worth_moving(&self, from: usize, to: usize) -> f64 {
        let (giver, taker) = (self.candidates[from], self.candidates[to]);
        let is_worth = |bytes: f64| {
            let mut given = self.information_with(giver, -bytes);
            let mut taken = self.information_with(taker, bytes);
            if giver.task == taker.task {
                let weight = bytes / taker.cost * taker.precision;
                given = given + Symmetric::of_size(taker.bytes) * weight;
                taken = given;
            }
            let gain = |information: &Symmetric, candidate| {
                let determinant = information.determinant();
                if determinant > 0.0 {
                    self.gain(&information.inverse(), candidate)
                } else {
                    f64::INFINITY
                }
            };
            gain(&taken, taker) >= gain(&given, giver)
        };
        let (mut enough, mut too_much) = (0.0, self.spent[from]);
        if is_worth(too_much) {
            return too_much;
        }
        for _ in 0..HALVINGS {
            let middle = (enough + too_much) / 2.0;
            if is_worth(middle) {
                enough = middle;
            } else {
                too_much = middle;
            }
        }
        enough
    }
}

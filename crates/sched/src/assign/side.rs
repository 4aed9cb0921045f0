//! One of the two sides of a matching.

use super::Utility;

/// A node without a mate.
pub(super) const NONE: usize = usize::MAX;

/// Entries by which a line is longer than it needs to be.
const PADDING: usize = 8;

/// Rows or columns, with what each costs against every node of the other side.
///
/// Costs are the negatives of utilities. Both sides keep the whole matrix, each with its own nodes as lines, so that
/// either reads along its lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    /// Dual prices.
    pub price: Vec<Utility>,
    /// What it costs to be left out.
    pub out: Vec<Utility>,
    /// The mate on the other side, or [`NONE`].
    pub mate: Vec<usize>,
    /// It came or changed since the assignment was the best.
    pub is_loose: Vec<bool>,
    costs: Vec<Utility>,
    /// Room of a line: at least the number of nodes on the other side.
    stride: usize,
}

impl Side {
    pub(super) fn len(&self) -> usize {
        self.mate.len()
    }

    /// Costs of a node against the first `others` nodes of the other side.
    pub(super) fn line(&self, node: usize, others: usize) -> &[Utility] {
        &self.costs[node * self.stride..][..others]
    }

    pub(super) fn line_mut(&mut self, node: usize, others: usize) -> &mut [Utility] {
        &mut self.costs[node * self.stride..][..others]
    }

    pub(super) fn set(&mut self, node: usize, other: usize, cost: Utility) {
        self.costs[node * self.stride + other] = cost;
    }

    /// Makes room for so many nodes on the other side.
    pub(super) fn widen(&mut self, others: usize) {
        if others <= self.stride {
            return;
        }
        // Not a power of two: entries of one node in all lines would share a few lines of the processor's cache.
        let stride = others.next_power_of_two() + PADDING;
        let mut costs = vec![0; self.len() * stride];
        for (node, line) in costs.chunks_exact_mut(stride).enumerate() {
            line[..self.stride].copy_from_slice(&self.costs[node * self.stride..][..self.stride]);
        }
        (self.costs, self.stride) = (costs, stride);
    }

    /// Adds a node without a mate and returns its index.
    pub(super) fn push(&mut self, out: Utility) -> usize {
        self.price.push(0);
        self.out.push(out);
        self.mate.push(NONE);
        self.is_loose.push(false);
        self.costs.resize(self.len() * self.stride, 0);
        self.len() - 1
    }

    /// Removes a node; the last one takes its place.
    pub(super) fn swap_remove(&mut self, node: usize) {
        let last = self.len() - 1;
        self.price.swap_remove(node);
        self.out.swap_remove(node);
        self.mate.swap_remove(node);
        self.is_loose.swap_remove(node);
        let line = last * self.stride..(last + 1) * self.stride;
        self.costs.copy_within(line.clone(), node * self.stride);
        self.costs.truncate(line.start);
    }

    /// In every line, the entry for the other side's last node takes the place of that for `other`.
    pub(super) fn swap_remove_other(&mut self, other: usize, others: usize) {
        for node in 0..self.len() {
            let line = &mut self.costs[node * self.stride..][..others];
            line[other] = line[others - 1];
        }
    }

    pub(super) fn clear(&mut self) {
        self.price.clear();
        self.out.clear();
        self.mate.clear();
        self.is_loose.clear();
        self.costs.clear();
    }
}

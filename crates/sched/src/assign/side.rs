//! One of the two sides of a matching.

use super::Utility;

/// A node without a mate.
pub(super) const NONE: usize = usize::MAX;

/// Rows or columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    /// Dual prices.
    pub price: Vec<Utility>,
    /// Cost of being left out.
    pub out: Vec<Utility>,
    /// The mate on the other side, or [`NONE`].
    pub mate: Vec<usize>,
    /// It came or changed since the assignment was the best.
    pub is_loose: Vec<bool>,
}

impl Side {
    pub(super) fn len(&self) -> usize {
        self.mate.len()
    }

    /// Adds a node without a mate and returns its index.
    pub(super) fn push(&mut self, out: Utility) -> usize {
        self.price.push(0);
        self.out.push(out);
        self.mate.push(NONE);
        self.is_loose.push(false);
        self.len() - 1
    }

    /// Removes a node; the last one takes its place.
    pub(super) fn swap_remove(&mut self, node: usize) {
        self.price.swap_remove(node);
        self.out.swap_remove(node);
        self.mate.swap_remove(node);
        self.is_loose.swap_remove(node);
    }

    pub(super) fn clear(&mut self) {
        self.price.clear();
        self.out.clear();
        self.mate.clear();
        self.is_loose.clear();
    }
}

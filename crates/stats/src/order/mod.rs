//! The distribution of the last N samples, kept in order while samples come and go.
//!
//! [`Window`] answers F(b), quantiles and the partial mean M\[b\] = E\[b·1{b ≤ b₀}\], the inputs of
//! Lemma 1 and Lemma 2 [IQ-Paths §V-B]. It is a treap (Aragon and Seidel, 1989) whose nodes are the
//! slots of a ring, so nothing is allocated after construction; every node carries the number and the
//! sum of the values below it. Insertion, removal and every query cost O(log N), expected over the
//! node priorities, which come from a fixed sequence: the same samples give the same tree.
//!
//! A sorted array would answer quantiles faster, but its partial mean is O(N), and its insertion is O(N)
//! as well; measured at N = 1000 in `benches/statistics.rs`.

#[cfg(test)]
mod tests;
mod tree;

use tree::{NONE, Tree};

/// The value is not a number or is infinite; the window is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sample must be a finite number")]
pub struct NotFinite;

/// A sliding window over the last `capacity` values, in order of size.
///
/// The unit of the values is the caller's (bits per second, ratios, seconds).
#[derive(Debug, Clone)]
pub struct Window {
    tree: Tree,
    /// Slot that the next value takes; the oldest value's when the window is full.
    next: u32,
    len: u32,
}

impl Window {
    /// An empty window for `capacity` values.
    ///
    /// # Panics
    /// When `capacity` is 0 or above 2³¹.
    pub fn new(capacity: usize) -> Self {
        assert!(
            (1..=1 << 31).contains(&capacity),
            "a window holds 1 to 2^31 values, not {capacity}"
        );
        Self {
            tree: Tree::new(capacity as u32),
            next: 0,
            len: 0,
        }
    }

    /// Adds a value; returns the oldest, which leaves when the window is full. O(log N).
    ///
    /// # Errors
    /// [`NotFinite`] when the value is NaN or infinite.
    pub fn push(&mut self, value: f64) -> Result<Option<f64>, NotFinite> {
        if !value.is_finite() {
            return Err(NotFinite);
        }
        let oldest = if self.is_full() {
            self.remove_oldest()
        } else {
            None
        };
        self.tree.insert(self.next, value);
        self.next = (self.next + 1) % self.tree.capacity();
        self.len += 1;
        Ok(oldest)
    }

    /// Removes and returns the oldest value; `None` when the window is empty. O(log N).
    pub fn remove_oldest(&mut self) -> Option<f64> {
        if self.len == 0 {
            return None;
        }
        let capacity = self.tree.capacity();
        let slot = (self.next + capacity - self.len) % capacity;
        self.len -= 1;
        Some(self.tree.remove(slot))
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the next value will drive out the oldest.
    pub fn is_full(&self) -> bool {
        self.len == self.tree.capacity()
    }

    /// The number of values that the window can hold.
    pub fn capacity(&self) -> usize {
        self.tree.capacity() as usize
    }

    /// F(b): the share of values at most `b`; `None` when the window is empty. O(log N).
    pub fn cdf(&self, b: f64) -> Option<f64> {
        (self.len > 0).then(|| f64::from(self.tree.below(b, true).0) / f64::from(self.len))
    }

    /// The share of values strictly below `b`; `None` when the window is empty. O(log N).
    ///
    /// This is the chance that a promise of `b` is broken: a promise is kept by a value equal to it.
    pub fn cdf_below(&self, b: f64) -> Option<f64> {
        (self.len > 0).then(|| f64::from(self.tree.below(b, false).0) / f64::from(self.len))
    }

    /// M\[b₀\] = E\[b·1{b ≤ b₀}\], the partial mean of Lemma 2 [IQ-Paths §V-B]: the sum of the values at
    /// most `b`, over the number of all values. `None` when the window is empty. O(log N).
    pub fn partial_mean(&self, b: f64) -> Option<f64> {
        (self.len > 0).then(|| self.tree.below(b, true).1 / f64::from(self.len))
    }

    /// The mean of all values; `None` when the window is empty. O(1).
    pub fn mean(&self) -> Option<f64> {
        (self.len > 0).then(|| self.tree.sum() / f64::from(self.len))
    }

    /// The smallest value b with F(b) ≥ `p`; the smallest of all for `p` ≤ 0, the largest for
    /// `p` ≥ 1. `None` when the window is empty or `p` is NaN. O(log N).
    pub fn quantile(&self, p: f64) -> Option<f64> {
        if self.len == 0 || p.is_nan() {
            return None;
        }
        // The product may round up past the whole number that it stands for.
        let rank = (p * f64::from(self.len) - 1e-9).ceil() as i64 - 1;
        Some(self.nth(rank.clamp(0, i64::from(self.len) - 1) as usize))
    }

    /// The quantile at `p` of the next value, for values that cannot be negative: the k-th of n values
    /// stands at k/(n+1), with straight lines between them and down to 0 at `p` = 0.
    ///
    /// Unlike [`quantile`](Self::quantile) it moves continuously with `p`, and below the smallest value it
    /// goes on towards 0, because n values say nothing of what happens once in more than n. `None` when
    /// the window is empty or `p` is NaN. O(log N).
    pub fn quantile_of_next(&self, p: f64) -> Option<f64> {
        if self.len == 0 || p.is_nan() {
            return None;
        }
        let position = p * (f64::from(self.len) + 1.0) - 1.0;
        if position <= 0.0 {
            return Some(self.nth(0) * (position + 1.0).max(0.0));
        }
        let below = position.floor();
        let rank = below as usize;
        if rank + 1 >= self.len() {
            return Some(self.nth(self.len() - 1));
        }
        let (low, high) = (self.nth(rank), self.nth(rank + 1));
        Some(low + (high - low) * (position - below))
    }

    /// The smallest value. O(log N).
    pub fn min(&self) -> Option<f64> {
        (self.len > 0).then(|| self.nth(0))
    }

    /// The largest value. O(log N).
    pub fn max(&self) -> Option<f64> {
        (self.len > 0).then(|| self.nth(self.len() - 1))
    }

    /// Values from the smallest to the largest.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.len()).map(|rank| self.nth(rank))
    }

    /// Calls `visit(value, slot)` from the smallest to the largest value. Slots are numbered in the order
    /// of arrival, modulo the capacity. O(N), without allocation.
    pub fn visit(&self, visit: &mut impl FnMut(f64, usize)) {
        self.tree.visit(visit);
    }

    /// The slot that the next value takes: arrivals modulo the capacity.
    pub fn next_slot(&self) -> usize {
        self.next as usize
    }

    fn nth(&self, rank: usize) -> f64 {
        let slot = self.tree.nth(rank as u32);
        debug_assert_ne!(slot, NONE, "rank {rank} of {}", self.len);
        self.tree.value(slot)
    }
}

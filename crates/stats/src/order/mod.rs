//! The distribution of the last N samples, kept in order while samples come and go.
//!
//! [`Window`] answers F(b), quantiles and the partial mean M\[b\] = E\[b·1{b ≤ b₀}\], the inputs of
//! Lemma 1 and Lemma 2 [IQ-Paths §V-B], and allocates only while it fills for the first time.
//!
//! It is a sorted array beside a ring. A value is found in O(log N) comparisons; what lies between the
//! place of the value that leaves and that of the value that comes moves by one, at most 12·N bytes of
//! adjacent memory. At the N of this crate, 500 to 1000, that is several times faster than a tree, which
//! takes O(log N) steps that each miss the branch predictor: a treap of counts and sums took three times as
//! long for insertion and quantile at N = 1000 (`docs/results/statistics.md`). Sums are added up when asked for,
//! so they do not drift.

#[cfg(test)]
mod tests;

use crate::growing;

/// The value is not a number or is infinite; the window is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sample must be a finite number")]
pub struct NotFinite;

/// A sliding window over the last `capacity` values, in order of size.
///
/// The unit of the values is the caller's (bits per second, ratios, seconds). Memory: 20 bytes a value, at most twice as many
/// as were held at a time.
#[derive(Debug, Clone)]
pub struct Window {
    capacity: usize,
    /// By slot: values in the order of arrival, overwritten when the ring is full.
    ring: Vec<f64>,
    /// In increasing order of (value, slot).
    sorted: Vec<f64>,
    slots: Vec<u32>,
    /// Slot that the next value takes; the oldest value's when the window is full.
    next: usize,
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
            capacity,
            ring: Vec::new(),
            sorted: Vec::new(),
            slots: Vec::new(),
            next: 0,
        }
    }

    /// Adds a value; returns the oldest, which leaves when the window is full. O(log N) comparisons, and
    /// what lies between both moves.
    ///
    /// # Errors
    /// [`NotFinite`] when the value is NaN or infinite.
    pub fn push(&mut self, value: f64) -> Result<Option<f64>, NotFinite> {
        if !value.is_finite() {
            return Err(NotFinite);
        }
        let slot = self.next;
        // Where a hole is, and where the value belongs when that hole is counted.
        let (hole, oldest) = if self.is_full() {
            let oldest = self.ring[slot];
            (self.place(oldest, slot as u32), Some(oldest))
        } else {
            growing::push(&mut self.sorted, f64::INFINITY, self.capacity);
            growing::push(&mut self.slots, slot as u32, self.capacity);
            (self.sorted.len() - 1, None)
        };
        let place = self.place(value, slot as u32);
        let place = if hole < place {
            self.sorted.copy_within(hole + 1..place, hole);
            self.slots.copy_within(hole + 1..place, hole);
            place - 1
        } else {
            self.sorted.copy_within(place..hole, place + 1);
            self.slots.copy_within(place..hole, place + 1);
            place
        };
        self.sorted[place] = value;
        self.slots[place] = slot as u32;
        growing::set(&mut self.ring, slot, value, self.capacity);
        self.next = (slot + 1) % self.capacity;
        Ok(oldest)
    }

    /// Removes and returns the oldest value; `None` when the window is empty. O(log N) comparisons, and
    /// what is larger moves.
    pub fn remove_oldest(&mut self) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let slot = (self.next + self.capacity - self.len()) % self.capacity;
        let oldest = self.ring[slot];
        let place = self.place(oldest, slot as u32);
        self.sorted.remove(place);
        self.slots.remove(place);
        Some(oldest)
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// True if the next value will drive out the oldest.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// The number of values that the window can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// F(b): the share of values at most `b`; `None` when the window is empty. O(log N).
    pub fn cdf(&self, b: f64) -> Option<f64> {
        (!self.is_empty()).then(|| self.count_at_most(b) as f64 / self.len() as f64)
    }

    /// The share of values strictly below `b`; `None` when the window is empty. O(log N).
    ///
    /// This is the chance that a promise of `b` is broken: a promise is kept by a value equal to it.
    pub fn cdf_below(&self, b: f64) -> Option<f64> {
        let below = || self.values().partition_point(|x| *x < b);
        (!self.is_empty()).then(|| below() as f64 / self.len() as f64)
    }

    /// M\[b₀\] = E\[b·1{b ≤ b₀}\], the partial mean of Lemma 2 [IQ-Paths §V-B]: the sum of the values at
    /// most `b`, over the number of all values. `None` when the window is empty. One addition for each
    /// value at most `b`.
    pub fn partial_mean(&self, b: f64) -> Option<f64> {
        let below = || sum(&self.sorted[..self.count_at_most(b)]);
        (!self.is_empty()).then(|| below() / self.len() as f64)
    }

    /// The mean of all values; `None` when the window is empty. O(N).
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| sum(self.values()) / self.len() as f64)
    }

    /// The smallest value b with F(b) ≥ `p`; the smallest of all for `p` ≤ 0, the largest for
    /// `p` ≥ 1. `None` when the window is empty or `p` is NaN. O(1).
    pub fn quantile(&self, p: f64) -> Option<f64> {
        if self.is_empty() || p.is_nan() {
            return None;
        }
        // The product may round up past the whole number that it stands for.
        let rank = (p * self.len() as f64 - 1e-9).ceil() as usize;
        Some(self.sorted[rank.clamp(1, self.len()) - 1])
    }

    /// The quantile at `p` of the next value, for values that cannot be negative: the k-th of n values
    /// stands at k/(n+1), with straight lines between them and down to 0 at `p` = 0.
    ///
    /// Unlike [`quantile`](Self::quantile) it moves continuously with `p`, and below the smallest value it
    /// goes on towards 0, because n values give no information on what happens once in more than n. `None` when
    /// the window is empty or `p` is NaN. O(1).
    pub fn quantile_of_next(&self, p: f64) -> Option<f64> {
        if self.is_empty() || p.is_nan() {
            return None;
        }
        let position = p * (self.len() as f64 + 1.0) - 1.0;
        if position <= 0.0 {
            return Some(self.sorted[0] * (position + 1.0).max(0.0));
        }
        let below = position.floor();
        let rank = below as usize;
        if rank + 1 >= self.len() {
            return Some(self.sorted[self.len() - 1]);
        }
        let (low, high) = (self.sorted[rank], self.sorted[rank + 1]);
        Some(low + (high - low) * (position - below))
    }

    /// The smallest value. O(1).
    pub fn min(&self) -> Option<f64> {
        self.values().first().copied()
    }

    /// The largest value. O(1).
    pub fn max(&self) -> Option<f64> {
        self.values().last().copied()
    }

    /// The values from the smallest to the largest.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// The slots of [`values`](Self::values), in the same order. Slots are numbered in the order of arrival,
    /// modulo the capacity.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The slot that the next value takes: arrivals modulo the capacity.
    pub fn next_slot(&self) -> usize {
        self.next
    }

    fn count_at_most(&self, b: f64) -> usize {
        self.values().partition_point(|x| *x <= b)
    }

    /// Number of those before `value` in `slot`; its own place when it is there.
    fn place(&self, value: f64, slot: u32) -> usize {
        let values = self.values();
        let start = values.partition_point(|x| *x < value);
        if values.get(start) != Some(&value) {
            return start;
        }
        let equal = values[start..].partition_point(|x| *x == value);
        start + self.slots[start..start + equal].partition_point(|other| *other < slot)
    }
}

/// In four partial sums, which the processor adds at once.
fn sum(values: &[f64]) -> f64 {
    let mut lanes = [0.0; 4];
    let chunks = values.chunks_exact(4);
    let rest: f64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest
}

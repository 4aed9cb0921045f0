//! Numbers of the packets of each bucket, by which the exit restores the order of flows.
//!
//! Buckets are in ranges of [`BUCKETS`]: the first one is that of packets without a class, and each class has one, so that a flow does not
//! wait for one of another class. A flow that changes its class keeps its bucket, and with it its numbers.

use crate::packet::BUCKETS;

/// Classes at a time, of each side of a membership.
pub(crate) const CLASSES_MAX: usize = 16;
/// Number of all buckets.
pub(crate) const BUCKETS_ALL: u16 = BUCKETS * (1 + CLASSES_MAX as u16);

/// The first bucket of a class.
pub(crate) fn first_of(class: u8) -> u16 {
    BUCKETS * (1 + u16::from(class))
}

/// The next number of each bucket. Ranges that are not used take no memory.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    ranges: Vec<Vec<u32>>,
    /// True once there was a class.
    is_kept: bool,
}

impl Numbers {
    /// The number of the next packet of a bucket.
    pub(crate) fn next(&mut self, bucket: u16) -> u32 {
        let (range, place) = (bucket / BUCKETS, bucket % BUCKETS);
        let range = usize::from(range);
        if range >= self.ranges.len() {
            self.ranges.resize(range + 1, Vec::new());
        }
        let range = &mut self.ranges[range];
        if range.is_empty() {
            *range = vec![0; BUCKETS.into()];
        }
        let number = &mut range[usize::from(place)];
        let next = *number;
        *number = number.wrapping_add(1);
        next
    }

    /// Keeps the numbers from now on: flows may be elsewhere than their buckets show.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Forgets the numbers, if no packet without a class was sent for long.
    pub(crate) fn rest(&mut self) {
        if !self.is_kept {
            self.ranges = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_counts_by_itself_until_a_rest() {
        let mut numbers = Numbers::default();
        assert_eq!(
            [numbers.next(3), numbers.next(3), numbers.next(4)],
            [0, 1, 0]
        );
        let last = first_of(CLASSES_MAX as u8 - 1) + BUCKETS - 1;
        assert_eq!((last, numbers.next(last)), (BUCKETS_ALL - 1, 0));
        numbers.rest();
        assert_eq!(numbers.next(3), 0);
        numbers.keep();
        numbers.rest();
        assert_eq!(numbers.next(3), 1);
    }
}

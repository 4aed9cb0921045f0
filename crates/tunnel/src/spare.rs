//! Spare capacity of the paths for copies: whether the packets of flows that send little are sent on every path.
//!
//! A packet that is sent on every path arrives when the first copy does: neither the failure of a path nor a dip of its rate makes it
//! late. That costs what the copies take, so it is done while they are a small part of what the paths carry.

use std::time::Duration;

use anabranch::base::Instant;

/// Part of what the paths carry that copies may take.
const PART: f64 = 0.25;
/// Part of [`PART`] below which they begin again.
const AGAIN: f64 = 0.75;
/// Time in which the bytes are counted.
const WINDOW: Duration = Duration::from_millis(500);

/// Bytes that were handed over to be sent on every path.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    bytes: usize,
    since: Instant,
    is_on: bool,
}

impl Spare {
    /// Notes a packet.
    pub(crate) fn note(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Decides once in a while, by the rate of all paths in bytes per second and their number; `Some` if the decision is another one.
    pub(crate) fn follow(&mut self, now: Instant, bytes_per_s: f64, paths: usize) -> Option<bool> {
        let passed = now.since(self.since);
        if passed < WINDOW {
            return None;
        }
        let rate = self.bytes as f64 / passed.as_secs_f64();
        (self.bytes, self.since) = (0, now);
        let copies = rate * paths.saturating_sub(1) as f64;
        let limit = match self.is_on {
            true => PART,
            false => PART * AGAIN,
        };
        let is_on = paths > 1 && copies <= limit * bytes_per_s;
        (is_on != std::mem::replace(&mut self.is_on, is_on)).then_some(is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_a_small_part_of_what_the_paths_carry() {
        let mut spare = Spare::default();
        let mut millis = 1000;
        let mut second = |bytes: usize, paths: usize| {
            spare.note(bytes);
            millis += 1000;
            spare.follow(Instant::from_millis(millis), 1e6, paths)
        };
        assert_eq!(second(100_000, 1), None, "there is one path");
        assert_eq!(second(100_000, 2), Some(true));
        assert_eq!(second(100_000, 3), None);
        assert_eq!(second(130_000, 3), Some(false));
        assert_eq!(second(110_000, 3), None, "not yet");
        assert_eq!(second(90_000, 3), Some(true));
        assert_eq!(second(90_000, 1), Some(false));
        spare.note(1_000_000);
        let soon = Instant::from_millis(millis + 100);
        assert_eq!(spare.follow(soon, 1e6, 2), None);
    }
}

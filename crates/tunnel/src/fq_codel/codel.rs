//! CoDel: the decision, for one queue, which packets are dropped or marked so that they wait no longer than a target (RFC 8289 §5).

use std::time::Duration;

use anabranch::base::Instant;

/// State of the controller of one queue. All zero at first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    /// Time at which packets have waited too long for an interval; `None`: the last one had not.
    first_above_at: Option<Instant>,
    /// Time of the next drop.
    next_at: Instant,
    /// Drops since it began to drop.
    count: u32,
    /// Value of `count` when it last began to drop.
    last_count: u32,
    is_dropping: bool,
}

/// Parameters, of RFC 8290 §5.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Waiting time that is acceptable for long.
    pub(super) target: Duration,
    /// Time in which the target must be met once: a long round trip.
    pub(super) interval: Duration,
    /// Bytes that may always wait: one packet.
    pub(super) mtu_bytes: usize,
}

impl Codel {
    /// The time of the next drop, which approaches as the square root of their number (§5.5).
    fn control_law(&self, from: Instant, parameters: &Parameters) -> Instant {
        let factor = f64::from(self.count.max(1)).sqrt();
        from + parameters.interval.div_f64(factor)
    }

    /// True if a packet that has waited for `sojourn`, with `left_bytes` behind it, may be dropped (§5.6, `dodequeue`).
    fn is_standing(
        &mut self,
        now: Instant,
        sojourn: Duration,
        left_bytes: usize,
        parameters: &Parameters,
    ) -> bool {
        if sojourn < parameters.target || left_bytes <= parameters.mtu_bytes {
            self.first_above_at = None;
            return false;
        }
        match self.first_above_at {
            None => {
                self.first_above_at = Some(now + parameters.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// The queue has become empty.
    pub(super) fn note_empty(&mut self) {
        self.first_above_at = None;
        self.is_dropping = false;
    }

    /// True if the packet at the front, which has waited for `sojourn` with `left_bytes` behind it, is to be dropped or marked. After a
    /// drop, the next packet is to be asked about at once (§5.5, `dequeue`).
    pub(super) fn must_drop(
        &mut self,
        now: Instant,
        sojourn: Duration,
        left_bytes: usize,
        parameters: &Parameters,
    ) -> bool {
        let is_standing = self.is_standing(now, sojourn, left_bytes, parameters);
        if self.is_dropping {
            if !is_standing {
                self.is_dropping = false;
                return false;
            }
            if now < self.next_at {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next_at = self.control_law(self.next_at, parameters);
            return true;
        }
        if !is_standing {
            return false;
        }
        self.is_dropping = true;
        // If it dropped a short time ago, the rate that controlled the queue then is a good one to begin with.
        let delta = self.count.saturating_sub(self.last_count);
        let is_recent = now.since(self.next_at) < 16 * parameters.interval;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.last_count = self.count;
        self.next_at = self.control_law(now, parameters);
        true
    }
}

//! The level of an uplink: the rate that each busy session may have on it.
//!
//! The controllers of many flows do not find equal shares of a bottleneck by themselves: with few packets in flight each, they
//! disagree for long about its queue. But a node knows all of its sessions, so it divides the uplink for them: max–min, by one level
//! that bounds the rate of each. The level rises while those that it bounds meet no queue, and is set below what they are delivered
//! when most of them meet one. Sessions that are slower for another reason stay below it and do not lower it.
//!
//! A trial shows if the uplink is the bottleneck: a level that holds back sessions with bottlenecks of their own empties
//! their queues at once, rises quickly, and is given up.

use std::time::Duration;

use anabranch_base::Instant;

/// Fewest busy sessions on an uplink for which a level begins.
pub(super) const SESSIONS_MIN: usize = 2;
/// A queue of the uplink is met by all whom the level bounds: the least of their queues counts, but for one in so many.
const OUTLIERS: usize = 6;
/// A channel that began behind a queue does not know how long that is. So only those count that lately saw this part of the largest queue
/// of any.
const KNOWING: f64 = 0.5;
/// Least change of a session's round trips, as a part of the median change, by which it counts as one on the uplink: a queue there
/// changes for all.
const ELSEWHERE: f64 = 0.33;
/// Consecutive looks with a common queue after which it begins.
const CONGESTED_LOOKS: u32 = 2;
/// The level after a common queue is below what the sessions are delivered beside it by so much, least and most, and lets the queue
/// drain within so many seconds.
const BACKOFF: [f64; 2] = [0.02, 0.1];
const DRAIN_S: f64 = 0.5;
/// Largest cut at a look, as a part of the level that is left.
const CUT_MAX: f64 = 0.85;
/// The level when the queue has drained, as a part of what was delivered beside it.
const RESUMED: f64 = 0.985;
/// Growth at a look without a queue, as a part of the level: that of the first [`GENTLE_LOOKS`], and the most, to which it then doubles.
const GROWTH: f64 = 0.005;
const GROWTH_MAX: f64 = 0.08;
const GENTLE_LOOKS: u32 = 6;
/// Part of the level that the sessions must be delivered for it to grow, and to grow faster: else something else is their limit.
const FOLLOWED: [f64; 2] = [0.9, 0.95];
/// The same when no queue was met for so many looks, nor under a new level.
const GROWTH_FREE: f64 = 0.25;
const FREE_LOOKS: u32 = 20;
/// Reduction at a look with a queue, as a part of the level, while it bounds nobody.
const LOWERED: f64 = 0.05;
/// Looks that are passed over after a cut: its effect arrives a round trip later.
const HOLD_LOOKS: u32 = 1;
/// A queue of the sessions' own becomes shorter before all together are delivered less: if it is this part of what it was when they
/// are delivered this part of what they were, it is that of others.
const SHORTENED: f64 = 0.75;
const YIELDED: f64 = 0.85;
/// A queue that is at least this part of what it was at the last cut does not drain.
const DRAINING: f64 = 0.9;
/// Consecutive looks at which at most one session is bound, and no queue met, after which the level ends.
const ALONE_LOOKS: u32 = 50;
/// Time until the next trial after one that failed; doubled with each failure, so often at most.
const RETRY: Duration = Duration::from_secs(10);
const RETRY_DOUBLED: u32 = 5;

/// Observation of a channel in one look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Rate of its session in bytes per second.
    pub(super) rate: f64,
    /// Its queue in seconds: its round trip above the smallest lately; and the largest lately. `None`: nothing was acknowledged.
    pub(super) queue_s: Option<(f64, f64)>,
    /// Difference of its round trips within a time that is the same for all; `None`: it was not there all the time.
    pub(super) swing_s: Option<f64>,
    /// The level was its limit.
    pub(super) is_bound: bool,
}

/// Key: uplink.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// Bytes per second; `None`: none is in force.
    rate: Option<f64>,
    /// Consecutive looks with a common queue, without one, at which the level was followed, and with at most one session bound.
    congested: u32,
    clear: u32,
    followed: u32,
    alone: u32,
    hold: u32,
    /// Cuts since a look without a queue: the queue at the first, or when it had become shorter, and at the last; and what all were
    /// delivered at the former.
    cuts: u32,
    queues_s: [f64; 2],
    total: f64,
    /// Rate at which a session was delivered beside the last common queue, in bytes per second.
    delivered: f64,
    /// Trials that failed since one succeeded, and the time of the next.
    failures: u32,
    retry_at: Instant,
}

/// Summary of a look.
#[derive(Clone, Copy, Debug)]
struct Summary {
    all: usize,
    bound: usize,
    /// Mean rate of all, and of those that are bound, in bytes per second.
    mean: f64,
    bound_mean: f64,
    /// Rate of the fastest.
    most: f64,
    /// Queue of the uplink in seconds.
    queue_s: f64,
    /// It is longer than chance explains.
    is_queue: bool,
}

impl Summary {
    fn of(seen: &[Seen], threshold_s: f64) -> Self {
        let bound = || seen.iter().filter(|one| one.is_bound);
        let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
        let bound_count = bound().count();
        // The others may have queues of their own.
        let counted = seen.iter().filter(|one| bound_count == 0 || one.is_bound);
        let mut queues: Vec<(f64, f64)> = counted.filter_map(|one| one.queue_s).collect();
        let largest = queues.iter().map(|(_, largest)| *largest);
        let least = KNOWING * largest.fold(0.0, f64::max);
        queues.retain(|(_, largest)| *largest >= least);
        queues.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let queue_s = queues
            .get(queues.len() / OUTLIERS)
            .map_or(0.0, |(queue_s, _)| *queue_s);
        Self {
            all: seen.len(),
            bound: bound_count,
            mean: mean(seen.iter().map(|one| one.rate).sum(), seen.len()),
            bound_mean: mean(bound().map(|one| one.rate).sum(), bound_count),
            most: seen.iter().map(|one| one.rate).fold(0.0, f64::max),
            queue_s,
            is_queue: queue_s > threshold_s && !are_apart(seen, threshold_s),
        }
    }
}

/// True if the queues of those whom the level bounds change independently.
fn are_apart(seen: &[Seen], threshold_s: f64) -> bool {
    let bound = seen.iter().filter(|one| one.is_bound);
    let mut swings: Vec<f64> = bound.filter_map(|one| one.swing_s).collect();
    swings.sort_unstable_by(f64::total_cmp);
    let Some(&median) = swings.get(swings.len() / 2) else {
        return false;
    };
    let elsewhere = swings.partition_point(|swing| *swing < ELSEWHERE * median);
    median > threshold_s && elsewhere > swings.len() / OUTLIERS
}

impl Level {
    /// The rate that each session may have, in bytes per second; `None`: whatever its controller finds.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// A session joins so many that share the uplink.
    pub(super) fn join(&mut self, others: usize) {
        if others > 0 && self.clear < FREE_LOOKS {
            self.scale(others as f64 / (others + 1) as f64);
        }
    }

    /// Of the sessions bound by the level, `gone` have nothing to send any more, and so many are left.
    pub(super) fn leave(&mut self, gone: usize, left: usize) {
        if left > 0 {
            self.scale((gone + left) as f64 / left as f64);
        }
    }

    fn scale(&mut self, by: f64) {
        self.delivered *= by;
        if let Some(rate) = &mut self.rate {
            *rate *= by;
        }
    }

    /// Takes account of a look at the busy channels, which belong to so many sessions; a queue above `threshold_s` seconds is none by
    /// chance. Returns true if the bases of round trips are out of date: the queue is not the sessions' own.
    pub(super) fn look(
        &mut self,
        now: Instant,
        sessions: usize,
        seen: &[Seen],
        threshold_s: f64,
    ) -> bool {
        let look = Summary::of(seen, threshold_s);
        if self.rate.is_none() {
            self.look_for_congestion(now, sessions, &look);
            return false;
        }
        if sessions < SESSIONS_MIN {
            self.end();
            return false;
        }
        if self.hold > 0 {
            self.hold -= 1;
            return false;
        }
        let is_met = look.is_queue && look.bound > 0;
        self.alone = match look.bound > 1 || is_met {
            true => 0,
            false => self.alone + 1,
        };
        if self.alone >= ALONE_LOOKS {
            self.fail(now);
        } else if is_met {
            return self.cut(now, &look);
        } else if look.is_queue && self.clear < FREE_LOOKS {
            // It is above what any of them gets.
            self.lower(look.most);
        } else {
            self.grow(&look);
        }
        false
    }

    /// Towards the rate of the fastest.
    fn lower(&mut self, most: f64) {
        self.followed = 0;
        if let Some(rate) = &mut self.rate {
            *rate = ((1.0 - LOWERED) * *rate).max(RESUMED * most).min(*rate);
        }
    }

    /// Begins a trial.
    fn begin(&mut self, rate: f64) {
        *self = Self {
            rate: Some(rate),
            clear: FREE_LOOKS,
            hold: HOLD_LOOKS,
            failures: self.failures,
            retry_at: self.retry_at,
            ..Self::default()
        };
    }

    fn look_for_congestion(&mut self, now: Instant, sessions: usize, look: &Summary) {
        self.congested = match look.is_queue {
            true => self.congested + 1,
            false => 0,
        };
        let is_due = self.congested >= CONGESTED_LOOKS && now >= self.retry_at;
        if sessions >= SESSIONS_MIN && is_due && look.mean > 0.0 {
            // The right level is not below the mean.
            self.begin(look.mean);
        }
    }

    fn cut(&mut self, now: Instant, look: &Summary) -> bool {
        let total = look.mean * look.all as f64;
        if self.cuts == 0 {
            self.queues_s = [look.queue_s; 2];
        }
        let [first_s, last_s] = self.queues_s;
        if self.cuts == 0 || look.queue_s < SHORTENED * first_s {
            // From here it is to become shorter again.
            self.queues_s[0] = look.queue_s;
            self.total = total;
        }
        if total < YIELDED * self.total && look.queue_s > SHORTENED * first_s {
            self.fail(now);
            return true;
        }
        let is_draining = self.cuts == 0 || look.queue_s < DRAINING * last_s;
        self.cuts += 1;
        self.queues_s[1] = look.queue_s;
        (self.clear, self.followed) = (0, 0);
        if let Some(rate) = &mut self.rate {
            let [least, most] = BACKOFF;
            let backoff = (look.queue_s / DRAIN_S).clamp(least, most);
            // While the queue drains, they are delivered as much as before, and the level stays. If it does not, others take what the
            // level leaves.
            let delivered = match is_draining {
                true => look.bound_mean,
                false => look.bound_mean.min(*rate),
            };
            let target = (1.0 - backoff) * delivered;
            *rate = target.clamp(CUT_MAX * *rate, *rate);
            self.delivered = look.bound_mean;
        }
        self.hold = HOLD_LOOKS;
        false
    }

    fn grow(&mut self, look: &Summary) {
        let Some(rate) = &mut self.rate else {
            return;
        };
        self.clear += 1;
        if std::mem::take(&mut self.cuts) > 0 {
            // The queue was their own. Those that are not bound may have taken some of what the cut left.
            self.failures = 0;
            let part = look.bound as f64 / look.all.max(1) as f64;
            let missing = (RESUMED * self.delivered - *rate).max(0.0);
            *rate += part * missing;
            return;
        }
        if self.clear > FREE_LOOKS {
            *rate *= 1.0 + GROWTH_FREE;
            return;
        }
        let [slow, fast] = FOLLOWED.map(|part| look.bound_mean >= part * *rate);
        self.followed = if fast { self.followed + 1 } else { 0 };
        let doubled = self.followed.saturating_sub(GENTLE_LOOKS).min(8);
        if slow {
            *rate *= 1.0 + (GROWTH * f64::from(1 << doubled)).min(GROWTH_MAX);
        }
    }

    fn end(&mut self) {
        *self = Self {
            failures: self.failures,
            retry_at: self.retry_at,
            ..Self::default()
        };
    }

    fn fail(&mut self, now: Instant) {
        self.end();
        self.retry_at = now + RETRY * (1 << self.failures.min(RETRY_DOUBLED));
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests;

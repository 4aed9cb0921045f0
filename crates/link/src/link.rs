//! One direction of a link: packets in, verdicts out.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, Rate, Seed};

use crate::{
    Config, ConfigError, Jitter, Loss, Queue, RateSource, Stats, jitter, loss,
    queue::{Backlog, Waiting},
    stats::Count,
    transmitter::Transmitter,
};

/// Number of times that a link can be cut while a packet is in flight before it forgets the packet, which then counts
/// as lost.
const CUTS_REMEMBERED: usize = 64;

/// One direction of a link.
///
/// Every call with a `now` expects it never to decrease; an earlier one counts as the latest seen. Each packet costs
/// O(1), amortised over the steps of a rate trace.
#[derive(Debug, Clone)]
pub struct Link {
    config: Config,
    seed: Seed,
    now: Instant,
    transmitter: Transmitter,
    backlog: Backlog,
    queue_limit_bytes: u64,
    jitter: jitter::Process,
    loss: loss::Process,
    /// Earliest arrival of the next packet on a link that keeps order.
    arrival_min: Instant,
    /// The same, counting only packets that can no longer be cut.
    arrival_min_settled: Instant,
    /// The operator's switch.
    is_on: bool,
    cuts: Cuts,
    /// The first planned outage that has not begun yet.
    outage_next: usize,
    stats: Stats,
}

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It arrives, unless the link is cut before it has left.
    Deliver {
        /// Time at which it arrives at the other end.
        at: Instant,
        /// Ticket to query at `at` whether it really arrives, see [`Link::still_delivers`].
        ticket: Ticket,
        /// True if its ECN field is to be set to CE (congestion experienced).
        is_marked: bool,
    },
    /// It never arrives.
    Drop(DropReason),
}

/// Reason for the loss of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// It would not fit into the queue.
    QueueFull,
    /// It was lost by the loss process after it was sent.
    Loss,
    /// The link is down, or a planned outage begins before the packet has left.
    Down,
    /// It is larger than the link's MTU.
    TooBig,
}

/// A packet in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The number of cuts before it was offered.
    generation: u64,
    departs: Instant,
}

impl Ticket {
    /// Time at which its last bit is on the wire.
    pub const fn departs(&self) -> Instant {
        self.departs
    }
}

impl Link {
    /// A link that is up and empty. Its randomness comes from `seed` alone: same config, same seed, same offers, same
    /// verdicts.
    ///
    /// # Errors
    /// The config has a value outside its range.
    pub fn new(config: Config, seed: Seed) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            seed,
            now: Instant::EPOCH,
            transmitter: Transmitter::new(&config.rate, Instant::EPOCH, seed),
            backlog: Backlog::default(),
            queue_limit_bytes: config
                .queue
                .limit_bytes(config.rate.mean(), config.mtu_bytes),
            jitter: jitter::Process::new(config.jitter, seed),
            loss: loss::Process::new(config.loss, seed),
            arrival_min: Instant::EPOCH,
            arrival_min_settled: Instant::EPOCH,
            is_on: true,
            cuts: Cuts::default(),
            outage_next: 0,
            stats: Stats::default(),
            config,
        })
    }

    /// Offers a whole IP packet of `ip_bytes` at `now`; `ect` is true if it is ECN-capable.
    ///
    /// A driver keeps the packet until the verdict's `at` and then calls [`Self::still_delivers`].
    pub fn offer(&mut self, now: Instant, ip_bytes: usize, ect: bool) -> Verdict {
        let now = self.advance(now);
        // An empty packet would make the backlog's length unbounded.
        let bytes = ip_bytes.max(1) as u64;
        self.stats.offered += Count::packet(bytes);
        let verdict = self.judge(now, bytes, ect);
        match verdict {
            Verdict::Deliver { is_marked, .. } => {
                self.stats.delivered += Count::packet(bytes);
                if is_marked {
                    self.stats.marked += Count::packet(bytes);
                }
            }
            Verdict::Drop(reason) => *self.stats.dropped_mut(reason) += Count::packet(bytes),
        }
        verdict
    }

    /// True if a packet that was to be delivered has not been cut since. Remains true after its delivery.
    pub fn still_delivers(&self, ticket: Ticket) -> bool {
        self.cuts.spare(ticket)
    }

    /// Switches the link on or off. While it is off, every offered packet is dropped; switching off also loses those
    /// whose last bit has not left, while those already propagating still arrive.
    ///
    /// Planned outages are independent: the link is up if it is switched on and no outage is in progress.
    pub fn set_up(&mut self, now: Instant, up: bool) {
        let now = self.advance(now);
        if self.is_on && !up {
            self.cut(now);
            self.cuts.add(now);
        }
        self.is_on = up;
    }

    /// True if the link is switched on and outside every planned outage.
    pub fn is_up(&self, now: Instant) -> bool {
        let since = now.since_epoch();
        let begun = self.config.outages.partition_point(|o| o.from <= since);
        let is_out = begun > 0 && since < self.config.outages[begun - 1].to;
        self.is_on && !is_out
    }

    /// Replaces the rate source. A trace or walk begins at `now`. Packets already accepted leave at the times given by
    /// their verdicts; the new rate applies to those offered from now on, after them.
    ///
    /// # Errors
    /// The source has a value outside its range; the link stays unchanged.
    pub fn set_rate(&mut self, now: Instant, rate: RateSource) -> Result<(), ConfigError> {
        rate.validate()?;
        let now = self.advance(now);
        self.transmitter.exchange(&rate, now, self.seed);
        self.config.rate = rate;
        self.size_queue();
        Ok(())
    }

    /// Changes the propagation delay of packets offered from now on. A link that keeps order delivers them no earlier
    /// than those before.
    ///
    /// # Errors
    /// The delay is too long; the link stays unchanged.
    pub fn set_delay(&mut self, delay: Duration) -> Result<(), ConfigError> {
        self.set(|config| config.delay = delay)
    }

    /// Changes the jitter of packets offered from now on.
    ///
    /// # Errors
    /// The jitter is too long; the link stays unchanged.
    pub fn set_jitter(&mut self, jitter: Jitter) -> Result<(), ConfigError> {
        self.set(|config| config.jitter = jitter)?;
        self.jitter = jitter::Process::new(jitter, self.seed);
        Ok(())
    }

    /// Changes the loss process for packets offered from now on.
    ///
    /// # Errors
    /// A probability is outside its range; the link stays unchanged.
    pub fn set_loss(&mut self, loss: Loss) -> Result<(), ConfigError> {
        self.set(|config| config.loss = loss)?;
        self.loss = loss::Process::new(loss, self.seed);
        Ok(())
    }

    /// Changes the queue. Packets that wait in it stay, even above the new limit.
    ///
    /// # Errors
    /// The queue is too large; the link stays unchanged.
    pub fn set_queue(&mut self, queue: Queue) -> Result<(), ConfigError> {
        self.set(|config| config.queue = queue)?;
        self.size_queue();
        Ok(())
    }

    /// Changes everything except the planned outages, for packets offered from now on: see the setters of the parts.
    /// Unchanged parts continue undisturbed.
    ///
    /// # Errors
    /// A value is outside its range; the link stays unchanged.
    pub fn set_config(&mut self, now: Instant, config: &Config) -> Result<(), ConfigError> {
        config.validate()?;
        if config.rate != self.config.rate {
            self.set_rate(now, config.rate.clone())?;
        }
        if config.jitter != self.config.jitter {
            self.set_jitter(config.jitter)?;
        }
        if config.loss != self.config.loss {
            self.set_loss(config.loss)?;
        }
        self.set_delay(config.delay)?;
        self.set(|own| own.mtu_bytes = config.mtu_bytes)?;
        self.set_queue(config.queue)
    }

    /// The config with the changes made since.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The rate at `now`, `None` if unlimited. While the link is down, the rate that it would have if it were up. For
    /// delivery opportunities, the mean over the second around `now`.
    pub fn rate_at(&self, now: Instant) -> Option<Rate> {
        self.transmitter.rate_at(now)
    }

    /// The bytes waiting at `now`, the packet being sent included.
    pub fn queue_bytes(&self, now: Instant) -> u64 {
        if self.outage_begins() <= now {
            return 0;
        }
        self.backlog.bytes_at(now)
    }

    /// Time for which a packet offered at `now` would wait before its first bit leaves. With delivery opportunities and
    /// in zero-rate spans, the time until the one before it has left.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        if self.outage_begins() <= now {
            return Duration::ZERO;
        }
        self.transmitter.free_at().since(now)
    }

    /// The limit of the queue in bytes.
    pub fn queue_limit_bytes(&self) -> u64 {
        self.queue_limit_bytes
    }

    /// Totals since the link was made.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The verdict on a packet, with every effect on the link except the counts.
    fn judge(&mut self, now: Instant, bytes: u64, ect: bool) -> Verdict {
        if bytes > self.config.mtu_bytes as u64 {
            return Verdict::Drop(DropReason::TooBig);
        }
        if !self.is_up(now) {
            return Verdict::Drop(DropReason::Down);
        }
        let before_bytes = self.backlog.bytes();
        let is_idle = before_bytes == 0;
        if !is_idle && before_bytes + bytes > self.queue_limit_bytes {
            return Verdict::Drop(DropReason::QueueFull);
        }
        let starts = self.transmitter.free_at().max(now);
        let departs = self.transmitter.send(now, bytes);
        let arrives = departs + self.config.delay + self.jitter.next();
        let is_lost = self.loss.takes_next();
        let is_cut = departs > self.outage_begins();
        let is_delivered = !is_lost && !is_cut;
        let at = if self.config.jitter.reorders() {
            arrives
        } else {
            arrives.max(self.arrival_min)
        };
        self.backlog.push(Waiting {
            departs,
            bytes,
            arrives: is_delivered.then_some(at),
        });
        self.stats.busy += departs.since(starts);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.backlog.bytes());
        if is_cut {
            return Verdict::Drop(DropReason::Down);
        }
        if is_lost {
            return Verdict::Drop(DropReason::Loss);
        }
        self.arrival_min = self.arrival_min.max(at);
        Verdict::Deliver {
            at,
            ticket: Ticket {
                generation: self.cuts.count,
                departs,
            },
            is_marked: ect && self.marks_above().is_some_and(|limit| before_bytes > limit),
        }
    }

    fn marks_above(&self) -> Option<u64> {
        self.config.queue.mark_above_bytes
    }

    /// Advances the link to `now`: lets outages begin and packets leave. Returns `now`, or the latest time seen if
    /// that is later.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = now.max(self.now);
        self.now = now;
        while self.outage_begins() <= now {
            self.cut(self.outage_begins());
            self.outage_next += 1;
        }
        self.depart(now);
        now
    }

    fn depart(&mut self, now: Instant) {
        while let Some(packet) = self.backlog.pop_departed(now) {
            if let Some(at) = packet.arrives {
                self.arrival_min_settled = self.arrival_min_settled.max(at);
            }
        }
    }

    /// Loses the packets that have not left at `at`.
    fn cut(&mut self, at: Instant) {
        self.depart(at);
        for packet in self.backlog.drain() {
            if packet.arrives.is_some() {
                self.stats.delivered -= Count::packet(packet.bytes);
                self.stats.down += Count::packet(packet.bytes);
            }
        }
        self.stats.busy = (self.stats.busy).saturating_sub(self.transmitter.free_at().since(at));
        self.transmitter.cut(at);
        self.arrival_min = self.arrival_min_settled;
    }

    /// Time at which the next planned outage begins.
    fn outage_begins(&self) -> Instant {
        let next = self.config.outages.get(self.outage_next);
        next.map_or(Instant::FAR_FUTURE, |outage| Instant::EPOCH + outage.from)
    }

    fn set(&mut self, change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
        let mut config = self.config.clone();
        change(&mut config);
        config.validate()?;
        self.config = config;
        Ok(())
    }

    fn size_queue(&mut self) {
        let config = &self.config;
        self.queue_limit_bytes = config
            .queue
            .limit_bytes(config.rate.mean(), config.mtu_bytes);
    }
}

/// The times at which the link was switched off.
#[derive(Debug, Clone, Default)]
struct Cuts {
    /// Their number.
    count: u64,
    /// The last [`CUTS_REMEMBERED`] of them, oldest first.
    at: VecDeque<Instant>,
}

impl Cuts {
    fn add(&mut self, now: Instant) {
        if self.at.len() == CUTS_REMEMBERED {
            self.at.pop_front();
        }
        self.at.push_back(now);
        self.count += 1;
    }

    /// True if the packet had left when the link was first switched off after it was offered.
    fn spare(&self, ticket: Ticket) -> bool {
        let since = self.count.saturating_sub(ticket.generation) as usize;
        if since == 0 {
            return true;
        }
        let first = self.at.len().checked_sub(since);
        first.is_some_and(|first| ticket.departs <= self.at[first])
    }
}

#[cfg(test)]
mod tests;

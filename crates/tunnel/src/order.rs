//! Order at the exit of the tunnel: packets of a flow that were sent over different paths are handed on in the order in which they
//! were sent, if those that are missing arrive within a bounded wait.
//!
//! The sender numbers the packets of each bucket of flows. A packet whose predecessors are missing waits for them, but no longer than
//! the *wait*, which depends on the flow's [`Patience`]: a little more than the time by which packets have recently been late, or as long as
//! it takes to send a lost packet again. A packet that comes later still is handed on at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use anabranch::base::Instant;

/// Time for which a packet waits at least: batches that arrive together may be read in any order.
pub const WAIT_MIN: Duration = Duration::from_millis(2);
/// The wait before anything is known.
const WAIT_FIRST: Duration = Duration::from_millis(20);
/// Time for which the lateness of a packet is remembered, at least; twice that at most.
const MEMORY: Duration = Duration::from_secs(5);
/// Time without a packet after which a flow may begin at any number, and nothing is kept of it.
const IDLE: Duration = Duration::from_secs(1);
/// Difference of numbers beyond which the sender has begun anew.
const JUMP_MAX: i32 = 1 << 15;

/// Bytes of all waiting packets; beyond, the packets of a flow that waits are handed on.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Memory that a waiting packet takes beside its bytes.
const PACKET_OVERHEAD_BYTES: usize = 128;

/// Worth of the order to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Patience {
    /// Its programs want each packet as it comes, as in a call.
    #[default]
    Short,
    /// Its sender takes a packet that is missing for a loss, and a loss for congestion. Since lost packets are sent again on the way, it
    /// is better to wait for them.
    Long,
}

impl Patience {
    /// Longest time for which a packet waits for its predecessors. The long one is some round trips in which losses are noticed and repaired,
    /// and still shorter than a connection waits for before it sends everything again.
    pub const fn most(self) -> Duration {
        match self {
            Self::Short => Duration::from_millis(60),
            Self::Long => Duration::from_millis(250),
        }
    }
}

/// The short wait, learnt from the lateness of packets.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Greatest lateness in the current time of memory, and in the one before; `None`: that is not over yet.
    greatest: (Duration, Option<Duration>),
    since: Instant,
}

impl Wait {
    fn new() -> Self {
        Self {
            greatest: (Duration::ZERO, None),
            since: Instant::EPOCH,
        }
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.since);
        if passed < MEMORY {
            return;
        }
        if self.since > Instant::EPOCH {
            let before = match passed >= 2 * MEMORY {
                true => Duration::ZERO,
                false => self.greatest.0,
            };
            self.greatest = (Duration::ZERO, Some(before));
        }
        self.since = now;
    }

    /// Notes that a packet came this long after one that was sent later.
    fn note(&mut self, late: Duration) {
        let late = late.min(Patience::Short.most());
        self.greatest.0 = self.greatest.0.max(late);
    }

    /// A quarter more than the greatest lateness; for those with patience, as long as may be: whenever more was late than ever before, the
    /// sender would slow down.
    fn get(&self, patience: Patience) -> Duration {
        if patience == Patience::Long {
            return patience.most();
        }
        let (current, before) = self.greatest;
        let learnt = current.max(before.unwrap_or_default());
        let learnt = learnt + learnt / 4;
        let wait = match before {
            Some(_) => learnt,
            None => learnt.max(WAIT_FIRST),
        };
        wait.clamp(WAIT_MIN, patience.most())
    }
}

#[derive(Debug)]
struct Flow<P> {
    /// Number that is due next. Numbers are counted on beyond 2³² here.
    next: u64,
    last_at: Instant,
    patience: Patience,
    /// Number and time of the packet after the last gap that was given up, while packets of the gap may still come.
    given_up: Option<(u64, Instant)>,
    held: BTreeMap<u64, Held<P>>,
    /// Numbers and times of those that were held, in the order of their arrival; the first one is still there.
    arrivals: VecDeque<(u64, Instant)>,
}

#[derive(Debug)]
struct Held<P> {
    packet: P,
    bytes: usize,
}

/// A packet with what decides on its wait.
#[derive(Debug)]
pub struct Arrival<P> {
    /// Bucket and number.
    pub place: (u16, u32),
    /// Its bytes.
    pub bytes: usize,
    /// Worth of the order to its flow.
    pub patience: Patience,
    /// The packet.
    pub packet: P,
}

/// Counters of the order since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that waited for others.
    pub held: u64,
    /// Times that a wait ended without the missing packets.
    pub given_up: u64,
    /// Packets that arrived after their successors were handed on.
    pub late: u64,
}

/// The packets of one sender that wait for others.
///
/// Invariant: `waiting` has the buckets of flows that hold packets.
#[derive(Debug)]
pub struct Order<P> {
    flows: HashMap<u16, Flow<P>>,
    waiting: BTreeSet<u16>,
    held_bytes: usize,
    wait: Wait,
    swept_at: Instant,
    stats: Stats,
}

impl<P> Default for Order<P> {
    fn default() -> Self {
        Self::new()
    }
}

fn memory_of(bytes: usize) -> usize {
    bytes + PACKET_OVERHEAD_BYTES
}

impl<P> Order<P> {
    /// Creates the order of a sender of which nothing has arrived.
    pub fn new() -> Self {
        Self {
            flows: HashMap::new(),
            waiting: BTreeSet::new(),
            held_bytes: 0,
            wait: Wait::new(),
            swept_at: Instant::EPOCH,
            stats: Stats::default(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Time for which packets wait now.
    pub fn wait(&self, patience: Patience) -> Duration {
        self.wait.get(patience)
    }

    /// Number of flows that are remembered.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Takes a packet; appends to `out` what can be handed on. O(log n) of the packets of its flow that wait, and more only for those that are
    /// handed on.
    pub fn arrive(&mut self, now: Instant, arrival: Arrival<P>, out: &mut Vec<P>) {
        let Arrival {
            place: (bucket, sequence),
            bytes,
            patience,
            packet,
        } = arrival;
        self.stats.arrived += 1;
        self.wait.advance(now);
        let flow = self.flows.entry(bucket).or_insert_with(|| Flow {
            next: u64::from(sequence),
            last_at: now,
            patience,
            given_up: None,
            held: BTreeMap::new(),
            arrivals: VecDeque::new(),
        });
        let ahead = sequence.wrapping_sub(flow.next as u32) as i32;
        let is_idle = now.since(flow.last_at) >= IDLE && flow.held.is_empty();
        flow.last_at = now;
        // Not every packet of a flow shows what it is of.
        flow.patience = flow.patience.max(patience);
        if is_idle || ahead.abs() > JUMP_MAX {
            self.held_bytes -= flow.release_all(out);
            flow.next = u64::from(sequence) + 1;
            flow.given_up = None;
            out.push(packet);
        } else if ahead == 0 {
            if let Some(first) = flow.first_at() {
                self.wait.note(now.since(first));
            }
            flow.next += 1;
            out.push(packet);
            self.held_bytes -= flow.release_due(out);
        } else if ahead > 0 {
            self.stats.held += 1;
            let number = flow.next + u64::from(ahead.unsigned_abs());
            flow.arrivals.push_back((number, now));
            if let Some(same) = flow.held.insert(number, Held { packet, bytes }) {
                // Two packets of one number: the sender does not do this.
                self.held_bytes -= memory_of(same.bytes);
                flow.arrivals.pop_back();
            }
            self.held_bytes += memory_of(bytes);
            if self.held_bytes > HELD_BYTES_MAX {
                self.held_bytes -= flow.release_all(out);
            }
        } else {
            self.stats.late += 1;
            let number = flow.next.saturating_sub(u64::from(ahead.unsigned_abs()));
            if let Some((before, at)) = flow.given_up
                && number < before
            {
                self.wait.note(now.since(at));
            }
            out.push(packet);
        }
        let is_waiting = !flow.held.is_empty();
        if is_waiting {
            self.waiting.insert(bucket);
        } else {
            self.waiting.remove(&bucket);
        }
    }

    /// Hands on the packets whose wait is over. O(flows that wait).
    pub fn expire(&mut self, now: Instant, out: &mut Vec<P>) {
        let (flows, wait) = (&mut self.flows, &self.wait);
        let (stats, held_bytes) = (&mut self.stats, &mut self.held_bytes);
        self.waiting.retain(|bucket| {
            let flow = flows.get_mut(bucket).expect("a flow that waits is there");
            let wait = wait.get(flow.patience);
            // Not all packets may have come in order: the first that came decides.
            while let Some(first) = flow.first_at()
                && first + wait <= now
            {
                let (&number, _) = flow.held.first_key_value().expect("not empty");
                flow.given_up = Some((number, first));
                flow.next = number;
                stats.given_up += 1;
                *held_bytes -= flow.release_due(out);
            }
            !flow.held.is_empty()
        });
        self.sweep(now);
    }

    /// Time of the next call of [`Order::expire`]; `None` while nothing waits. O(flows that wait).
    pub fn next_at(&self) -> Option<Instant> {
        let flows = self.waiting.iter().filter_map(|bucket| {
            let flow = self.flows.get(bucket)?;
            Some(flow.first_at()? + self.wait.get(flow.patience))
        });
        flows.min()
    }

    /// Forgets idle flows, once in a while.
    fn sweep(&mut self, now: Instant) {
        if now.since(self.swept_at) < IDLE {
            return;
        }
        self.swept_at = now;
        let is_used = |flow: &Flow<P>| !flow.held.is_empty() || now.since(flow.last_at) < IDLE;
        self.flows.retain(|_, flow| is_used(flow));
        if self.flows.is_empty() {
            self.flows = HashMap::new();
        }
    }

    /// Forgets everything of flows that are idle; call it when nothing has arrived for a while.
    pub fn rest(&mut self, now: Instant) {
        self.swept_at = Instant::EPOCH;
        self.sweep(now);
    }
}

impl<P> Flow<P> {
    /// Time at which the first of those that wait came.
    fn first_at(&self) -> Option<Instant> {
        self.arrivals.front().map(|&(_, at)| at)
    }

    /// Hands on the packets that are due; returns the memory that they took.
    fn release_due(&mut self, out: &mut Vec<P>) -> usize {
        let mut memory = 0;
        while let Some(entry) = self.held.first_entry()
            && *entry.key() == self.next
        {
            let held = entry.remove();
            memory += memory_of(held.bytes);
            self.next += 1;
            out.push(held.packet);
        }
        while let Some(&(number, _)) = self.arrivals.front()
            && number < self.next
        {
            self.arrivals.pop_front();
        }
        memory
    }

    /// Hands on all packets, with their gaps; returns the memory that they took.
    fn release_all(&mut self, out: &mut Vec<P>) -> usize {
        let mut memory = 0;
        while let Some((number, held)) = self.held.pop_first() {
            memory += memory_of(held.bytes);
            self.next = number + 1;
            out.push(held.packet);
        }
        self.arrivals.clear();
        memory
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    #[derive(Default)]
    struct Exit {
        order: Order<u32>,
        out: Vec<u32>,
    }

    impl Exit {
        fn arrive(&mut self, millis: u64, sequence: u32) {
            self.arrive_at(at(millis), (3, sequence), Patience::Short);
        }

        fn arrive_at(&mut self, now: Instant, place: (u16, u32), patience: Patience) {
            let arrival = Arrival {
                place,
                bytes: 1400,
                patience,
                packet: place.1,
            };
            self.order.arrive(now, arrival, &mut self.out);
        }

        fn expire(&mut self, millis: u64) {
            self.order.expire(at(millis), &mut self.out);
        }

        fn take(&mut self) -> Vec<u32> {
            std::mem::take(&mut self.out)
        }
    }

    #[test]
    fn packets_of_a_slower_path_are_waited_for() {
        let mut exit = Exit::default();
        for sequence in [5, 7, 8] {
            exit.arrive(0, sequence);
        }
        assert_eq!(exit.take(), [5]);
        exit.expire(10);
        assert_eq!(exit.take(), [0; 0]);
        exit.arrive(15, 6);
        assert_eq!(exit.take(), [6, 7, 8]);
        assert_eq!(exit.order.next_at(), None);
        // Late by 15 ms: the first wait lasts until more is known.
        assert_eq!(exit.order.wait(Patience::Short), Duration::from_millis(20));
    }

    #[test]
    fn the_wait_is_bounded_and_shrinks_where_nothing_is_late() {
        let mut exit = Exit::default();
        exit.arrive(0, 0);
        exit.arrive(0, 2);
        let due = exit.order.next_at().unwrap();
        exit.order
            .expire(due - Duration::from_nanos(1), &mut exit.out);
        assert_eq!(exit.take(), [0]);
        exit.order.expire(due, &mut exit.out);
        assert_eq!(exit.take(), [2]);
        assert_eq!(exit.order.stats().given_up, 1);
        // Packets are lost, and none is late.
        let mut sequence = 3;
        for tenth in 1..200 {
            exit.arrive(tenth * 100, sequence);
            sequence += 1;
        }
        assert_eq!(exit.order.wait(Patience::Short), WAIT_MIN);
        exit.arrive(20_000, sequence + 1);
        exit.expire(20_002);
        assert_eq!(*exit.take().last().unwrap(), sequence + 1);
    }

    #[test]
    fn a_flow_with_patience_waits_for_what_is_sent_again() {
        let mut exit = Exit::default();
        let long = Patience::Long;
        exit.arrive_at(at(0), (3, 0), long);
        exit.arrive_at(at(0), (4, 0), Patience::Short);
        exit.arrive_at(at(1), (3, 2), long);
        exit.arrive_at(at(1), (4, 2), Patience::Short);
        assert_eq!(exit.order.next_at(), Some(at(21)), "that of the other flow");
        exit.expire(21);
        assert_eq!(exit.take(), [0, 0, 2]);
        exit.expire(200);
        exit.arrive_at(at(200), (3, 1), long);
        assert_eq!(exit.take(), [1, 2]);
        assert_eq!(exit.order.stats().given_up, 1);
        // What was learnt from one counts for the other, within its bounds.
        assert_eq!(exit.order.wait(long), Duration::from_millis(250));
        assert_eq!(exit.order.wait(Patience::Short), Duration::from_millis(60));
        // This packet shows nothing.
        exit.arrive_at(at(300), (3, 4), Patience::Short);
        assert_eq!(exit.order.next_at(), Some(at(550)));
        exit.expire(550);
        assert_eq!(exit.take(), [4]);
        assert_eq!(exit.order.next_at(), None);
    }

    #[test]
    fn a_packet_that_comes_after_the_wait_lengthens_it() {
        let mut exit = Exit::default();
        exit.arrive(0, 0);
        for round in 0..4 {
            let (time, next) = (round * 200, 1 + 2 * round as u32);
            exit.arrive(time, next + 1);
            exit.expire(time + 26);
            exit.arrive(time + 40, next);
            exit.expire(time + 100);
        }
        assert_eq!(exit.order.wait(Patience::Short), Duration::from_millis(50));
        let taken = exit.take();
        assert_eq!(taken[..3], [0, 2, 1], "the first was given up");
        assert_eq!(taken[3..], [3, 4, 5, 6, 7, 8]);
        assert_eq!(exit.order.stats().late, 1);
    }

    #[test]
    fn a_sender_that_begins_anew_is_followed() {
        let mut exit = Exit::default();
        exit.arrive(0, 100_000);
        exit.arrive(1, 0);
        exit.arrive(2, 1);
        assert_eq!(exit.take(), [100_000, 0, 1]);
        exit.arrive(2000, 500);
        assert_eq!(exit.take(), [500], "after a pause");
        exit.arrive(2001, 501);
        assert_eq!(exit.take(), [501]);
        assert_eq!(exit.order.stats().late, 0);
    }

    #[test]
    fn numbers_wrap() {
        let mut exit = Exit::default();
        exit.arrive(0, u32::MAX - 1);
        exit.arrive(0, 1);
        exit.arrive(0, 0);
        exit.arrive(1, u32::MAX);
        assert_eq!(exit.take(), [u32::MAX - 1, u32::MAX, 0, 1]);
    }

    #[test]
    fn idle_flows_are_forgotten_and_memory_is_bounded() {
        let mut exit = Exit::default();
        for bucket in 0..1024 {
            exit.arrive_at(at(0), (bucket, 0), Patience::Short);
        }
        assert_eq!(exit.order.flows(), 1024);
        exit.order.rest(at(1500));
        assert_eq!((exit.order.flows(), exit.order.flows.capacity()), (0, 0));
        exit.take();
        exit.arrive(2000, 0);
        for sequence in 2..10_000 {
            exit.arrive(2000, sequence);
            assert!(exit.order.held_bytes <= HELD_BYTES_MAX);
        }
        assert!(exit.take().len() > 1000);
    }

    proptest! {
        /// All packets leave once, at the latest after the longest wait; and in order if none is later than the wait.
        #[test]
        fn every_packet_leaves_once(
            delays in prop::collection::vec(prop::option::weighted(0.95, 0_u64..80), 1..200),
        ) {
            let mut arrivals: Vec<(u64, u32)> = Vec::new();
            for (sequence, delay) in delays.iter().enumerate() {
                if let Some(delay) = delay {
                    arrivals.push((sequence as u64 + delay, sequence as u32));
                }
            }
            arrivals.sort();
            let mut exit = Exit::default();
            let mut clock = 0;
            let mut held: BTreeMap<u32, u64> = BTreeMap::new();
            for &(time, sequence) in &arrivals {
                while clock < time {
                    clock += 1;
                    exit.expire(clock);
                }
                exit.arrive(time, sequence);
                held.insert(sequence, time);
                for left in &exit.out {
                    held.remove(left);
                }
                prop_assert!(held.values().all(|since| time - since <= 61));
                let first = exit.order.flows.values().filter_map(Flow::first_at).min();
                prop_assert_eq!(exit.order.next_at().is_some(), first.is_some());
                prop_assert_eq!(exit.order.waiting.is_empty(), exit.order.held_bytes == 0);
            }
            exit.expire(clock + 61);
            let mut left = exit.take();
            prop_assert_eq!(exit.order.held_bytes, 0);
            left.sort_unstable();
            let mut sent: Vec<u32> = arrivals.iter().map(|&(_, sequence)| sequence).collect();
            sent.sort_unstable();
            prop_assert_eq!(left, sent);
        }
    }
}

//! Fair queues at the entrance of the tunnel: one for each flow, each controlled by CoDel (FQ-CoDel, RFC 8290).
//!
//! Packets wait here and not inside a session, which takes them as its paths have slots. A flow that sends little goes before those
//! that build queues, and no flow's queue delays another flow. Time is virtual: every call takes it.
//!
//! A queue exists while it holds packets, or while it has a place in the order of service; an idle tunnel holds none.

mod codel;

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use anabranch::base::Instant;
use anabranch_gateway::service::PACKET_LIFETIME;

use self::codel::{Codel, Parameters};
use crate::packet;

/// Memory that a waiting packet takes beside its bytes.
const PACKET_OVERHEAD_BYTES: usize = 64;
/// Packets dropped at once from the longest queue when the memory is used up (RFC 8290 §4.1: a batch is cheaper).
const BATCH_MAX: usize = 64;

/// Settings of the queues.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Waiting time that is acceptable for long.
    pub target: Duration,
    /// Time in which the target must be met once.
    pub interval: Duration,
    /// Waiting time after which a packet is dropped if others of its flow wait behind it. CoDel alone takes many seconds to
    /// hold back a flow that does not slow down.
    pub longest: Duration,
    /// Bytes that a flow may send in its turn, at least one packet.
    pub quantum_bytes: usize,
    /// Memory of all waiting packets, at least one packet.
    pub memory_bytes: usize,
}

impl Default for Config {
    /// The defaults of RFC 8290 §5.2 for paths of the Internet, with less memory: 4 MiB hold 250 ms at 130 Mbit/s.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            longest: PACKET_LIFETIME,
            quantum_bytes: 1514,
            memory_bytes: 4 << 20,
        }
    }
}

/// A packet with space for the tunnel's header in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    data: Vec<u8>,
}

impl Packet {
    /// Bytes in front of the packet.
    pub const HEADROOM: usize = crate::wire::HEADER_BYTES;

    /// Copies a packet.
    pub fn new(ip: &[u8]) -> Self {
        let mut data = Vec::with_capacity(Self::HEADROOM + ip.len());
        data.resize(Self::HEADROOM, 0);
        data.extend_from_slice(ip);
        Self { data }
    }

    /// The IP packet.
    pub fn ip(&self) -> &[u8] {
        &self.data[Self::HEADROOM..]
    }

    /// The IP packet, to be changed.
    pub fn ip_mut(&mut self) -> &mut [u8] {
        &mut self.data[Self::HEADROOM..]
    }

    /// All bytes, the first of which are those of the header.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }
}

/// Counters of the queues since they exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that were queued.
    pub queued: u64,
    /// Packets that were marked, because they had waited too long.
    pub marked: u64,
    /// Packets that were dropped, because they had waited too long.
    pub dropped_late: u64,
    /// Packets that were dropped, because the memory was used up.
    pub dropped_full: u64,
}

#[derive(Debug)]
struct Waiting {
    packet: Packet,
    at: Instant,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Waiting>,
    bytes: usize,
    /// Bytes that it may still send in its turn.
    credit: i64,
    codel: Codel,
}

impl Queue {
    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= waiting.packet.ip().len();
        Some(waiting)
    }
}

/// The queues. Invariant: a bucket is in `new` or `old`, once, exactly while it has a queue; `memory` is the sum of what the packets in
/// all queues take.
#[derive(Debug)]
pub struct FqCodel {
    config: Config,
    queues: HashMap<u16, Queue>,
    /// Buckets that have become active a short time ago, in order of service.
    new: VecDeque<u16>,
    /// The other active buckets.
    old: VecDeque<u16>,
    memory: usize,
    stats: Stats,
}

fn memory_of(packet: &Packet) -> usize {
    packet.ip().len() + PACKET_OVERHEAD_BYTES
}

impl FqCodel {
    /// Creates empty queues.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queues: HashMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            memory: 0,
            stats: Stats::default(),
        }
    }

    /// Changes how long packets may wait.
    pub fn set_times(&mut self, target: Duration, interval: Duration) {
        self.config.target = target;
        self.config.interval = interval;
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.memory == 0
    }

    /// Memory that waiting packets take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory
    }

    /// Number of queues, those without packets included.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Queues a packet of a flow; true if the flow had no queue. If that uses up the memory, packets at the front of the longest queue are dropped (RFC 8290 §4.1).
    pub fn push(&mut self, now: Instant, bucket: u16, packet: Packet) -> bool {
        self.stats.queued += 1;
        self.memory += memory_of(&packet);
        let is_new = !self.queues.contains_key(&bucket);
        if is_new {
            self.new.push_back(bucket);
        }
        let quantum = self.config.quantum_bytes as i64;
        let queue = self.queues.entry(bucket).or_insert_with(|| Queue {
            credit: quantum,
            ..Queue::default()
        });
        queue.bytes += packet.ip().len();
        queue.packets.push_back(Waiting { packet, at: now });
        while self.memory > self.config.memory_bytes {
            self.drop_from_longest();
        }
        is_new
    }

    /// Takes the packets of a bucket for which `is_wanted` out of it, each with the time at which it was queued.
    pub fn extract(
        &mut self,
        bucket: u16,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<(Instant, Packet)> {
        let Some(queue) = self.queues.get_mut(&bucket) else {
            return Vec::new();
        };
        let (taken, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut queue.packets)
            .into_iter()
            .partition(|waiting| is_wanted(waiting.packet.ip()));
        queue.packets = left;
        for waiting in &taken {
            queue.bytes -= waiting.packet.ip().len();
            self.memory -= memory_of(&waiting.packet);
        }
        let taken = taken.into_iter();
        taken.map(|waiting| (waiting.at, waiting.packet)).collect()
    }

    /// Takes all packets, each with its bucket and the time at which it was queued; those of a bucket are in their order.
    pub fn drain(&mut self) -> Vec<(u16, Instant, Packet)> {
        let queues = std::mem::take(&mut self.queues);
        (self.new, self.old, self.memory) = (VecDeque::new(), VecDeque::new(), 0);
        let all = queues.into_iter().flat_map(|(bucket, queue)| {
            let packets = queue.packets.into_iter();
            packets.map(move |waiting| (bucket, waiting.at, waiting.packet))
        });
        all.collect()
    }

    /// Takes the next packet if it is one of a flow that has become active a short time ago and `is_wanted`; `None` otherwise.
    pub fn pop_new(
        &mut self,
        now: Instant,
        is_wanted: impl Fn(u16) -> bool,
    ) -> Option<(u16, Packet)> {
        loop {
            let &bucket = self.new.front()?;
            let queue = self.queues.get(&bucket);
            let queue = queue.expect("a bucket in order of service has a queue");
            if queue.credit <= 0 || !is_wanted(bucket) {
                return None;
            }
            match self.pop_of(now, bucket) {
                Some(packet) => return Some((bucket, packet)),
                None => self.turn(true),
            }
        }
    }

    /// Drops up to half of the longest queue. O(queues).
    fn drop_from_longest(&mut self) {
        let longest = self.queues.values_mut().max_by_key(|queue| queue.bytes);
        let longest = longest.expect("memory is used by packets in queues");
        let half = longest.bytes / 2;
        for _ in 0..BATCH_MAX {
            let Some(waiting) = longest.pop() else {
                break;
            };
            self.memory -= memory_of(&waiting.packet);
            self.stats.dropped_full += 1;
            if longest.bytes <= half {
                break;
            }
        }
    }

    /// Takes the next packet, with its bucket; `None` if none waits (RFC 8290 §4.2).
    pub fn pop(&mut self, now: Instant) -> Option<(u16, Packet)> {
        loop {
            let is_new = !self.new.is_empty();
            let Some(&bucket) = self.new.front().or_else(|| self.old.front()) else {
                self.shrink();
                return None;
            };
            let queue = self.queues.get_mut(&bucket);
            let queue = queue.expect("a bucket in order of service has a queue");
            if queue.credit <= 0 {
                queue.credit += self.config.quantum_bytes as i64;
                self.turn(is_new);
                continue;
            }
            match self.pop_of(now, bucket) {
                Some(packet) => return Some((bucket, packet)),
                None if is_new && !self.old.is_empty() => self.turn(true),
                None => {
                    let ended = match is_new {
                        true => self.new.pop_front(),
                        false => self.old.pop_front(),
                    };
                    self.queues.remove(&ended.expect("it is at the front"));
                }
            }
        }
    }

    /// Moves the bucket at the front to the end of the old ones.
    fn turn(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        let bucket = list.pop_front().expect("it is at the front");
        self.old.push_back(bucket);
    }

    /// The next packet of a queue that CoDel lets pass.
    fn pop_of(&mut self, now: Instant, bucket: u16) -> Option<Packet> {
        let parameters = Parameters {
            target: self.config.target,
            interval: self.config.interval,
            mtu_bytes: self.config.quantum_bytes,
        };
        let queue = self.queues.get_mut(&bucket)?;
        loop {
            let Some(Waiting { mut packet, at }) = queue.pop() else {
                queue.codel.note_empty();
                return None;
            };
            self.memory -= memory_of(&packet);
            let sojourn = now.since(at);
            if sojourn > self.config.longest && !queue.packets.is_empty() {
                self.stats.dropped_late += 1;
                continue;
            }
            if queue
                .codel
                .must_drop(now, sojourn, queue.bytes, &parameters)
            {
                if !packet::is_capable(packet.ip()) {
                    self.stats.dropped_late += 1;
                    continue;
                }
                packet::mark(packet.ip_mut());
                self.stats.marked += 1;
            }
            queue.credit -= packet.ip().len() as i64;
            return Some(packet);
        }
    }

    /// Frees the memory of tables that are empty.
    fn shrink(&mut self) {
        if self.queues.capacity() > 0 {
            self.queues = HashMap::new();
            self.new = VecDeque::new();
            self.old = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;

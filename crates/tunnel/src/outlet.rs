//! Sending side of the tunnel: fair queues, and the task that takes packets from them as the paths have slots.
//!
//! The session holds little that has not been sent ([`unsent_bytes`]), so that packets wait in the queues, where flows share the paths
//! and standing queues are brought down.

use std::{
    collections::VecDeque,
    future::poll_fn,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    Outgoing, Session, Stream, StreamFailure, StreamParameters,
    base::Instant,
    net::{Clock, session::ChannelReport},
};
use tokio::sync::Notify;

use crate::{
    fq_codel::{Config, FqCodel, Packet, Stats},
    packet::{self, BUCKETS, Header},
    wire::PacketHeader,
};

/// Time without a packet after which the numbers of the flows are forgotten; much longer than the exit remembers them.
const REST: Duration = Duration::from_secs(10);
/// Time between two looks at what the paths carry.
const LOOK: Duration = Duration::from_millis(100);
/// Time for which what waits unsent lasts at the rate of the paths: several times as long as the session lets slots gather.
const AHEAD: Duration = Duration::from_millis(12);
/// Range of the interval of the queues.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_millis(500);
/// Bytes that may always wait unsent: the first window of a path.
const UNSENT_BYTES_MIN: u64 = 16_000;
/// Bytes that may wait unsent at most.
const UNSENT_BYTES_MAX: u64 = 1 << 20;

/// Queues at one end of the tunnel, for one destination.
#[derive(Debug)]
pub(crate) struct Outlet {
    queues: Mutex<FqCodel>,
    wake: Notify,
    /// Keeps others from choosing flows that share a queue.
    secret: u64,
}

/// Numbers of the packets of each bucket.
#[derive(Debug, Default)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn next(&mut self, bucket: u16) -> u32 {
        if self.0.is_empty() {
            self.0 = vec![0; BUCKETS.into()];
        }
        let number = &mut self.0[usize::from(bucket)];
        let next = *number;
        *number = number.wrapping_add(1);
        next
    }
}

/// A number that others cannot predict.
pub(crate) fn secret() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl Outlet {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let config = Config {
            memory_bytes,
            ..Config::default()
        };
        Self {
            queues: Mutex::new(FqCodel::new(config)),
            wake: Notify::new(),
            secret: secret(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, FqCodel> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters of the queues.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats()
    }

    /// Queues a packet.
    pub(crate) fn push(&self, now: Instant, packet: Packet, header: &Header) {
        let bucket = packet::bucket(packet.ip(), header, self.secret);
        let mut queues = self.lock();
        let was_empty = queues.is_empty();
        queues.push(now, bucket, packet);
        drop(queues);
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Carries packets on a stream until it is over; returns the failure.
    pub(crate) async fn carry(
        &self,
        session: &Session,
        stream: &Stream,
        clock: Clock,
    ) -> StreamFailure {
        let mut numbers = Numbers::default();
        let mut unsent = Unsent::default();
        let mut taken: VecDeque<Outgoing> = VecDeque::new();
        loop {
            let now = clock.now();
            match unsent.follow(now, session, stream) {
                Ok(Some(rtt)) => {
                    let (target, interval) = times(rtt);
                    self.lock().set_times(target, interval);
                }
                Ok(None) => {}
                Err(failure) => return failure,
            }
            self.take(now, stream.send_capacity(), &mut numbers, &mut taken);
            if taken.is_empty() {
                if tokio::time::timeout(REST, self.wake.notified())
                    .await
                    .is_err()
                {
                    numbers = Numbers::default();
                    taken = VecDeque::new();
                    self.wake.notified().await;
                }
                continue;
            }
            if let Err(failure) = poll_fn(|cx| stream.poll_send_many(cx, &mut taken)).await {
                return failure;
            }
        }
    }

    /// Takes packets from the queues, as many as a session takes now and one more: it then knows that there are more.
    fn take(
        &self,
        now: Instant,
        capacity: usize,
        numbers: &mut Numbers,
        taken: &mut VecDeque<Outgoing>,
    ) {
        let mut bytes: usize = taken.iter().map(|adu| adu.data.len()).sum();
        if bytes > capacity {
            return;
        }
        let mut queues = self.lock();
        while bytes <= capacity {
            let Some((bucket, packet)) = queues.pop(now) else {
                return;
            };
            let sequence = numbers.next(bucket);
            let mut data = packet.into_data();
            PacketHeader { bucket, sequence }.write(&mut data);
            bytes += data.len();
            taken.push_back(data.into());
        }
    }
}

/// The limit on what waits unsent in a stream.
#[derive(Debug, Default)]
struct Unsent {
    looked_at: Option<Instant>,
    bytes: u64,
}

impl Unsent {
    /// Follows what the paths carry; returns the longest of their round trips, once in a while.
    fn follow(
        &mut self,
        now: Instant,
        session: &Session,
        stream: &Stream,
    ) -> Result<Option<Duration>, StreamFailure> {
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK) {
            return Ok(None);
        }
        self.looked_at = Some(now);
        let channels = session.channels();
        let bytes = unsent_bytes(&channels);
        // Small changes are not worth a command.
        if bytes * 4 > self.bytes * 5 || bytes * 5 < self.bytes * 4 {
            self.bytes = bytes;
            stream.adjust(StreamParameters {
                unsent_max: Some(NonZeroU32::new(bytes as u32)),
                ..StreamParameters::default()
            })?;
        }
        let rtts = channels.iter().map(|channel| channel.stats.rtt_smoothed);
        Ok(rtts.max())
    }
}

/// Target and interval of the queues (RFC 8289 §3.2): the interval is to be the round trip of a connection, which is longer than that
/// of the slowest path, because packets of the others wait for it at the exit; the target a tenth of it, the upper end of the range that
/// the standard gives.
fn times(rtt: Duration) -> (Duration, Duration) {
    let interval = (2 * rtt).clamp(INTERVAL_MIN, INTERVAL_MAX);
    (interval / 10, interval)
}

/// Bytes that may wait unsent: what all paths carry in [`AHEAD`], by their windows or by what they deliver, within bounds.
fn unsent_bytes(channels: &[ChannelReport]) -> u64 {
    let of = |channel: &ChannelReport| {
        let stats = &channel.stats;
        let rtt_s = stats.rtt_smoothed.as_secs_f64().max(1e-3);
        let by_window = stats.window_bytes as f64 / rtt_s;
        let by_rate = stats.rate_delivered.as_bytes_per_s();
        by_window.max(by_rate) * AHEAD.as_secs_f64()
    };
    let all: f64 = channels.iter().map(of).sum();
    (all as u64).clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::samples::tcp4;

    #[test]
    fn packets_are_taken_with_numbers_as_far_as_there_is_space() {
        let outlet = Outlet::new(1 << 20);
        let mut buckets = std::collections::BTreeMap::new();
        for index in 0..20_u16 {
            let ip = tcp4(index % 2, &[0; 953]);
            let header = Header::read(&ip).unwrap();
            outlet.push(Instant::EPOCH, Packet::new(&ip), &header);
        }
        let (mut numbers, mut taken) = (Numbers::default(), VecDeque::new());
        outlet.take(Instant::EPOCH, 5_000, &mut numbers, &mut taken);
        assert_eq!(taken.len(), 6, "five, and one more");
        outlet.take(Instant::EPOCH, 5_000, &mut numbers, &mut taken);
        assert_eq!(taken.len(), 6);
        outlet.take(Instant::EPOCH, 100_000, &mut numbers, &mut taken);
        assert_eq!(taken.len(), 20);
        for adu in &taken {
            let header = PacketHeader::read(&adu.data).unwrap();
            let next = buckets.entry(header.bucket).or_insert(0);
            assert_eq!(header.sequence, *next);
            *next += 1;
            assert_eq!(adu.data.len(), 1000);
        }
        assert_eq!(buckets.values().copied().collect::<Vec<u32>>(), [10, 10]);
        assert_eq!(outlet.stats().queued, 20);
    }

    #[test]
    fn times_follow_the_longest_round_trip() {
        let millis = Duration::from_millis;
        assert_eq!(times(Duration::ZERO), (millis(10), millis(100)));
        assert_eq!(times(millis(90)), (millis(18), millis(180)));
        assert_eq!(times(millis(700)), (millis(50), millis(500)));
    }

    #[test]
    fn what_waits_unsent_has_bounds() {
        assert_eq!(unsent_bytes(&[]), UNSENT_BYTES_MIN);
    }
}

//! Sending side of the tunnel: fair queues, and the task that takes packets from them as the paths have slots.
//!
//! The session holds little that has not been sent ([`Pace`]), so that packets wait in the queues, where flows share the paths and
//! standing queues are brought down. What the session holds already is overtaken by flows that send little: their packets go to a stream
//! of their own, an urgent one.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use anabranch::{Outgoing, Session, Stream, StreamFailure, base::Instant, net::Clock};
use tokio::sync::Notify;

use crate::{
    fq_codel::{Config, FqCodel, Packet, Stats},
    meter::Meter,
    pace::{Pace, limit, send_on_all},
    packet::{self, BUCKETS, Header},
    spare::Spare,
    wire::PacketHeader,
};

/// Time without a packet after which the numbers of the flows are forgotten; much longer than the exit remembers them.
const REST: Duration = Duration::from_secs(10);
/// Bytes that may wait unsent in the urgent stream.
const URGENT_BYTES: u64 = 64_000;
/// Bytes that wait in the other stream while a packet need not overtake them.
const SHORT_BYTES: usize = 3_000;

/// The streams of packets between a client and its server.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    /// For flows that send little, while others fill the paths.
    pub(crate) urgent: Stream,
    /// For all others.
    pub(crate) rest: Stream,
}

impl Lanes {
    /// Reads the events of the streams, which would be kept otherwise (an expired packet is one); does not return.
    async fn forget_events(&self) {
        async fn forget(stream: &Stream) {
            while stream.next_event().await.is_ok() {}
        }
        tokio::join!(forget(&self.urgent), forget(&self.rest));
        std::future::pending::<()>().await;
    }
}

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
        // A flow without a queue may overtake those that wait for slots.
        if self.lock().push(now, bucket, packet) {
            self.wake.notify_one();
        }
    }

    /// Carries packets on the streams until one is over; returns the failure.
    pub(crate) async fn carry(
        &self,
        session: &Session,
        lanes: &Lanes,
        clock: Clock,
    ) -> StreamFailure {
        tokio::select! {
            failure = self.send(session, lanes, clock) => failure,
            () = lanes.forget_events() => unreachable!("it goes on until it is dropped"),
        }
    }

    async fn send(&self, session: &Session, lanes: &Lanes, clock: Clock) -> StreamFailure {
        let mut pace = Pace::default();
        let mut taken = Taken::default();
        if let Err(failure) = limit(&lanes.urgent, URGENT_BYTES) {
            return failure;
        }
        loop {
            let now = clock.now();
            match pace.follow(now, session, &lanes.rest) {
                Ok(Some((target, interval))) => self.lock().set_times(target, interval),
                Ok(None) => {}
                Err(failure) => return failure,
            }
            if let Some(is_on) = taken.spare.follow(now, pace.bytes_per_s, pace.paths)
                && let Err(failure) = send_on_all(&lanes.urgent, is_on)
            {
                return failure;
            }
            self.take(now, lanes.rest.send_capacity(), &pace, &mut taken);
            if taken.is_empty() {
                let waking = self.wake.notified();
                if tokio::time::timeout(REST, waking).await.is_err() {
                    taken = Taken::default();
                    self.wake.notified().await;
                }
                continue;
            }
            let sent = tokio::select! {
                biased;
                sent = taken.send(lanes) => sent,
                () = self.wake.notified() => Ok(()),
            };
            if let Err(failure) = sent {
                return failure;
            }
        }
    }

    /// Takes packets from the queues, as many as a session takes now and one more: it then knows that there are more. Beyond that, those
    /// of new flows that send little.
    fn take(&self, now: Instant, capacity: usize, pace: &Pace, taken: &mut Taken) {
        taken.meter.advance(now, pace.bytes_per_s);
        let unsent = usize::try_from(pace.unsent_bytes).unwrap_or(usize::MAX);
        let waiting = unsent.saturating_sub(capacity);
        let mut queues = self.lock();
        while taken.rest.bytes <= capacity {
            let Some((bucket, packet)) = queues.pop(now) else {
                return;
            };
            let is_behind = pace.is_busy || waiting + taken.rest.bytes > SHORT_BYTES;
            let is_urgent = is_behind && taken.meter.is_sparse(bucket) && taken.urgent.has_space();
            taken.add(is_urgent, bucket, packet);
        }
        while taken.urgent.has_space() {
            let meter = &taken.meter;
            let Some((bucket, packet)) = queues.pop_new(now, |bucket| meter.is_sparse(bucket))
            else {
                return;
            };
            taken.add(true, bucket, packet);
        }
    }
}

/// Packets that were taken from the queues for one stream.
#[derive(Debug, Default)]
struct Lane {
    adus: VecDeque<Outgoing>,
    bytes: usize,
}

impl Lane {
    fn has_space(&self) -> bool {
        self.bytes < URGENT_BYTES as usize
    }

    /// Hands over as many as the stream takes; true if it took any.
    fn poll_send(
        &mut self,
        cx: &std::task::Context<'_>,
        stream: &Stream,
    ) -> Poll<Result<(), StreamFailure>> {
        if self.adus.is_empty() {
            return Poll::Pending;
        }
        let sent = stream.poll_send_many(cx, &mut self.adus);
        if sent.is_ready() {
            self.bytes = self.adus.iter().map(|adu| adu.data.len()).sum();
        }
        sent.map_ok(drop)
    }
}

/// Packets that were taken from the queues, and what is known of their flows.
#[derive(Debug, Default)]
struct Taken {
    urgent: Lane,
    rest: Lane,
    numbers: Numbers,
    meter: Meter,
    spare: Spare,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.urgent.adus.is_empty() && self.rest.adus.is_empty()
    }

    fn add(&mut self, is_urgent: bool, bucket: u16, packet: Packet) {
        let sequence = self.numbers.next(bucket);
        let mut data = packet.into_data();
        PacketHeader { bucket, sequence }.write(&mut data);
        self.meter.note(bucket, data.len(), is_urgent);
        let lane = match is_urgent {
            true => {
                self.spare.note(data.len());
                &mut self.urgent
            }
            false => &mut self.rest,
        };
        lane.bytes += data.len();
        lane.adus.push_back(data.into());
    }

    /// Ready when a stream has taken any.
    async fn send(&mut self, lanes: &Lanes) -> Result<(), StreamFailure> {
        poll_fn(|cx| {
            let urgent = self.urgent.poll_send(cx, &lanes.urgent);
            if let Poll::Ready(Err(_)) = urgent {
                return urgent;
            }
            match self.rest.poll_send(cx, &lanes.rest) {
                Poll::Pending => urgent,
                ready => ready,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::packet::samples::tcp4;

    fn push(outlet: &Outlet, port: u16, bytes: usize) {
        let ip = tcp4(port, &vec![0; bytes - 47]);
        let header = Header::read(&ip).unwrap();
        outlet.push(Instant::from_millis(1000), Packet::new(&ip), &header);
    }

    fn take(outlet: &Outlet, capacity: usize, taken: &mut Taken) {
        take_beside(outlet, capacity, taken, false);
    }

    fn take_beside(outlet: &Outlet, capacity: usize, taken: &mut Taken, is_busy: bool) {
        let pace = Pace {
            unsent_bytes: 20_000,
            bytes_per_s: 1e6,
            is_busy,
            paths: 2,
            ..Pace::default()
        };
        outlet.take(Instant::from_millis(1000), capacity, &pace, taken);
    }

    #[test]
    fn packets_are_taken_with_numbers_as_far_as_there_is_space() {
        let outlet = Outlet::new(1 << 20);
        for index in 0..20_u16 {
            push(&outlet, index % 2, 1000);
        }
        let mut taken = Taken::default();
        // All flows send much.
        taken.meter.advance(Instant::from_millis(1000), 0.0);
        for bucket in 0..BUCKETS {
            taken.meter.note(bucket, 1 << 20, false);
        }
        take(&outlet, 5_000, &mut taken);
        assert_eq!(taken.rest.adus.len(), 6, "five, and one more");
        take(&outlet, 5_000, &mut taken);
        assert_eq!(taken.rest.adus.len(), 6);
        take(&outlet, 100_000, &mut taken);
        assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (20, 0));
        let mut buckets = BTreeMap::new();
        for adu in &taken.rest.adus {
            let header = PacketHeader::read(&adu.data).unwrap();
            let next = buckets.entry(header.bucket).or_insert(0);
            assert_eq!((header.sequence, adu.data.len()), (*next, 1000));
            *next += 1;
        }
        assert_eq!(buckets.into_values().collect::<Vec<u32>>(), [10, 10]);
        assert_eq!(outlet.stats().queued, 20);
    }

    #[test]
    fn a_flow_that_sends_little_overtakes_what_the_session_holds() {
        let outlet = Outlet::new(1 << 20);
        let mut taken = Taken::default();
        // Nothing waits: it need not.
        push(&outlet, 7, 100);
        take(&outlet, 20_000, &mut taken);
        assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (1, 0));
        // A flow that fills the paths, and holds what the session takes.
        for _ in 0..60 {
            push(&outlet, 1, 1000);
        }
        take(&outlet, 20_000, &mut taken);
        taken.rest = Lane::default();
        take(&outlet, 20_000, &mut taken);
        push(&outlet, 7, 100);
        take(&outlet, 0, &mut taken);
        let urgent: Vec<usize> = taken.urgent.adus.iter().map(|adu| adu.data.len()).collect();
        assert_eq!(urgent.last(), Some(&100));
        let rest = taken.rest.adus.len();
        take(&outlet, 0, &mut taken);
        assert_eq!(taken.rest.adus.len(), rest, "the other flow does not");
    }

    /// Such as a split connection, whose bytes are not in these queues.
    #[test]
    fn a_flow_that_sends_little_overtakes_what_else_the_session_carries() {
        let outlet = Outlet::new(1 << 20);
        let mut taken = Taken::default();
        push(&outlet, 7, 100);
        take_beside(&outlet, 20_000, &mut taken, true);
        assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (0, 1));
    }
}

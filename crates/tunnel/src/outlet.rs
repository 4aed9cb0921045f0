//! Sending side of the tunnel: fair queues, and the task that takes packets from them as the paths have slots.
//!
//! The session holds little that has not been sent ([`Pace`]), so that packets wait in the queues, where flows share the paths and
//! standing queues are brought down. What the session holds already is overtaken by flows that send little: their packets go to a stream
//! of their own, an urgent one.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use anabranch::{Outgoing, Session, Stream, StreamFailure, base::Instant, net::Clock};
use tokio::sync::Notify;

use crate::{
    fq_codel::{Config, FqCodel, Packet, Stats},
    meter::Meter,
    numbers::Numbers,
    pace::{Pace, limit, send_on_all},
    packet::{FlowKey, Header, bucket_of},
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

/// Reads the events of a stream, which would be kept otherwise (an expired packet is one); does not return.
pub(crate) async fn forget_events(stream: &Stream) {
    while stream.next_event().await.is_ok() {}
    std::future::pending::<()>().await;
}

/// Queues at one end of the tunnel, for one destination.
#[derive(Debug)]
pub(crate) struct Outlet {
    queues: Mutex<FqCodel>,
    wake: Notify,
    /// Those of all queues for this destination: the number of a packet does not depend on the stream that carries it.
    numbers: Arc<Mutex<Numbers>>,
    /// Keeps others from choosing flows that share a queue.
    secret: u64,
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
            numbers: Arc::default(),
            secret: secret(),
        }
    }

    /// Other queues for the same destination.
    pub(crate) fn beside(&self, memory_bytes: usize) -> Self {
        Self {
            numbers: self.numbers.clone(),
            secret: self.secret,
            ..Self::new(memory_bytes)
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FqCodel> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters of the queues.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats()
    }

    /// Numbers of the packets for this destination.
    pub(crate) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a flow without a queue gets one.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Hash of a flow, the same in all queues for this destination.
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.secret)
    }

    /// Queues a packet, in the bucket of its flow.
    pub(crate) fn push(&self, now: Instant, packet: Packet, header: &Header) {
        let hash = self.hash(&FlowKey::of(packet.ip(), header));
        self.push_into(now, bucket_of(hash), packet);
    }

    /// Moves the packets of a flow that wait here to other queues for the same destination.
    pub(crate) fn move_flow(&self, bucket: u16, key: &FlowKey, to: &Self) {
        let is_of =
            |ip: &[u8]| Header::read(ip).is_ok_and(|header| FlowKey::of(ip, &header) == *key);
        let moved = self.lock().extract(bucket, is_of);
        for (at, packet) in moved {
            to.push_into(at, bucket, packet);
        }
    }

    /// Moves all packets that wait here to other queues for the same destination.
    pub(crate) fn move_all(&self, to: &Self) {
        let moved = self.lock().drain();
        for (bucket, at, packet) in moved {
            to.push_into(at, bucket, packet);
        }
    }

    /// Queues a packet in a bucket.
    pub(crate) fn push_into(&self, now: Instant, bucket: u16, packet: Packet) {
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
            () = forget_events(&lanes.urgent) => unreachable!("it goes on until it is dropped"),
            () = forget_events(&lanes.rest) => unreachable!("it goes on until it is dropped"),
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
                    self.numbers().rest();
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
        let (mut queues, mut numbers) = (self.lock(), self.numbers());
        while taken.rest.bytes <= capacity {
            let Some((bucket, packet)) = queues.pop(now) else {
                return;
            };
            let is_behind = pace.is_busy || waiting + taken.rest.bytes > SHORT_BYTES;
            let is_urgent = is_behind && taken.meter.is_sparse(bucket) && taken.urgent.has_space();
            taken.add(is_urgent, (bucket, numbers.next(bucket)), packet);
        }
        while taken.urgent.has_space() {
            let meter = &taken.meter;
            let Some((bucket, packet)) = queues.pop_new(now, |bucket| meter.is_sparse(bucket))
            else {
                return;
            };
            taken.add(true, (bucket, numbers.next(bucket)), packet);
        }
    }
}

/// Packets that were taken from the queues for one stream.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    adus: VecDeque<Outgoing>,
    pub(crate) bytes: usize,
}

impl Lane {
    pub(crate) fn is_empty(&self) -> bool {
        self.adus.is_empty()
    }

    /// Adds a packet with its place in the order of its flow.
    pub(crate) fn add(&mut self, (bucket, sequence): (u16, u32), packet: Packet) {
        let mut data = packet.into_data();
        PacketHeader { bucket, sequence }.write(&mut data);
        self.bytes += data.len();
        self.adus.push_back(data.into());
    }

    fn has_space(&self) -> bool {
        self.bytes < URGENT_BYTES as usize
    }

    /// Hands over as many as the stream takes; true if it took any.
    pub(crate) fn poll_send(
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
    meter: Meter,
    spare: Spare,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.urgent.adus.is_empty() && self.rest.adus.is_empty()
    }

    fn add(&mut self, is_urgent: bool, place: (u16, u32), packet: Packet) {
        let bytes = Packet::HEADROOM + packet.ip().len();
        self.meter.note(place.0, bytes, is_urgent);
        let lane = match is_urgent {
            true => {
                self.spare.note(bytes);
                &mut self.urgent
            }
            false => &mut self.rest,
        };
        lane.add(place, packet);
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
mod tests;

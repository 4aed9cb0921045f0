//! Shares of streams: shares of the session's capacity, caps, and drops beyond them.
//!
//! Every 200 ms the capacity of all channels is divided among the streams that want to send
//! ([`allocation`](anabranch_sched::allocation)). The demand of a stream is learned from the data that was handed over to
//! it, and is all that its cap allows while its buffer is full. The rate in its `Throttle` events is its
//! offer: the rate that it would get if it alone wanted more.
//!
//! Shares among streams that all have a backlog are enforced by the scheduler, packet by packet; caps by a
//! bucket here; and ADUs of a stream with a drop order that wait beyond its share are dropped here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anabranch_base::{Instant, Rate, StreamId};
use anabranch_sched::{
    ChannelView,
    allocation::{Allocator, Ask, Reserve},
};
use anabranch_spec::StreamSpec;

use super::{Session, pump::Run};
use crate::{
    event::{Event, StreamEvent},
    send::{SendStream, Settled},
};

/// Time between two divisions.
const PERIOD: Duration = Duration::from_millis(200);
/// Time after its last fragment for which a stream counts as sending.
const SENDING: Duration = Duration::from_millis(500);
/// Relative change of an offer that is worth an event: one in four.
const CHANGE: u64 = 4;
/// Longest queue of a stream with a drop order, in time at its share; its lifetime if that is shorter.
const QUEUE: Duration = Duration::from_millis(500);
/// Burst that a capped stream may send after a silence, in time at its cap.
const BURST: Duration = Duration::from_millis(50);
/// Credit that a capped stream waits for when it has none, in time at its cap: so that not every packet
/// wakes the pump.
const QUANTUM: Duration = Duration::from_millis(5);

/// State of a stream that is sending. Key: stream.
#[derive(Clone, Copy, Debug)]
struct Account {
    stream: StreamId,
    /// Bytes accepted from the application until the last division.
    accepted_bytes: u64,
    /// Rate of the data handed over to it, smoothed.
    demand_bps: u64,
    /// Its offer; `None` before the first division.
    offer_bps: Option<u64>,
    /// The offer in the last event.
    reported_bps: Option<u64>,
}

/// Key: session.
#[derive(Debug)]
pub(super) struct Shares {
    check_at: Instant,
    /// Accounts of streams that are sending, by stream, ascending.
    accounts: Vec<Account>,
    /// Buckets of streams with a cap that are not idle.
    buckets: BTreeMap<StreamId, Bucket>,
    /// Streams with a drop order, and some that had one.
    droppers: BTreeSet<StreamId>,
    allocator: Allocator,
    asks: Vec<Ask>,
}

impl Shares {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            check_at: now + PERIOD,
            accounts: Vec::new(),
            buckets: BTreeMap::new(),
            droppers: BTreeSet::new(),
            allocator: Allocator::default(),
            asks: Vec::new(),
        }
    }

    /// Time at which accounts of sending streams may be dropped, because the pump has had no reason to run for long.
    pub(super) fn rests_at(&self) -> Option<Instant> {
        (!self.accounts.is_empty()).then(|| self.check_at + SENDING)
    }

    /// Frees memory when all streams have fallen silent: idle sessions should be small.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.rests_at().is_some_and(|at| at <= now) {
            self.accounts = Vec::new();
            self.asks.clear();
            self.shrink();
        }
    }

    /// Frees memory that was needed by many streams which are silent now.
    fn shrink(&mut self) {
        if self.asks.capacity() > 4 * self.asks.len() + 64 {
            self.asks.shrink_to(2 * self.asks.len());
            self.allocator = Allocator::default();
        }
    }

    /// Notes a new stream, or a change of its spec.
    pub(super) fn note_order(&mut self, stream: StreamId, spec: &StreamSpec) {
        if spec.drop.is_some() {
            self.droppers.insert(stream);
        }
    }

    /// True if the stream has used up the credit of its cap.
    pub(super) fn is_spent(&self, stream: StreamId) -> bool {
        self.buckets.get(&stream).is_some_and(Bucket::is_spent)
    }

    /// Charges the `bytes` that a stream with this cap has sent.
    pub(super) fn charge(&mut self, now: Instant, stream: StreamId, cap: Rate, bytes: usize) {
        let bucket = self.buckets.entry(stream);
        let bucket = bucket.or_insert_with(|| Bucket::new(now, cap));
        bucket.advance(now, cap);
        bucket.charge(bytes);
    }

    /// Rate of the data that a stream is handed, in bytes per second; 0 if it does not send.
    pub(super) fn demand_bytes_per_s(&self, stream: StreamId) -> f64 {
        let place = self.place(stream);
        place.map_or(0.0, |place| self.accounts[place].demand_bps as f64 / 8.0)
    }

    /// The streams that are sending, with the rate of the data that each is handed, in bytes per second.
    pub(super) fn demands(&self) -> impl Iterator<Item = (StreamId, f64)> + '_ {
        let demand = |account: &Account| (account.stream, account.demand_bps as f64 / 8.0);
        self.accounts.iter().map(demand)
    }

    fn offer(&self, stream: StreamId) -> Option<Rate> {
        let place = self.place(stream).ok()?;
        self.accounts[place].offer_bps.map(Rate::from_bps)
    }

    fn place(&self, stream: StreamId) -> Result<usize, usize> {
        self.accounts
            .binary_search_by_key(&stream, |account| account.stream)
    }
}

/// A token bucket in bits · ns/s, exact: in any time t, a stream sends at most cap · t, the content of the
/// bucket ([`BURST`] at the cap) and the packet with which it was used up. Key: stream.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    at: Instant,
    cap_bps: u64,
    /// Credit; negative after the last packet, then nothing is sent until a quantum has been earned.
    credit: i128,
    /// True if it is used up, and a quantum has not been earned yet.
    waits: bool,
}

/// Units of credit in a byte.
const PER_BYTE: i128 = 8 * 1_000_000_000;

impl Bucket {
    fn new(now: Instant, cap: Rate) -> Self {
        let mut bucket = Self {
            at: now,
            cap_bps: cap.as_bps(),
            credit: 0,
            waits: false,
        };
        bucket.credit = bucket.worth(BURST);
        bucket
    }

    fn worth(&self, time: Duration) -> i128 {
        i128::from(self.cap_bps) * time.as_nanos().min(u128::from(u64::MAX)) as i128
    }

    /// Adds the credit earned since the last call, at the cap of that time; then `cap` applies.
    fn advance(&mut self, now: Instant, cap: Rate) {
        self.credit += self.worth(now.since(self.at));
        self.at = now;
        self.cap_bps = cap.as_bps();
        self.credit = self.credit.min(self.worth(BURST));
        self.waits = self.waits && self.credit < self.worth(QUANTUM);
    }

    fn charge(&mut self, bytes: usize) {
        self.credit -= bytes as i128 * PER_BYTE;
        self.waits = self.waits || self.credit <= 0;
    }

    fn is_spent(&self) -> bool {
        self.waits
    }

    /// Time at which a quantum will have been earned.
    fn ready_at(&self) -> Instant {
        let missing = self.worth(QUANTUM) - self.credit;
        let nanos = missing.max(0) / i128::from(self.cap_bps.max(1)) + 1;
        self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// True if it is full, as if it had never been used.
    fn is_full(&self) -> bool {
        self.credit >= self.worth(BURST)
    }
}

impl Session {
    /// Refills the buckets of capped streams, and removes those that are full.
    pub(super) fn advance_caps(&mut self, run: &mut Run<'_>) {
        let send = &mut self.streams.send;
        self.shares.buckets.retain(|stream, bucket| {
            let Some(cap) = send.get(stream).and_then(|send| send.spec.cap) else {
                return false;
            };
            let was_spent = bucket.is_spent();
            bucket.advance(run.now, cap);
            if was_spent && !bucket.is_spent() {
                // The policy's view of the stream has changed.
                send.get_mut(stream);
            }
            !bucket.is_full()
        });
    }

    /// Wakes the pump for streams that have used up the credit of their caps.
    pub(super) fn wait_for_caps(&mut self) {
        for (stream, bucket) in &self.shares.buckets {
            let waits = |send: &SendStream| send.backlog_bytes() > 0;
            if bucket.is_spent()
                && self
                    .streams
                    .send
                    .get(stream)
                    .is_some_and(|send| waits(send))
            {
                let at = bucket.ready_at();
                self.pump.wake_at(at);
            }
        }
    }

    /// Divides capacity again when it is time to, and notifies streams whose offers have changed.
    pub(super) fn note_shares(&mut self, run: &mut Run<'_>) {
        if run.now < self.shares.check_at {
            return;
        }
        self.shares.check_at = run.now + PERIOD;
        let paths = run.scratch.channels.iter().zip(&run.scratch.traits);
        let in_use = paths.filter(|(_, traits)| !traits.is_out);
        let capacity: f64 = in_use.map(|(view, _)| capacity_bytes_per_s(view)).sum();
        let capacity_bps = (8.0 * capacity) as u64;
        self.note_demands(run.now);
        self.shares.shrink();
        if capacity_bps == 0 {
            return;
        }
        let shares = &mut self.shares;
        shares.allocator.allocate(capacity_bps, &shares.asks);
        let offers = shares.allocator.offers(&shares.asks);
        for (account, &offer) in shares.accounts.iter_mut().zip(offers) {
            account.offer_bps = Some(offer);
            let changed = |before: u64| offer.abs_diff(before) > before / CHANGE;
            if account.reported_bps.is_none_or(changed) {
                account.reported_bps = Some(offer);
                run.events.push_back(Event::Stream {
                    session: self.id,
                    stream: account.stream,
                    event: StreamEvent::Throttle {
                        rate: Rate::from_bps(offer),
                    },
                });
            }
        }
    }

    /// Measures the demands of streams, and makes an account and a request for each that has one.
    fn note_demands(&mut self, now: Instant) {
        let before = std::mem::take(&mut self.shares.accounts);
        self.shares.asks.clear();
        for send in self.streams.send.values() {
            let sends = send.sent_at.is_some_and(|at| now.since(at) < SENDING);
            if !sends && send.backlog_bytes() == 0 {
                continue;
            }
            let known = before.binary_search_by_key(&send.id, |account| account.stream);
            let known = known.ok().map(|place| before[place]);
            let account = Account::of(send, known);
            self.shares.accounts.push(account);
            let claim = self.promises.claim(send.id);
            self.shares.asks.push(Ask {
                priority: send.spec.priority,
                weight: send.spec.weight,
                demand: (!send.blocked).then_some(account.demand_bps),
                cap: send.spec.cap.map(Rate::as_bps),
                claim: claim.map(|claim| Reserve {
                    rank: claim.rank,
                    rate: (claim.bytes_per_s * 8.0) as u64,
                }),
            });
        }
    }

    /// Drops ADUs that wait beyond the shares of streams with a drop order, where the shares
    /// hold them back: no slot is left, or the cap is used up.
    pub(super) fn shed(&mut self, run: &mut Run<'_>) {
        if self.shares.droppers.is_empty() {
            return;
        }
        let send = &self.streams.send;
        let is_dropper = |stream: &StreamId| {
            let send = send.get(stream);
            send.is_some_and(|send| send.spec.drop.is_some())
        };
        self.shares.droppers.retain(is_dropper);
        let no_slot = run
            .scratch
            .channels
            .iter()
            .all(|channel| channel.slots == 0);
        let is_held_back = |stream: &StreamId| {
            let waits = send
                .get(stream)
                .is_some_and(|send| send.backlog_bytes() > 0);
            waits && (no_slot || self.shares.is_spent(*stream))
        };
        let droppers = self.shares.droppers.iter().copied();
        let held_back: Vec<StreamId> = droppers.filter(is_held_back).collect();
        for stream in held_back {
            let offer = self.shares.offer(stream);
            let Some(send) = self.streams.send.get_mut(&stream) else {
                continue;
            };
            let Some(rate) = offer.into_iter().chain(send.spec.cap).min() else {
                continue;
            };
            let time = send.spec.lifetime.map_or(QUEUE, |life| life.min(QUEUE));
            let most_bytes = (rate.as_bytes_per_s() * time.as_secs_f64()) as u64;
            let mut settled: Vec<Settled> = Vec::new();
            send.shed(most_bytes, &mut settled);
            if !settled.is_empty() {
                self.settle(stream, settled, run.events);
            }
        }
    }
}

impl Account {
    /// The stream's account, with its demand since the last division: the larger of the bytes handed over to it and those
    /// that wait at the end. A rise counts at once, a fall by half.
    fn of(send: &SendStream, known: Option<Self>) -> Self {
        let accepted = send.counters.bytes;
        let (since, smoothed) = match known {
            Some(account) => (accepted - account.accepted_bytes, account.demand_bps),
            None => (send.held_bytes() as u64, 0),
        };
        // Bytes that were accepted and still wait are in both.
        let wanted = since.max(send.backlog_bytes());
        let demand = Rate::from_bytes_per(wanted, PERIOD).as_bps();
        Self {
            stream: send.id,
            accepted_bytes: accepted,
            demand_bps: demand.max(smoothed / 2 + demand / 2),
            offer_bps: known.and_then(|account| account.offer_bps),
            reported_bps: known.and_then(|account| account.reported_bps),
        }
    }
}

/// Capacity of a channel: the rate that it delivers while it is full, else at least the rate that its window allows.
pub(super) fn capacity_bytes_per_s(view: &ChannelView) -> f64 {
    let delivered = view.rate_bytes_per_s;
    if view.slots == 0 || view.rtt_smoothed.is_zero() {
        return delivered;
    }
    delivered.max(view.window_bytes as f64 / view.rtt_smoothed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accounts_of_silent_streams_are_dropped_in_time() {
        let mut shares = Shares::new(Instant::from_secs(1));
        assert_eq!(shares.rests_at(), None);
        shares.accounts.push(Account {
            stream: StreamId(0),
            accepted_bytes: 0,
            demand_bps: 0,
            offer_bps: None,
            reported_bps: None,
        });
        let at = shares.rests_at().unwrap();
        assert!(at > Instant::from_secs(1));
        shares.rest(at - Duration::from_nanos(1));
        assert!(!shares.accounts.is_empty());
        shares.rest(at);
        assert!(shares.accounts.is_empty());
    }

    proptest! {
        /// However a stream sends: between any two packets it has sent no more than the cap allows for the
        /// time, the burst, and one packet.
        #[test]
        fn a_cap_holds_over_every_interval(
            cap_kbps in 1..100_000_u64,
            steps in proptest::collection::vec((0..50_000_u64, 1..1500_usize), 1..200),
        ) {
            let cap = Rate::from_kbps(cap_kbps);
            let mut now = Instant::from_secs(1);
            let mut bucket = Bucket::new(now, cap);
            let mut sent: Vec<(Instant, usize)> = Vec::new();
            for (micros, bytes) in steps {
                now += Duration::from_micros(micros);
                bucket.advance(now, cap);
                while !bucket.is_spent() && sent.len() < 2000 {
                    bucket.charge(bytes);
                    sent.push((now, bytes));
                }
                prop_assert!(bucket.ready_at() > now || sent.len() >= 2000);
            }
            let burst = cap.as_bytes_per_s() * BURST.as_secs_f64();
            for (first, (from, _)) in sent.iter().enumerate().step_by(7) {
                let mut total = 0;
                for (until, bytes) in &sent[first..] {
                    total += bytes;
                    let allowed = cap.as_bytes_per_s() * until.since(*from).as_secs_f64() + burst;
                    prop_assert!(total as f64 <= allowed + 1500.0 + 1e-6);
                }
            }
        }

        /// A stream that always has something to send reaches its cap, apart from a quantum at most.
        #[test]
        fn a_cap_is_reached(cap_kbps in 100..100_000_u64, bytes in 100..1500_usize) {
            let cap = Rate::from_kbps(cap_kbps);
            let start = Instant::from_secs(1);
            let (mut now, mut bucket, mut total) = (start, Bucket::new(start, cap), 0);
            while now.since(start) < Duration::from_secs(2) {
                bucket.advance(now, cap);
                while !bucket.is_spent() {
                    bucket.charge(bytes);
                    total += bytes;
                }
                now = bucket.ready_at();
            }
            let due = cap.as_bytes_per_s() * 2.0;
            let quantum = cap.as_bytes_per_s() * QUANTUM.as_secs_f64();
            prop_assert!(total as f64 >= due - quantum - 1.0, "{} of {}", total, due);
        }
    }

    #[test]
    fn a_silence_saves_up_no_more_than_a_burst() {
        let cap = Rate::from_kbps(800);
        let mut bucket = Bucket::new(Instant::EPOCH, cap);
        bucket.charge(5_000);
        assert!(bucket.is_spent(), "50 ms at 100 kB/s");
        bucket.advance(Instant::from_millis(4), cap);
        assert!(bucket.is_spent(), "not a quantum yet");
        bucket.advance(Instant::from_millis(5), cap);
        assert!(!bucket.is_spent() && !bucket.is_full());
        bucket.advance(Instant::from_secs(100), cap);
        assert!(bucket.is_full());
        bucket.charge(4_999);
        assert!(!bucket.is_spent());
        bucket.charge(1);
        assert!(bucket.is_spent());
    }

    /// A channel with `slots` that delivers 1 MB/s and whose window allows 2 MB/s.
    fn channel(slots: usize, rtt_ms: u64) -> ChannelView {
        ChannelView {
            id: anabranch_base::ChannelId(0),
            slots,
            packet_bytes: 1_200,
            rtt_smoothed: Duration::from_millis(rtt_ms),
            rtt_min: Duration::ZERO,
            rtt_usual: Duration::ZERO,
            rtt_variation: Duration::ZERO,
            rate_bytes_per_s: 1e6,
            window_bytes: 100_000,
            in_flight_bytes: 0,
            loss: 0.0,
        }
    }

    #[test]
    fn a_full_channel_has_the_capacity_that_it_delivers() {
        assert_eq!(capacity_bytes_per_s(&channel(0, 50)), 1e6);
        assert_eq!(
            capacity_bytes_per_s(&channel(2, 50)),
            2e6,
            "as the window allows"
        );
        assert_eq!(
            capacity_bytes_per_s(&channel(2, 200)),
            1e6,
            "at least as it delivers"
        );
        assert_eq!(
            capacity_bytes_per_s(&channel(2, 0)),
            1e6,
            "no round trip yet"
        );
    }
}

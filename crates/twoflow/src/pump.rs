//! Leaky buckets, one for each flow, driven by one timer [Two-flow §4.2, §5.2].
//!
//! Items leave their flow one by one, each after the time that the one before takes at the flow's rate. Flows with a
//! timer of their own each were seen to wait for one another and then to send in bursts, which overflow a queue sized
//! for the number of flows [Two-flow §5.2]. Here, whatever is due at a tick leaves at that tick, in order of the time
//! at which it was due, and optionally no faster than the pipe carries it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, Rate};

/// Timer delay that costs a flow nothing; after a longer one the flow continues from the current time.
const LATE_MAX: Duration = Duration::from_millis(20);

/// A flow of a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// An item that a pump releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release<T> {
    /// Its flow.
    pub flow: FlowId,
    /// Its size in bytes, as given when it was pushed.
    pub bytes: u32,
    /// The item that was pushed.
    pub item: T,
    /// Time at which it was due; at most now.
    pub due: Instant,
}

/// The buffer of a flow is full, or there is no such flow; the item is handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<T>(pub T);

#[derive(Debug)]
struct Flow<T> {
    bytes_per_s: f64,
    queue: VecDeque<(u32, T)>,
    queued_bytes: u64,
    queue_max_bytes: u64,
    /// Time at which the head of the queue may leave.
    due: Instant,
}

/// Pump for all flows of a pipe. Pushing and releasing cost O(log flows).
#[derive(Debug)]
pub struct Pump<T> {
    flows: BTreeMap<FlowId, Flow<T>>,
    /// Flows with something to send and a rate above zero.
    due: BTreeSet<(Instant, FlowId)>,
    tick: Duration,
    /// Rate of the pipe, if it is to be kept, and the time at which it is free again.
    pipe: Option<f64>,
    free_at: Instant,
}

impl<T> Pump<T> {
    /// A pump whose timer fires at multiples of `tick` only; if zero, whenever something is due. The coarser the tick,
    /// the fewer wake-ups and the larger the bursts.
    pub fn new(tick: Duration) -> Self {
        Self {
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            tick,
            pipe: None,
            free_at: Instant::EPOCH,
        }
    }

    /// Limits the rate of all flows together; `None`: items leave as soon as they are due. Delay that this limit causes
    /// beyond the tolerated lateness of a timer is not made up for.
    pub fn set_pipe_rate(&mut self, rate: Option<Rate>) {
        self.pipe = rate.map(|rate| rate.as_bytes_per_s().max(1.0));
    }

    /// Adds a flow, or changes the rate and buffer of a known one. At rate zero nothing leaves.
    pub fn add(&mut self, now: Instant, flow: FlowId, rate: Rate, queue_max_bytes: u64) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.queue_max_bytes = queue_max_bytes;
            self.set_rate(now, flow, rate);
            return;
        }
        let fresh = Flow {
            bytes_per_s: rate.as_bytes_per_s(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            queue_max_bytes,
            due: now,
        };
        self.flows.insert(flow, fresh);
    }

    /// Changes the rate of a flow from now on: the remaining delay of its head is stretched or shortened. Unknown flows
    /// are ignored.
    pub fn set_rate(&mut self, now: Instant, id: FlowId, rate: Rate) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        self.due.remove(&(flow.due, id));
        let before = flow.bytes_per_s;
        flow.bytes_per_s = rate.as_bytes_per_s();
        let wait = flow.due.since(now).as_secs_f64();
        if before > 0.0 && flow.bytes_per_s > 0.0 && wait > 0.0 {
            let wait_s = (wait * before / flow.bytes_per_s).min(3_600.0);
            flow.due = now + Duration::from_secs_f64(wait_s);
        }
        if flow.bytes_per_s > 0.0 && !flow.queue.is_empty() {
            self.due.insert((flow.due, id));
        }
    }

    /// Removes a flow; its remaining items are handed back, in order.
    pub fn remove(&mut self, id: FlowId) -> Vec<T> {
        let Some(flow) = self.flows.remove(&id) else {
            return Vec::new();
        };
        self.due.remove(&(flow.due, id));
        flow.queue.into_iter().map(|(_, item)| item).collect()
    }

    /// Puts back an item that was released and could not be sent: it is the first to leave when the flow may send
    /// again, at the next tick after `now` at the earliest. False if the flow has been removed meanwhile; the item is
    /// dropped then.
    pub fn put_back(&mut self, now: Instant, release: Release<T>) -> bool {
        let Some(flow) = self.flows.get_mut(&release.flow) else {
            return false;
        };
        self.due.remove(&(flow.due, release.flow));
        flow.queued_bytes += u64::from(release.bytes);
        flow.queue.push_front((release.bytes, release.item));
        flow.due = now + Duration::from_nanos(1);
        if flow.bytes_per_s > 0.0 {
            self.due.insert((flow.due, release.flow));
        }
        true
    }

    /// Queues an item of a flow.
    ///
    /// # Errors
    /// The flow is unknown, or its buffer holds something and would exceed its bound; the item is handed back.
    pub fn push(
        &mut self,
        now: Instant,
        id: FlowId,
        bytes: u32,
        item: T,
    ) -> Result<(), Refused<T>> {
        let Some(flow) = self.flows.get_mut(&id) else {
            return Err(Refused(item));
        };
        let queued_bytes = flow.queued_bytes + u64::from(bytes);
        if !flow.queue.is_empty() && queued_bytes > flow.queue_max_bytes {
            return Err(Refused(item));
        }
        if flow.queue.is_empty() {
            // An idle flow accumulates no credit.
            flow.due = flow.due.max(now);
            if flow.bytes_per_s > 0.0 {
                self.due.insert((flow.due, id));
            }
        }
        flow.queued_bytes = queued_bytes;
        flow.queue.push_back((bytes, item));
        Ok(())
    }

    /// Returns the next item that may leave now, of all flows the one that has been due longest; `None` until
    /// [`Pump::poll_timeout`].
    pub fn poll(&mut self, now: Instant) -> Option<Release<T>> {
        let &(due, id) = self.due.first()?;
        if due > now || (self.pipe.is_some() && self.free_at > now) {
            return None;
        }
        self.due.remove(&(due, id));
        let flow = self.flows.get_mut(&id)?;
        let (bytes, item) = flow.queue.pop_front()?;
        flow.queued_bytes -= u64::from(bytes);
        flow.due = after(due, now, bytes, flow.bytes_per_s);
        if !flow.queue.is_empty() {
            self.due.insert((flow.due, id));
        }
        if let Some(rate) = self.pipe {
            self.free_at = after(self.free_at.max(due), now, bytes, rate);
        }
        Some(Release {
            flow: id,
            bytes,
            item,
            due,
        })
    }

    /// Next time at which something may leave, at a multiple of the tick; `None` while nothing waits.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let &(due, _) = self.due.first()?;
        let at = match self.pipe {
            Some(_) => due.max(self.free_at),
            None => due,
        };
        let tick = self.tick.as_nanos() as u64;
        if tick == 0 {
            return Some(at);
        }
        Some(Instant::from_nanos(at.as_nanos().div_ceil(tick) * tick))
    }

    /// True if nothing of a flow waits, or the flow is unknown.
    pub fn is_idle(&self, id: FlowId) -> bool {
        self.flows.get(&id).is_none_or(|flow| flow.queue.is_empty())
    }

    /// Bytes of a flow that wait; 0 for an unknown one.
    pub fn queued_bytes(&self, id: FlowId) -> u64 {
        self.flows.get(&id).map_or(0, |flow| flow.queued_bytes)
    }

    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
}

/// Earliest time for the item after one that was due at `due` and leaves now.
fn after(due: Instant, now: Instant, bytes: u32, bytes_per_s: f64) -> Instant {
    let began = if now.since(due) > LATE_MAX { now } else { due };
    let seconds = (f64::from(bytes) / bytes_per_s.max(1e-3)).min(3_600.0);
    began + Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: FlowId = FlowId(1);
    const B: FlowId = FlowId(2);

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn pump(tick_ms: u64) -> Pump<u32> {
        Pump::new(Duration::from_millis(tick_ms))
    }

    /// Releases everything until `end`, with the times.
    fn run(pump: &mut Pump<u32>, end: Instant) -> Vec<(Instant, Release<u32>)> {
        let mut out = Vec::new();
        while let Some(at) = pump.poll_timeout().filter(|&at| at <= end) {
            while let Some(release) = pump.poll(at) {
                out.push((at, release));
            }
        }
        out
    }

    #[test]
    fn items_leave_at_the_rate_of_their_flow() {
        let mut pump = pump(0);
        pump.add(ms(0), A, Rate::from_kbps(800), 10_000);
        for item in 0..4 {
            pump.push(ms(0), A, 1_000, item).unwrap();
        }
        let times: Vec<u64> = run(&mut pump, ms(1_000))
            .iter()
            .map(|(at, _)| at.as_nanos() / 1_000_000)
            .collect();
        assert_eq!(times, [0, 10, 20, 30]);
        // No credit accumulates while there is nothing to send.
        for item in 0..2 {
            pump.push(ms(500), A, 1_000, item).unwrap();
        }
        assert_eq!(run(&mut pump, ms(1_000))[1].0, ms(510));
    }

    #[test]
    fn a_late_timer_costs_nothing_and_a_very_late_one_is_not_made_up_for() {
        let mut pump = pump(0);
        pump.add(ms(0), A, Rate::from_kbps(800), 10_000);
        for item in 0..9 {
            pump.push(ms(0), A, 1_000, item).unwrap();
        }
        let mut at = |now: u64| std::iter::from_fn(|| pump.poll(ms(now))).count();
        assert_eq!(
            [at(0), at(15), at(20), at(200), at(205), at(210)],
            [1, 1, 1, 1, 0, 1]
        );
    }

    #[test]
    fn one_timer_serves_all_flows() {
        let mut pump = pump(5);
        pump.add(ms(0), A, Rate::from_kbps(800), 10_000);
        pump.add(ms(0), B, Rate::from_kbps(400), 10_000);
        for item in 0..3 {
            pump.push(ms(1), A, 1_000, item).unwrap();
            pump.push(ms(2), B, 1_000, item).unwrap();
        }
        let out = run(&mut pump, ms(1_000));
        let seen: Vec<(u64, u64)> = out
            .iter()
            .map(|(at, release)| (at.as_nanos() / 1_000_000, release.flow.0))
            .collect();
        assert_eq!(seen, [(5, 1), (5, 2), (15, 1), (25, 1), (25, 2), (45, 2)]);
    }

    #[test]
    fn the_pipe_bounds_what_leaves_together() {
        let mut pump = pump(0);
        pump.set_pipe_rate(Some(Rate::from_kbps(1_600)));
        for flow in 0..4 {
            pump.add(ms(0), FlowId(flow), Rate::from_kbps(400), 10_000);
            pump.push(ms(0), FlowId(flow), 1_000, 0).unwrap();
        }
        let times: Vec<u64> = run(&mut pump, ms(100))
            .iter()
            .map(|(at, _)| at.as_nanos() / 1_000_000)
            .collect();
        assert_eq!(times, [0, 5, 10, 15]);
    }

    #[test]
    fn rates_change_while_items_wait() {
        let mut pump = pump(0);
        pump.add(ms(0), A, Rate::from_kbps(80), 10_000);
        pump.push(ms(0), A, 1_000, 0).unwrap();
        pump.push(ms(0), A, 1_000, 1).unwrap();
        assert!(pump.poll(ms(0)).is_some());
        assert_eq!(pump.poll_timeout(), Some(ms(100)));
        pump.set_rate(ms(50), A, Rate::from_kbps(800));
        assert_eq!(pump.poll_timeout(), Some(ms(55)));
        pump.set_rate(ms(50), A, Rate::ZERO);
        assert_eq!(pump.poll_timeout(), None);
        pump.set_rate(ms(60), A, Rate::from_kbps(800));
        assert!(pump.poll(ms(60)).is_some());
        assert_eq!(pump.remove(A), [0u32; 0]);
    }

    /// Items that could not be sent leave first, in order, and no sooner than at the next tick.
    #[test]
    fn an_unsent_item_is_put_back() {
        let mut pump = pump(5);
        pump.add(ms(0), A, Rate::from_kbps(800), 10_000);
        for item in 0..3 {
            pump.push(ms(0), A, 1_000, item).unwrap();
        }
        let refused = pump.poll(ms(0)).unwrap();
        assert!(pump.put_back(ms(0), refused));
        assert_eq!((pump.poll(ms(0)), pump.queued_bytes(A)), (None, 3_000));
        assert_eq!(pump.poll_timeout(), Some(ms(5)));
        let left: Vec<u32> = run(&mut pump, ms(1_000))
            .iter()
            .map(|(_, release)| release.item)
            .collect();
        assert_eq!(left, [0, 1, 2]);
        assert!(pump.is_idle(A));
        pump.push(ms(0), A, 1_000, 3).unwrap();
        let release = pump.poll(ms(1_000)).unwrap();
        pump.remove(A);
        assert!(!pump.put_back(ms(1_000), release));
    }

    #[test]
    fn a_full_buffer_hands_back() {
        let mut pump = pump(0);
        pump.add(ms(0), A, Rate::from_kbps(80), 1_500);
        // One item is always accepted.
        assert_eq!(pump.push(ms(0), A, 9_000, 1), Ok(()));
        assert_eq!(pump.push(ms(0), A, 1, 2), Err(Refused(2)));
        assert_eq!(pump.push(ms(0), B, 1, 3), Err(Refused(3)));
        assert_eq!(pump.remove(A), [1]);
        assert_eq!(pump.poll_timeout(), None);
    }

    proptest! {
        /// With any sequence of pushes and polls, everything leaves once and in order, and no flow exceeds its rate,
        /// over any time, by more than an item and the tolerated lateness of a timer.
        #[test]
        fn budgets_hold_and_nothing_is_lost(
            pushes in prop::collection::vec((0u64..30, 0u64..3, 1u32..1_500), 1..200),
            polls in prop::collection::vec(0u64..40, 1..200),
            rates in prop::collection::vec(8u64..4_000, 3),
            tick_ms in 0u64..6,
            pipe in prop::option::of(100u64..4_000),
        ) {
            let mut pump = pump(tick_ms);
            pump.set_pipe_rate(pipe.map(Rate::from_kbps));
            for (flow, &kbps) in rates.iter().enumerate() {
                pump.add(ms(0), FlowId(flow as u64), Rate::from_kbps(kbps), u64::MAX);
            }
            let mut events: Vec<(u64, Option<(u64, u32)>)> = Vec::new();
            let mut at = 0;
            for &(step, flow, bytes) in &pushes {
                at += step;
                events.push((at, Some((flow, bytes))));
            }
            at = 0;
            for &step in &polls {
                at += step;
                events.push((at, None));
            }
            events.sort_by_key(|event| event.0);
            let mut out: Vec<(Instant, Release<u32>)> = Vec::new();
            for (number, &(at, push)) in events.iter().enumerate() {
                match push {
                    Some((flow, bytes)) => {
                        let pushed = pump.push(ms(at), FlowId(flow), bytes, number as u32);
                        prop_assert_eq!(pushed, Ok(()));
                    }
                    None => {
                        while let Some(release) = pump.poll(ms(at)) {
                            prop_assert!(release.due <= ms(at));
                            out.push((ms(at), release));
                        }
                    }
                }
            }
            out.extend(run(&mut pump, Instant::from_secs(100_000)));
            prop_assert_eq!(out.len(), pushes.len());
            prop_assert_eq!(pump.poll_timeout(), None);
            for flow in 0..3u64 {
                let of: Vec<_> = out.iter().filter(|(_, release)| release.flow == FlowId(flow)).collect();
                prop_assert!(of.windows(2).all(|pair| pair[0].1.item < pair[1].1.item));
                let rate = Rate::from_kbps(rates[flow as usize]).as_bytes_per_s();
                for first in 0..of.len() {
                    let mut bytes = 0.0;
                    for last in first..of.len() {
                        // The last item's own transmission time is still to come.
                        if last > first {
                            bytes += f64::from(of[last - 1].1.bytes);
                        }
                        let time = of[last].0.since(of[first].0) + LATE_MAX;
                        prop_assert!(bytes <= rate * time.as_secs_f64() + 1.0);
                    }
                }
            }
        }
    }
}

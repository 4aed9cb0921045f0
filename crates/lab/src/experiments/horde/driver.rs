//! Cycles of a scheduler over simulated channels.

use std::{cmp::Reverse, collections::BinaryHeap};

use anabranch_base::{Seed, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use anabranch_sched::objective::{self, Adu, Cycle, Fields, Planner, Schedule, Stream};
use anabranch_spec::{ChannelMask, Correlation};

use super::channel::{ADU_BYTES, Channel, Kind};

/// Distance at which packets of one channel are expected to be lost independently [Horde §7.2.1].
const CORRELATED: i32 = 8;
/// Decay of the expected correlation from 1 with each packet between two. Assumed: the thesis states "exponentially".
const DECAY: f64 = 0.5;

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub kinds: Vec<Kind>,
    /// Number of streams, each with the same demand, greater than the capacity; and the number of the first.
    pub streams: u64,
    pub first: u64,
    pub period_ms: f64,
    pub ahead_ms: f64,
    pub length_ms: f64,
    pub objectives: String,
}

impl Setting {
    /// Four streams on the channels of Figure 7-5, in cycles of 100 ms with 300 ms of look-ahead [Horde §7.2, §7.3].
    pub(super) fn published(objectives: &str) -> Self {
        Self {
            kinds: Kind::published(),
            streams: 4,
            first: 0,
            period_ms: 100.0,
            ahead_ms: 300.0,
            length_ms: 3_600e3,
            objectives: objectives.to_owned(),
        }
    }
}

/// A transmitted ADU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delivery {
    pub stream: u64,
    pub sequence: u64,
    pub channel: usize,
    /// Time from the offer of its stream until it was sent.
    pub waited_ms: f64,
    /// `None`: lost.
    pub round_trip_ms: Option<f64>,
}

/// An ADU of a stream that always has more to send.
#[derive(Clone, Copy, Debug)]
struct Offered {
    sequence: u64,
    since_ms: f64,
}

#[derive(Debug)]
struct Source {
    /// ADUs that the scheduler has seen and not sent.
    offered: Vec<Offered>,
    next: u64,
    sent: u64,
}

/// Feedback about a packet: the time at which it arrives, the channel, the packet's number, its round trip; in whole
/// microseconds, so that it can be ordered.
type Feedback = Reverse<(u64, usize, u64, Option<u64>)>;

/// Runs the setting; returns everything that is sent, in order.
pub(super) fn run(setting: &Setting, planner: &mut dyn Planner, seed: Seed) -> Vec<Delivery> {
    let kinds = setting.kinds.iter().enumerate();
    let mut channels: Vec<Channel> = kinds
        .map(|(index, kind)| Channel::new(index, kind.clone(), seed))
        .collect();
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    objectives
        .inject(&setting.objectives)
        .expect("published objectives are correct");
    let mut sources: Vec<Source> = (0..setting.streams)
        .map(|_| Source {
            offered: Vec::new(),
            next: 0,
            sent: 0,
        })
        .collect();
    let mut cycle = frame(setting);
    let (mut schedule, mut deliveries) = (Schedule::new(), Vec::new());
    let mut feedback: BinaryHeap<Feedback> = BinaryHeap::new();
    let mut now_ms = 0.0;
    while now_ms < setting.length_ms {
        now_ms += setting.period_ms;
        while let Some(&Reverse((at_us, channel, number, trip_us))) = feedback.peek() {
            if at_us as f64 > now_ms * 1e3 {
                break;
            }
            feedback.pop();
            let trip_ms = trip_us.map(|us| us as f64 / 1e3);
            channels[channel].learn(number, at_us as f64 / 1e3, trip_ms);
        }
        cycle.slots.clear();
        for channel in &mut channels {
            channel.slots(now_ms, setting.ahead_ms, &mut cycle.slots);
        }
        if cycle.slots.is_empty() {
            continue;
        }
        offer(setting.first, &mut sources, &mut cycle, now_ms);
        planner.plan(&cycle, &mut objectives, &mut schedule);
        for (adu, slot) in cycle.adus.iter().zip(&schedule) {
            let Some(slot) = slot.map(|slot| &cycle.slots[slot as usize]) else {
                continue;
            };
            if slot.is_phantom() {
                continue;
            }
            let channel = slot.channel as usize;
            let first = cycle
                .slots
                .iter()
                .find(|first| first.channel == slot.channel);
            let nth = slot.sequence - first.map_or(0, |first| first.sequence);
            let (number, trip) = channels[channel].send(nth, now_ms);
            // A loss is detected when the acknowledgement is overdue.
            let after_ms = trip.unwrap_or(2.0 * slot.round_trip_ms);
            let at_us = ((now_ms + after_ms) * 1e3) as u64;
            let trip_us = trip.map(|ms| (ms * 1e3) as u64);
            feedback.push(Reverse((at_us, channel, number, trip_us)));
            let source = &mut sources[(adu.stream.0 - setting.first) as usize];
            source.offered.retain(|one| one.sequence != adu.sequence);
            source.sent += 1;
            deliveries.push(Delivery {
                stream: adu.stream.0,
                sequence: adu.sequence,
                channel,
                waited_ms: adu.waited_ms,
                round_trip_ms: trip,
            });
        }
    }
    deliveries
}

/// The part of a cycle that is the same in all cycles.
fn frame(setting: &Setting) -> Cycle {
    let channels = setting.kinds.len();
    let mut correlation = Correlation::independent(channels);
    for channel in 0..channels {
        let apart = (0..CORRELATED).map(|between| DECAY.powi(between));
        correlation.set_apart(channel, apart.collect());
    }
    let stream = |id| Stream {
        id: StreamId(id),
        label: f64::NAN,
        latency_ms: f64::NAN,
        deviation_ms: f64::NAN,
        loss: f64::NAN,
        jitter_ms: f64::NAN,
    };
    let channel = |(id, kind): (usize, &Kind)| objective::Channel {
        id: id as u64,
        name: anabranch_hose::symbol(&kind.name),
        technology: f64::NAN,
        is_metered: false,
        rate_bps: kind.rate_bps,
        fields: Vec::new(),
    };
    Cycle {
        streams: (setting.first..setting.first + setting.streams)
            .map(stream)
            .collect(),
        channels: setting.kinds.iter().enumerate().map(channel).collect(),
        correlation,
        ..Cycle::default()
    }
}

/// As many ADUs as there are slots, from the heads of the streams' queues: each time from the stream served least, so that in
/// the long run all get the same.
fn offer(first: u64, sources: &mut [Source], cycle: &mut Cycle, now_ms: f64) {
    cycle.adus.clear();
    let mut taken = vec![0_usize; sources.len()];
    for _ in 0..cycle.slots.len() {
        let served = |stream: &usize| sources[*stream].sent + taken[*stream] as u64;
        if let Some(stream) = (0..sources.len()).min_by_key(served) {
            taken[stream] += 1;
        }
    }
    for (stream, (source, taken)) in sources.iter_mut().zip(taken).enumerate() {
        while source.offered.len() < taken {
            source.offered.push(Offered {
                sequence: source.next,
                since_ms: now_ms,
            });
            source.next += 1;
        }
        cycle
            .adus
            .extend(source.offered[..taken].iter().map(|offered| Adu {
                stream: StreamId(first + stream as u64),
                sequence: offered.sequence,
                bytes: ADU_BYTES,
                length: ADU_BYTES,
                waited_ms: now_ms - offered.since_ms,
                deadline_ms: f64::NAN,
                fields: Fields::default(),
                turn: 0,
                channels: ChannelMask::ALL,
                label: f64::NAN,
            }));
    }
}

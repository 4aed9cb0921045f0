use anabranch_base::{Instant, Seed, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use proptest::prelude::*;

use super::*;
use crate::{
    AnyScheduler, arrival::tests::channel, objective::Fields, pick::tests::stream, policy::Policy,
    view::ChannelView,
};
use anabranch_spec::{Assignment, Correlation, Plan, Priority, Slot};

/// ADUs of 1,000 bytes that wait in some streams, and what the policy is shown of them.
struct Bench {
    scheduler: AnyScheduler,
    objectives: Objectives,
    channels: Vec<ChannelView>,
    streams: Vec<StreamView>,
    queues: Vec<Vec<u64>>,
    /// Number of slots that each channel is expected to have soon.
    phantoms: u64,
    /// Bytes that a packet takes.
    taken: u64,
    now: Instant,
    /// Cycles planned so far.
    plans: u32,
}

impl Bench {
    fn new(policy: Policy, text: &str, queued: &[u64]) -> Self {
        let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
        objectives.inject(text).expect("a good text");
        let views = (0u64..).zip(queued);
        Self {
            scheduler: policy.build(Seed(7)),
            objectives,
            channels: vec![channel(0, 2, 600, 10.0), channel(1, 2, 200, 10.0)],
            streams: (views.clone())
                .map(|(id, &count)| stream(id, Priority::NORMAL, 100, 1_000 * count))
                .collect(),
            queues: views.map(|(_, &count)| (0..count).collect()).collect(),
            phantoms: 0,
            taken: 1_000,
            now: Instant::from_secs(1),
            plans: 0,
        }
    }

    fn cycle(&self) -> Cycle {
        let mut cycle = Cycle {
            correlation: Correlation::independent(self.channels.len()),
            ..Cycle::default()
        };
        for (at, channel) in self.channels.iter().enumerate() {
            let free = channel.slots as u64;
            for sequence in 0..free + self.phantoms {
                let later = (sequence + 1).saturating_sub(free);
                cycle.slots.push(Slot {
                    channel: at as u32,
                    sequence,
                    wait_ms: 10.0 * later as f64,
                    confidence: if later > 0 { 0.9 } else { 1.0 },
                    loss: channel.loss,
                    round_trip_ms: channel.rtt_smoothed.as_secs_f64() * 1e3,
                    deviation_ms: 0.0,
                    predicted_ms: channel.rtt_smoothed.as_secs_f64() * 1e3,
                    cost_per_byte: 0.0,
                    bytes_max: 1_000,
                });
            }
        }
        for (id, queue) in self.queues.iter().enumerate() {
            for (place, &sequence) in queue.iter().enumerate() {
                cycle.adus.push(Adu {
                    stream: StreamId(id as u64),
                    sequence,
                    bytes: 1_000,
                    length: 1_000,
                    waited_ms: 0.0,
                    deadline_ms: f64::NAN,
                    fields: Fields::default(),
                    turn: place as u32,
                    channels: ChannelMask::ALL,
                    label: f64::NAN,
                });
            }
        }
        cycle
    }

    /// One run of decisions: stream, ADU if it is named, channel.
    fn run(&mut self) -> Vec<(u64, Option<u64>, usize)> {
        let mut sent = Vec::new();
        let plans = self.scheduler.prepare(&self.objectives).is_some();
        let cycle = self.cycle();
        let view = View {
            now: self.now,
            channels: &self.channels,
            streams: &self.streams,
        };
        self.scheduler.begin(&view, Changes::Any);
        if plans && self.scheduler.is_due(&view) {
            self.plans += 1;
            self.scheduler.plan(&view, &cycle, &mut self.objectives);
        }
        loop {
            let view = View {
                now: self.now,
                channels: &self.channels,
                streams: &self.streams,
            };
            let (stream, adu, channels) = match self.scheduler.next(&view) {
                Decision::Wait => return sent,
                Decision::Send { stream, channels } => (stream, None, channels),
                Decision::SendAdu {
                    stream,
                    adu,
                    channels,
                } => (stream, Some(adu), channels),
            };
            (self.scheduler).sent(&view, stream, channels, self.taken as usize);
            let channel = channels.iter().next().expect("not empty");
            assert!(self.channels[channel].slots > 0, "no slot");
            self.channels[channel].slots -= 1;
            self.streams[stream].backlog_bytes -= self.taken;
            let queue = &mut self.queues[stream];
            let place = match adu {
                Some(adu) => queue.iter().position(|&queued| queued == adu),
                None => Some(0),
            };
            queue.remove(place.expect("an ADU that waits"));
            sent.push((stream as u64, adu, channel));
        }
    }
}

const NOT_ON_0: &str = "hose 2
    objective { context { adu:a { stream_id == 0 } } goal { a::channel::id == 0 } utility { a { -5 } } }";
const QUICK: &str =
    "objective { context { adu:a { stream_id == 0 } } goal { expected(a::latency) < 700 }
    utility { a { 700 - expected(a::latency) } } }";

fn with_ids(mut cycle: Cycle) -> Cycle {
    let channel = |id| crate::objective::Channel {
        id,
        name: f64::NAN,
        technology: f64::NAN,
        is_metered: false,
        rate_bps: 1e7,
        fields: Vec::new(),
    };
    cycle.channels = vec![channel(0), channel(1)];
    cycle
}

#[test]
fn an_adu_waits_where_sending_would_do_harm_and_others_do_not() {
    let mut bench = Bench::new(Policy::Assign, NOT_ON_0, &[4, 4]);
    let cycle = with_ids(bench.cycle());
    assert!(bench.scheduler.prepare(&bench.objectives).is_some());
    let view = View {
        now: bench.now,
        channels: &bench.channels,
        streams: &bench.streams,
    };
    bench.scheduler.plan(&view, &cycle, &mut bench.objectives);
    let mut first = Vec::new();
    loop {
        let view = View {
            now: bench.now,
            channels: &bench.channels,
            streams: &bench.streams,
        };
        match bench.scheduler.next(&view) {
            Decision::SendAdu {
                stream, channels, ..
            } => {
                assert_eq!((stream, channels), (0, ChannelMask::only(1)));
                bench.channels[1].slots -= 1;
                first.push(stream);
            }
            Decision::Send { stream, channels } => {
                assert_eq!(stream, 1);
                for channel in channels.iter() {
                    bench.channels[channel].slots -= 1;
                }
                first.push(stream);
            }
            Decision::Wait => break,
        }
    }
    assert_eq!(first.iter().filter(|&&stream| stream == 0).count(), 2);
    assert!(bench.scheduler.wakes_at().is_some(), "two wait for better");
}

#[test]
fn what_is_urgent_waits_for_the_quick_channel_and_the_rest_does_not_wait_for_it() {
    let mut bench = Bench::new(Policy::Assign, QUICK, &[4, 2]);
    bench.phantoms = 4;
    let sent = bench.run();
    let of = |stream: u64| {
        let mine = sent.iter().filter(move |(id, ..)| *id == stream);
        mine.map(|&(_, _, channel)| channel).collect::<Vec<_>>()
    };
    assert_eq!(of(0), [1, 1], "two more are worth more in phantoms");
    assert!(bench.queues[0].len() == 2 && !of(1).is_empty(), "{sent:?}");
}

/// Without a promise it has no precedence over what objectives know to be worth more; where none is about it, it goes first.
#[test]
fn what_waits_for_a_promise_is_planned_if_an_objective_is_about_it() {
    const ANYWHERE: &str =
        "objective { context { adu:b { stream_id == 1 } } goal { expected(b::latency) < 5000 }
        utility { b { 1 } } }";
    let channels = |text: &str| {
        let mut bench = Bench::new(Policy::Assign, text, &[2, 2]);
        let waits = Assignment {
            stream: StreamId(1),
            window: Duration::from_secs(1),
            window_bytes: 1e6,
            constraint: 1.0,
            may_split: true,
            shares: Vec::new(),
        };
        let assignments = vec![waits];
        bench.scheduler.remap(bench.now, &Plan { assignments });
        let sent = bench.run();
        let mine = sent.iter().filter(|(id, ..)| *id == 1);
        mine.map(|&(_, _, channel)| channel).collect::<Vec<_>>()
    };
    assert_eq!(channels(QUICK), [1, 1], "the quick one, before stream 0");
    assert_eq!(channels(&format!("{QUICK} {ANYWHERE}")), [0, 0]);
}

/// Two ADUs of stream 0 wait for phantoms of the quick channel, while the slow one has a slot to spare.
fn waiting() -> Bench {
    let mut bench = Bench::new(Policy::Assign, QUICK, &[4, 0]);
    bench.phantoms = 4;
    assert_eq!(bench.run(), [(0, Some(0), 1), (0, Some(1), 1)]);
    assert_eq!((bench.plans, bench.queues[0].len()), (1, 2));
    assert!(bench.channels[0].slots == 2 && bench.channels[1].slots == 0);
    bench
}

#[test]
fn a_plan_stands_while_nothing_happens_that_could_let_send_what_waits() {
    let mut bench = waiting();
    let wakes_at = bench.scheduler.wakes_at().expect("two wait");
    // More slots of a channel that had one to spare, and a round trip a little longer.
    bench.channels[0].slots = 9;
    bench.channels[1].rtt_smoothed += Duration::from_millis(5);
    bench.now += Duration::from_millis(4);
    assert_eq!((bench.run(), bench.plans), (vec![], 1));
    assert_eq!(bench.scheduler.wakes_at(), Some(wakes_at));
    // Its time is over.
    bench.now = wakes_at;
    assert_eq!((bench.run(), bench.plans), (vec![], 2));
}

#[test]
fn a_plan_stands_when_packets_took_more_than_it_had_for_them() {
    let mut bench = Bench::new(Policy::Assign, QUICK, &[4, 0]);
    (bench.phantoms, bench.taken) = (4, 1_100);
    assert_eq!(bench.run().len(), 2);
    assert_eq!(bench.streams[0].backlog_bytes, 1_800);
    bench.now += Duration::from_millis(1);
    assert_eq!((bench.run(), bench.plans), (vec![], 1));
    // As much as that, but not the same.
    bench.streams[0].backlog_bytes += 200;
    assert_eq!((bench.run(), bench.plans), (vec![], 2));
}

#[test]
fn no_more_slots_matter_than_there_are_adus_but_to_the_published_search() {
    let most = |policy: Policy| policy.build(Seed(1)).slots_each(5);
    assert_eq!(most(Policy::Assign), 7);
    assert_eq!(most(Policy::RandomWalk(Walk::PUBLISHED)), usize::MAX);
    assert_eq!(most(Policy::Default), usize::MAX);
}

#[test]
fn a_plan_is_made_anew_as_soon_as_anything_happens_that_matters() {
    let planned_after = |happen: &dyn Fn(&mut Bench)| {
        let mut bench = waiting();
        bench.now += Duration::from_millis(1);
        happen(&mut bench);
        bench.run();
        bench.plans > 1
    };
    assert!(!planned_after(&|_| {}));
    assert!(
        planned_after(&|bench| bench.channels[1].slots = 1),
        "a slot"
    );
    assert!(planned_after(&|bench| {
        bench.queues[0].push(9);
        bench.streams[0].backlog_bytes += 1_000;
    }));
    assert!(planned_after(&|bench| {
        bench.queues[0].pop();
        bench.streams[0].backlog_bytes -= 1_000;
    }));
    // The default policy may send it at any time.
    assert!(planned_after(&|bench| {
        let other = Bench::new(Policy::Assign, QUICK, &[0, 1]);
        bench.streams = [&bench.streams[..1], &other.streams[1..]].concat();
        bench.queues[1] = other.queues[1].clone();
    }));
    assert!(planned_after(&|bench| bench.channels[0].rtt_smoothed /= 2));
    assert!(planned_after(&|bench| bench.channels[1].loss += 0.1));
    assert!(planned_after(&|bench| {
        bench.objectives.inject(QUICK).expect("a good text");
    }));
    assert!(planned_after(&|bench| {
        let first = bench.objectives.iter().next().map(|(id, _)| id);
        bench.objectives.inject(QUICK).expect("a good text");
        assert!(bench.objectives.remove(first.expect("one")));
    }));
}

#[test]
fn no_plan_stands_while_applications_are_held_back() {
    let mut bench = Bench::new(Policy::Assign, QUICK, &[4; 6]);
    bench.phantoms = 4;
    // As a session shows them.
    (bench.streams.iter_mut()).for_each(|stream| stream.backlog_bytes = u64::MAX / 4);
    bench.run();
    bench.run();
    assert_eq!(bench.plans, 2);
}

#[test]
fn without_objectives_assignment_is_the_default_policy() {
    let mut bench = Bench::new(Policy::Assign, "", &[4, 4]);
    let mut default = Bench {
        scheduler: Policy::Default.build(Seed(1)),
        ..Bench::new(Policy::Assign, "", &[4, 4])
    };
    assert_eq!(bench.run(), default.run());
}

#[test]
fn the_published_search_plans_once_in_a_period() {
    let mut bench = Bench::new(Policy::RandomWalk(Walk::PUBLISHED), QUICK, &[9, 9]);
    assert_eq!(bench.run().len(), 4);
    bench.channels[0].slots = 3;
    bench.now = Instant::from_millis(1_099);
    assert_eq!(bench.run(), []);
    assert_eq!(
        bench.scheduler.wakes_at(),
        Some(Instant::from_millis(1_100))
    );
    bench.now = Instant::from_millis(1_100);
    assert_eq!(bench.run().len(), 3);
}

#[test]
fn the_application_decides_when_it_is_asked() {
    let mut bench = Bench::new(Policy::Assign, "", &[2, 3]);
    // The youngest of stream 1 on channel 1, nothing else.
    let choose = |slot: &Slot, adus: &[Adu]| {
        let of_1 = adus.iter().rposition(|adu| adu.stream == StreamId(1));
        of_1.filter(|_| slot.channel == 1)
    };
    bench.scheduler = crate::policy::by_callback(Box::new(choose));
    assert_eq!(bench.run(), [(1, Some(2), 1)]);
    assert_eq!(bench.run(), [(1, Some(1), 1)]);
}

proptest! {
    /// Nothing is sent twice or where there is no slot (asserted in the run), what objectives do not care for is
    /// sent in the end, and twice the same gives twice the same.
    #[test]
    fn whatever_waits_and_harms_nobody_is_sent(
        queued in prop::collection::vec(0u64..12, 1..5),
        phantoms in 0u64..4,
        which in 0usize..3,
    ) {
        let policy = [
            Policy::Assign,
            Policy::RandomRoundRobin,
            Policy::RandomWalk(Walk { period_ms: 20, ..Walk::PUBLISHED }),
        ][which];
        let run = || {
            let mut bench = Bench::new(policy, QUICK, &queued);
            bench.phantoms = phantoms;
            let mut sent = Vec::new();
            for step in 0..2_000 {
                bench.now = Instant::from_millis(1_000 + 10 * step);
                bench.channels.iter_mut().for_each(|channel| channel.slots = 1);
                sent.push(bench.run());
                if bench.queues.iter().all(Vec::is_empty) {
                    break;
                }
            }
            (sent, bench.queues)
        };
        let (sent, left) = run();
        prop_assert!(left.iter().all(Vec::is_empty), "{left:?}");
        prop_assert_eq!(sent, run().0);
    }
}

#[test]
fn a_stream_is_copied_unless_an_objective_may_keep_it_off_a_channel() {
    let may = |policy: Policy, text: &str| {
        let bench = Bench::new(policy, text, &[1, 1]);
        [0, 1].map(|id| bench.scheduler.may_copy(&bench.objectives, StreamId(id)))
    };
    assert_eq!(may(Policy::Assign, QUICK), [true, true]);
    assert_eq!(may(Policy::Assign, NOT_ON_0), [false, true]);
    let cheap = "hose 2
        objective { context { adu:a { length > 0 } } goal { cost(a) > 1 } utility { a { -5 } } }";
    assert_eq!(may(Policy::Assign, cheap), [false, false]);
    let walk = Policy::RandomWalk(Walk::PUBLISHED);
    assert_eq!(may(walk, QUICK), [false, false], "as published");
}

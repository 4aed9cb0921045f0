//! Duties of every policy, and the purpose of each.

use std::time::Duration;

use anabranch_base::Instant;
use proptest::prelude::*;

use super::*;
use crate::{
    Scheduler,
    arrival::tests::channel,
    pick::tests::stream,
    view::Changes,
    view::{ChannelView, StreamView},
};
use anabranch_spec::{ChannelChoice, Priority};

/// Fair queueing knows weights only, as published.
const WITHOUT_PRIORITIES: [Policy; 2] = [Policy::Wfq, Policy::Msfq];

/// Policies that do not decide about single ADUs.
fn by_streams() -> impl Iterator<Item = Policy> {
    let plans_always = |policy: &Policy| policy.may_plan() && *policy != Policy::Assign;
    Policy::ALL
        .into_iter()
        .filter(move |policy| !plans_always(policy))
}

fn decide(policy: Policy, channels: &[ChannelView], streams: &[StreamView]) -> Decision {
    let view = View {
        now: Instant::EPOCH,
        channels,
        streams,
    };
    anew(&mut policy.build(Seed(1)), &view)
}

/// The first decision of a run.
fn anew(scheduler: &mut dyn Scheduler, view: &View<'_>) -> Decision {
    scheduler.begin(view, Changes::Any);
    scheduler.next(view)
}

fn on(channel: usize) -> Decision {
    Decision::Send {
        stream: 0,
        channels: ChannelMask::only(channel),
    }
}

#[test]
fn names_round_trip() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let walk = Walk {
        length: 5,
        look_ahead_ms: 40,
        ..Walk::PUBLISHED
    };
    let text = Policy::RandomWalk(walk).to_string();
    assert_eq!(
        text,
        "random_walk:length=5,look_ahead_ms=40,period_ms=100,slots=4"
    );
    assert_eq!(text.parse(), Ok(Policy::RandomWalk(walk)));
    for wrong in [
        "random_walk:length=0",
        "random_walk:",
        "random_walk:k=3",
        "assign:length=3",
    ] {
        assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
    }
    let error = "fastest".parse::<Policy>().expect_err("unknown");
    assert!(error.to_string().contains("min_rtt"), "{error}");
}

#[test]
fn nothing_to_send_or_nowhere_to_send_it_waits() {
    let channels = [channel(0, 4, 20, 10.0)];
    let full = [channel(0, 0, 20, 10.0)];
    let streams = [stream(0, Priority::NORMAL, 100, 5000)];
    for policy in by_streams() {
        assert_eq!(decide(policy, &channels, &[]), Decision::Wait, "{policy}");
        assert_eq!(decide(policy, &[], &streams), Decision::Wait, "{policy}");
        assert_eq!(decide(policy, &full, &streams), Decision::Wait, "{policy}");
    }
}

#[test]
fn round_robin_takes_turns() {
    let channels = [channel(3, 9, 20, 10.0), channel(5, 9, 90, 1.0)];
    let streams = [stream(0, Priority::NORMAL, 100, 50_000)];
    let view = View {
        now: Instant::EPOCH,
        channels: &channels,
        streams: &streams,
    };
    let mut scheduler = Policy::RoundRobin.build(Seed(1));
    let mut counts = [0, 0];
    for _ in 0..10 {
        let Decision::Send { stream, channels } = anew(&mut scheduler, &view) else {
            panic!("both channels are free");
        };
        for channel in channels.iter() {
            counts[channel] += 1;
        }
        scheduler.sent(&view, stream, channels, 1400);
    }
    assert_eq!(counts, [5, 5]);
}

#[test]
fn weighted_round_robin_follows_the_rates() {
    let channels = [channel(3, 9, 20, 30.0), channel(5, 9, 90, 10.0)];
    let streams = [stream(0, Priority::NORMAL, 100, 50_000)];
    let view = View {
        now: Instant::EPOCH,
        channels: &channels,
        streams: &streams,
    };
    let mut scheduler = Policy::WeightedRoundRobin.build(Seed(1));
    let mut counts = [0, 0];
    for _ in 0..400 {
        let Decision::Send { stream, channels } = anew(&mut scheduler, &view) else {
            panic!("both channels are free");
        };
        for channel in channels.iter() {
            counts[channel] += 1;
        }
        scheduler.sent(&view, stream, channels, 1400);
    }
    assert_eq!(counts, [300, 100]);
}

#[test]
fn min_rtt_takes_the_nearest_free_channel() {
    let streams = [stream(0, Priority::NORMAL, 100, 5000)];
    let both = [channel(0, 1, 90, 10.0), channel(1, 1, 20, 1.0)];
    assert_eq!(decide(Policy::MinRtt, &both, &streams), on(1));
    let near_is_full = [channel(0, 1, 90, 10.0), channel(1, 0, 20, 1.0)];
    assert_eq!(decide(Policy::MinRtt, &near_is_full, &streams), on(0));
}

/// The paper's motivating case: a short rest is finished earlier by waiting for the fast path.
#[test]
fn ecf_waits_for_the_fast_path_at_the_end() {
    let channels = [channel(0, 0, 10, 10.0), channel(1, 4, 100, 10.0)];
    let rest = [stream(0, Priority::NORMAL, 100, 60_000)];
    let much = [stream(0, Priority::NORMAL, 100, 6_000_000)];
    assert_eq!(decide(Policy::Ecf, &channels, &rest), Decision::Wait);
    assert_eq!(decide(Policy::Ecf, &channels, &much), on(1));
}

#[test]
fn blest_skips_a_path_that_would_block() {
    let channels = [channel(0, 0, 10, 50.0), channel(1, 4, 200, 2.0)];
    let rest = [stream(0, Priority::NORMAL, 100, 100_000)];
    let much = [stream(0, Priority::NORMAL, 100, 60_000_000)];
    assert_eq!(decide(Policy::Blest, &channels, &rest), Decision::Wait);
    assert_eq!(decide(Policy::Blest, &channels, &much), on(1));
}

#[test]
fn redundant_uses_every_free_channel() {
    let channels = [
        channel(0, 1, 10, 50.0),
        channel(1, 0, 20, 2.0),
        channel(2, 3, 30, 2.0),
    ];
    let streams = [stream(0, Priority::NORMAL, 100, 100)];
    assert_eq!(
        decide(Policy::Redundant, &channels, &streams),
        Decision::Send {
            stream: 0,
            channels: ChannelMask::only(0).with(2),
        }
    );
}

#[test]
fn a_stream_uses_the_first_class_of_channels_that_has_a_free_one() {
    let class = |places: &[usize]| {
        let places = places.iter().copied();
        places.fold(ChannelMask::NONE, ChannelMask::with)
    };
    // In order of round trips: 0 (avoided), 1 (neutral), 2 (preferred).
    let mut stream = stream(0, Priority::NORMAL, 100, 1_000_000);
    stream.choice = ChannelChoice {
        preferred: class(&[2]),
        neutral: class(&[1]),
        avoided: class(&[0]),
    };
    let with_slots = |slots: [usize; 3]| {
        let channels = [
            channel(0, slots[0], 10, 10.0),
            channel(1, slots[1], 20, 10.0),
            channel(2, slots[2], 40, 10.0),
        ];
        decide(Policy::Default, &channels, &[stream.clone()])
    };
    assert_eq!(with_slots([4, 4, 4]), on(2));
    assert_eq!(with_slots([4, 4, 0]), on(1));
    assert_eq!(with_slots([4, 0, 0]), on(0));
    assert_eq!(with_slots([0, 0, 0]), Decision::Wait);
    // Never: not even when nothing else is free.
    stream.choice.avoided = ChannelMask::NONE;
    for policy in by_streams().filter(|policy| *policy != Policy::Pinned) {
        let channels = [
            channel(0, 4, 10, 10.0),
            channel(1, 0, 20, 10.0),
            channel(2, 0, 40, 10.0),
        ];
        assert_eq!(
            decide(policy, &channels, &[stream.clone()]),
            Decision::Wait,
            "{policy}"
        );
    }
}

#[test]
fn a_lone_packet_waits_for_a_preferred_channel_that_is_sooner() {
    let mut stream = stream(0, Priority::NORMAL, 100, 100);
    stream.choice = ChannelChoice {
        preferred: ChannelMask::only(0),
        neutral: ChannelMask::only(1),
        avoided: ChannelMask::NONE,
    };
    let channels = [channel(0, 0, 20, 10.0), channel(1, 4, 400, 10.0)];
    assert_eq!(
        decide(Policy::Default, &channels, &[stream]),
        Decision::Wait
    );
}

#[test]
fn a_redundant_stream_uses_every_free_channel_that_it_may_use() {
    let mut stream = stream(0, Priority::NORMAL, 100, 1_000);
    stream.redundant = true;
    let channels = [0, 1, 2, 3].map(|id| channel(id, usize::from(id != 2), 20, 10.0));
    let all = |places: &[usize]| Decision::Send {
        stream: 0,
        channels: places
            .iter()
            .fold(ChannelMask::NONE, |set, &place| set.with(place)),
    };
    assert_eq!(
        decide(Policy::Default, &channels, &[stream.clone()]),
        all(&[0, 1, 3])
    );
    stream.choice.neutral = ChannelMask::only(0).with(2).with(3);
    assert_eq!(
        decide(Policy::Default, &channels, &[stream.clone()]),
        all(&[0, 3])
    );
    stream.choice.avoided = ChannelMask::only(1);
    assert_eq!(
        decide(Policy::Default, &channels, &[stream.clone()]),
        all(&[0, 3])
    );
    stream.choice.neutral = ChannelMask::only(2);
    assert_eq!(decide(Policy::Default, &channels, &[stream]), all(&[1]));
}

#[test]
fn a_redundant_packet_waits_a_moment_for_the_channel_on_which_it_arrives_first() {
    let mut stream = stream(0, Priority::URGENT, 100, 1_000);
    stream.redundant = true;
    let (near, far) = (channel(0, 1, 20, 10.0), channel(1, 1, 200, 10.0));
    let full = channel(0, 0, 20, 10.0);
    let second = channel(2, 1, 24, 10.0);
    let mut policy = Policy::Default.build(Seed(1));
    let mut at = |millis: u64, left_ms: u64, channels: &[ChannelView]| {
        let now = Instant::from_millis(millis);
        stream.deadline = Some(now + Duration::from_millis(left_ms));
        let view = View {
            now,
            channels,
            streams: std::slice::from_ref(&stream),
        };
        policy.begin(&view, Changes::Any);
        match policy.next(&view) {
            Decision::Send { channels, .. } => channels.iter().collect(),
            _ => Vec::new(),
        }
    };
    assert_eq!(at(1_000, 1_200, &[near.clone(), far.clone()]), [0, 1]);
    assert_eq!(at(1_010, 1_200, &[full.clone(), far.clone()]), [0; 0]);
    assert_eq!(at(1_024, 1_186, &[full.clone(), far.clone()]), [0; 0]);
    assert_eq!(at(1_025, 1_185, &[full.clone(), far.clone()]), [1]);
    assert_eq!(at(1_030, 1_200, &[full, far.clone(), second]), [1, 2]);
    assert_eq!(at(1_040, 1_200, &[near, far]), [0, 1]);
}

#[test]
fn pinned_streams_wait_for_their_channel() {
    let channels = [channel(0, 1, 10, 50.0), channel(1, 0, 20, 2.0)];
    let mut pinned = stream(0, Priority::NORMAL, 100, 100);
    pinned.pinned = Some(Some(1));
    for policy in by_streams() {
        assert_eq!(
            decide(policy, &channels, &[pinned.clone()]),
            Decision::Wait,
            "{policy}"
        );
    }
}

#[test]
fn a_stream_that_waits_does_not_hold_up_another() {
    let channels = [channel(0, 1, 10, 50.0), channel(1, 0, 20, 2.0)];
    let mut pinned = stream(0, Priority::URGENT, 100, 100);
    pinned.pinned = Some(Some(1));
    let other = stream(2, Priority::BULK, 100, 100);
    assert_eq!(
        decide(Policy::Default, &channels, &[pinned, other]),
        Decision::Send {
            stream: 1,
            channels: ChannelMask::only(0),
        }
    );
}

/// However many streams have to wait, the one that need not is found.
#[test]
fn many_waiting_streams_do_not_hide_one_that_may_send() {
    let channels = [channel(0, 1, 10, 50.0), channel(1, 0, 20, 2.0)];
    let mut streams: Vec<StreamView> = (0..200)
        .map(|id| stream(id, Priority::URGENT, 100, 100))
        .collect();
    for waiting in &mut streams {
        waiting.pinned = Some(Some(1));
    }
    streams.push(stream(200, Priority::BULK, 100, 100));
    for policy in by_streams() {
        let expected = Decision::Send {
            stream: 200,
            channels: ChannelMask::only(0),
        };
        assert_eq!(decide(policy, &channels, &streams), expected, "{policy}");
    }
}

/// A packet that would be late on the free channel waits for the one where it is not.
#[test]
fn default_waits_where_only_waiting_keeps_the_deadline() {
    let channels = [channel(0, 0, 20, 2.0), channel(1, 4, 300, 20.0)];
    let mut frames = [stream(0, Priority::NORMAL, 100, 100_000)];
    assert_eq!(decide(Policy::Default, &channels, &frames), on(1));
    frames[0].deadline = Some(Instant::from_millis(100));
    assert_eq!(decide(Policy::Default, &channels, &frames), Decision::Wait);
    frames[0].deadline = Some(Instant::from_millis(200));
    assert_eq!(decide(Policy::Default, &channels, &frames), on(1));
}

/// A path that always takes half a second is used; a queue that is to take as long is not, while the other path is soon free.
#[test]
fn default_puts_no_deadline_behind_a_long_queue() {
    let mut channels = [channel(0, 0, 20, 2.0), channel(1, 4, 1_000, 20.0)];
    let mut frames = [stream(0, Priority::NORMAL, 100, 100_000)];
    frames[0].deadline = Some(Instant::from_millis(1_500));
    assert_eq!(decide(Policy::Default, &channels, &frames), on(1));
    channels[1].rtt_min = Duration::from_millis(200);
    assert_eq!(decide(Policy::Default, &channels, &frames), Decision::Wait);
    channels[1].rtt_min = Duration::from_millis(600);
    channels[1].rtt_smoothed = Duration::from_millis(840);
    assert_eq!(decide(Policy::Default, &channels, &frames), on(1));
    // The other path alone would take longer than the queue.
    channels[1].rtt_smoothed = Duration::from_millis(1_000);
    frames[0].backlog_bytes = 400_000;
    assert_eq!(decide(Policy::Default, &channels, &frames), on(1));
}

#[test]
fn default_keeps_urgent_streams_off_a_slow_channel() {
    let channels = [channel(0, 0, 20, 100.0), channel(1, 4, 60, 50.0)];
    let urgent = [stream(0, Priority::URGENT, 100, 1200)];
    assert_eq!(decide(Policy::Default, &channels, &urgent), Decision::Wait);
    let bulk = [stream(0, Priority::BULK, 100, 4_000_000)];
    assert_eq!(decide(Policy::Default, &channels, &bulk), on(1));
    let tail = [stream(0, Priority::BULK, 100, 30_000)];
    assert_eq!(decide(Policy::Default, &channels, &tail), Decision::Wait);
}

/// A thin near path beside a fat far one: the near one alone would need seconds for what is left.
#[test]
fn default_does_not_leave_a_large_rest_to_a_thin_path() {
    let channels = [channel(0, 0, 20, 10.0), channel(1, 4, 300, 100.0)];
    let rest = [stream(0, Priority::BULK, 100, 2_000_000)];
    assert_eq!(decide(Policy::Default, &channels, &rest), on(1));
    let tail = [stream(0, Priority::BULK, 100, 100_000)];
    assert_eq!(decide(Policy::Default, &channels, &tail), Decision::Wait);
}

/// Three channels, each with little to carry on its own account: none may leave a backlog to others
/// that would leave it to it in turn.
#[test]
fn default_does_not_leave_a_backlog_to_channels_that_would_pass_it_on() {
    let nearest = channel(0, 0, 24, 2.0);
    let backlog = [stream(0, Priority(160), 100, 60_000)];
    // 60 kB on the nearest alone take 240 ms; the others arrive after 75 ms and 60 ms.
    let second = [
        nearest.clone(),
        channel(1, 4, 150, 5.0),
        channel(2, 0, 120, 15.0),
    ];
    let third = [nearest, channel(1, 0, 150, 5.0), channel(2, 4, 120, 15.0)];
    assert_eq!(decide(Policy::Default, &second, &backlog), on(1));
    assert_eq!(decide(Policy::Default, &third, &backlog), on(2));
}

fn any_channel() -> impl Strategy<Value = ChannelView> {
    (0usize..4, 1u64..400, 0.1f64..1000.0)
        .prop_map(|(slots, rtt, rate)| channel(0, slots, rtt, rate))
}

/// A channel of the little world below: bytes in flight leave at its rate.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    rate_mbps: f64,
    rtt_ms: u64,
}

impl Pipe {
    fn view(self, id: usize, in_flight: f64) -> ChannelView {
        let mut view = channel(id as u64, 0, self.rtt_ms, self.rate_mbps);
        view.window_bytes = view.window_bytes.max(4 * 1400);
        view.in_flight_bytes = in_flight as u64;
        view.slots = (view.window_bytes.saturating_sub(in_flight as u64) / 1400) as usize;
        view
    }
}

fn any_pipe() -> impl Strategy<Value = Pipe> {
    (0.5f64..100.0, 2u64..400).prop_map(|(rate_mbps, rtt_ms)| Pipe { rate_mbps, rtt_ms })
}

/// Runs `policy` in steps of 1 ms until everything is sent, at most for `limit_ms`; the decisions,
/// and what is left of each stream.
fn drain(
    policy: Policy,
    pipes: &[Pipe],
    mut streams: Vec<StreamView>,
    limit_ms: u64,
) -> (Vec<Decision>, Vec<StreamView>) {
    let mut scheduler = policy.build(Seed(1));
    let mut in_flight = vec![0.0; pipes.len()];
    let mut decisions = Vec::new();
    for now_ms in 0..limit_ms {
        for (bytes, pipe) in in_flight.iter_mut().zip(pipes) {
            *bytes = f64::max(*bytes - pipe.rate_mbps * 125.0, 0.0);
        }
        loop {
            let channels: Vec<ChannelView> = (0..pipes.len())
                .map(|index| pipes[index].view(index, in_flight[index]))
                .collect();
            let view = View {
                now: Instant::from_millis(now_ms),
                channels: &channels,
                streams: &streams,
            };
            let decision = anew(&mut scheduler, &view);
            decisions.push(decision);
            let Decision::Send { stream, channels } = decision else {
                break;
            };
            let bytes = streams[stream].backlog_bytes.min(1400);
            scheduler.sent(&view, stream, channels, bytes as usize);
            for index in channels.iter() {
                in_flight[index] += bytes as f64;
            }
            streams[stream].backlog_bytes -= bytes;
            if streams[stream].backlog_bytes == 0 {
                streams.remove(stream);
            }
        }
        if streams.is_empty() {
            break;
        }
    }
    (decisions, streams)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever waits is sent in the end, of every stream: no slot is refused for ever, and no
    /// stream starves. And twice the same gives twice the same.
    #[test]
    fn every_backlog_is_sent(
        pipes in prop::collection::vec(any_pipe(), 1..4),
        loads in prop::collection::vec((0u8..255, 1u32..1000, 1u64..100_000), 1..6),
        deadline_ms in prop::option::of(1u64..500),
    ) {
        let streams: Vec<StreamView> = loads
            .iter()
            .enumerate()
            .map(|(index, &(priority, weight, backlog))| {
                let mut view = stream(index as u64, Priority(priority), weight, backlog);
                view.deadline = deadline_ms.map(Instant::from_millis);
                view
            })
            .collect();
        // As long as the slowest pipe alone would need, and a second.
        let bytes: u64 = loads.iter().map(|&(.., backlog)| backlog).sum();
        let slowest = pipes.iter().map(|pipe| pipe.rate_mbps).fold(f64::INFINITY, f64::min);
        let limit_ms = (bytes as f64 / (slowest * 125.0)) as u64 + 1000;
        for policy in by_streams() {
            let (decisions, left) = drain(policy, &pipes, streams.clone(), limit_ms);
            prop_assert!(left.is_empty(), "{policy} leaves {left:?}");
            let (again, _) = drain(policy, &pipes, streams.clone(), limit_ms);
            prop_assert_eq!(decisions, again);
        }
    }

    /// With every channel free, the most important goes first (where there are priorities); and among equals nobody is further
    /// from its share than a packet of each.
    #[test]
    fn priority_then_shares(
        loads in prop::collection::vec((0u8..3, 1u32..1000), 1..8),
        rounds in 1usize..300,
    ) {
        let channels = [channel(0, 1, 20, 10.0), channel(1, 1, 50, 10.0)];
        let streams: Vec<StreamView> = loads
            .iter()
            .enumerate()
            .map(|(index, &(priority, weight))| {
                stream(index as u64, Priority(priority), weight, 1_000_000)
            })
            .collect();
        let view = View { now: Instant::EPOCH, channels: &channels, streams: &streams };
        let top = streams.iter().map(|stream| stream.priority).max();
        for policy in by_streams() {
            let mut scheduler = policy.build(Seed(1));
            let mut turns = vec![0.0; streams.len()];
            for _ in 0..rounds {
                let Decision::Send { stream, channels } = anew(&mut scheduler, &view) else {
                    return Err(TestCaseError::fail("every channel is free"));
                };
                let ignores_priority = WITHOUT_PRIORITIES.contains(&policy);
                prop_assert!(ignores_priority || Some(streams[stream].priority) == top);
                scheduler.sent(&view, stream, channels, 1400);
                turns[stream] += 1.0;
            }
            let is_equal = |stream: &StreamView| {
                WITHOUT_PRIORITIES.contains(&policy) || Some(stream.priority) == top
            };
            let equals = || streams.iter().enumerate().filter(|(_, s)| is_equal(s));
            for ((a, first), (b, second)) in equals().flat_map(|a| equals().map(move |b| (a, b))) {
                let (w, v) = (f64::from(first.weight), f64::from(second.weight));
                let apart = turns[a] / w - turns[b] / v;
                prop_assert!(apart <= 1.0 / w + 1.0 / v + 1e-9, "{policy}: {turns:?}");
            }
        }
    }
}

proptest! {
    /// No policy ever uses a channel without a slot or one the stream may not use; and with every
    /// channel free, none waits.
    #[test]
    fn decisions_are_admissible(
        mut channels in prop::collection::vec(any_channel(), 1..6),
        streams in prop::collection::vec((0u8..255, 1u32..1000, 1u64..1_000_000), 1..6),
        pins in prop::collection::vec(prop::option::of(0usize..6), 6),
    ) {
        for (index, channel) in channels.iter_mut().enumerate() {
            channel.id = anabranch_base::ChannelId(index as u64);
        }
        let streams: Vec<StreamView> = streams
            .iter()
            .enumerate()
            .map(|(index, &(priority, weight, backlog))| {
                let mut view = stream(index as u64, Priority(priority), weight, backlog);
                view.pinned = pins[index].map(|pin| (pin < channels.len()).then_some(pin));
                view
            })
            .collect();
        for policy in by_streams() {
            match decide(policy, &channels, &streams) {
                Decision::Wait => {
                    let all_free = channels.iter().all(|channel| channel.slots > 0);
                    let unpinned = streams.iter().all(|stream| stream.pinned.is_none());
                    prop_assert!(!(all_free && unpinned), "{policy} wastes free channels");
                }
                Decision::SendAdu { .. } => prop_assert!(false, "{policy} was shown no ADU"),
                Decision::Send { stream, channels: mask } => {
                    prop_assert!(!mask.is_empty());
                    for channel in mask.iter() {
                        prop_assert!(channels[channel].slots > 0, "{policy}");
                        prop_assert!(streams[stream].may_use(channel), "{policy}");
                    }
                }
            }
        }
    }
}

proptest! {
    /// Streams that no longer wait may stay in the view.
    #[test]
    fn streams_that_do_not_wait_are_passed_over(
        backlogs in prop::collection::vec(prop::sample::select(&[0_u64, 0, 900, 50_000][..]), 1..12),
        slots in prop::collection::vec(0..4_usize, 1..4),
    ) {
        let channels: Vec<_> = (0..).zip(&slots).map(|(id, &slots)| channel(id, slots, 20 + 30 * id, 9.0)).collect();
        let id_backlogs = || (0..).zip(&backlogs);
        let all: Vec<_> = id_backlogs().map(|(id, &bytes)| stream(id, Priority::NORMAL, 100, bytes)).collect();
        let waiting: Vec<_> = all.iter().filter(|view| view.is_waiting()).cloned().collect();
        for policy in by_streams() {
            let (mut one, mut other) = (policy.build(Seed(1)), policy.build(Seed(1)));
            for packet in 0..8 {
                let view = |streams| View { now: Instant::from_millis(packet), channels: &channels, streams };
                let (mine, theirs) = (anew(&mut one, &view(&all)), anew(&mut other, &view(&waiting)));
                let (Decision::Send { stream, channels: on }, Decision::Send { stream: same, channels: same_on }) =
                    (mine, theirs)
                else {
                    prop_assert_eq!(mine, theirs);
                    break;
                };
                prop_assert_eq!((all[stream].id, on), (waiting[same].id, same_on), "{}", policy);
                one.sent(&view(&all), stream, on, 500);
                other.sent(&view(&waiting), same, on, 500);
            }
        }
    }
}

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};

use super::*;
use crate::{
    arrival::tests::channel,
    pick::tests::stream,
    view::{ChannelView, StreamView},
};
use anabranch_spec::{Assignment, Priority};

const PACKET: usize = 1400;
const SECOND: Duration = Duration::from_secs(1);

fn assignment(stream: u64, packets: &[(u64, u32)]) -> Assignment {
    Assignment {
        stream: StreamId(stream),
        window: SECOND,
        window_bytes: packets
            .iter()
            .map(|&(_, count)| f64::from(count) * PACKET as f64)
            .sum(),
        constraint: 1.0,
        may_split: true,
        shares: packets
            .iter()
            .map(|&(channel, count)| (ChannelId(channel), f64::from(count) * PACKET as f64))
            .collect(),
    }
}

fn mapped(assignments: &[Assignment]) -> Pgos {
    let mut pgos = Pgos::default();
    let plan = Plan {
        assignments: assignments.to_vec(),
    };
    pgos.remap(Instant::EPOCH, &plan);
    pgos
}

fn normal(id: u64) -> StreamView {
    stream(id, Priority::NORMAL, 100, 1_000_000)
}

/// One run of the pump at `now`: what is sent, as (stream, channel), until it waits or `count` packets.
fn run(
    pgos: &mut Pgos,
    now: Instant,
    channels: &mut [ChannelView],
    streams: &[StreamView],
    count: usize,
) -> Vec<(u64, u64)> {
    let mut sent = Vec::new();
    fn view<'a>(now: Instant, channels: &'a [ChannelView], streams: &'a [StreamView]) -> View<'a> {
        View {
            now,
            channels,
            streams,
        }
    }
    pgos.begin(&view(now, channels, streams), Changes::Any);
    while sent.len() < count {
        let Decision::Send {
            stream,
            channels: mask,
        } = pgos.next(&view(now, channels, streams))
        else {
            break;
        };
        pgos.sent(&view(now, channels, streams), stream, mask, PACKET);
        for index in mask.iter() {
            channels[index].slots -= 1;
            sent.push((streams[stream].id.0, channels[index].id.0));
        }
    }
    sent
}

/// [IQ-Paths §V-B.2b]: S1 has five packets on path 1, S2 four on path 1 and six on path 2. The journal
/// prints VP with 12 of its 15 entries; it has nine 1s and six 2s.
#[test]
fn the_worked_example_of_the_paper() {
    let mut pgos = mapped(&[assignment(1, &[(1, 5)]), assignment(2, &[(1, 4), (2, 6)])]);
    let mut channels = [channel(1, 100, 20, 50.0), channel(2, 100, 20, 50.0)];
    let streams = [normal(1), normal(2)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 15);
    let vp: Vec<u64> = sent.iter().map(|&(_, channel)| channel).collect();
    assert_eq!(vp, [1, 2, 1, 2, 1, 1, 2, 1, 2, 1, 1, 2, 1, 2, 1]);
    let vs = |path| -> Vec<u64> {
        sent.iter()
            .filter(|&&(_, channel)| channel == path)
            .map(|&(stream, _)| stream)
            .collect()
    };
    assert_eq!(vs(1), [1, 2, 1, 2, 1, 2, 1, 2, 1]);
    assert_eq!(vs(2), [2; 6]);
}

/// A stream that waits for its promise goes before elastic ones of its priority, up to what it asked for, and behind those of a higher one.
#[test]
fn a_stream_without_its_promise_yields_to_a_higher_priority() {
    let waiting = Assignment {
        window_bytes: 10.0 * PACKET as f64,
        ..assignment(2, &[])
    };
    for (priority, own) in [(Priority::NORMAL, 10), (Priority::URGENT, 0)] {
        let mut pgos = mapped(std::slice::from_ref(&waiting));
        let mut channels = [channel(1, 15, 20, 50.0)];
        let streams = [stream(0, priority, 100, 1_000_000), normal(2)];
        let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 15);
        let first = sent.iter().take_while(|&&(stream, _)| stream == 2);
        assert_eq!((first.count(), sent.len()), (own, 15), "{priority:?}");
    }
}

#[test]
fn scheduled_packets_go_before_all_others_and_no_further_than_promised() {
    let mut pgos = mapped(&[assignment(2, &[(1, 10)])]);
    let mut channels = [channel(1, 40, 20, 50.0)];
    let streams = [stream(0, Priority::URGENT, 100, 1_000_000), normal(2)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 40);
    assert_eq!(sent[..10], [(2, 1); 10]);
    // What is beyond the promise takes its chance, here behind an urgent stream.
    assert_eq!(sent[10..], [(0, 1); 30]);
    // The next window brings the next ten.
    let mut channels = [channel(1, 15, 20, 50.0)];
    let later = Instant::EPOCH + SECOND;
    let sent = run(&mut pgos, later, &mut channels, &streams, 15);
    assert_eq!(sent[..10], [(2, 1); 10]);
}

#[test]
fn equal_deadlines_go_by_window_constraint() {
    let mut loose = assignment(1, &[(1, 10)]);
    loose.constraint = 0.5;
    let mut pgos = mapped(&[loose, assignment(2, &[(1, 10)])]);
    let mut channels = [channel(1, 4, 20, 50.0)];
    let streams = [normal(1), normal(2)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 4);
    // The first of each are due; then by deadline, and of equals by constraint.
    assert_eq!(sent, [(1, 1), (2, 1), (2, 1), (1, 1)]);
}

#[test]
fn a_path_that_is_behind_serves_the_first_in_precedence_first() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)]), assignment(2, &[(1, 10)])]);
    let mut channels = [channel(1, 9, 20, 50.0)];
    let streams = [normal(1), normal(2)];
    let late = Instant::EPOCH + SECOND / 2;
    let sent = run(&mut pgos, late, &mut channels, &streams, 9);
    // Six of each are due; stream 1's go first.
    assert_eq!(sent[..6], [(1, 1); 6]);
    assert_eq!(sent[6..], [(2, 1); 3]);
}

#[test]
fn a_packet_leaves_a_blocked_path_when_that_is_quicker_and_a_late_one_makes_it_back_off() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let streams = [stream(1, Priority::NORMAL, 100, 1400)];
    let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
    // 1400 bytes take 0.22 ms: soon it is free again.
    let mut near = [channel(1, 0, 20, 50.0), channel(2, 1, 20, 50.0)];
    assert_eq!(run(&mut pgos, at(0), &mut near, &streams, 9), []);
    let blocked = || [channel(1, 0, 200, 5.0), channel(2, 1, 20, 50.0)];
    assert_eq!(run(&mut pgos, at(1), &mut blocked(), &streams, 9), [(1, 2)]);
    assert!(
        !pgos.paths[0].is_backing_off(nanos(at(1))),
        "it was not late"
    );
    // The second is due at 100 ms.
    assert_eq!(
        run(&mut pgos, at(110), &mut blocked(), &streams, 9),
        [(1, 2)]
    );
    assert!(pgos.paths[0].is_backing_off(nanos(at(129))));
    assert!(!pgos.paths[0].is_backing_off(nanos(at(131))));
    // Late or not, what may be divided goes where it arrives first.
    assert_eq!(run(&mut pgos, at(120), &mut near.clone(), &streams, 9), []);
    near[1].slots = 1;
    assert_eq!(run(&mut pgos, at(135), &mut near, &streams, 9), []);
}

#[test]
fn a_stream_that_is_not_to_be_divided_waits_for_a_path_that_moves() {
    let streams = [normal(1)];
    let late = Instant::EPOCH + Duration::from_millis(50);
    for (may_split, in_flight_bytes, expected) in [
        (false, 125_000, vec![]),
        (false, 1_000_000, vec![(1, 2)]),
        (true, 1_000_000, vec![(1, 2)]),
    ] {
        let mut assignment = assignment(1, &[(1, 10)]);
        assignment.may_split = may_split;
        let mut pgos = mapped(&[assignment]);
        let mut channels = [channel(1, 0, 20, 50.0), channel(2, 1, 10, 50.0)];
        channels[0].in_flight_bytes = in_flight_bytes;
        if !may_split {
            let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 9);
            assert_eq!(sent, [], "nothing is late yet");
        }
        let sent = run(&mut pgos, late, &mut channels, &streams, 9);
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_new_plan_keeps_what_was_sent_of_the_window() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let streams = [normal(1), stream(3, Priority::URGENT, 100, 1_000_000)];
    let mut channels = [channel(1, 7, 20, 50.0), channel(2, 0, 20, 50.0)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 9);
    assert_eq!(sent, [(1, 1); 7]);
    let plan = Plan {
        assignments: vec![assignment(1, &[(2, 10)])],
    };
    pgos.remap(Instant::EPOCH, &plan);
    let mut channels = [channel(1, 0, 20, 50.0), channel(2, 9, 20, 50.0)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 9);
    assert_eq!(sent[..3], [(1, 2); 3]);
    assert_eq!(sent[3..], [(3, 2); 6]);
}

#[test]
fn an_idle_stream_saves_up_no_more_than_a_window() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let streams = [normal(1), stream(3, Priority::URGENT, 100, 1_000_000)];
    let mut channels = [channel(1, 40, 20, 50.0)];
    let late = Instant::EPOCH + SECOND * 30;
    let sent = run(&mut pgos, late, &mut channels, &streams, 40);
    let promised = sent.iter().filter(|&&(stream, _)| stream == 1).count();
    assert_eq!(promised, 20);
}

#[test]
fn a_stream_that_waits_for_a_promise_goes_before_elastic_ones_on_any_path() {
    let mut waiting = assignment(1, &[]);
    waiting.window_bytes = 10.0 * PACKET as f64;
    let mut pgos = mapped(&[waiting, assignment(5, &[(1, 5)])]);
    let streams = [
        normal(1),
        stream(3, Priority::NORMAL, 1_000, 1_000_000),
        normal(5),
    ];
    let mut channels = [channel(1, 9, 20, 50.0), channel(2, 20, 40, 50.0)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 29);
    assert_eq!(sent[..5], [(5, 1); 5]);
    assert_eq!(sent[5..9], [(1, 1); 4]);
    assert_eq!(sent[9..15], [(1, 2); 6]);
    // Beyond what it asked for, it has its share.
    let elastic = sent[15..].iter().filter(|&&sent| sent == (3, 2));
    assert!(elastic.count() >= 10, "{sent:?}");
}

#[test]
fn when_all_is_due_precedence_decides_across_paths() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)]), assignment(2, &[(2, 10)])]);
    let streams = [normal(1), normal(2)];
    // The first stream's path stands still, and both are late: five packets of the first, and one is due.
    let mut channels = [channel(1, 0, 20, 50.0), channel(2, 0, 20, 50.0)];
    assert_eq!(
        run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 9),
        []
    );
    let mut channels = [channel(1, 0, 200, 1.0), channel(2, 7, 20, 50.0)];
    let late = Instant::EPOCH + SECOND / 2;
    let sent = run(&mut pgos, late, &mut channels, &streams, 9);
    assert_eq!(sent[..6], [(1, 2); 6]);
    assert_eq!(sent[6..], [(2, 2)]);
}

#[test]
fn a_packet_does_not_wait_in_the_queue_of_its_own_path_when_another_is_sooner() {
    const LITTLE: u64 = 1400;
    const MUCH: u64 = 1_000_000;
    // On its own path 450 kB wait beyond the path itself: 36 ms and 10 ms of delay, against 20 ms.
    for (may_split, free_there, backlog, expected) in [
        (true, 1, LITTLE, vec![(1, 2)]),
        (true, 0, LITTLE, vec![]),
        (true, 0, MUCH, vec![(1, 1)]),
        (false, 1, LITTLE, vec![(1, 1)]),
    ] {
        let mut assignment = assignment(1, &[(1, 10)]);
        assignment.may_split = may_split;
        let mut pgos = mapped(&[assignment]);
        let streams = [stream(1, Priority::NORMAL, 100, backlog)];
        let mut channels = [channel(1, 1, 20, 100.0), channel(2, free_there, 40, 50.0)];
        channels[0].in_flight_bytes = 700_000;
        let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 1);
        assert_eq!(sent, expected, "{may_split} {free_there} {backlog}");
    }
    // Nor on a path that is as near, but whose round trips vary by much.
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let mut channels = [channel(1, 1, 20, 50.0), channel(2, 1, 20, 50.0)];
    channels[0].rtt_variation = channels[1].rtt_variation + Duration::from_millis(9);
    let streams = [stream(1, Priority::NORMAL, 100, LITTLE)];
    let sent = run(&mut pgos, Instant::EPOCH, &mut channels, &streams, 1);
    assert_eq!(sent, [(1, 2)]);
}

#[test]
fn who_waits_for_another_path_does_not_hold_back_those_behind_it() {
    let mut bound = assignment(2, &[(1, 10)]);
    bound.may_split = false;
    let mut pgos = mapped(&[assignment(1, &[(1, 10)]), bound]);
    // Stream 1 has a single packet, which path 2 will deliver sooner.
    let streams = [stream(1, Priority::NORMAL, 100, 1400), normal(2)];
    let slow = || [channel(1, 3, 200, 5.0), channel(2, 0, 20, 50.0)];
    let now = Instant::EPOCH + Duration::from_millis(1);
    let sent = run(&mut pgos, now, &mut slow(), &streams, 2);
    assert_eq!(sent, [(2, 1), (2, 1)]);
    // In the next run it takes part again.
    let mut free = [channel(1, 3, 200, 5.0), channel(2, 1, 20, 50.0)];
    let sent = run(&mut pgos, now, &mut free, &streams, 1);
    assert_eq!(sent, [(1, 2)]);
}

#[test]
fn what_is_due_elsewhere_goes_by_precedence() {
    let streams = [stream(1, Priority::NORMAL, 100, 1400), normal(2)];
    let channels = || [channel(1, 0, 200, 5.0), channel(2, 1, 20, 50.0)];
    let now = Instant::EPOCH + Duration::from_millis(1);
    let first_sent = |first: Assignment| {
        let mut pgos = mapped(&[first, assignment(2, &[(2, 10)])]);
        run(&mut pgos, now, &mut channels(), &streams, 1)
    };
    // Neither is late. Path 2 delivers stream 1's packet long before its own path has a slot.
    assert_eq!(first_sent(assignment(1, &[(1, 10)])), [(1, 2)]);
    let mut bound = assignment(1, &[(1, 10)]);
    bound.may_split = false;
    assert_eq!(first_sent(bound), [(2, 2)]);
    let mut pgos = mapped(&[assignment(2, &[(2, 10)]), assignment(1, &[(1, 10)])]);
    let sent = run(&mut pgos, now, &mut channels(), &streams, 1);
    assert_eq!(sent, [(2, 2)], "the other comes first");
}

#[test]
fn before_a_frame_is_expected_nothing_elastic_joins_a_queue_that_lasts_until_then() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let queued = || {
        let mut channel = channel(1, 1, 30, 50.0);
        channel.rtt_min = Duration::from_millis(22);
        // 31.5 ms of its rate: 6.5 ms are a queue, beyond 3 ms of which nobody is certain.
        channel.in_flight_bytes = 196_875 + PACKET as u64;
        [channel]
    };
    let now = Instant::EPOCH + SECOND;
    let elastic = [normal(0)];
    let mut sent = |expected_ms: Option<u64>, streams: &[StreamView]| {
        let view = |channels| View {
            now,
            channels,
            streams,
        };
        let mut channels = queued();
        pgos.begin(&view(&channels), Changes::Any);
        pgos.expect(expected_ms.map(|ms| now + Duration::from_millis(ms)));
        let decision = pgos.next(&view(&channels));
        if let Decision::Send {
            stream,
            channels: mask,
        } = decision
        {
            pgos.sent(&view(&channels), stream, mask, PACKET);
            channels[0].slots = 0;
            return (Some(streams[stream].id.0), pgos.held_until());
        }
        (None, pgos.held_until())
    };
    assert_eq!(sent(None, &elastic), (Some(0), None));
    assert_eq!(
        sent(Some(7), &elastic),
        (Some(0), None),
        "the queue will be gone by then"
    );
    let at = now + Duration::from_millis(6);
    assert_eq!(sent(Some(6), &elastic), (None, Some(at)));
    assert_eq!(sent(Some(6), &[normal(0), normal(1)]), (Some(1), None));
}

/// More is in flight without any queue if packets usually take longer than the shortest round trip.
#[test]
fn jitter_is_no_queue_that_lasts_until_a_frame() {
    let mut pgos = mapped(&[assignment(1, &[(1, 10)])]);
    let now = Instant::EPOCH + SECOND;
    let mut is_held = |usual_ms: u64| {
        let mut channel = channel(1, 1, 30, 50.0);
        channel.rtt_min = Duration::from_millis(22);
        channel.rtt_usual = Duration::from_millis(usual_ms);
        // 31.5 ms of its rate.
        channel.in_flight_bytes = 196_875 + PACKET as u64;
        let view = View {
            now,
            channels: &[channel],
            streams: &[normal(0)],
        };
        pgos.begin(&view, Changes::Any);
        pgos.expect(Some(now + Duration::from_millis(6)));
        pgos.next(&view) == Decision::Wait
    };
    assert_eq!(
        [0, 22, 26, 30].map(&mut is_held),
        [true, true, false, false]
    );
}

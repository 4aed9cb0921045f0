//! The behaviour of RFC 8290, at virtual times.

use proptest::prelude::*;

use super::*;
use crate::packet::samples::tcp4;

/// A packet of so many bytes, ECN-capable or not.
fn packet(bytes: usize, is_capable: bool) -> Packet {
    let mut packet = Packet::new(&tcp4(1, &vec![0; bytes - 40]));
    packet.ip_mut()[1] = if is_capable { 2 } else { 0 };
    packet
}

/// A bottleneck of one packet of 1,000 bytes a millisecond: takes a packet a millisecond, after `arriving` have come.
fn run(
    queues: &mut FqCodel,
    millis: std::ops::Range<u64>,
    mut arriving: impl FnMut(u64, &mut FqCodel, Instant),
    mut leaves: impl FnMut(u64, u16, Packet),
) {
    for at in millis {
        let now = Instant::from_millis(at);
        arriving(at, queues, now);
        if let Some((bucket, packet)) = queues.pop(now) {
            leaves(at, bucket, packet);
        }
    }
}

#[test]
fn flows_share_by_bytes() {
    let mut queues = FqCodel::new(Config::default());
    let mut bytes = [0; 3];
    let arriving = |_: u64, queues: &mut FqCodel, now: Instant| {
        // Ten times as much of the first, in small packets of the third.
        for _ in 0..10 {
            queues.push(now, 0, packet(1000, false));
        }
        queues.push(now, 1, packet(1000, false));
        for _ in 0..4 {
            queues.push(now, 2, packet(250, false));
        }
    };
    run(&mut queues, 0..3000, arriving, |_, bucket, packet| {
        bytes[usize::from(bucket)] += packet.ip().len();
    });
    let all: usize = bytes.iter().sum();
    for share in bytes {
        let share = share as f64 / all as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.02, "{bytes:?}");
    }
}

#[test]
fn a_sparse_flow_goes_before_a_queue() {
    let mut queues = FqCodel::new(Config::default());
    let mut worst = 0;
    let arriving = |at: u64, queues: &mut FqCodel, now: Instant| {
        for _ in 0..2 {
            queues.push(now, 0, packet(1000, false));
        }
        if at.is_multiple_of(20) {
            let mut ping = packet(100, false);
            ping.ip_mut()[40..48].copy_from_slice(&at.to_be_bytes());
            queues.push(now, 7, ping);
        }
    };
    run(&mut queues, 0..2000, arriving, |at, bucket, packet| {
        if bucket == 7 {
            let sent = u64::from_be_bytes(packet.ip()[40..48].try_into().unwrap());
            worst = worst.max(at - sent);
        }
    });
    assert!(worst <= 2, "{worst} ms");
}

#[test]
fn packets_of_new_flows_can_be_taken_apart() {
    let mut queues = FqCodel::new(Config::default());
    let now = Instant::EPOCH;
    assert!(queues.push(now, 0, packet(1000, false)));
    for _ in 0..9 {
        assert!(!queues.push(now, 0, packet(1000, false)));
    }
    assert_eq!(queues.pop_new(now, |bucket| bucket == 7), None);
    // Its turn uses its credit up, and it is new no longer.
    for _ in 0..2 {
        assert!(queues.pop_new(now, |_| true).is_some());
    }
    assert_eq!(queues.pop_new(now, |_| true), None);
    assert!(queues.pop(now).is_some());
    assert!(queues.push(now, 7, packet(100, false)));
    let taken = queues.pop_new(now, |bucket| bucket == 7);
    assert_eq!(taken.map(|(bucket, _)| bucket), Some(7));
    assert_eq!(queues.pop_new(now, |_| true), None);
    let mut left = 0;
    while queues.pop(now).is_some() {
        left += 1;
    }
    assert_eq!((left, queues.queues()), (7, 0));
}

#[test]
fn a_standing_queue_is_brought_down_by_drops_or_by_marks() {
    for is_capable in [false, true] {
        let mut queues = FqCodel::new(Config::default());
        // A burst that then keeps the bottleneck busy exactly, reacting to neither drops nor marks for 150 ms.
        let arriving = |at: u64, queues: &mut FqCodel, now: Instant| {
            let count = if at == 0 { 100 } else { 1 };
            for _ in 0..count {
                queues.push(now, 0, packet(1000, is_capable));
            }
        };
        let mut marked = 0;
        run(&mut queues, 0..4000, arriving, |_, _, packet| {
            marked += u64::from(packet.ip()[1] & 3 == 3);
        });
        let stats = queues.stats();
        assert_eq!(stats.marked, marked);
        match is_capable {
            // Marks alone shorten no queue whose sender ignores them.
            true => assert!(stats.marked > 100 && stats.dropped_late == 0, "{stats:?}"),
            false => {
                assert!((90..=110).contains(&stats.dropped_late), "{stats:?}");
                // What waits is within the target.
                assert!(
                    queues.memory_bytes() <= 8 * 1064,
                    "{}",
                    queues.memory_bytes()
                );
            }
        }
    }
}

/// RFC 8289 §3.2: a burst that drains within an interval is no reason to drop.
#[test]
fn a_burst_passes() {
    let mut queues = FqCodel::new(Config::default());
    let arriving = |at: u64, queues: &mut FqCodel, now: Instant| {
        if at == 0 {
            for _ in 0..90 {
                queues.push(now, 0, packet(1000, false));
            }
        }
    };
    let mut left = 0;
    run(&mut queues, 0..200, arriving, |_, _, _| left += 1);
    assert_eq!((left, queues.stats().dropped_late), (90, 0));
}

#[test]
fn the_memory_is_bounded_and_the_longest_queue_pays() {
    let config = Config {
        memory_bytes: 100_000,
        ..Config::default()
    };
    let mut queues = FqCodel::new(config);
    queues.push(Instant::EPOCH, 1, packet(1000, false));
    for _ in 0..10_000 {
        queues.push(Instant::EPOCH, 0, packet(1000, false));
        assert!(queues.memory_bytes() <= 100_000);
    }
    let mut of_sparse = 0;
    while let Some((bucket, _)) = queues.pop(Instant::EPOCH) {
        of_sparse += usize::from(bucket == 1);
    }
    assert_eq!(of_sparse, 1, "it did not pay for the other");
    // A packet that alone exceeds the memory.
    let config = Config {
        memory_bytes: 100,
        ..config
    };
    let mut tiny = FqCodel::new(config);
    tiny.push(Instant::EPOCH, 0, packet(1000, false));
    assert_eq!((tiny.memory_bytes(), tiny.pop(Instant::EPOCH)), (0, None));
}

/// CoDel drops ever more of it, but takes half a minute until it is down to the rate of the bottleneck.
#[test]
fn a_flow_that_does_not_slow_down_waits_no_longer_than_the_limit() {
    let longest_wait = |longest: Duration| {
        let config = Config {
            longest,
            ..Config::default()
        };
        let (mut queues, mut worst) = (FqCodel::new(config), 0);
        let arriving = |at: u64, queues: &mut FqCodel, now: Instant| {
            for _ in 0..2 {
                let mut packet = packet(1000, false);
                packet.ip_mut()[40..48].copy_from_slice(&at.to_be_bytes());
                queues.push(now, 0, packet);
            }
        };
        run(&mut queues, 0..10_000, arriving, |at, _, packet| {
            let sent = u64::from_be_bytes(packet.ip()[40..48].try_into().unwrap());
            worst = worst.max(at - sent);
        });
        worst
    };
    assert!(longest_wait(Duration::MAX) > 1800);
    assert!(longest_wait(PACKET_LIFETIME) <= 1200);
}

/// The only packet of a flow is sent however slow the paths are.
#[test]
fn a_packet_with_none_behind_it_is_sent() {
    let mut queues = FqCodel::new(Config::default());
    for _ in 0..3 {
        queues.push(Instant::EPOCH, 0, packet(1000, false));
    }
    let late = Instant::from_secs(5);
    assert!(queues.pop(late).is_some() && queues.pop(late).is_none());
    assert_eq!(queues.stats().dropped_late, 2);
}

#[test]
fn idle_queues_take_no_memory() {
    let mut queues = FqCodel::new(Config::default());
    for bucket in 0..1000 {
        queues.push(Instant::EPOCH, bucket, packet(100, false));
    }
    while queues.pop(Instant::EPOCH).is_some() {}
    assert_eq!((queues.queues(), queues.queues.capacity()), (0, 0));
    assert!(queues.is_empty());
}

proptest! {
    /// Whatever is pushed leaves once or is counted as dropped, in order within its flow.
    #[test]
    fn nothing_is_lost_unseen_or_reordered_within_a_flow(
        actions in prop::collection::vec((0_u64..40, 0_u16..4, 0_u8..4, 41_usize..1500, any::<bool>()), 1..400),
        memory_bytes in 2_000_usize..200_000,
    ) {
        let mut queues = FqCodel::new(Config { memory_bytes, ..Config::default() });
        let (mut at, mut pushed, mut popped) = (0, 0_u64, 0_u64);
        let mut last = [0_u64; 4];
        let mut take = |queues: &mut FqCodel, at: u64, popped: &mut u64| {
            let now = Instant::from_millis(at);
            let new = queues.pop_new(now, |bucket| at.is_multiple_of(2) && bucket == 1);
            if let Some((bucket, packet)) = new.or_else(|| queues.pop(now)) {
                let data = packet.into_data();
                let number = u64::from(u32::from_be_bytes(data[..4].try_into().unwrap()));
                assert!(number > last[usize::from(bucket)]);
                last[usize::from(bucket)] = number;
                *popped += 1;
                return true;
            }
            false
        };
        for (wait, bucket, takes, bytes, is_capable) in actions {
            at += wait;
            pushed += 1;
            let mut packet = packet(bytes, is_capable);
            packet.data[..4].copy_from_slice(&(pushed as u32).to_be_bytes());
            queues.push(Instant::from_millis(at), bucket, packet);
            prop_assert!(queues.memory_bytes() <= memory_bytes);
            for _ in 0..takes {
                take(&mut queues, at, &mut popped);
            }
        }
        while take(&mut queues, at, &mut popped) {}
        let stats = queues.stats();
        prop_assert_eq!(pushed, popped + stats.dropped_late + stats.dropped_full);
        prop_assert!(queues.is_empty() && queues.queues() == 0);
    }
}

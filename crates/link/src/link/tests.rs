use super::*;
use crate::Outage;

const MS: Duration = Duration::from_millis(1);

/// 12 Mbit/s, so that 1500 bytes take 1 ms; 10 ms of propagation.
fn config() -> Config {
    Config {
        rate: RateSource::Constant(Rate::from_mbps(12)),
        delay: 10 * MS,
        queue: Queue::bytes(6_000),
        ..Config::default()
    }
}

fn link(config: Config) -> Link {
    Link::new(config, Seed(1)).unwrap()
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn delivered(verdict: Verdict) -> (Instant, Ticket) {
    match verdict {
        Verdict::Deliver { at, ticket, .. } => (at, ticket),
        Verdict::Drop(reason) => panic!("dropped: {reason:?}"),
    }
}

/// Offers a full packet that is to be delivered; returns its arrival time.
fn arrival(link: &mut Link, now: Instant) -> Instant {
    delivered(link.offer(now, 1500, false)).0
}

#[test]
fn serialisation_is_exact_to_the_nanosecond() {
    let mut link = link(Config {
        rate: RateSource::Constant(Rate::from_mbps(7)),
        queue: Queue::bytes(1_000_000),
        ..config()
    });
    // 12,000 bits at 7 Mbit/s: 1,714,285 5/7 ns each; seven packets take 12 ms exactly.
    let nanos: Vec<u64> = (0..7)
        .map(|_| arrival(&mut link, ms(0)).since(ms(10)).as_nanos() as u64)
        .collect();
    assert_eq!(
        nanos,
        [
            1_714_286, 3_428_572, 5_142_858, 6_857_143, 8_571_429, 10_285_715, 12_000_000
        ]
    );
    assert_eq!(link.stats().busy, 12 * MS);
}

#[test]
fn an_idle_link_begins_at_once() {
    let mut link = link(config());
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    assert_eq!(arrival(&mut link, ms(50)), ms(61));
    assert_eq!(link.stats().busy, 2 * MS);
    assert_eq!(link.queue_delay(ms(50)), MS);
    assert_eq!(link.queue_delay(ms(51)), Duration::ZERO);
}

#[test]
fn the_queue_limit_is_exact() {
    let mut link = link(config());
    // 6,000 bytes: four full packets, the one being sent included.
    for sent in 1..=4 {
        assert_eq!(arrival(&mut link, ms(0)), ms(10 + sent));
    }
    assert_eq!(link.queue_bytes(ms(0)), 6_000);
    assert_eq!(
        link.offer(ms(0), 1, false),
        Verdict::Drop(DropReason::QueueFull)
    );
    // A nanosecond before the first has left there is no space; once it has left there is.
    let just_before = Instant::from_nanos(999_999);
    assert_eq!(
        link.offer(just_before, 1500, false),
        Verdict::Drop(DropReason::QueueFull)
    );
    assert_eq!(arrival(&mut link, ms(1)), ms(15));
    assert_eq!(link.queue_bytes(ms(1)), 6_000);
    assert_eq!(link.queue_bytes(ms(3)), 3_000);
    let stats = link.stats();
    assert_eq!(stats.queue_max_bytes, 6_000);
    assert_eq!(
        stats.queue_full,
        Count {
            packets: 2,
            bytes: 1_501
        }
    );
    assert_eq!(
        stats.delivered,
        Count {
            packets: 5,
            bytes: 7_500
        }
    );
}

#[test]
fn a_queue_of_one_bdp_holds_one_round_trip() {
    let rate = Rate::from_mbps(50);
    let mut link = link(Config {
        rate: RateSource::Constant(rate),
        delay: 30 * MS,
        queue: Queue::bdp(rate, 60 * MS),
        ..Config::default()
    });
    // 375,000 bytes hold 250 packets of 240 µs: 60 ms.
    let mut last = ms(0);
    for _ in 0..250 {
        last = arrival(&mut link, ms(0));
    }
    assert_eq!(last, ms(60 + 30));
    assert_eq!(
        link.offer(ms(0), 1500, false),
        Verdict::Drop(DropReason::QueueFull)
    );
}

#[test]
fn a_queue_smaller_than_a_packet_lets_packets_through_one_at_a_time() {
    let mut link = link(Config {
        queue: Queue::bytes(100),
        ..config()
    });
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    assert_eq!(
        link.offer(ms(0), 40, false),
        Verdict::Drop(DropReason::QueueFull)
    );
    assert_eq!(arrival(&mut link, ms(1)), ms(12));
}

#[test]
fn packets_above_the_mtu_are_dropped() {
    let mut link = link(config());
    assert_eq!(
        link.offer(ms(0), 1501, false),
        Verdict::Drop(DropReason::TooBig)
    );
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    assert_eq!(link.stats().dropped(DropReason::TooBig).packets, 1);
}

#[test]
fn capable_packets_are_marked_above_the_threshold() {
    let mut link = link(Config {
        queue: Queue::bytes(9_000).marking_above(1_500),
        ..config()
    });
    let marks: Vec<bool> = [true, true, true, false, true]
        .into_iter()
        .map(|ect| match link.offer(ms(0), 1500, ect) {
            Verdict::Deliver { is_marked, .. } => is_marked,
            Verdict::Drop(reason) => panic!("{reason:?}"),
        })
        .collect();
    // Bytes before them: 0, 1500, 3000, 4500 (not capable), 6000.
    assert_eq!(marks, [false, false, true, false, true]);
    assert_eq!(link.stats().marked.packets, 2);
}

#[test]
fn switching_off_loses_packets_that_have_not_left() {
    let mut link = link(config());
    let tickets: Vec<Ticket> = (0..4)
        .map(|_| delivered(link.offer(ms(0), 1500, false)).1)
        .collect();
    // Two have left, the third is being sent.
    link.set_up(Instant::from_micros(2_500), false);
    let outcomes: Vec<bool> = tickets.iter().map(|&t| link.still_delivers(t)).collect();
    assert_eq!(outcomes, [true, true, false, false]);
    assert_eq!(
        link.offer(ms(3), 1500, false),
        Verdict::Drop(DropReason::Down)
    );
    assert_eq!(link.queue_bytes(ms(3)), 0);

    // Back again the transmitter is free at once, and old verdicts stand.
    link.set_up(ms(4), true);
    let (at, ticket) = delivered(link.offer(ms(4), 1500, false));
    assert_eq!(at, ms(15));
    assert!(link.still_delivers(ticket) && link.still_delivers(tickets[0]));
    assert!(!link.still_delivers(tickets[2]));
    let stats = link.stats();
    assert_eq!(stats.delivered.packets, 3);
    assert_eq!(stats.down.packets, 3);
    // 2.5 ms until the cut, 1 ms afterwards.
    assert_eq!(stats.busy, Duration::from_micros(3_500));
}

#[test]
fn switching_twice_is_switching_once() {
    let mut link = link(config());
    let (_, ticket) = delivered(link.offer(ms(0), 1500, false));
    link.set_up(ms(1), false);
    link.set_up(ms(1), false);
    assert!(link.still_delivers(ticket));
    assert!(!link.is_up(ms(1)));
    link.set_up(ms(1), true);
    assert!(link.is_up(ms(1)));
}

#[test]
fn a_ticket_outlives_many_cuts_only_while_remembered() {
    let mut link = link(config());
    let (_, ticket) = delivered(link.offer(ms(0), 1500, false));
    for cut in 0..CUTS_REMEMBERED as u64 {
        link.set_up(ms(2 + cut), false);
        link.set_up(ms(2 + cut), true);
        assert!(link.still_delivers(ticket), "{cut}");
    }
    link.set_up(ms(1000), false);
    assert!(!link.still_delivers(ticket));
}

#[test]
fn a_planned_outage_is_a_cut_known_beforehand() {
    let mut link = link(Config {
        outages: vec![Outage {
            from: 2 * MS,
            to: 5 * MS,
        }],
        ..config()
    });
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    assert_eq!(arrival(&mut link, ms(0)), ms(12));
    // The third would leave at 3 ms.
    assert_eq!(
        link.offer(ms(0), 1500, false),
        Verdict::Drop(DropReason::Down)
    );
    assert_eq!(link.queue_bytes(Instant::from_micros(1_900)), 3_000);
    assert_eq!(link.queue_bytes(ms(2)), 0);
    assert_eq!(link.queue_delay(ms(2)), Duration::ZERO);
    assert!(link.is_up(Instant::from_micros(1_999)) && !link.is_up(ms(2)));
    assert_eq!(
        link.offer(ms(4), 1500, false),
        Verdict::Drop(DropReason::Down)
    );
    assert!(link.is_up(ms(5)));
    assert_eq!(arrival(&mut link, ms(5)), ms(16));
    assert_eq!(link.stats().down.packets, 2);
    assert_eq!(link.stats().busy, 3 * MS);
}

#[test]
fn a_new_rate_holds_for_later_packets() {
    let mut link = link(config());
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    assert_eq!(arrival(&mut link, ms(0)), ms(12));
    link.set_rate(ms(1), RateSource::Constant(Rate::from_mbps(6)))
        .unwrap();
    assert_eq!(arrival(&mut link, ms(1)), ms(14));
    assert_eq!(link.rate_at(ms(1)), Some(Rate::from_mbps(6)));
    let error = link.set_rate(ms(1), RateSource::Constant(Rate::ZERO));
    assert!(error.is_err());
    assert_eq!(link.rate_at(ms(1)), Some(Rate::from_mbps(6)));
}

#[test]
fn a_shorter_delay_keeps_order() {
    let mut link = link(config());
    assert_eq!(arrival(&mut link, ms(0)), ms(11));
    link.set_delay(MS).unwrap();
    assert_eq!(arrival(&mut link, ms(1)), ms(11));
    assert_eq!(arrival(&mut link, ms(20)), ms(22));
    assert!(link.set_delay(Duration::MAX).is_err());
}

#[test]
fn a_cut_packet_does_not_hold_back_later_ones() {
    let mut link = link(Config {
        queue: Queue::bytes(600_000),
        ..config()
    });
    for _ in 0..400 {
        let _ = arrival(&mut link, ms(0));
    }
    link.set_up(ms(1), false);
    link.set_up(ms(1), true);
    assert_eq!(arrival(&mut link, ms(2)), ms(13));
}

#[test]
fn loss_uses_the_rate() {
    let mut link = link(Config {
        loss: Loss::random(1.0).unwrap(),
        ..config()
    });
    assert_eq!(
        link.offer(ms(0), 1500, false),
        Verdict::Drop(DropReason::Loss)
    );
    link.set_loss(Loss::None).unwrap();
    assert_eq!(arrival(&mut link, ms(0)), ms(12));
}

#[test]
fn time_does_not_run_backwards() {
    let mut link = link(config());
    assert_eq!(arrival(&mut link, ms(5)), ms(16));
    assert_eq!(arrival(&mut link, ms(0)), ms(17));
}

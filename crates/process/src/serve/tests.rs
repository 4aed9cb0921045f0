//! A source, the nodes that process its stream one after the other, and a subscriber: whatever moves or starts again, it gets every derived
//! ADU once.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, NodeId};
use bytes::Bytes;

use super::*;
use crate::{
    Fields, Limits, Modules, Pipeline,
    derive::{Delivery, Derived},
    memory::{Account, Memory},
};

const ADUS: u64 = 120;
const RELIABLE: Delivery = Delivery {
    is_reliable: true,
    adus: 8_192,
    bytes: 32 << 20,
};

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn body(sequence: u64) -> Bytes {
    Bytes::from(sequence.to_le_bytes().to_vec())
}

fn reader() -> ReaderId {
    (NodeId::from_public_key([7; 32]), 7)
}

/// A node that knows nothing of the stream yet.
fn node(retained: &mut Retained, readers: u32, now: Instant) -> Offered {
    let first = retained.first();
    let terms = Terms {
        run: 1,
        is_reliable: true,
        is_live: false,
        first,
        readers,
    };
    retained.resume(first).unwrap();
    Offered::new(terms, Rules::default(), Modules::default(), now)
}

fn subscribe(
    offered: &mut Offered,
    progress: &mut Progress,
    pipeline: &Pipeline,
    now: Instant,
) -> Subscription {
    let position = progress.position().cloned();
    let request = Request {
        reader: reader(),
        change: 0,
        position: position.map(|position| (progress.run(), position)),
        delivery: RELIABLE,
        account: Account::default(),
    };
    let subscription = Subscription::new(offered, request, pipeline, now).unwrap();
    progress.begun(1, subscription.begin().clone());
    subscription
}

fn expected(pipeline: &Pipeline) -> Vec<u64> {
    let modules = Modules::default();
    let mut running = pipeline.start(&modules, Limits::default()).unwrap();
    let adus = (0..ADUS).map(|sequence| crate::Adu::new(sequence, body(sequence)));
    let derived = adus.flat_map(|adu| running.process(adu, &modules).unwrap().adus);
    derived.map(|adu| adu.sequence).collect()
}

#[test]
fn nodes_that_die_at_any_time_lose_and_repeat_nothing() {
    for seed in 0..300 {
        let text = ["", "every 3", "every 25", "where stream_seq != 4"][seed as usize % 4];
        let pipeline: Pipeline = text.parse().unwrap();
        let mut dice = Dice(seed);
        let mut now = Instant::EPOCH;
        let mut retained = Retained::new(true);
        let mut progress = Progress::default();
        let mut offered = node(&mut retained, 1, now);
        let mut subscription = subscribe(&mut offered, &mut progress, &pipeline, now);
        // What is on the way from the node dies with it, and what is on the way to it does not reach the next one.
        let mut under_way: VecDeque<Derived> = VecDeque::new();
        let mut got = Vec::new();
        let mut deaths = 0;
        loop {
            now += Duration::from_millis(1);
            match dice.below(16) {
                0..3 if retained.end() < ADUS => {
                    let sequence = retained.end();
                    assert_eq!(
                        retained.push(Fields::default(), body(sequence), None),
                        sequence
                    );
                }
                3..7 if offered.has_room() => {
                    let Some(adu) = retained.to_send().cloned() else {
                        continue;
                    };
                    retained.sent(adu.sequence + 1);
                    offered.push(adu, now).unwrap();
                }
                7..10 => match subscription.next(&mut offered) {
                    Next::Adus(adus, _) => under_way.extend(adus),
                    Next::Idle(Some(position)) if under_way.is_empty() => {
                        progress.marked(position);
                        if progress.held() == Some(ADUS) {
                            break;
                        }
                    }
                    Next::Idle(_) => {}
                    Next::Ended(end) => panic!("seed {seed}: {}", end.why),
                },
                10..13 => {
                    let Some(derived) = under_way.pop_front() else {
                        continue;
                    };
                    let sequence = derived.adu.sequence;
                    if progress.arrived(sequence) {
                        assert_eq!(derived.adu.body, body(sequence));
                        got.push(sequence);
                    }
                    progress.taken(derived.is_last);
                }
                13 => {
                    let Some(held) = progress.held() else {
                        continue;
                    };
                    subscription.held(&mut offered, held, now);
                }
                14 => retained.acknowledge(offered.acknowledged().0),
                15 if deaths < 6 && dice.below(4) == 0 => {
                    deaths += 1;
                    under_way.clear();
                    offered = node(&mut retained, 1, now);
                    subscription = subscribe(&mut offered, &mut progress, &pipeline, now);
                }
                _ => {}
            }
        }
        assert_eq!(got, expected(&pipeline), "{text}, seed {seed}");
    }
}

#[test]
fn a_source_keeps_what_is_not_acknowledged_and_refuses_what_is_gone() {
    let mut retained = Retained::new(true);
    for sequence in 0..5 {
        retained.push(Fields::default(), body(sequence), None);
    }
    retained.sent(3);
    // What was not sent is not forgotten.
    retained.acknowledge(4);
    assert_eq!((retained.first(), retained.end()), (3, 5));
    let error = retained.resume(2).unwrap_err();
    assert_eq!(error.to_string(), "it asks for ADU 2 of 3 to 5");
    retained.resume(5).unwrap();
    assert!(retained.to_send().is_none());
    let mut lossy = Retained::new(false);
    lossy.push(Fields::default(), body(0), None);
    lossy.sent(1);
    assert_eq!(lossy.first(), 1);
}

fn adu_of(sequence: u64, bytes: usize) -> crate::Adu {
    crate::Adu::new(sequence, vec![0; bytes])
}

fn reliable(is_live: bool) -> Terms {
    Terms {
        run: 1,
        is_reliable: true,
        is_live,
        first: 0,
        readers: 0,
    }
}

fn request(key: u8) -> Request {
    Request {
        reader: (NodeId::from_public_key([key; 32]), 1),
        change: 0,
        position: None,
        delivery: RELIABLE,
        account: Account::default(),
    }
}

#[test]
fn a_source_waits_while_its_account_is_full() {
    let memory = Memory::new(4 << 20);
    let now = Instant::EPOCH;
    let rules = || Rules {
        account: memory.account(),
        ..Rules::default()
    };
    let mut offered = Offered::new(reliable(false), rules(), Modules::default(), now);
    let pipeline = Pipeline::default();
    let reader = Subscription::new(&mut offered, request(1), &pipeline, now).unwrap();
    let mut next = 0;
    while offered.has_room() {
        offered.push(adu_of(next, 1 << 20), now).unwrap();
        next += 1;
    }
    // Half of the memory, and no more than the ADU that exceeds it.
    assert_eq!(next, 2);
    assert!(memory.used() < (2 << 20) + 1_000);
    let mut other = Offered::new(reliable(true), rules(), Modules::default(), now);
    let behind = Subscription::new(&mut other, request(2), &pipeline, now).unwrap();
    for sequence in 0..10 {
        // One that is live does not wait: the oldest are forgotten.
        assert!(other.has_room());
        other.push(adu_of(sequence, 1 << 19), now).unwrap();
        assert!(memory.used() < 4 << 20);
    }
    assert!(other.acknowledged().0 > 5);
    drop(behind);
    reader.held(&mut offered, 1, now);
    assert!(offered.has_room());
    drop((offered, other));
    assert_eq!(memory.used(), 0);
}

#[test]
fn who_has_everything_is_not_given_up_for_one_that_stalls() {
    let mut now = Instant::EPOCH;
    let pipeline = Pipeline::default();
    let mut offered = Offered::new(reliable(false), Rules::default(), Modules::default(), now);
    let _stalled = Subscription::new(&mut offered, request(1), &pipeline, now).unwrap();
    let quick = Subscription::new(&mut offered, request(2), &pipeline, now).unwrap();
    let mut next = 0;
    while offered.has_room() {
        offered.push(adu_of(next, 1 << 20), now).unwrap();
        next += 1;
    }
    quick.held(&mut offered, next, now);
    now += Duration::from_secs(61);
    offered.trim(now);
    // The one that stalled is given up, and the other is still waited for.
    assert_eq!(offered.acknowledged(), (next, 1));
    offered.push(adu_of(next, 100), now).unwrap();
    quick.leave(&mut offered, false, now);
    offered.trim(now);
    assert_eq!(offered.acknowledged(), (next, 1));
}

#[test]
fn who_is_away_is_waited_for_as_long_as_the_rules_say() {
    let mut now = Instant::EPOCH;
    let rules = Rules {
        grace: Duration::from_secs(300),
        ..Rules::default()
    };
    let mut offered = Offered::new(reliable(false), rules, Modules::default(), now);
    let reader = Subscription::new(&mut offered, request(1), &Pipeline::default(), now).unwrap();
    offered.push(adu_of(0, 100), now).unwrap();
    reader.leave(&mut offered, false, now);
    offered.leave(0, now);
    now += Duration::from_secs(299);
    offered.trim(now);
    assert_eq!(
        (offered.acknowledged(), offered.is_over(now)),
        ((0, 1), false)
    );
    now += Duration::from_secs(1);
    offered.trim(now);
    assert_eq!(
        (offered.acknowledged(), offered.is_over(now)),
        ((1, 0), true)
    );
}

#[test]
fn a_visit_that_ends_late_does_not_end_the_next() {
    let mut now = Instant::EPOCH;
    let pipeline = Pipeline::default();
    let mut offered = Offered::new(reliable(false), Rules::default(), Modules::default(), now);
    let before = Subscription::new(&mut offered, request(1), &pipeline, now).unwrap();
    let mut again = Subscription::new(&mut offered, request(1), &pipeline, now).unwrap();
    before.leave(&mut offered, false, now);
    offered.push(adu_of(0, 100), now).unwrap();
    now += GRACE;
    offered.trim(now);
    assert_eq!(offered.acknowledged(), (0, 1));
    before.leave(&mut offered, true, now);
    assert_eq!(offered.acknowledged(), (0, 1));
    assert!(matches!(again.next(&mut offered), Next::Adus(..)));
    again.held(&mut offered, 1, now);
    assert_eq!(offered.acknowledged(), (1, 1));
}

#[test]
fn who_is_ahead_of_a_stream_that_ends_for_now_is_told() {
    let now = Instant::EPOCH;
    let mut offered = Offered::new(reliable(false), Rules::default(), Modules::default(), now);
    let ahead = Position {
        next: 7,
        phases: None,
    };
    let request = Request {
        position: Some((Some(1), ahead)),
        ..request(1)
    };
    let subscription = Subscription::new(&mut offered, request, &Pipeline::default(), now);
    let mut subscription = subscription.unwrap();
    assert!(matches!(subscription.next(&mut offered), Next::Idle(None)));
    let end = End::for_now("the source has offered the stream anew");
    offered.end(end.clone());
    assert!(matches!(subscription.next(&mut offered), Next::Ended(found) if found == end));
}

/// Differences that were taken before a change of the pipeline are of no use after it; without one, those that follow need them.
#[test]
fn a_change_to_the_same_pipeline_is_none_and_another_one_needs_nothing_of_before() {
    let now = Instant::EPOCH;
    let mut offered = Offered::new(reliable(true), Rules::default(), Modules::default(), now);
    let own = Request {
        delivery: delivery(false),
        ..request(1)
    };
    let [same, other] =
        ["delta of f64", "every 1 then delta of f64"].map(|text| text.parse().unwrap());
    let mut subscription = Subscription::new(&mut offered, own, &same, now).unwrap();
    let mut next = |sequence, change: Option<(u32, &Pipeline)>| {
        let is_another =
            change.map(|(number, pipeline)| subscription.change(&mut offered, number, pipeline));
        offered.push(adu_of(sequence, 800), now).unwrap();
        let Next::Adus(adus, _) = subscription.next(&mut offered) else {
            panic!("one is derived of each");
        };
        (is_another, adus[0].change, adus[0].adu.needs_previous)
    };
    assert_eq!(next(0, None), (None, 0, false));
    assert_eq!(next(1, None), (None, 0, true));
    assert_eq!(next(2, Some((1, &same))), (Some(Ok(false)), 1, true));
    assert_eq!(next(3, Some((2, &other))), (Some(Ok(true)), 2, false));
}

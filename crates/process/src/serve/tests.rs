//! A source, the nodes that process its stream one after the other, and a subscriber: whatever moves or starts again, it gets every derived
//! ADU once.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, NodeId};
use bytes::Bytes;

use super::*;
use crate::{
    Fields, Limits, Modules, Pipeline,
    derive::{Bounds, Delivery, Derived},
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
    Offered::new(terms, Bounds::default(), Modules::default(), now)
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
                    Next::Adus(adus) => under_way.extend(adus),
                    Next::Idle(Some(position)) if under_way.is_empty() => {
                        progress.marked(position);
                        if progress.held() == Some(ADUS) {
                            break;
                        }
                    }
                    Next::Idle(_) => {}
                    Next::Ended(why) => panic!("seed {seed}: {why}"),
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

//! Service and subscriber together, without a node between them: what a reliable subscriber gets of a reliable source while sessions end
//! and services start again at any time.

use std::sync::Arc;

use anabranch::{SecretKey, base::NodeId};
use anabranch_process::{Adu, Limits, Modules, Pipeline, derive::Bounds, serve::Next};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    service::{source::Source, subscription::Subscription},
    subscribe::{Received, Settings, Subscriber},
    wire::{
        Carried, Item,
        message::{Offer, Pace},
    },
};

const ADUS: u64 = 150;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn node(seed: u8) -> NodeId {
    SecretKey::from_seed([seed; 32]).node_id()
}

fn adu(sequence: u64) -> Adu {
    let body: Vec<u8> = (0..8)
        .flat_map(|at| (sequence as f32 + at as f32).to_le_bytes())
        .collect();
    Adu::new(sequence, body).with("layer", (sequence % 3) as f64)
}

fn offer(pace: Pace, first: u64, readers: u32) -> Offer {
    Offer {
        run: 1,
        subscribers: vec!["*".to_owned()],
        is_reliable: true,
        pace,
        first,
        readers,
    }
}

fn service(offer: Offer) -> Arc<Source> {
    Arc::new(Source::new(
        "x".to_owned(),
        node(1),
        offer,
        Bounds::default(),
    ))
}

fn subscriber(pipeline: &Pipeline) -> (Subscriber, mpsc::Receiver<Received>) {
    let settings = Settings {
        name: "x".to_owned(),
        run: 2,
        source: None,
        demand: None,
        spec: anabranch::StreamSpec::default(),
    };
    let (sender, received) = mpsc::channel(1_000);
    (Subscriber::new(settings, pipeline, sender), received)
}

/// Subscribes, as in a new session.
fn subscribe(
    subscriber: &Subscriber,
    source: &Arc<Source>,
    pipeline: &Pipeline,
) -> Result<Subscription, String> {
    let request = subscriber.request();
    let subscription = Subscription::new(source, (node(2), 2), &request, pipeline);
    if let Ok(subscription) = &subscription {
        subscriber.begun(source.inner().offer.run, subscription.begin.clone().into());
    }
    subscription
}

/// The bodies that the pipeline derives, without differences, and the numbers of their ADUs.
fn expected(text: &str) -> Vec<(u64, Bytes)> {
    let plain = text.trim_end_matches("delta").trim_end_matches(" then ");
    let modules = Modules::default();
    let mut running = plain
        .parse::<Pipeline>()
        .unwrap()
        .start(&modules, Limits::default())
        .unwrap();
    let derived =
        (0..ADUS).flat_map(|sequence| running.process(adu(sequence), &modules).unwrap().adus);
    derived.map(|adu| (adu.sequence, adu.body)).collect()
}

#[tokio::test]
async fn nothing_is_lost_or_repeated_whatever_starts_again() {
    let texts = [
        "",
        "every 5",
        "drop layer 2 then every 4",
        "every 3 then delta",
        "every 40",
        "delta",
    ];
    for (number, text) in texts.iter().cycle().take(240).enumerate() {
        let pipeline: Pipeline = text.parse().unwrap();
        let mut dice = Dice(number as u64);
        let mut source = service(offer(Pace::Slowest, 0, 0));
        let (subscriber, mut received) = subscriber(&pipeline);
        let mut subscription = Some(subscribe(&subscriber, &source, &pipeline).unwrap());
        let mut sent = 0;
        let mut decoding = None;
        let mut restarts = 0;
        loop {
            match dice.below(24) {
                0..10 if sent < ADUS && source.inner().offered.has_room() => {
                    source.push(adu(sent)).unwrap();
                    sent += 1;
                }
                10..20 => {
                    let Some(live) = &subscription else { continue };
                    match live.next() {
                        Next::Adus(adus) => {
                            for derived in adus {
                                // As on a stream.
                                let bytes = Carried::from(derived).to_bytes();
                                let Item::Adu(carried) = Item::read(bytes).unwrap() else {
                                    panic!("it is an ADU");
                                };
                                subscriber.arrived(carried, &mut decoding).await.unwrap();
                            }
                        }
                        Next::Idle(position) if sent == ADUS => {
                            subscriber.marked(position.unwrap().into());
                            assert_eq!(subscriber.held(), Some(ADUS));
                            break;
                        }
                        Next::Idle(Some(position)) if dice.below(3) == 0 => {
                            subscriber.marked(position.into());
                        }
                        Next::Idle(_) => {}
                        Next::Ended(why) => panic!("seed {number}: {why}"),
                    }
                }
                20 => {
                    let (Some(live), Some(next)) = (&subscription, subscriber.held()) else {
                        continue;
                    };
                    live.held(next);
                }
                // Its session ends, and it returns later.
                21 => {
                    if let Some(over) = subscription.take() {
                        over.leave(false);
                    }
                }
                22 if subscription.is_none() => {
                    let again = subscribe(&subscriber, &source, &pipeline);
                    subscription = Some(again.unwrap_or_else(|why| panic!("seed {number}: {why}")));
                    decoding = None;
                }
                // The service starts again; the source sends what was not acknowledged.
                23 if restarts < 5 => {
                    restarts += 1;
                    let (first, readers) = source.inner().offered.acknowledged();
                    subscription = None;
                    source = service(offer(Pace::Slowest, first, readers.max(1)));
                    sent = first;
                }
                _ => {}
            }
        }
        let mut got = Vec::new();
        while let Ok(one) = received.try_recv() {
            let Received::Adu { adu, .. } = one else {
                continue;
            };
            got.push((adu.sequence, adu.body));
        }
        assert_eq!(got, expected(text), "{text}, seed {number}");
    }
}

#[tokio::test]
async fn the_source_waits_for_slow_subscribers_or_ends_them_and_others_are_not_affected() {
    let every = Pipeline::default();
    for (pace, taken) in [(Pace::Slowest, 1_024), (Pace::Live, 10_000)] {
        let source = service(offer(pace, 0, 0));
        let (stuck, mut quick) = (subscriber(&every).0, 0);
        let stuck = subscribe(&stuck, &source, &every).unwrap();
        let settings = crate::wire::message::Subscribe {
            is_reliable: false,
            ..subscriber(&every).0.request()
        };
        let live = Subscription::new(&source, (node(3), 3), &settings, &every).unwrap();
        let mut sent = 0;
        while sent < 10_000 && source.inner().offered.has_room() {
            source.push(adu(sent)).unwrap();
            sent += 1;
            while let Next::Adus(adus) = live.next() {
                quick += adus.len() as u64;
            }
        }
        assert_eq!((sent, quick), (taken, taken));
        let mut got = 0;
        let end = loop {
            match stuck.next() {
                Next::Adus(adus) => got += adus.len() as u64,
                Next::Idle(_) => break None,
                Next::Ended(why) => break Some(why),
            }
        };
        match pace {
            Pace::Slowest => {
                assert_eq!((got, end), (taken, None));
                stuck.held(taken);
                assert!(source.inner().offered.has_room());
            }
            Pace::Live => {
                assert_eq!(got, 8_192);
                assert!(end.unwrap().contains("its queue is full"));
                assert!(source.inner().offered.acknowledged().0 >= 10_000 - 1_024);
            }
        }
    }
}

#[tokio::test]
async fn places_that_are_gone_and_gaps_are_refused_in_words() {
    let pipeline = Pipeline::default();
    let source = service(offer(Pace::Slowest, 0, 0));
    let (subscriber, _received) = subscriber(&pipeline);
    drop(subscribe(&subscriber, &source, &pipeline).unwrap());
    subscriber.marked(crate::wire::message::Position {
        next: 2,
        phases: Some(vec![]),
    });
    let error = source.push(adu(3)).unwrap_err();
    assert_eq!(error.to_string(), "ADU 3 in place of 0");
    let later = service(offer(Pace::Slowest, 5, 0));
    let error = subscribe(&subscriber, &later, &pipeline).unwrap_err();
    assert!(
        error.starts_with("ADUs 2 to 4 are not kept any more"),
        "{error}"
    );
    let other = Offer {
        run: 9,
        ..offer(Pace::Slowest, 5, 0)
    };
    let error = subscribe(&subscriber, &service(other), &pipeline).unwrap_err();
    assert!(error.contains("has begun its stream anew"), "{error}");
}

//! Service and subscriber together, without a node between them: what a reliable subscriber gets of a reliable source while sessions end
//! and services start again at any time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    SecretKey,
    base::{Instant, NodeId},
};
use anabranch_process::{
    Adu, Limits, Modules, Pipeline,
    memory::Account,
    serve::{Next, Rules, windows::Part},
};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    service::{
        source::{Came, Clock, Source},
        subscription::Subscription,
    },
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

fn came() -> Came {
    Came {
        at: Instant::EPOCH,
        was_held_up: false,
    }
}

fn offer(pace: Pace, first: u64, readers: u32) -> Offer {
    Offer {
        run: 1,
        subscribers: vec!["*".to_owned()],
        is_reliable: true,
        pace,
        first,
        readers,
        confirms: false,
        opens: None,
    }
}

fn service(offer: Offer) -> Arc<Source> {
    service_with(offer, Clock::real())
}

fn service_with(offer: Offer, clock: Clock) -> Arc<Source> {
    let name = "x".to_owned();
    let of_node = (Rules::default(), Modules::default());
    Arc::new(Source::new(
        (name, node(1)),
        offer,
        of_node,
        (clock, Arc::default()),
    ))
}

fn subscriber(pipeline: &Pipeline) -> (Subscriber, mpsc::Receiver<Received>) {
    let settings = Settings {
        name: "x".to_owned(),
        run: 2,
        source: None,
        demand: None,
        modules: BTreeMap::new(),
        patience: None,
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
    let subscription = Subscription::new(
        source,
        ((node(2), 2), Account::default()),
        &request,
        pipeline,
    );
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
                    source.push(adu(sent), came()).unwrap();
                    sent += 1;
                }
                10..20 => {
                    let Some(live) = &subscription else { continue };
                    match live.next() {
                        Next::Adus(adus, _) => {
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
                        Next::Ended(end) => panic!("seed {number}: {}", end.why),
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
        let live = Subscription::new(
            &source,
            ((node(3), 3), Account::default()),
            &settings,
            &every,
        )
        .unwrap();
        let mut sent = 0;
        while sent < 10_000 && source.inner().offered.has_room() {
            source.push(adu(sent), came()).unwrap();
            sent += 1;
            while let Next::Adus(adus, _) = live.next() {
                quick += adus.len() as u64;
            }
        }
        assert_eq!((sent, quick), (taken, taken));
        let mut got = 0;
        let end = loop {
            match stuck.next() {
                Next::Adus(adus, _) => got += adus.len() as u64,
                Next::Idle(_) => break None,
                Next::Ended(end) => break Some(end.why),
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
    let error = source.push(adu(3), came()).unwrap_err();
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

/// Each ADU is made 40 ms after the one before, and comes 20 ms later; from the second second on, operators take 60 ms for each. The time is that of
/// a clock that goes on where the test says so.
#[test]
fn operators_that_take_longer_than_there_is_time_fail_the_windows_as_processing() {
    let now = Arc::new(AtomicU64::new(0));
    let work = Arc::new(AtomicU64::new(0));
    let clock = {
        let (now, work) = (now.clone(), work.clone());
        // Each look at the clock takes half of the work, and there are two of them while an ADU is processed.
        Clock::of(move || {
            let half = work.load(Ordering::Relaxed) / 2;
            Instant::from_millis(now.fetch_add(half, Ordering::Relaxed) + half)
        })
    };
    let source = service_with(offer(Pace::Slowest, 0, 0), clock);
    source.watch(5, Duration::from_millis(300));
    let mut busy_since = 0;
    for number in 0..100 {
        let made = 40 * number;
        if made == 1_000 {
            work.store(60, Ordering::Relaxed);
        }
        let is_late = now.load(Ordering::Relaxed) > made + 20;
        if !is_late {
            now.store(made + 20, Ordering::Relaxed);
            busy_since = made + 20;
        }
        let mut one = adu(number);
        one.made = Some(Duration::from_millis(made));
        let came = Came {
            at: Instant::from_millis(busy_since),
            was_held_up: is_late,
        };
        source.push(one, came).unwrap();
    }
    work.store(0, Ordering::Relaxed);
    now.store(60_000, Ordering::Relaxed);
    let (shares, failed) = source.judged(5);
    let failed: Vec<(u64, Part)> = failed.iter().map(|one| (one.window, one.part)).collect();
    // 20 ms are missing with each ADU, 300 after 15 of them.
    let processing = Part::Processing;
    assert_eq!(failed, [(1, processing), (2, processing), (3, processing)]);
    assert_eq!(shares.failed[1], 3);
    source.unwatch(5);
    assert_eq!(source.judged(5).0.known, 0);
}

#[test]
fn who_comes_does_not_wait_for_who_looks() {
    let source = service(offer(Pace::Slowest, 0, 0));
    let pipeline = Pipeline::default();
    let (subscriber, _received) = subscriber(&pipeline);
    let is_over = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                subscribe(&subscriber, &source, &pipeline).unwrap();
            }
            is_over.store(1, Ordering::Relaxed);
        });
        // Has the lock of the changes while it takes that of the state.
        let changes = source.changes();
        while is_over.load(Ordering::Relaxed) == 0 {
            let _changes = changes.borrow();
            assert!(source.inner().offered.has_room());
        }
    });
}

/// A service has the modules that its operator chose, and others are refused in words.
#[cfg(feature = "wasm")]
#[test]
fn a_module_of_the_operator_processes_at_the_node_and_is_bounded() {
    let text = r#"(module
        (import "anabranch1" "emit" (func $emit (param i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "derived")
        (func (export "process") (result i32)
            (call $emit (i32.const 0) (i32.const 7))
            (i32.const 0)))"#;
    let endless = r#"(module
        (memory (export "memory") 1)
        (func (export "process") (result i32) (loop $again (br $again)) (i32.const 0)))"#;
    let modules = Modules::default();
    let add = |text: &str| {
        let hash = modules.add(&wat::parse_str(text).unwrap()).unwrap();
        let hex = hash.to_string();
        format!("wasm {hex}").parse::<Pipeline>().unwrap()
    };
    let (deriving, hanging) = (add(text), add(endless));
    let source = Arc::new(Source::new(
        ("x".to_owned(), node(1)),
        offer(Pace::Slowest, 0, 0),
        (Rules::default(), modules),
        (Clock::real(), Arc::default()),
    ));
    let unknown: Pipeline = format!("wasm {}", "0".repeat(64)).parse().unwrap();
    let refused = subscribe(&subscriber(&unknown).0, &source, &unknown).unwrap_err();
    assert!(refused.contains("is not known here"), "{refused}");
    let good = subscribe(&subscriber(&deriving).0, &source, &deriving).unwrap();
    let bad = subscribe(&subscriber(&hanging).0, &source, &hanging).unwrap();
    source.push(adu(0), came()).unwrap();
    let Next::Adus(adus, _) = good.next() else {
        panic!("nothing is derived");
    };
    assert_eq!(adus[0].adu.body, "derived".as_bytes());
    assert!(matches!(bad.next(), Next::Idle(_)));
    let (failed, why) = bad.status().unwrap().0.failed;
    assert_eq!(failed, 1);
    assert!(why.unwrap().to_string().contains("endless loop"));
}

//! WebAssembly modules that compute as much as they may: they take the fuel of the peer that they run for, and nobody else's.

use std::time::Duration;

use anabranch_base::{Instant, NodeId};
use anabranch_process::{
    Adu, Limits, Modules, Pipeline, Step,
    derive::{Bounds, Delivery, DeriveError, SourceId, SubscriberId, Table},
    memory::{Account, Memory},
    serve::{Next, Offered, Request, Rules, Subscription, Terms},
};

const SOURCE: SourceId = SourceId(1);
/// Units that one ADU may take, and the modules of a peer in a second.
const FUEL: u64 = 100_000;
const FUEL_PER_S: u64 = 250_000;
/// ADUs of the source in a second.
const RATE: u64 = 25;

const ENDLESS: &str = r#"(module (memory (export "memory") 1)
    (func (export "process") (result i32) (loop (br 0)) (i32.const 0)))"#;
const ENDLESS_BEGIN: &str = r#"(module (memory (export "memory") 1)
    (func (export "begin") (loop (br 0)))
    (func (export "process") (result i32) (i32.const 0)))"#;
/// Returns the body eight times.
const EIGHT: &str = r#"(module
    (import "anabranch1" "emit" (func $emit (param i32 i32)))
    (memory (export "memory") 1)
    (func (export "process") (result i32) (local $left i32)
        (local.set $left (i32.const 8))
        (loop
            (call $emit (i32.const 0) (i32.const 1))
            (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.const 0)))"#;
/// Takes some 20,000 units, and returns the body.
const COSTLY: &str = r#"(module
    (import "anabranch1" "emit" (func $emit (param i32 i32)))
    (memory (export "memory") 1)
    (func (export "process") (result i32) (local $left i32)
        (local.set $left (i32.const 4000))
        (loop (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (call $emit (i32.const 0) (i32.const 1))
        (i32.const 0)))"#;

fn bounds() -> Bounds {
    Bounds {
        operators: Limits {
            fuel: FUEL,
            fuel_per_s: FUEL_PER_S,
            ..Limits::default()
        },
        ..Bounds::default()
    }
}

fn pipeline(modules: &Modules, texts: &[&str]) -> Pipeline {
    let step = |text: &&str| Step::Wasm {
        hash: modules
            .add(&wat::parse_str(text).expect("a module"))
            .expect("room for it"),
        parameters: String::new(),
    };
    Pipeline::new(texts.iter().map(step).collect()).expect("few steps")
}

/// A table with time, and ADUs that come with it.
struct Run {
    table: Table,
    next: u64,
    work: u64,
}

impl Run {
    fn new() -> Self {
        Self {
            table: Table::new(bounds(), Modules::default()),
            next: 0,
            work: 0,
        }
    }

    fn subscribe(
        &mut self,
        account: &Account,
        texts: &[&str],
    ) -> Result<SubscriberId, DeriveError> {
        let delivery = Delivery {
            is_reliable: true,
            adus: 10_000,
            bytes: 1 << 20,
        };
        let pipeline = pipeline(&self.table.modules, texts);
        self.table.subscribe(SOURCE, &pipeline, delivery, account)
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds * RATE {
            let at = Duration::from_millis(self.next * 1_000 / RATE);
            self.table.advance(Instant::EPOCH + at);
            self.work += self.table.push(SOURCE, &Adu::new(self.next, "x")).work;
            self.next += 1;
        }
    }

    /// ADUs that wait for the subscriber, and those that its pipeline could not process.
    fn counts(&self, id: SubscriberId) -> (usize, u64) {
        let status = self.table.status(id).expect("a subscriber");
        (status.queued.0, status.failed.0)
    }

    fn reason(&self, id: SubscriberId) -> String {
        let (_, failure) = self.table.status(id).expect("a subscriber").failed;
        failure
            .map(|failure| failure.to_string())
            .unwrap_or_default()
    }
}

/// For one ADU, modules that each return several do not get several times the fuel.
#[test]
fn modules_of_a_pipeline_share_the_fuel_of_an_adu() {
    let mut run = Run::new();
    let texts = [EIGHT, EIGHT, EIGHT, COSTLY];
    let id = run.subscribe(&Account::default(), &texts).unwrap();
    run.table.push(SOURCE, &Adu::new(0, "x"));
    assert_eq!(run.counts(id), (0, 1));
    assert!(
        run.reason(id).contains("more than 100000 units of fuel"),
        "{}",
        run.reason(id)
    );
    let work: u64 = run
        .table
        .running(id)
        .unwrap()
        .costs()
        .map(|cost| cost.work)
        .sum();
    // Beside fuel, an ADU counts 64 units at each module.
    let beside = (1 + 8 + 64 + 512) * 64;
    assert!((FUEL / 2..=FUEL + beside).contains(&work), "{work}");
}

/// A module that never ends costs what a peer may have, and others, with modules or without, get all that is theirs.
#[test]
fn an_endless_loop_takes_a_peers_share_and_no_more() {
    let mut run = Run::new();
    let (hostile, kind) = (Account::default(), Account::default());
    let plain = run.subscribe(&kind, &[]).unwrap();
    // 25 of them a second take 250 units each at most.
    let cheap = run.subscribe(&kind, &[EIGHT]).unwrap();
    run.seconds(10);
    let alone = run.work;
    let endless = run.subscribe(&hostile, &[ENDLESS]).unwrap();
    run.seconds(10);
    let taken = run.work - 2 * alone;
    assert!(taken <= 11 * FUEL_PER_S + 2 * FUEL, "{taken}");
    assert!(taken >= 9 * FUEL_PER_S, "{taken}: it may have that");
    assert_eq!(run.counts(endless), (0, 10 * RATE));
    assert!(
        run.reason(endless).contains("their share of the processor"),
        "{}",
        run.reason(endless)
    );
    assert_eq!(run.counts(plain), (20 * RATE as usize, 0));
    assert_eq!(run.counts(cheap), (20 * 8 * RATE as usize, 0));
    // Who shares a derivation shares its cost: what one cannot pay, the other does.
    let with_hostile = run.subscribe(&hostile, &[EIGHT]).unwrap();
    run.seconds(1);
    assert_eq!(run.counts(with_hostile), (8 * RATE as usize, 0));
    // Time gives it back.
    run.table.unsubscribe(endless);
    run.table.unsubscribe(cheap);
    run.seconds(2);
    let before = run.counts(with_hostile);
    run.seconds(1);
    assert_eq!(
        run.counts(with_hostile),
        (before.0 + 8 * RATE as usize, before.1)
    );
}

/// A module that does not begin takes fuel as well, so that asking again and again is refused.
#[test]
fn beginnings_take_fuel() {
    let mut run = Run::new();
    let account = Account::default();
    let mut refusals = (0..10).map(|_| run.subscribe(&account, &[ENDLESS_BEGIN]).unwrap_err());
    let refusals: Vec<DeriveError> = refusals.by_ref().collect();
    let (begun, refused) = refusals.split_at(3);
    assert!(
        begun
            .iter()
            .all(|error| matches!(error, DeriveError::Start(_))),
        "{begun:?}"
    );
    assert!(
        refused
            .iter()
            .all(|error| *error == DeriveError::Fuel(FUEL_PER_S)),
        "{refused:?}"
    );
    // So is a change, and the pipeline stays as it was.
    let id = run.subscribe(&account, &[]).unwrap();
    let to_module = pipeline(&run.table.modules, &[EIGHT]);
    assert_eq!(
        run.table.change(id, &to_module),
        Err(DeriveError::Fuel(FUEL_PER_S))
    );
    run.table.advance(Instant::EPOCH + Duration::from_secs(1));
    assert_eq!(run.table.change(id, &to_module), Ok(()));
}

/// A reliable subscriber that returns gets what it lacks at the pace of its fuel: it waits, and nothing is left out.
#[test]
fn who_catches_up_waits_for_fuel() {
    let begun = Instant::EPOCH;
    let modules = Modules::default();
    let costly = pipeline(&modules, &[COSTLY]);
    let terms = Terms {
        run: 1,
        is_reliable: true,
        is_live: false,
        first: 0,
        readers: 1,
    };
    let rules = Rules {
        bounds: bounds(),
        ..Rules::default()
    };
    let mut offered = Offered::new(terms, rules, modules, begun);
    for sequence in 0..100 {
        offered.push(Adu::new(sequence, "x"), begun).unwrap();
    }
    let request = Request {
        reader: (NodeId::from_public_key([7; 32]), 7),
        change: 0,
        position: Some((Some(1), Default::default())),
        delivery: Delivery {
            is_reliable: true,
            adus: 10_000,
            bytes: 1 << 20,
        },
        account: Memory::default().account(),
    };
    let mut subscription = Subscription::new(&mut offered, request, &costly, begun).unwrap();
    let mut got = Vec::new();
    let mut seconds = 0;
    while got.len() < 100 {
        while let Next::Adus(adus, _) = subscription.next(&mut offered) {
            got.extend(adus.iter().map(|derived| derived.adu.sequence));
        }
        if seconds == 0 {
            assert!((10..16).contains(&got.len()), "{}", got.len());
        }
        seconds += 1;
        assert!(seconds < 20, "{}", got.len());
        offered.trim(begun + Duration::from_secs(seconds));
    }
    assert_eq!(got, (0..100).collect::<Vec<u64>>());
    assert!(seconds >= 7, "{seconds}");
}

//! Derived streams: subscribers that join, change, stall and leave in any order get what their pipelines derive, within their
//! bounds, and nobody else is affected.

#[cfg(feature = "wasm")]
mod fuel;
mod memory;

use std::collections::BTreeMap;

use anabranch_process::{
    Adu, Element, Limits, Modules, Pipeline,
    derive::{Bounds, Delivery, DeriveError, Derived, SourceId, SubscriberId, Table},
    memory::Account,
    operators::delta::Decoder,
};
use proptest::prelude::*;

const SOURCE: SourceId = SourceId(1);
const ADUS_MAX: usize = 4;
const BYTES_MAX: usize = 200;

fn pipeline(text: &str) -> Pipeline {
    text.parse().expect("the test's pipeline is correct")
}

fn delivery(is_reliable: bool) -> Delivery {
    Delivery {
        is_reliable,
        adus: ADUS_MAX,
        bytes: BYTES_MAX,
    }
}

/// An array that differs from the one before in one place.
fn array(sequence: u64) -> Adu {
    let mut body = vec![1; 40];
    body[(sequence % 40) as usize] = sequence as u8;
    Adu::new(sequence, body).with("layer", (sequence % 3) as f64)
}

/// Pipelines that subscribers choose from; the first three end with differences.
const PIPELINES: [&str; 6] = [
    "delta",
    "every 2 then delta whole 5",
    "drop layer 2 then precision 9 of f32 then delta",
    "every 3",
    "where layer == 1",
    "precision 70 of f64",
];

fn choose(number: usize) -> Pipeline {
    PIPELINES[number].parse().unwrap_or_default()
}

/// Knowledge of a receiver.
struct Receiver {
    pipelines: Vec<Pipeline>,
    decoder: Decoder,
    change: u32,
    last: Option<u64>,
}

impl Receiver {
    fn new(pipeline: Pipeline) -> Self {
        Self {
            pipelines: vec![pipeline],
            decoder: Decoder::new(Element::F32),
            change: 0,
            last: None,
        }
    }

    /// Takes an ADU, which must be decodable and the same as if it had been derived for this receiver alone.
    fn take(&mut self, derived: Derived) {
        assert!(derived.change >= self.change);
        self.change = derived.change;
        let sequence = derived.adu.sequence;
        assert!(self.last.is_none_or(|last| last < sequence), "in order");
        self.last = Some(sequence);
        let pipeline = &self.pipelines[derived.change as usize];
        let mut steps = pipeline.steps().to_vec();
        let mut body = derived.adu.body;
        if matches!(steps.last(), Some(anabranch_process::Step::Delta { .. })) {
            body = self
                .decoder
                .decode(body)
                .expect("a subscriber can decode all that it gets");
            steps.pop();
        }
        let modules = Modules::default();
        let alone = Pipeline::new(steps).expect("it is shorter");
        let mut alone = alone
            .start(&modules, Limits::default())
            .expect("it names no module");
        // Each operator passes the first ADU that matches.
        let expected = alone
            .process(array(sequence), &modules)
            .expect("a subscriber gets what could be processed")
            .adus
            .remove(0);
        assert_eq!(body, expected.body);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    Subscribe(usize, bool),
    Change(usize, usize),
    Take(usize, usize),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..PIPELINES.len();
    let step = prop_oneof![
        6 => Just(Step::Push),
        1 => (number.clone(), any::<bool>()).prop_map(|(pipeline, reliable)| Step::Subscribe(pipeline, reliable)),
        1 => (any::<usize>(), number).prop_map(|(who, pipeline)| Step::Change(who, pipeline)),
        4 => (any::<usize>(), 1..6_usize).prop_map(|(who, adus)| Step::Take(who, adus)),
        1 => any::<usize>().prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..120)
}

fn pop(table: &mut Table, id: SubscriberId) -> Option<Derived> {
    table.pop(id).map(|(derived, _)| derived)
}

fn nth(receivers: &BTreeMap<SubscriberId, Receiver>, number: usize) -> Option<SubscriberId> {
    let index = number.checked_rem(receivers.len())?;
    receivers.keys().nth(index).copied()
}

proptest! {
    #[test]
    fn subscribers_get_what_they_asked_for_within_their_bounds(steps in steps()) {
        let mut table = Table::new(Bounds::default(), Modules::default());
        let mut receivers: BTreeMap<SubscriberId, Receiver> = BTreeMap::new();
        let mut sequence = 0;
        for step in steps {
            match step {
                Step::Push => {
                    let pushed = table.push(SOURCE, &array(sequence));
                    prop_assert_eq!(pushed.failures, []);
                    sequence += 1;
                }
                Step::Subscribe(number, is_reliable) => {
                    let id = table.subscribe(SOURCE, &choose(number), delivery(is_reliable), &Account::default()).unwrap();
                    receivers.insert(id, Receiver::new(choose(number)));
                }
                Step::Change(who, number) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    let receiver = receivers.get_mut(&id).unwrap();
                    match table.change(id, &choose(number)) {
                        Ok(()) if receiver.pipelines.last() == Some(&choose(number)) => {}
                        Ok(()) => receiver.pipelines.push(choose(number)),
                        Err(error) => {
                            prop_assert_eq!(error, DeriveError::Ended);
                            prop_assert!(table.status(id).unwrap().has_ended);
                        }
                    }
                }
                Step::Take(who, adus) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    for _ in 0..adus {
                        let Some(derived) = pop(&mut table, id) else { break };
                        receivers.get_mut(&id).unwrap().take(derived);
                    }
                }
                Step::Leave(who) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    prop_assert!(table.unsubscribe(id));
                    receivers.remove(&id);
                }
            }
            let mut live = Vec::new();
            for id in receivers.keys() {
                let status = table.status(*id).unwrap();
                prop_assert!(status.queued.0 <= ADUS_MAX && status.queued.1 <= BYTES_MAX);
                if let Some(running) = table.running(*id) {
                    live.push(running.pipeline().to_string());
                }
            }
            live.sort();
            live.dedup();
            prop_assert_eq!(table.derivations(), live.len());
        }
        for (id, mut receiver) in receivers {
            while let Some(derived) = pop(&mut table, id) {
                receiver.take(derived);
            }
        }
    }

    #[test]
    fn a_subscriber_that_stalls_affects_no_other(
        pushes in 1..80_u64,
        stalled in prop::collection::vec((0..PIPELINES.len(), any::<bool>()), 0..6),
        number in 0..PIPELINES.len(),
    ) {
        let received = |stalled: &[(usize, bool)]| {
            let mut table = Table::new(Bounds::default(), Modules::default());
            let id = table.subscribe(SOURCE, &choose(number), delivery(true), &Account::default()).unwrap();
            for (number, is_reliable) in stalled {
                table.subscribe(SOURCE, &choose(*number), delivery(*is_reliable), &Account::default()).unwrap();
            }
            let mut decoder = Decoder::new(Element::F32);
            let mut received = Vec::new();
            for sequence in 0..pushes {
                table.push(SOURCE, &array(sequence));
                while let Some(derived) = pop(&mut table, id) {
                    // Whole where the others lost some, a difference otherwise: what it stands for is the same.
                    let is_coded = PIPELINES[number].contains("delta");
                    let body = derived.adu.body;
                    let body = if is_coded { decoder.decode(body).unwrap() } else { body };
                    received.push((derived.adu.sequence, body));
                }
            }
            received
        };
        prop_assert_eq!(received(&stalled), received(&[]));
    }
}

#[test]
fn a_table_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&Table::default());
}

#[test]
fn equal_derivations_are_computed_once() {
    let mut table = Table::new(Bounds::default(), Modules::default());
    let one = table
        .subscribe(
            SOURCE,
            &pipeline("every 2"),
            delivery(true),
            &Account::default(),
        )
        .unwrap();
    let work = table.push(SOURCE, &array(0)).work;
    let other = table
        .subscribe(
            SOURCE,
            &pipeline(" every  2 "),
            delivery(false),
            &Account::default(),
        )
        .unwrap();
    table.push(SOURCE, &array(1));
    assert_eq!(table.push(SOURCE, &array(2)).work, work);
    assert_eq!(table.derivations(), 1);
    // The one that joined later has its ADUs from then on.
    let taken = |table: &mut Table, id| {
        let adus = std::iter::from_fn(|| pop(table, id));
        adus.map(|derived| derived.adu.sequence).collect::<Vec<_>>()
    };
    assert_eq!(taken(&mut table, one), [0, 2]);
    assert_eq!(taken(&mut table, other), [2]);
    table.change(other, &pipeline("every 1")).unwrap();
    assert_eq!(table.derivations(), 2);
    table.change(one, &pipeline("every 1")).unwrap();
    assert_eq!(table.derivations(), 1);
    assert_eq!(table.push(SourceId(2), &array(3)).work, 0);
    table.end_source(SOURCE);
    assert!(table.status(one).unwrap().has_ended);
    assert_eq!(table.change(one, &pipeline("")), Err(DeriveError::Ended));
}

#[test]
fn a_change_is_in_effect_from_the_next_adu() {
    let mut table = Table::new(Bounds::default(), Modules::default());
    for is_reliable in [true, false] {
        let id = table
            .subscribe(
                SOURCE,
                &pipeline("every 2 then delta"),
                delivery(is_reliable),
                &Account::default(),
            )
            .unwrap();
        table.push(SOURCE, &array(0));
        table.change(id, &pipeline("every 1 then delta")).unwrap();
        table.push(SOURCE, &array(1));
        let adus: Vec<_> = std::iter::from_fn(|| pop(&mut table, id)).collect();
        let seen: Vec<_> = adus
            .iter()
            .map(|derived| (derived.adu.sequence, derived.change))
            .collect();
        let expected: &[(u64, u32)] = if is_reliable {
            &[(0, 0), (1, 1)]
        } else {
            &[(1, 1)]
        };
        assert_eq!(seen, expected);
        assert!(!adus.last().unwrap().adu.needs_previous);
        assert_eq!(table.status(id).unwrap().lost, 0);
        table.unsubscribe(id);
    }
    assert_eq!(table.derivations(), 0);
}

#[test]
fn a_full_queue_ends_a_reliable_subscriber_and_costs_an_unreliable_one_its_oldest_adus() {
    let mut table = Table::new(Bounds::default(), Modules::default());
    let reliable = table
        .subscribe(SOURCE, &pipeline(""), delivery(true), &Account::default())
        .unwrap();
    let unreliable = table
        .subscribe(SOURCE, &pipeline(""), delivery(false), &Account::default())
        .unwrap();
    let mut ended = Vec::new();
    for sequence in 0..10 {
        ended.extend(table.push(SOURCE, &array(sequence)).ended);
    }
    assert_eq!(ended, [reliable]);
    let status = table.status(reliable).unwrap();
    assert!(status.has_ended);
    assert_eq!((status.queued.0, status.lost), (4, 0));
    assert_eq!(pop(&mut table, reliable).unwrap().adu.sequence, 0);
    let status = table.status(unreliable).unwrap();
    assert!(!status.has_ended);
    assert_eq!((status.queued.0, status.lost), (4, 6));
    assert_eq!(pop(&mut table, unreliable).unwrap().adu.sequence, 6);
}

#[test]
fn failures_and_bounds_are_reported() {
    let bounds = Bounds {
        subscribers: 3,
        derivations: 2,
        ..Bounds::default()
    };
    let mut table = Table::new(bounds, Modules::default());
    let id = table
        .subscribe(
            SOURCE,
            &pipeline("precision 3 of f64"),
            delivery(true),
            &Account::default(),
        )
        .unwrap();
    let other = table
        .subscribe(SOURCE, &pipeline(""), delivery(true), &Account::default())
        .unwrap();
    let third = table.subscribe(
        SOURCE,
        &pipeline("every 1"),
        delivery(true),
        &Account::default(),
    );
    assert_eq!(third, Err(DeriveError::Derivations(2)));
    table
        .subscribe(SOURCE, &pipeline(""), delivery(true), &Account::default())
        .unwrap();
    let fourth = table.subscribe(SOURCE, &pipeline(""), delivery(true), &Account::default());
    assert_eq!(fourth, Err(DeriveError::Subscribers(3)));
    let large = Delivery {
        bytes: usize::MAX,
        ..delivery(true)
    };
    table.unsubscribe(other);
    assert!(matches!(
        table.subscribe(SOURCE, &pipeline(""), large, &Account::default()),
        Err(DeriveError::Queue(_))
    ));
    let pushed = table.push(SOURCE, &Adu::new(4, vec![0; 7]));
    assert_eq!(pushed.failures.len(), 1);
    let (failed, failure) = table.status(id).unwrap().failed;
    assert_eq!((failed, failure.unwrap().sequence), (1, 4));
    let wasm = pipeline(&format!("wasm {}", "0".repeat(64)));
    assert!(matches!(
        table.change(id, &wasm),
        Err(DeriveError::Start(_))
    ));
    assert_eq!(
        table.running(id).unwrap().pipeline().to_string(),
        "precision 3 of f64"
    );
}

#[test]
fn a_pipeline_that_resumes_passes_the_adus_that_it_would_have_passed() {
    let modules = Modules::default();
    let texts = [
        "every 3",
        "every 2 then every 3",
        "drop layer 2 then every 2",
        "every 4 then delta",
    ];
    for text in texts {
        for stop in 0..20 {
            let start = || pipeline(text).start(&modules, Limits::default()).unwrap();
            let (mut whole, mut first) = (start(), start());
            let mut passed = [Vec::new(), Vec::new()];
            for sequence in 0..40 {
                let derived = whole.process(array(sequence), &modules).unwrap();
                passed[0].extend(derived.adus.iter().map(|adu| adu.sequence));
            }
            for sequence in 0..stop {
                let derived = first.process(array(sequence), &modules).unwrap();
                passed[1].extend(derived.adus.iter().map(|adu| adu.sequence));
                if !derived.adus.is_empty() {
                    assert_eq!(first.phases(), first.phases_after(), "{text}");
                }
            }
            let mut second = start();
            second.set_phases(&first.phases());
            let mut table = Table::new(Bounds::default(), Modules::default());
            // Another subscriber has the same pipeline, at another place of its cycle or at the same.
            table
                .subscribe(SOURCE, &pipeline(text), delivery(true), &Account::default())
                .unwrap();
            let is_shared = second.phases() == start().phases();
            let id = table
                .resume(SOURCE, second, delivery(true), &Account::default())
                .unwrap();
            assert_eq!(table.derivations(), if is_shared { 1 } else { 2 });
            for sequence in stop..40 {
                table.push(SOURCE, &array(sequence));
                while let Some(derived) = pop(&mut table, id) {
                    assert!(derived.is_last);
                    passed[1].push(derived.adu.sequence);
                }
            }
            assert_eq!(passed[0], passed[1], "{text}, stopped at {stop}");
        }
    }
}

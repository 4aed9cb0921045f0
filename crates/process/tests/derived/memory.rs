//! Memory of subscribers together: it is bounded, and the one that uses it pays.

use std::collections::BTreeMap;

use anabranch_base::NodeId;
use anabranch_process::{
    Limits, Modules,
    derive::{Bounds, Delivery, SubscriberId, Table},
    memory::{Accounts, Memory},
};
use proptest::prelude::*;

use crate::{Receiver, SOURCE, Step, array, choose, delivery, nth, pipeline, pop, steps};

proptest! {
    #[test]
    fn memory_is_bounded_for_all_subscribers_together(
        steps in steps(),
        bound in 300..4_000_usize,
    ) {
        let mut accounts = Accounts::new(Memory::new(bound));
        let memory = accounts.memory().clone();
        let mut table = Table::new(Bounds::default(), Modules::default());
        let mut receivers: BTreeMap<SubscriberId, Receiver> = BTreeMap::new();
        let mut sequence = 0;
        for step in steps {
            match step {
                Step::Push => {
                    table.push(SOURCE, &array(sequence));
                    sequence += 1;
                }
                Step::Subscribe(number, is_reliable) => {
                    let account = accounts.of(NodeId::from_public_key([number as u8 % 3; 32]));
                    let id = table.subscribe(SOURCE, &choose(number), delivery(is_reliable), &account);
                    receivers.insert(id.unwrap(), Receiver::new(choose(number)));
                }
                Step::Change(who, number) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    if table.change(id, &choose(number)).is_ok() {
                        let pipelines = &mut receivers.get_mut(&id).unwrap().pipelines;
                        if pipelines.last() != Some(&choose(number)) {
                            pipelines.push(choose(number));
                        }
                    }
                }
                Step::Take(who, adus) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    for _ in 0..adus {
                        let Some(derived) = pop(&mut table, id) else { break };
                        // What is left can be used: whole, or a difference to what was taken before.
                        receivers.get_mut(&id).unwrap().take(derived);
                    }
                }
                Step::Leave(who) => {
                    let Some(id) = nth(&receivers, who) else { continue };
                    table.unsubscribe(id);
                    receivers.remove(&id);
                }
            }
            prop_assert!(memory.used() <= bound);
        }
        drop(table);
        prop_assert_eq!(memory.used(), 0);
    }
}

#[test]
fn without_memory_the_one_that_uses_it_pays() {
    let memory = Memory::new(4_000);
    let (greedy, modest) = (memory.account(), memory.account());
    let mut table = Table::new(Bounds::default(), Modules::default());
    let wide = Delivery {
        is_reliable: false,
        adus: 1_000,
        bytes: 1 << 20,
    };
    let lossy = table
        .subscribe(SOURCE, &pipeline(""), wide, &greedy)
        .unwrap();
    let mut sequence = 0;
    let mut push = |table: &mut Table, count: u64| {
        for number in sequence..sequence + count {
            table.push(SOURCE, &array(number));
        }
        sequence += count;
    };
    push(&mut table, 100);
    assert!(greedy.used() <= 2_000 && greedy.used() > 1_500);
    assert!(table.status(lossy).unwrap().lost > 80);
    // Two that need little have it, with differences.
    let delta = |table: &mut Table, is_reliable| {
        let delivery = Delivery {
            is_reliable,
            ..wide
        };
        let entered = table.subscribe(SOURCE, &pipeline("delta"), delivery, &modest);
        entered.unwrap()
    };
    let (one, other) = (delta(&mut table, true), delta(&mut table, false));
    push(&mut table, 3);
    let taken: Vec<_> = std::iter::from_fn(|| pop(&mut table, one)).collect();
    assert_eq!(taken.len(), 3);
    assert!(!taken[0].adu.needs_previous && taken[2].adu.needs_previous);
    assert_eq!(table.status(other).unwrap().queued.0, 3);
    // The reliable one that takes nothing ends, and costs no other one more than that.
    push(&mut table, 100);
    assert!(table.status(one).unwrap().has_ended);
    assert!(!table.status(other).unwrap().has_ended);
    assert!(memory.used() <= 4_000);
}

#[test]
fn of_the_subscribers_of_a_peer_the_one_that_holds_most_pays() {
    for is_reliable in [false, true] {
        let memory = Memory::new(8_000);
        let account = memory.account();
        let mut table = Table::new(Bounds::default(), Modules::default());
        let subscribe = |table: &mut Table, text, is_reliable| {
            let delivery = Delivery {
                is_reliable,
                adus: 1_000,
                bytes: 1 << 20,
            };
            let entered = table.subscribe(SOURCE, &pipeline(text), delivery, &account);
            entered.unwrap()
        };
        // Computed before and after the other.
        let stalled = [
            subscribe(&mut table, "", is_reliable),
            subscribe(&mut table, "every 1", is_reliable),
        ];
        let quick = subscribe(&mut table, "", true);
        let also_quick = subscribe(&mut table, "every 1 then every 1", false);
        for sequence in 0..200 {
            table.push(SOURCE, &array(sequence));
            for id in [quick, also_quick] {
                assert_eq!(pop(&mut table, id).unwrap().adu.sequence, sequence);
            }
            assert!(memory.used() <= 4_000);
        }
        for id in stalled {
            let status = table.status(id).unwrap();
            assert_eq!(status.has_ended, is_reliable);
            assert_eq!(status.lost > 0, !is_reliable);
        }
    }
}

#[test]
fn operators_without_memory_keep_nothing_between_adus() {
    let memory = Memory::new(100);
    let account = memory.account();
    let _other = memory.account().charge(50).unwrap();
    let mut table = Table::new(Bounds::default(), Modules::default());
    let id = table
        .subscribe(SOURCE, &pipeline("delta"), delivery(false), &account)
        .unwrap();
    let mut running = pipeline("delta")
        .start(&Modules::default(), Limits::default())
        .unwrap();
    for sequence in 0..3 {
        table.push(SOURCE, &array(sequence));
        running
            .process(array(sequence), &Modules::default())
            .unwrap();
    }
    assert_eq!(running.held_bytes(), 40);
    assert_eq!(table.running(id).unwrap().held_bytes(), 0);
    assert_eq!(memory.used(), 50);
}

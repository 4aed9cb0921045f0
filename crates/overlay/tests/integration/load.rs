//! Loads of nodes that process streams.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Seed};
use anabranch_overlay::{
    Agent, Config, FakeKeys, Load, Member, Output,
    wire::{Frame, LoadOf, Reader, Record, ShortId},
};
use proptest::prelude::*;

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// The agent of node 1, with sessions with nodes 2 and 3.
fn agent() -> Agent {
    let member = |n| Member {
        node: node(n),
        addresses: Vec::new(),
    };
    let members: Vec<Member> = (1..=6).map(member).collect();
    let keys = Box::new(FakeKeys(node(1)));
    let mut agent =
        Agent::new(Config::default(), node(1), &members, keys, Seed(1), at(0)).expect("valid");
    for n in [2, 3] {
        agent.handle_session(&node(n), true, at(0));
        agent.handle_message(
            &node(n),
            &written(&[Frame::Heartbeat { summary: 0 }]),
            at(0),
        );
    }
    agent
}

fn busy(operators: f64) -> Load {
    Load {
        machine: Some(0.5),
        cores: 2,
        operators,
        memory_bound: 512 << 20,
        ..Load::default()
    }
    .rounded()
}

fn written(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut out));
    out
}

fn record(n: u8, version: u64) -> Vec<u8> {
    let record = Record {
        origin: ShortId::of(&node(n)),
        version,
        leaving: false,
        headroom: None,
        addresses: Vec::new(),
        links: Vec::new(),
    };
    let bytes = record.encode(&FakeKeys(node(n)));
    written(&[Frame::Record {
        held: Duration::ZERO,
        is_pushed: true,
        bytes: &bytes,
    }])
}

fn load(n: u8, version: u64, load: Load, signer: u8) -> Vec<u8> {
    let of = LoadOf {
        origin: ShortId::of(&node(n)),
        version,
        load,
    };
    let bytes = of.encode(&FakeKeys(node(signer)));
    written(&[Frame::Load { bytes: &bytes }])
}

/// Loads in the messages to a node since the last call. Nothing but loads follows one in a message.
fn sent(agent: &mut Agent, to: u8) -> Vec<LoadOf> {
    let mut loads = Vec::new();
    while let Some(output) = agent.poll_output() {
        let Output::Send { to: peer, bytes } = output else {
            continue;
        };
        let mut reader = Reader::new(&bytes).expect("it is not too long");
        let mut is_last = false;
        while let Some(frame) = reader.next_frame().expect("it is well-formed") {
            match frame {
                Frame::Load { bytes } if peer == node(to) => {
                    loads.push(LoadOf::decode(bytes).expect("it is a load"));
                    is_last = true;
                }
                Frame::Load { .. } => is_last = true,
                _ => assert!(!is_last, "{frame:?} after a load"),
            }
        }
    }
    loads
}

fn seen(agent: &Agent, n: u8) -> Option<Load> {
    agent.member(&node(n), at(1))?.load
}

#[test]
fn a_load_goes_with_the_record_and_ends_when_the_node_processes_nothing() {
    let mut agent = agent();
    sent(&mut agent, 2);
    agent.set_load(Some(busy(0.5)), at(5));
    let loads = sent(&mut agent, 2);
    assert_eq!(loads.len(), 1, "{loads:?}");
    let version = agent.member(&node(1), at(5)).unwrap().version;
    assert_eq!((loads[0].version, loads[0].load), (version, busy(0.5)));
    assert_eq!(seen(&agent, 1), Some(busy(0.5)));
    agent.set_load(None, at(30));
    assert!(sent(&mut agent, 2).is_empty());
    assert_eq!(seen(&agent, 1), None);
    assert!(agent.member(&node(1), at(30)).unwrap().version > version);
}

#[test]
fn a_load_belongs_to_one_record_of_its_origin() {
    let mut agent = agent();
    // Without the record, and in another's name.
    agent.handle_message(&node(2), &load(4, 7, busy(0.5), 4), at(1));
    agent.handle_message(&node(2), &record(4, 7), at(1));
    agent.handle_message(&node(2), &load(4, 7, busy(0.5), 2), at(1));
    assert_eq!((agent.refused().forged, seen(&agent, 4)), (1, None));
    // Of a former record.
    agent.handle_message(&node(2), &load(4, 6, busy(0.5), 4), at(1));
    assert_eq!((agent.refused().stale, seen(&agent, 4)), (1, None));
    sent(&mut agent, 3);
    let both = [record(4, 8), load(4, 8, busy(0.5), 4)].concat();
    agent.handle_message(&node(2), &both, at(2));
    assert_eq!(seen(&agent, 4), Some(busy(0.5)));
    let passed_on = sent(&mut agent, 3);
    assert_eq!(passed_on.len(), 1, "it is passed on");
    // The first one stays, and is not passed on again.
    agent.handle_message(&node(3), &load(4, 8, busy(0.1), 4), at(3));
    assert_eq!(seen(&agent, 4), Some(busy(0.5)));
    assert!(sent(&mut agent, 2).is_empty());
    // The next record without one: the node processes nothing any more.
    agent.handle_message(&node(2), &record(4, 9), at(4));
    assert_eq!(seen(&agent, 4), None);
    agent.handle_message(&node(2), &load(77, 1, busy(0.5), 77), at(4));
    assert_eq!(agent.refused().strangers, 1);
}

/// Records that an agent publishes in ten minutes in which its load is set ten times a second.
fn records(load: impl Fn(u64) -> Option<Load>) -> u64 {
    let mut agent = agent();
    for tenth in 0..6_000 {
        let now = Instant::from_millis(100 * tenth);
        agent.handle_timeout(now);
        agent.set_load(load(tenth), now);
        while agent.poll_output().is_some() {}
    }
    agent.member(&node(1), at(600)).unwrap().version
}

#[test]
fn changes_of_the_load_do_not_flood_the_overlay() {
    let without = records(|_| None);
    let noise = records(|tenth| Some(busy(0.5 + 0.04 * (tenth % 3) as f64)));
    // The first load is news.
    assert!((1..=without + 1).contains(&noise), "{noise} and {without}");
    let wild = records(|tenth| Some(busy((tenth % 2) as f64)));
    assert!((50..=62 + without).contains(&wild), "{wild} and {without}");
    let flapping = records(|tenth| (tenth % 2 == 0).then(|| busy(0.5)));
    assert!(flapping <= 62 + without, "{flapping} and {without}");
}

proptest! {
    #[test]
    fn at_most_one_record_in_ten_seconds_is_due_to_the_load(
        steps in prop::collection::vec((0u64..3_000, 0u8..4), 1..200),
    ) {
        let mut agent = agent();
        while agent.poll_output().is_some() {}
        let mut now = at(1);
        let first = agent.member(&node(1), now).unwrap().version;
        for (ms, step) in steps {
            now += Duration::from_millis(ms);
            let load = (step > 0).then(|| busy(f64::from(step)));
            agent.set_load(load, now);
            agent.handle_timeout(now);
            let seconds = now.since_epoch().as_secs();
            let version = agent.member(&node(1), now).unwrap().version;
            // Refreshes come every 96 s or less often.
            prop_assert!(version - first <= 2 + seconds / 10 + seconds / 96);
        }
    }
}

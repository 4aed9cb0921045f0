//! Other members and settings while an agent runs.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId, Rate, Seed};
use anabranch_overlay::{
    Agent, Config, FakeKeys, Member, Output, Sample, State,
    agent::Setup,
    wire::{Frame, LinkState, Record, ShortId},
};
use proptest::prelude::*;

const ME: u8 = 50;

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

fn members(of: &[u8]) -> Vec<Member> {
    let member = |&n: &u8| Member {
        node: node(n),
        addresses: vec![([192, 0, 2, n], 4433).into()],
    };
    of.iter().map(member).collect()
}

fn setup(config: Config, of: &[u8]) -> Setup {
    Setup::new(config, node(ME), members(of)).expect("these are valid")
}

/// An agent with sessions with all of these.
fn agent(of: &[u8]) -> Agent {
    let keys = Box::new(FakeKeys(node(ME)));
    let mut agent = Agent::of(setup(Config::default(), of), keys, Seed(1), at(0));
    of.iter()
        .for_each(|&n| agent.handle_session(&node(n), true, at(0)));
    agent
}

/// A message with the record of `n`, which measured these links.
fn record(n: u8, version: u64, links: &[(u8, u64)]) -> Vec<u8> {
    let link = |&(to, mbps): &(u8, u64)| LinkState {
        peer: ShortId::of(&node(to)),
        bandwidth: Rate::from_mbps(mbps),
        delay_min: Duration::from_millis(5),
        deviation: Some(0.05),
        age: Duration::ZERO,
        group: 0,
    };
    let record = Record {
        origin: ShortId::of(&node(n)),
        version,
        leaving: false,
        headroom: Some(Rate::from_mbps(1000)),
        addresses: Vec::new(),
        links: links.iter().map(link).collect(),
    };
    let mut out = Vec::new();
    let frame = Frame::Record {
        held: Duration::ZERO,
        is_pushed: true,
        bytes: &record.encode(&FakeKeys(node(n))),
    };
    frame.write(&mut out);
    out
}

fn drain(agent: &mut Agent) -> Vec<Output> {
    std::iter::from_fn(|| agent.poll_output()).collect()
}

fn state(agent: &Agent, n: u8) -> Option<State> {
    Some(agent.member(&node(n), at(1))?.state)
}

fn relays(agent: &mut Agent, to: u8) -> Vec<Vec<NodeId>> {
    let routes = agent.routes(&node(to), at(2));
    let paths = routes.map(|routes| routes.paths).unwrap_or_default();
    paths.into_iter().map(|path| path.relays).collect()
}

fn sample(agent: &mut Agent, to: u8, mbps: u64) {
    let sample = Sample {
        rate: Rate::from_mbps(mbps),
        window: Duration::from_secs(1),
        is_limited: true,
        round_trip_min: Some(Duration::from_millis(10)),
    };
    for _ in 0..8 {
        agent.handle_sample(&node(to), sample, at(1));
    }
}

#[test]
fn what_is_known_of_members_that_stay_is_kept() {
    let mut agent = agent(&[20, 40, 60, 80]);
    for n in [20, 40, 60, 80] {
        agent.handle_message(&node(20), &record(n, 7, &[]), at(1));
    }
    agent.handle_message(&node(40), &record(60, 8, &[]), at(1));
    drain(&mut agent);
    let now = [10, 40, 60, 70];
    agent.change(setup(Config::default(), &now), at(1));
    assert_eq!(
        [20, 80, 10, 40, 60, 70].map(|n| state(&agent, n)),
        [
            None,
            None,
            Some(State::Unknown),
            Some(State::Alive),
            Some(State::Alive),
            Some(State::Unknown)
        ]
    );
    let view = |agent: &Agent, n| agent.member(&node(n), at(1)).unwrap();
    assert_eq!(view(&agent, 60).version, 8);
    assert!(view(&agent, 40).has_session && !view(&agent, 10).has_session);
    let outputs = drain(&mut agent);
    for new in [10, 70] {
        assert!(
            outputs.contains(&Output::Connect(node(new))),
            "{new}: {outputs:?}"
        );
    }
    // Those that are gone are strangers; the new ones are not.
    let strangers = agent.refused().strangers;
    agent.handle_message(&node(20), &record(40, 9, &[]), at(1));
    agent.handle_message(&node(40), &record(80, 9, &[]), at(1));
    assert_eq!(agent.refused().strangers, strangers + 2);
    agent.handle_message(&node(40), &record(10, 3, &[]), at(1));
    assert_eq!(state(&agent, 10), Some(State::Alive));
    // One that comes back has to show that it lives.
    agent.change(setup(Config::default(), &[10, 20, 40]), at(2));
    assert_eq!(state(&agent, 20), Some(State::Unknown));
    agent.handle_message(&node(40), &record(20, 7, &[]), at(2));
    assert_eq!(state(&agent, 20), Some(State::Alive));
}

#[test]
fn paths_in_use_stay_unless_a_relay_is_gone() {
    let mut agent = agent(&[20, 40, 60, 80]);
    for (n, links) in [
        (20, &[(80, 90)][..]),
        (40, &[(80, 80)]),
        (60, &[]),
        (80, &[]),
    ] {
        agent.handle_message(&node(n), &record(n, 7, links), at(1));
    }
    for (to, mbps) in [(20, 100), (40, 100), (80, 1)] {
        sample(&mut agent, to, mbps);
    }
    agent.want(node(80), 100_000_000, at(2)).unwrap();
    let both = relays(&mut agent, 80);
    assert!(both.contains(&vec![node(20)]) && both.contains(&vec![node(40)]));
    // Every place in the member table is another one.
    agent.change(setup(Config::default(), &[1, 20, 40, 79, 80]), at(2));
    assert_eq!(relays(&mut agent, 80), both);
    agent.change(setup(Config::default(), &[1, 2, 40, 79, 80]), at(2));
    let left = relays(&mut agent, 80);
    assert!(
        left.contains(&vec![node(40)]) && !left.contains(&vec![node(20)]),
        "{left:?}"
    );
    agent.change(setup(Config::default(), &[40]), at(2));
    assert_eq!(agent.routes(&node(80), at(2)), None);
    assert!(agent.want(node(80), 1, at(2)).is_err());
}

#[test]
fn other_addresses_are_dialled_at_once() {
    let mut agent = agent(&[20, 40]);
    let old = agent.dial_addresses(&node(40), at(1));
    // It was tried often, and is tried seldom now.
    for second in 1..40 {
        agent.handle_session(&node(40), false, at(second));
        agent.handle_timeout(at(second));
    }
    drain(&mut agent);
    let mut listed = members(&[20, 40]);
    listed[1].addresses = vec![([203, 0, 113, 1], 4433).into()];
    let setup = Setup::new(Config::default(), node(ME), listed.clone()).unwrap();
    agent.change(setup, at(41));
    agent.redial(&node(20), at(41));
    agent.redial(&node(40), at(41));
    let outputs = drain(&mut agent);
    assert!(outputs.contains(&Output::Connect(node(40))), "{outputs:?}");
    assert!(
        !outputs.contains(&Output::Connect(node(20))),
        "it has a session: {outputs:?}"
    );
    let new = agent.dial_addresses(&node(40), at(41));
    assert_eq!(new, listed[1].addresses);
    assert_ne!(new, old);
}

#[test]
fn other_settings_are_published() {
    let mut agent = agent(&[20]);
    let own = |agent: &Agent| agent.record(&node(ME)).unwrap();
    assert_eq!(own(&agent).headroom, None);
    let mut config = Config {
        addresses: vec![([203, 0, 113, 1], 4433).into()],
        ..Config::default()
    };
    config.routing.relays = Some(Rate::from_mbps(30));
    agent.change(setup(config.clone(), &[20]), at(10));
    // It is rounded.
    let headroom = own(&agent).headroom.unwrap().as_bps();
    assert!((29_000_000..=31_000_000).contains(&headroom), "{headroom}");
    assert_eq!(own(&agent).addresses, config.addresses);
    agent.change(setup(Config::default(), &[20]), at(20));
    assert_eq!(own(&agent).headroom, None);
    config.routing.hops = 9;
    assert!(Setup::new(config, node(ME), members(&[20])).is_err());
}

#[test]
fn other_addresses_of_its_own_are_published_and_not_more_than_a_record_holds() {
    let mut agent = agent(&[20]);
    let addresses = |count: u8| -> Vec<SocketAddr> {
        let ips = (1..=count).map(|n| [203, 0, 113, n]);
        ips.map(|ip| SocketAddr::from((ip, 4433))).collect()
    };
    let own = |agent: &Agent| agent.record(&node(ME)).unwrap();
    let before = own(&agent).version;
    agent.set_addresses(addresses(5), at(10));
    assert_eq!(own(&agent).addresses, addresses(4));
    let version = own(&agent).version;
    assert!(version > before);
    agent.set_addresses(addresses(4), at(20));
    assert_eq!(own(&agent).version, version, "they are the same");
    agent.set_addresses(addresses(1), at(30));
    assert_eq!(own(&agent).addresses, addresses(1));
}

proptest! {
    /// After any changes, an agent holds what one would that had these members from the start.
    #[test]
    fn changes_leave_no_trace(
        lists in prop::collection::vec(prop::collection::btree_set(1..30_u8, 0..12), 1..12),
        versions in prop::collection::vec((1..30_u8, 1..9_u64), 0..80),
    ) {
        let list = |set: &std::collections::BTreeSet<u8>| -> Vec<u8> {
            set.iter().copied().chain([ME, ME + 1]).collect()
        };
        let mut agent = agent(&list(&lists[0]));
        let mut known: BTreeMap<u8, u64> = BTreeMap::new();
        let (mut versions, rounds) = (versions.iter(), lists.len());
        for (round, set) in lists.iter().enumerate() {
            let now = at(round as u64 * 5 + 1);
            agent.change(setup(Config::default(), &list(set)), now);
            known.retain(|n, _| set.contains(n));
            for &(n, version) in versions.by_ref().take(80 / rounds) {
                agent.handle_message(&node(ME + 1), &record(n, version, &[(ME, 10), (n + 1, 20)]), now);
                if set.contains(&n) {
                    let newest = known.entry(n).or_default();
                    *newest = version.max(*newest);
                }
                if let Some(other) = set.first() {
                    let _ = agent.want(node(*other), 1_000_000, now);
                    sample(&mut agent, *other, 10);
                }
            }
            agent.handle_session(&node(ME + 1), true, now);
            agent.handle_timeout(now);
            drain(&mut agent);
        }
        let last = list(lists.last().expect("one at least"));
        let shown: Vec<NodeId> = agent.members(at(99)).map(|view| view.node).collect();
        prop_assert_eq!(shown.len(), last.len());
        for n in last.iter().filter(|&&n| n != ME) {
            let view = agent.member(&node(*n), at(99)).expect("listed");
            prop_assert_eq!(view.version, known.get(n).copied().unwrap_or(0));
        }
    }
}

//! Bad input from members, and its effects.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate, Seed};
use anabranch_overlay::{
    Agent, Config, Event, FakeKeys, Keys, Member, Output, State,
    wire::{Claim, Frame, LinkState, Record, ShortId, record},
};
use proptest::prelude::*;

const HELD: Duration = Duration::ZERO;

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// Node 1 of nodes 1 to 9, with a session to each.
fn agent() -> Agent {
    let members: Vec<Member> = (1..=9)
        .map(|n| Member {
            node: node(n),
            addresses: Vec::new(),
        })
        .collect();
    let keys = Box::new(FakeKeys(node(1)));
    let config = Config::default();
    let mut agent = Agent::new(config, node(1), &members, keys, Seed(1), at(0))
        .expect("the defaults are valid");
    (2..=9).for_each(|n| agent.handle_session(&node(n), true, at(0)));
    agent
}

fn link(to: u8, mbps: u64) -> LinkState {
    LinkState {
        peer: ShortId::of(&node(to)),
        bandwidth: Rate::from_mbps(mbps),
        delay_min: Duration::from_millis(5),
        deviation: Some(0.1),
        age: Duration::ZERO,
        group: 0,
    }
}

fn record(n: u8, version: u64, links: Vec<LinkState>) -> Record {
    Record {
        origin: ShortId::of(&node(n)),
        version,
        leaving: false,
        headroom: Some(Rate::from_mbps(1000)),
        addresses: Vec::new(),
        links,
    }
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let frame = Frame::Record {
        held: HELD,
        is_pushed: true,
        bytes,
    };
    frame.write(&mut out);
    out
}

fn signed(n: u8, version: u64, links: Vec<LinkState>) -> Vec<u8> {
    framed(&record(n, version, links).encode(&FakeKeys(node(n))))
}

fn claimed(accuser: u8, target: u8, version: u64) -> Vec<u8> {
    let claim = Claim {
        accuser: ShortId::of(&node(accuser)),
        target: ShortId::of(&node(target)),
        version,
    };
    let mut out = Vec::new();
    let bytes = claim.encode(&FakeKeys(node(accuser)));
    Frame::Claim { bytes: &bytes }.write(&mut out);
    out
}

fn state(agent: &Agent, n: u8) -> State {
    agent.member(&node(n), at(0)).expect("on the list").state
}

fn version(agent: &Agent, n: u8) -> u64 {
    agent.member(&node(n), at(0)).expect("on the list").version
}

fn drain(agent: &mut Agent) -> Vec<Output> {
    std::iter::from_fn(|| agent.poll_output()).collect()
}

#[test]
fn strangers_change_nothing() {
    let mut agent = agent();
    agent.handle_message(&node(77), &signed(2, 5, Vec::new()), at(1));
    agent.handle_message(&node(2), &signed(77, 5, Vec::new()), at(1));
    agent.handle_message(&node(2), &claimed(77, 3, 0), at(1));
    agent.handle_session(&node(77), true, at(1));
    assert_eq!(agent.refused().strangers, 4);
    assert!((2..=9).all(|n| state(&agent, n) == State::Unknown));
    assert!(agent.member(&node(77), at(1)).is_none());
}

/// Those who pass it on have the accuser on their list.
#[test]
fn an_accusation_by_a_stranger_is_answered_but_seldom() {
    let mut agent = agent();
    let own = |agent: &Agent| agent.member(&node(1), at(0)).unwrap().version;
    let first = own(&agent);
    for tenth in 0..100 {
        let now = at(20) + Duration::from_millis(100) * tenth;
        let version = own(&agent);
        agent.handle_message(&node(2), &claimed(77, 1, version), now);
        agent.handle_timeout(now);
    }
    let answers = own(&agent) - first;
    assert!((4..=7).contains(&answers), "{answers}");
}

#[test]
fn no_member_signs_for_another() {
    let mut agent = agent();
    let forged = framed(&record(3, 9, vec![link(1, 900)]).encode(&FakeKeys(node(2))));
    agent.handle_message(&node(2), &forged, at(1));
    assert_eq!(
        (agent.refused().forged, state(&agent, 3)),
        (1, State::Unknown)
    );
    // Passed on by a third party, but signed by the origin.
    agent.handle_message(&node(2), &signed(3, 9, Vec::new()), at(1));
    assert_eq!(state(&agent, 3), State::Alive);
    // Nor can a member accuse in another's name.
    let mut forged = claimed(2, 3, 9);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    agent.handle_message(&node(2), &forged, at(1));
    assert_eq!(
        (agent.refused().forged, state(&agent, 3)),
        (2, State::Alive)
    );
}

#[test]
fn old_records_do_not_replace_new_ones() {
    let mut agent = agent();
    agent.handle_message(&node(2), &signed(3, 9, vec![link(1, 10)]), at(1));
    agent.handle_message(&node(2), &signed(3, 8, vec![link(1, 900)]), at(2));
    assert_eq!((agent.refused().stale, version(&agent, 3)), (1, 9));
    // A record from before the claim does not bring a dead node back.
    agent.handle_message(&node(2), &claimed(4, 3, 9), at(3));
    agent.handle_timeout(at(8));
    assert_eq!(state(&agent, 3), State::Down);
    agent.handle_message(&node(2), &signed(3, 9, vec![link(1, 10)]), at(9));
    assert_eq!(state(&agent, 3), State::Down);
    agent.handle_message(&node(2), &signed(3, 10, Vec::new()), at(10));
    assert_eq!(state(&agent, 3), State::Alive);
}

#[test]
fn absurd_records_are_counted_and_harmless() {
    let mut agent = agent();
    agent.handle_message(&node(2), &signed(2, 1, vec![link(1, 10)]), at(1));
    let before = agent.record(&node(2));
    let keys = FakeKeys(node(2));
    // 2 Tbit/s, as a record that the encoder does not refuse.
    let infinite = record(
        2,
        2,
        vec![LinkState {
            bandwidth: Rate::from_mbps(2_000_000),
            ..link(1, 1)
        }],
    );
    agent.handle_message(&node(2), &framed(&infinite.encode(&keys)), at(2));
    let zero = record(2, 3, vec![link(1, 0)]);
    agent.handle_message(&node(2), &framed(&zero.encode(&keys)), at(2));
    let twice = record(2, 4, vec![link(1, 5), link(1, 6)]);
    agent.handle_message(&node(2), &framed(&twice.encode(&keys)), at(2));
    assert_eq!(agent.refused().absurd, 3);
    assert_eq!(agent.record(&node(2)), before);
    // Links to nodes that are not members are ignored.
    let foreign = record(2, 5, vec![link(1, 10), link(88, 500)]);
    agent.handle_message(&node(2), &framed(&foreign.encode(&keys)), at(3));
    assert_eq!(version(&agent, 2), 5);
    let links = agent.links(at(3));
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!(links[0].to, node(1));
    agent.handle_message(
        &node(3),
        &signed(3, 1, vec![link(2, 10), link(88, 500)]),
        at(3),
    );
    assert!(agent.links(at(3)).iter().all(|view| view.to != node(88)));
    assert_eq!(agent.refused().strangers, 2);
}

#[test]
fn an_accused_member_answers_and_false_accusers_are_soon_ignored() {
    let mut agent = agent();
    for n in 2..=9 {
        agent.handle_message(&node(n), &signed(n, 1, Vec::new()), at(1));
    }
    drain(&mut agent);
    let own = version(&agent, 1);
    agent.handle_message(&node(2), &claimed(2, 1, own), at(2));
    assert_eq!(
        (state(&agent, 1), version(&agent, 1)),
        (State::Alive, own + 1)
    );
    // Node 2 accuses node 3 again and again, and node 3 answers every time.
    let mut suspected = 0;
    for round in 1..=40 {
        let now = at(2 + round);
        agent.handle_message(&node(2), &claimed(2, 3, round), now);
        suspected += u64::from(state(&agent, 3) == State::Suspect);
        agent.handle_message(&node(3), &signed(3, round + 1, Vec::new()), now);
    }
    assert!(suspected <= 10, "believed {suspected} times");
    assert!(agent.refused().excess >= 30);
    // Other members may still accuse.
    agent.handle_message(&node(4), &claimed(4, 3, 41), at(50));
    assert_eq!(state(&agent, 3), State::Suspect);
}

#[test]
fn a_flood_of_accusations_against_us_makes_few_records() {
    let mut agent = agent();
    let first = version(&agent, 1);
    for step in 0..600u64 {
        let now = Instant::from_millis(1_000 + 100 * step);
        let own = version(&agent, 1);
        agent.handle_message(&node(2), &claimed(2, 1, own), now);
        agent.handle_timeout(now);
    }
    let records = version(&agent, 1) - first;
    assert!(records <= 20, "{records} records in a minute");
}

#[test]
fn a_flood_of_forgeries_is_cut_off_before_the_arithmetic() {
    let mut agent = agent();
    for n in 0..5_000u64 {
        let forged = framed(&record(3, n + 1, Vec::new()).encode(&FakeKeys(node(2))));
        agent.handle_message(&node(2), &forged, at(1));
    }
    let refused = agent.refused();
    assert!(
        refused.forged <= 1_100 && refused.excess >= 3_900,
        "{refused:?}"
    );
    // Messages of another member are handled as before.
    agent.handle_message(&node(4), &signed(4, 1, Vec::new()), at(1));
    assert_eq!(state(&agent, 4), State::Alive);
}

/// Measurement of traffic over a link of 800 Mbit/s in this second.
fn busy(second: u64) -> anabranch_overlay::Sample {
    anabranch_overlay::Sample {
        rate: Rate::from_mbps(800 + 10 * (second % 2)),
        window: Duration::from_millis(500 + 100 * second),
        is_limited: true,
        round_trip_min: Some(Duration::from_millis(10)),
    }
}

#[test]
fn measurements_of_the_ends_prevail_over_published_rates() {
    let mut agent = agent();
    agent.handle_message(&node(9), &signed(9, 1, Vec::new()), at(1));
    for n in 2..=8 {
        agent.handle_message(&node(n), &signed(n, 1, vec![link(9, 900)]), at(1));
    }
    // This node's own links, as traffic shows them.
    for n in 2..=8 {
        for second in 1..=8 {
            let sample = busy(second);
            agent.handle_sample(&node(n), sample, at(1 + second));
        }
    }
    let best = agent
        .best_routes(&node(9), 50_000_000, at(10))
        .expect("paths through relays");
    assert_eq!(best.paths.len(), 4);
    // Node 2 published a false rate: its link carries a hundredth.
    for second in 10..14 {
        agent.handle_path_rate(&node(9), &[node(2)], (Rate::from_mbps(9), true), at(second));
    }
    let believed = agent
        .links(at(14))
        .into_iter()
        .find(|view| view.from == node(2));
    assert!(
        believed.is_some_and(|view| view.trust < 0.05),
        "{believed:?}"
    );
    let best = agent
        .best_routes(&node(9), 50_000_000, at(14))
        .expect("other paths");
    assert!(
        best.paths.iter().all(|path| path.relays != [node(2)]),
        "{best:?}"
    );
}

/// Changes of routes until `end`, while all members send signs of life.
fn changes(agent: &mut Agent, end: Instant) -> usize {
    let mut changes = 0;
    while let Some(due) = agent.poll_timeout().filter(|due| *due <= end) {
        for n in 2..=9 {
            let mut beat = Vec::new();
            Frame::Heartbeat { summary: 0 }.write(&mut beat);
            agent.handle_message(&node(n), &beat, due);
        }
        agent.handle_timeout(due);
        let has_changed =
            |output: &Output| matches!(output, Output::Event(Event::RoutesChanged { .. }));
        changes += drain(agent)
            .iter()
            .filter(|&output| has_changed(output))
            .count();
    }
    changes
}

/// One node cannot reach a relay and accuses it. That is no reason to leave a path over it, unless it does not answer.
#[test]
fn an_answered_accusation_changes_no_route() {
    let mut agent = agent();
    agent.handle_message(&node(9), &signed(9, 1, Vec::new()), at(1));
    for n in [2, 3] {
        agent.handle_message(&node(n), &signed(n, 1, vec![link(9, 900)]), at(1));
    }
    agent.handle_message(&node(5), &signed(5, 1, Vec::new()), at(1));
    for second in 1..=8 {
        let sample = busy(second);
        for n in [2, 3] {
            agent.handle_sample(&node(n), sample, at(1 + second));
        }
    }
    // Probes are requested and not answered, which is noticed after a few seconds.
    let after = |ms| at(10) + Duration::from_millis(ms);
    agent.want(node(9), 50_000_000, after(0)).unwrap();
    changes(&mut agent, after(100));
    let over = |agent: &mut Agent, now| {
        let routes = agent.routes(&node(9), now);
        routes.is_some_and(|routes| routes.paths.iter().any(|path| path.relays == [node(2)]))
    };
    assert!(over(&mut agent, after(100)));

    agent.handle_message(&node(5), &claimed(5, 2, 1), after(100));
    assert_eq!(state(&agent, 2), State::Suspect);
    assert_eq!(changes(&mut agent, after(900)), 0);
    agent.handle_message(&node(2), &signed(2, 2, vec![link(9, 900)]), after(900));
    assert_eq!(state(&agent, 2), State::Alive);
    assert_eq!(changes(&mut agent, after(1_200)), 0);
    assert!(over(&mut agent, after(1_200)));

    agent.handle_message(&node(5), &claimed(5, 2, 2), after(1_200));
    assert_eq!(changes(&mut agent, after(2_900)), 1);
    assert!(!over(&mut agent, after(2_900)));
}

#[test]
fn a_claim_signature_is_not_valid_for_a_record() {
    let keys = FakeKeys(node(2));
    let bytes = record(2, 1, Vec::new()).encode(&keys);
    let (body, signature) = bytes.split_last_chunk::<64>().expect("long enough");
    let other = [b"anabranch overlay claim 1\0".as_slice(), body].concat();
    assert!(record::verify(&keys, &node(2), &bytes));
    assert!(!keys.verify(&node(2), &other, signature));
}

proptest! {
    /// Nothing breaks under any messages of members, and the messages sent stay within bounds.
    #[test]
    fn any_messages(messages in prop::collection::vec((2u8..=9, prop::collection::vec(any::<u8>(), 0..200)), 0..40)) {
        let mut agent = agent();
        for (step, (from, bytes)) in messages.iter().enumerate() {
            let now = Instant::from_millis(step as u64 * 300);
            agent.handle_message(&node(*from), bytes, now);
            agent.handle_timeout(now);
        }
        for output in drain(&mut agent) {
            if let Output::Send { bytes, .. } = output {
                prop_assert!(bytes.len() <= anabranch_overlay::wire::MESSAGE_BYTES_MAX);
            }
        }
    }

    /// Valid frames in any order, of any version and from any member: the state follows from the newest.
    #[test]
    fn order_does_not_matter(mut statements in prop::collection::vec((2u8..=9, 1u64..6, any::<bool>()), 1..30), seed in any::<u64>()) {
        let run = |statements: &[(u8, u64, bool)]| {
            let mut agent = agent();
            // Twice, because a claim that comes before its record is ignored.
            for &(n, version, is_claim) in statements.iter().chain(statements) {
                let bytes = if is_claim { claimed(if n == 2 { 3 } else { 2 }, n, version) } else { signed(n, version, Vec::new()) };
                agent.handle_message(&node(5), &bytes, at(1));
            }
            (2..=9).map(|n| (version(&agent, n), state(&agent, n))).collect::<Vec<_>>()
        };
        let first = run(&statements);
        let mut random = Seed(seed).stream("shuffle");
        for at in (1..statements.len()).rev() {
            statements.swap(at, random.below(at as u64 + 1) as usize);
        }
        prop_assert_eq!(first, run(&statements));
    }
}

//! Handshakes that one member's records cause at others, in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Seed};
use anabranch_overlay::{
    Agent, Config, FakeKeys, Member, Output, State,
    wire::{Frame, Record, ShortId},
};

const HOUR_S: u64 = 3_600;

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Address of a member on the list.
fn listed(n: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, n], 4433))
}

/// Node 1 of nodes 1 to 9.
fn agent() -> Agent {
    let member = |n| Member {
        node: node(n),
        addresses: vec![listed(n)],
    };
    let members: Vec<Member> = (1..=9).map(member).collect();
    let keys = Box::new(FakeKeys(node(1)));
    Agent::new(Config::default(), node(1), &members, keys, Seed(1), at(0))
        .expect("the defaults are valid")
}

/// Member `n` announces its addresses.
fn announce(agent: &mut Agent, n: u8, version: u64, addresses: &[SocketAddr], now: Instant) {
    let record = Record {
        origin: ShortId::of(&node(n)),
        version,
        leaving: false,
        headroom: None,
        addresses: addresses.to_vec(),
        links: Vec::new(),
    };
    let mut message = Vec::new();
    let frame = Frame::Record {
        held: Duration::ZERO,
        is_pushed: true,
        bytes: &record.encode(&FakeKeys(node(n))),
    };
    frame.write(&mut message);
    agent.handle_message(&node(n), &message, now);
}

/// Dials in an hour in which members announce new addresses all the time, and end their sessions, so that others dial
/// them again.
fn dialled_in_an_hour(liars: std::ops::RangeInclusive<u8>) -> BTreeMap<SocketAddr, u64> {
    let victim = IpAddr::from([203, 0, 113, 9]);
    let mut agent = agent();
    let mut dialled: BTreeMap<SocketAddr, u64> = BTreeMap::new();
    for second in 0..HOUR_S {
        let now = at(1 + second);
        for n in liars.clone() {
            agent.handle_session(&node(n), true, now);
            let port =
                |place: u64| 2_000 + ((second * 4 + place + u64::from(n) * 7) % 60_000) as u16;
            let addresses = [0, 1, 2, 3].map(|place| SocketAddr::new(victim, port(place)));
            announce(&mut agent, n, 1 + second, &addresses, now);
            agent.handle_session(&node(n), false, now);
            // A host that dials as often as it can.
            for address in agent.dial_addresses(&node(n), now) {
                *dialled.entry(address).or_default() += 1;
            }
            agent.handle_unreached(&node(n), now);
        }
        while agent.poll_output().is_some() {}
    }
    dialled
}

fn at_the_victim(dialled: &BTreeMap<SocketAddr, u64>) -> u64 {
    let victim = dialled
        .iter()
        .filter(|(at, _)| at.ip() == IpAddr::from([203, 0, 113, 9]));
    victim.map(|(_, count)| count).sum()
}

#[test]
fn a_member_sends_others_to_a_victim_twice_a_minute_at_most() {
    let dialled = dialled_in_an_hour(2..=2);
    let tries = at_the_victim(&dialled);
    assert!((1..=4 + HOUR_S / 30).contains(&tries), "{tries}");
    assert_eq!(
        dialled[&listed(2)],
        HOUR_S,
        "listed addresses are always tried"
    );
}

#[test]
fn all_members_together_do_so_within_one_budget() {
    let tries = at_the_victim(&dialled_in_an_hour(2..=9));
    assert!(tries <= 8 * (4 + HOUR_S / 30), "{tries}");
}

#[test]
fn an_unanswered_address_is_dropped_for_a_while() {
    let mut agent = agent();
    let other = address("203.0.113.9:4433");
    let mut tried_at = Vec::new();
    for second in 0..2 * HOUR_S {
        let now = at(second);
        announce(&mut agent, 2, 1 + second, &[other], now);
        if second % 60 == 0 {
            if agent.dial_addresses(&node(2), now).contains(&other) {
                tried_at.push(second / 60);
            }
            agent.handle_unreached(&node(2), now);
        }
        while agent.poll_output().is_some() {}
    }
    // Three times, then not for ten minutes, for twenty, for forty.
    assert_eq!(tried_at, [0, 1, 2, 12, 13, 14, 34, 35, 36, 76, 77, 78]);
}

#[test]
fn an_address_where_the_member_answered_is_used_like_a_listed_one() {
    let mut agent = agent();
    let other = address("203.0.113.9:4433");
    announce(&mut agent, 2, 1, &[other], at(1));
    assert_eq!(agent.dial_addresses(&node(2), at(1)), [listed(2), other]);
    // The listed address answered first; the other answers a moment later.
    agent.handle_reached(&node(2), &[listed(2)], at(1));
    agent.handle_reached(&node(2), &[listed(2), other], at(3));
    for second in 4..200 {
        let addresses = agent.dial_addresses(&node(2), at(second));
        assert_eq!(addresses, [listed(2), other], "second {second}");
        agent.handle_reached(&node(2), &[other], at(second));
    }
    // An address that it no longer announces is not tried.
    announce(&mut agent, 2, 2, &[], at(300));
    assert_eq!(agent.dial_addresses(&node(2), at(300)), [listed(2)]);
}

#[test]
fn nobody_is_sent_into_this_machine_or_its_networks() {
    let mut agent = agent();
    let wrong = [
        [
            "127.0.0.1:4433",
            "10.0.0.1:4433",
            "169.254.169.254:8080",
            "192.168.1.1:5000",
        ],
        [
            "224.0.0.1:4433",
            "255.255.255.255:4433",
            "0.0.0.0:4433",
            "203.0.113.9:53",
        ],
        [
            "[::1]:4433",
            "[::ffff:10.0.0.1]:4433",
            "[fe80::1]:4433",
            "[ff02::1]:4433",
        ],
    ];
    for (round, addresses) in (1..).zip(wrong) {
        announce(&mut agent, 2, round, &addresses.map(address), at(round));
        assert_eq!(agent.dial_addresses(&node(2), at(round)), [listed(2)]);
    }
    // A session shows the member's address, and from then on it may announce others in that network.
    agent.handle_reached(&node(2), &[address("10.0.0.2:4433")], at(9));
    let named = [
        address("10.0.0.1:4433"),
        address("192.168.1.1:53"),
        address("127.0.0.1:4433"),
    ];
    announce(&mut agent, 2, 9, &named, at(9));
    assert_eq!(
        agent.dial_addresses(&node(2), at(9)),
        [listed(2), address("10.0.0.1:4433")]
    );
}

fn connects(agent: &mut Agent) -> BTreeSet<NodeId> {
    let outputs = std::iter::from_fn(|| agent.poll_output());
    let connect = |output| match output {
        Output::Connect(peer) => Some(peer),
        _ => None,
    };
    outputs.filter_map(connect).collect()
}

#[test]
fn a_member_taken_off_the_list_is_ignored() {
    let mut agent = agent();
    (2..=9).for_each(|n| agent.handle_session(&node(n), true, at(0)));
    (2..=9).for_each(|n| announce(&mut agent, n, 1, &[], at(1)));
    let state = |agent: &Agent| agent.member(&node(2), at(9)).expect("on the list").state;
    assert_eq!(state(&agent), State::Alive);
    agent.set_barred(&node(2), true, at(2));
    assert_eq!(state(&agent), State::Left);
    let strangers = agent.refused().strangers;
    announce(&mut agent, 2, 2, &[], at(3));
    assert_eq!(
        agent.refused().strangers,
        strangers + 1,
        "its record is ignored"
    );
    connects(&mut agent);
    for second in 3..HOUR_S {
        agent.handle_session(&node(2), true, at(second));
        agent.handle_timeout(at(second));
        assert!(!connects(&mut agent).contains(&node(2)), "second {second}");
        assert!(
            !agent
                .member(&node(2), at(second))
                .expect("on the list")
                .has_session
        );
    }
    assert_eq!(state(&agent), State::Left);
    agent.set_barred(&node(2), false, at(HOUR_S));
    agent.handle_session(&node(2), true, at(HOUR_S));
    announce(&mut agent, 2, 3, &[], at(HOUR_S));
    assert_eq!(
        state(&agent),
        State::Alive,
        "it is back with its next record"
    );
}

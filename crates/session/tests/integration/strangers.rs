//! Strangers: memory that nodes without any right can make an engine hold, by count and by the allocator,
//! which counts by thread.

mod world;

use std::time::Duration;

use anabranch_base::{Instant, StreamId};
use anabranch_channel::{AllowList as List, Config as ChannelConfig, Endpoint, gate};
use anabranch_session::{
    AllowList, Config, Engine, Event, Link, Refused, SessionCloseReason, StreamSpec, wire::Control,
};
use bytes::Bytes;
use world::{DELAY, Peer, SOCKET, World, address, epoch, key, received, victim_address};

/// Limits of the memory that one stranger may make the engine hold, and of the time for which it is held.
const PEER_HELD_MAX: i64 = 64 << 10;
const PEER_TIME_MAX: Duration = Duration::from_secs(5);

/// First packets of `number` dials.
fn initials(number: usize, world: &World) -> Vec<Vec<u8>> {
    let config = ChannelConfig::default();
    let mut crowd = Endpoint::new(epoch(), key(99), List::default(), config, [9; 32]);
    let mut buffer = Vec::new();
    let mut first = |_| {
        let id = crowd
            .connect(
                world.now,
                SOCKET,
                victim_address(),
                world.victim.node_id(),
                None,
            )
            .expect("an address that can be dialled");
        let channel = crowd.channel(id).expect("just opened");
        let one = std::num::NonZeroUsize::MIN;
        let sent = channel.poll_transmit(world.now, one, &mut buffer);
        buffer[..sent.expect("a first packet").size].to_vec()
    };
    (0..number).map(&mut first).collect()
}

#[test]
fn unproved_addresses_hold_4_mb_at_most_and_retry_keeps_nothing() {
    let mut world = World::new(AllowList::everyone());
    let packets = initials(5_000, &world);
    let (mut retries, mut held) = (0, Vec::new());
    for (number, packet) in packets.iter().enumerate() {
        world
            .victim
            .receive(world.now, address(number as u32), packet);
        // Bit 7 and 6: long header; then the type, 3: Retry (RFC 9000 §17.2.5).
        let answers = world.victim.pass(world.now);
        let is_retry = |packet: &Vec<u8>| packet[0] & 0xf0 == 0xf0;
        retries += answers
            .iter()
            .filter(|(_, packet)| is_retry(packet))
            .count();
        held.push(world.victim.held);
    }
    println!(
        "held: {} after 48, {} after 5,000 Initials",
        held[gate::UNPROVED_MAX - 1],
        held[4_999]
    );
    assert_eq!(retries, 5_000 - gate::UNPROVED_MAX);
    assert!(held[4_999] <= 4_000_000, "{} bytes", held[4_999]);
    assert_eq!(held[4_999], held[1_000], "Retry keeps nothing");

    // A legitimate peer is admitted nevertheless, one round trip later than without a flood.
    let honest = world.dial(5, address(70_000));
    world.rounds(3);
    assert!(world.peers[honest].is_connected());

    world.wait(PEER_TIME_MAX + Duration::from_millis(100));
    assert!(
        world.victim.held < 300_000,
        "{} bytes are left",
        world.victim.held
    );
}

#[test]
fn a_retry_token_of_another_address_or_time_is_good_for_nothing() {
    let mut world = World::new(AllowList::everyone());
    for (number, packet) in initials(gate::UNPROVED_MAX, &world).iter().enumerate() {
        world
            .victim
            .receive(world.now, address(number as u32), packet);
    }
    world.victim.pass(world.now);
    let mut peer = Peer::dial(world.now, 5, address(100), &world.victim);
    let first = peer.packets(world.now).remove(0);
    world.victim.receive(world.now, address(100), &first);
    let answers = world.victim.pass(world.now);
    peer.receive(world.now, &answers[0].1);
    let second = peer.packets(world.now).remove(0);
    let held = world.victim.held;
    world.victim.receive(world.now, address(101), &second);
    world.victim.pass(world.now);
    // Only the buffer of the response is kept.
    let left = world.victim.held - held;
    assert!(left < 3_000, "{left} bytes: the token is another address's");
    world.wait(Duration::from_secs(4));
    world.victim.receive(world.now, address(100), &second);
    let answers = world.victim.pass(world.now);
    assert!(
        answers.iter().any(|(_, packet)| packet.len() >= 1200),
        "it is still good"
    );
    let mut other = World::new(AllowList::everyone());
    other.now += Duration::from_secs(20);
    let packets = initials(gate::UNPROVED_MAX, &other);
    for (number, packet) in packets.iter().enumerate() {
        other
            .victim
            .receive(other.now, address(number as u32), packet);
    }
    other.victim.pass(other.now);
    let held = other.victim.held;
    other.victim.receive(other.now, address(100), &second);
    other.victim.pass(other.now);
    let left = other.victim.held - held;
    assert!(left < 3_000, "{left} bytes: it is too old");
}

#[test]
fn a_channel_that_never_joins_holds_64_kb_for_5_s() {
    for allowed in [AllowList::everyone(), AllowList::of([key(2).node_id()])] {
        let mut world = World::new(allowed);
        // Memory that the engine keeps for itself.
        world.dial(2, address(1));
        world.rounds(4);
        world.peers.clear();
        world.wait(Duration::from_secs(60));
        let before = world.victim.held;
        let peer = world.dial(2, address(1));
        world.rounds(4);
        assert!(world.peers[peer].is_connected());
        for _ in 0..40 {
            // Any number of packets.
            world.peers[peer].channel().expect("open").ping();
            world.round();
        }
        let held = world.victim.held - before;
        println!("a channel that did not join holds {held} bytes");
        assert!(held <= PEER_HELD_MAX, "{held} bytes");
        world.wait(PEER_TIME_MAX);
        let left = world.victim.held - before;
        assert!(left <= 1_000, "{left} bytes are left");
        let late = world.victim.engine.refusals().by(Refused::Late);
        assert_eq!(late, 2, "both are counted, with the cause");
    }
}

/// A container with tiny ADUs of `stream`.
fn crumbs(stream: StreamId, from: u64, number: u64) -> Vec<u8> {
    let mut frames = Vec::new();
    let mut sequence = from;
    while sequence < from + number {
        // L and F: a whole ADU of one byte.
        frames.extend_from_slice(&[0x4c, stream.0 as u8]);
        frames.extend_from_slice(&(0x4000 | sequence as u16).to_be_bytes());
        frames.extend_from_slice(&[1, 9]);
        sequence += 1;
    }
    frames
}

#[test]
fn a_session_without_a_right_holds_64_kb_for_5_s() {
    let open = |stream, reliable| {
        let mut frames = Vec::new();
        let spec = StreamSpec {
            reliable,
            ..StreamSpec::bulk("x")
        };
        Control::Open {
            stream,
            spec: Box::new(spec),
        }
        .write(&mut frames);
        frames
    };
    let stream = StreamId::new(0, true);
    for (name, reliable, crumbs_each) in [
        ("as many crumbs as fit", true, 160),
        ("crumbs", true, 30),
        ("crumbs", false, 30),
        ("full containers", true, 0),
    ] {
        let mut world = World::new(AllowList::everyone());
        world.dial(2, address(1));
        world.rounds(4);
        world.peers.clear();
        world.wait(Duration::from_secs(60));
        let before = world.victim.held;
        let peer = world.dial(2, address(1));
        world.rounds(3);
        world.peers[peer].send_frames(&open(stream, reliable));
        world.round();
        let session = world.victim.engine.session_ids()[0];
        let mut most = 0;
        for number in 0..480_u64 {
            let frames = if crumbs_each > 0 {
                crumbs(stream, number * crumbs_each, crumbs_each)
            } else {
                let mut frames = vec![0x44, stream.0 as u8];
                frames.extend_from_slice(&(0x4000 | number as u16).to_be_bytes());
                frames.resize(1_100, 9);
                frames
            };
            world.peers[peer].send_frames(&frames);
            world.round();
            most = most.max(world.victim.held - before);
        }
        println!("{name}, reliable {reliable}: a session on probation holds {most} bytes");
        assert!(most <= PEER_HELD_MAX, "{most} bytes");
        let stats = world
            .victim
            .engine
            .session(session)
            .ok()
            .map(|mut session| session.stats());
        if crumbs_each == 0 {
            let held = stats.expect("it keeps to the rules").recv_held_bytes;
            assert!(
                (2_000..=8_000).contains(&held),
                "{held} bytes of it were taken in"
            );
        }
        world.wait(Duration::from_millis(200));
        assert!(world.victim.engine.session_ids().is_empty());
        let ended = |event: &Event| {
            matches!(event, Event::Closed { reason, .. }
                if matches!(reason, SessionCloseReason::NotAdmitted | SessionCloseReason::Protocol(_)))
        };
        assert!(world.victim.events.iter().any(ended));
        world.victim.events.clear();
        world.victim.events.shrink_to_fit();
        let left = world.victim.held - before;
        assert!(left <= 4_000, "{left} bytes are left");
    }
}

#[test]
fn a_second_stream_before_admission_ends_the_session() {
    let mut world = World::new(AllowList::everyone());
    let peer = world.dial(2, address(1));
    world.rounds(3);
    for index in 0..2 {
        let mut frames = Vec::new();
        let stream = StreamId::new(index, true);
        let spec = StreamSpec::bulk("x");
        Control::Open {
            stream,
            spec: Box::new(spec),
        }
        .write(&mut frames);
        world.peers[peer].send_frames(&frames);
        world.round();
    }
    assert!(world.victim.engine.session_ids().is_empty());
    let reason = SessionCloseReason::Protocol(
        "a second stream of a peer that was not admitted yet".to_owned(),
    );
    let is_it =
        |event: &Event| matches!(event, Event::Closed { reason: why, .. } if *why == reason);
    assert!(world.victim.events.iter().any(is_it));
}

/// As when it establishes the session on another path: no right was shown too late.
#[test]
fn a_stranger_that_closes_its_only_channel_has_abandoned_its_session() {
    let mut world = World::new(AllowList::everyone());
    let peer = world.dial(2, address(1));
    world.rounds(3);
    let mut frames = Vec::new();
    Control::Open {
        stream: StreamId::new(0, true),
        spec: Box::new(StreamSpec::bulk("x")),
    }
    .write(&mut frames);
    world.peers[peer].send_frames(&frames);
    world.round();
    assert_eq!(world.victim.engine.session_ids().len(), 1);
    let now = world.now;
    let channel = world.peers[peer].channel().expect("open");
    channel.close(now, 1, "the session is established on another path");
    world.rounds(2);
    assert!(world.victim.engine.session_ids().is_empty());
    let is_it = |event: &Event| matches!(event, Event::Closed { reason, .. } if *reason == SessionCloseReason::Abandoned);
    assert!(world.victim.events.iter().any(is_it));
}

#[test]
fn one_key_and_one_address_hold_few_channels() {
    // One key from many addresses, then many keys from one address; none joins.
    for (name, most) in [("key", 8), ("address", 32)] {
        let mut world = World::new(AllowList::everyone());
        for number in 0..60 {
            let seed = if name == "key" { 2 } else { 100 + number };
            let from = if name == "key" { number as u32 } else { 7 };
            let peer = world.dial(seed, address(from));
            world.rounds(4);
            world.peers.remove(peer);
        }
        let open = world.victim.engine.channel_count();
        assert!((1..=most).contains(&open), "{name}: {open} channels");
    }
}

/// Two engines with a path between them.
struct Pair {
    now: Instant,
    ends: [Engine; 2],
    events: [Vec<Event>; 2],
}

impl Pair {
    fn new(world: World, seed: u64) -> Self {
        let dialler = Engine::new(
            epoch(),
            key(seed),
            List::default(),
            Config::default(),
            [5; 32],
        );
        Self {
            now: world.now,
            ends: [dialler, world.victim.engine],
            events: [Vec::new(), Vec::new()],
        }
    }

    fn connect(&mut self) -> anabranch_base::SessionId {
        let link = Link {
            socket: SOCKET,
            remote: victim_address(),
        };
        let peer = self.ends[1].node_id();
        self.ends[0]
            .connect(self.now, peer, vec![link])
            .expect("an address that can be dialled")
    }

    fn step(&mut self) {
        let mut buffer = Vec::new();
        let batch = std::num::NonZeroUsize::new(10).expect("not zero");
        for at in 0..2 {
            if self.ends[at]
                .poll_timeout()
                .is_some_and(|due| due <= self.now)
            {
                self.ends[at].handle_timeout(self.now);
            }
            while let Some(transmit) = self.ends[at].poll_transmit(self.now, batch, &mut buffer) {
                let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
                let from = [address(90_000), victim_address()][at];
                if transmit.remote != [victim_address(), address(90_000)][at] {
                    continue;
                }
                for packet in buffer[..transmit.size].chunks(segment) {
                    self.ends[1 - at].handle_packet(self.now, received(from, packet));
                }
            }
            while let Some(event) = self.ends[at].poll_event() {
                self.events[at].push(event);
            }
        }
        self.now += DELAY;
    }

    fn steps(&mut self, number: usize) {
        for _ in 0..number {
            self.step();
        }
    }

    fn session(&self) -> Option<anabranch_base::SessionId> {
        self.events[1].iter().find_map(|event| match event {
            Event::Connected { session, .. } => Some(*session),
            _ => None,
        })
    }
}

#[test]
fn listed_peers_get_in_when_strangers_have_filled_their_places() {
    let allowed = AllowList::everyone();
    allowed.add(key(5).node_id());
    let mut world = World::new(allowed);
    // Strangers from 400 addresses that connect and join, and as many Initials as fit.
    for number in 0..400 {
        world.dial(1_000 + number, address(number as u32));
    }
    for _ in 0..8 {
        world.round();
        for peer in world.peers.iter_mut().filter(|peer| !peer.has_joined) {
            if peer.is_connected() {
                peer.send_frames(&[]);
                peer.has_joined = true;
            }
        }
    }
    let strangers = world.victim.engine.session_ids().len();
    assert!((150..=256).contains(&strangers), "{strangers} sessions");
    for (number, packet) in initials(100, &world).iter().enumerate() {
        world
            .victim
            .receive(world.now, address(10_000 + number as u32), packet);
    }
    let mut pair = Pair::new(world, 5);
    pair.connect();
    pair.steps(6);
    assert!(pair.session().is_some(), "six packets' time is enough");
    assert_eq!(
        pair.ends[1].session_ids().len(),
        strangers + 1,
        "nobody had to leave"
    );
}

#[test]
fn windows_grow_when_probation_ends() {
    let mut pair = Pair::new(World::new(AllowList::everyone()), 5);
    let own = pair.connect();
    pair.steps(6);
    let session = pair.session().expect("it joined");
    let stream = pair.ends[0]
        .session(own)
        .and_then(|mut session| session.open_stream(pair.now, StreamSpec::bulk("bulk")))
        .expect("the session is open");
    let mut sent = 0;
    while sent < 3 << 20 {
        let data = Bytes::from(vec![1; 16 << 10]);
        sent += data.len();
        pair.ends[0]
            .session(own)
            .expect("it is open")
            .stream(stream)
            .send(pair.now, data)
            .expect("the send buffer has capacity");
    }
    pair.steps(100);
    let held = |pair: &mut Pair| {
        pair.ends[1]
            .session(session)
            .ok()
            .map(|mut session| session.stats().recv_held_bytes)
    };
    assert!(
        held(&mut pair).is_some_and(|held| held <= 32_000),
        "{:?}",
        held(&mut pair)
    );
    pair.ends[1].end_probation(session).expect("it is open");
    let mut got = 0;
    for _ in 0..2_000 {
        pair.step();
        while let Some(adu) = pair.ends[1]
            .session(session)
            .ok()
            .and_then(|session| session.stream(stream).receive())
        {
            got += adu.data.len();
        }
    }
    assert_eq!(got, sent, "everything arrives, and the session lives on");
    assert_eq!(pair.ends[1].session_ids(), [session]);
}

#[test]
fn a_key_that_is_taken_off_the_list_loses_its_sessions_and_channels() {
    let allowed = AllowList::of([key(5).node_id(), key(6).node_id()]);
    let mut world = World::new(allowed.clone());
    // One of its channels has not joined yet.
    world.dial(5, address(3));
    world.rounds(3);
    let mut pair = Pair::new(world, 5);
    pair.connect();
    pair.steps(6);
    assert!(pair.session().is_some());
    allowed.remove(&key(6).node_id());
    pair.steps(2);
    assert_eq!(
        pair.ends[1].channel_count(),
        2,
        "another key's removal closes nothing"
    );
    allowed.remove(&key(5).node_id());
    pair.steps(4);
    assert!(pair.ends[1].session_ids().is_empty());
    for events in &pair.events {
        let is_it = |event: &Event| {
            matches!(
                event,
                Event::Closed {
                    reason: SessionCloseReason::NotAllowed,
                    ..
                }
            )
        };
        assert!(events.iter().any(is_it), "both ends know why");
    }
    pair.steps(600);
    assert_eq!(pair.ends[1].channel_count(), 0);
}

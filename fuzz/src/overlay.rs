//! The overlay's agent, from members that send arbitrary messages.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate, Seed};
use anabranch_overlay::{
    Agent, Config, FakeKeys, Fault, Member, Output,
    agent::Setup,
    wire::{
        Claim, Frame, Load, LoadOf, MESSAGE_BYTES_MAX, Reader, Record, ShortId, record::RATE_MAX,
    },
};

use crate::Input;

const MEMBERS: u8 = 6;

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

/// Whatever decodes encodes to the same bytes, and the agent stays within its bounds whatever members send: raw bytes, records
/// loads and claims with valid signatures, session and probe events, at any time.
pub fn overlay(data: &[u8]) {
    frames(data);
    agent(&mut Input(data));
}

fn frames(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else {
        return;
    };
    for _ in 0..=data.len() {
        let before = reader.rest();
        let Ok(Some(frame)) = reader.next_frame() else {
            return;
        };
        let mut again = Vec::new();
        frame.write(&mut again);
        assert_eq!(again, before[..again.len()]);
        match frame {
            Frame::Record { bytes, .. } => {
                if let Ok(record) = Record::decode(bytes) {
                    let again = record.encode(&FakeKeys(node(1)));
                    assert_eq!(again[..again.len() - 64], bytes[..bytes.len() - 64]);
                }
            }
            Frame::Claim { bytes } => {
                let _ = Claim::decode(bytes);
            }
            Frame::Load { bytes } => {
                if let Ok(of) = LoadOf::decode(bytes) {
                    // Bytes of later versions may follow the fields.
                    let again = of.encode(&FakeKeys(node(1)));
                    let fields = again.len() - 64;
                    assert_eq!(again[..fields], bytes[..fields]);
                    assert_eq!(of.load.rounded(), of.load);
                }
            }
            _ => {}
        }
    }
    panic!("more frames than bytes");
}

fn agent(input: &mut Input<'_>) {
    let member = |n| Member {
        node: node(n),
        addresses: Vec::new(),
    };
    let members: Vec<Member> = (1..=MEMBERS).map(member).collect();
    let mut count = members.len();
    let mut config = Config::default();
    config.routing.relays = Some(Rate::from_mbps(100));
    let keys = Box::new(FakeKeys(node(1)));
    let mut now = Instant::EPOCH;
    let mut agent = Agent::new(config.clone(), node(1), &members, keys, Seed(1), now)
        .expect("the defaults are valid");
    let _ = agent.want(node(2), 1_000_000, now);
    let mut probes = Vec::new();
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        // One node in eight is a stranger.
        let peer = node(2 + input.byte() % 8);
        match input.byte() % 11 {
            0 => {
                let length = usize::from(input.byte());
                agent.handle_message(&peer, input.take(length), now);
            }
            1 => agent.handle_message(&peer, &record(input), now),
            2 => agent.handle_message(&peer, &claim(input), now),
            8 => agent.handle_message(&peer, &load_of(input), now),
            9 => {
                let is_none = input.byte().is_multiple_of(4);
                agent.set_load((!is_none).then(|| load(input)), now);
            }
            3 => agent.handle_session(&peer, input.byte().is_multiple_of(2), now),
            4 => {
                if let Some((to, id)) = probes.pop() {
                    let took = Duration::from_micros(u64::from(input.byte()) * 997);
                    agent.handle_probe(&to, id, Some(took).filter(|t| !t.is_zero()), now);
                }
            }
            5 => {
                let rate = Rate::from_bps(1 << (input.byte() % 63));
                let is_limited = input.byte().is_multiple_of(2);
                agent.handle_path_rate(&node(2), &[peer], (rate, is_limited), now);
            }
            6 => {
                let fault = match input.byte() % 4 {
                    0 => Fault::Somewhere,
                    1 => Fault::Relay(peer),
                    2 => Fault::Before(peer),
                    _ => Fault::After(peer),
                };
                agent.handle_path_failed(&node(2), &[peer], fault, now);
            }
            7 => {
                let listed = input.byte() | 1;
                let members = (1..=MEMBERS).filter(|n| listed >> (n - 1) & 1 == 1);
                let members: Vec<Member> = members.map(member).collect();
                count = members.len();
                let setup = Setup::new(config.clone(), node(1), members);
                agent.change(setup.expect("they are valid"), now);
            }
            _ => {
                now += Duration::from_millis(u64::from(input.byte()) * 40);
                agent.handle_timeout(now);
            }
        }
        while let Some(output) = agent.poll_output() {
            match output {
                Output::Send { bytes, .. } => assert!(bytes.len() <= MESSAGE_BYTES_MAX),
                Output::Probe { to, id, .. } => probes.push((to, id)),
                _ => {}
            }
        }
    }
    assert_eq!(agent.members(now).count(), count);
    for load in agent.members(now).filter_map(|member| member.load) {
        assert!(
            load.machine
                .is_none_or(|share| (0.0..=1.0).contains(&share))
        );
        assert!((0.0..=1.0).contains(&load.memory_share()));
    }
    for link in agent.links(now) {
        assert!(link.bandwidth > Rate::ZERO && link.bandwidth <= RATE_MAX);
        assert!((0.0..=1.0).contains(&link.trust));
    }
    if let Some(routes) = agent.routes(&node(2), now) {
        let bytes: u64 = routes.paths.iter().map(|path| path.bytes).sum();
        assert_eq!(bytes, routes.bytes);
    }
}

/// A record with arbitrary contents, signed by its origin.
fn record(input: &mut Input<'_>) -> Vec<u8> {
    let origin = 1 + input.byte() % 8;
    let links = (0..input.byte() % 4).map(|_| {
        let mut link = ShortId::of(&node(1 + input.byte() % 8)).0.to_vec();
        link.extend_from_slice(input.take(7));
        link
    });
    let links: Vec<Vec<u8>> = links.collect();
    let mut body = ShortId::of(&node(origin)).0.to_vec();
    body.push(input.byte() & 0x3f);
    let flags = input.byte() % 4;
    body.push(flags);
    if flags & 2 != 0 {
        body.extend_from_slice(&[0x40, input.byte()]);
    }
    body.push(0);
    body.push(links.len() as u8);
    links.iter().for_each(|link| body.extend_from_slice(link));
    let signed = [b"anabranch overlay record 1\0".as_slice(), &body].concat();
    body.extend_from_slice(&anabranch_overlay::Keys::sign(
        &FakeKeys(node(origin)),
        &signed,
    ));
    let mut out = Vec::new();
    let frame = Frame::Record {
        held: Duration::from_secs(u64::from(input.byte())),
        is_pushed: input.byte().is_multiple_of(2),
        bytes: &body,
    };
    frame.write(&mut out);
    out
}

fn load(input: &mut Input<'_>) -> Load {
    let large = |input: &mut Input<'_>| u64::from(input.byte()) << (input.byte() % 56);
    Load {
        machine: input
            .byte()
            .is_multiple_of(2)
            .then(|| f64::from(input.byte()) / 255.0),
        cores: input.byte(),
        operators: f64::from(input.byte()) / 16.0,
        memory_used: large(input),
        memory_bound: large(input),
        queued_adus: large(input),
        queued_bytes: large(input),
        unit_ps: large(input),
    }
}

/// A load that its origin has signed.
fn load_of(input: &mut Input<'_>) -> Vec<u8> {
    let origin = 1 + input.byte() % 8;
    let of = LoadOf {
        origin: ShortId::of(&node(origin)),
        version: u64::from(input.byte() & 0x3f),
        load: load(input),
    };
    let mut out = Vec::new();
    let bytes = of.encode(&FakeKeys(node(origin)));
    Frame::Load { bytes: &bytes }.write(&mut out);
    out
}

/// A claim that its accuser has signed.
fn claim(input: &mut Input<'_>) -> Vec<u8> {
    let accuser = 1 + input.byte() % 8;
    let claim = Claim {
        accuser: ShortId::of(&node(accuser)),
        target: ShortId::of(&node(1 + input.byte() % 8)),
        version: u64::from(input.byte() & 0x3f),
    };
    let mut out = Vec::new();
    let bytes = claim.encode(&FakeKeys(node(accuser)));
    Frame::Claim { bytes: &bytes }.write(&mut out);
    out
}

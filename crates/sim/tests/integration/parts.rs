//! ADUs that are lost in part, over a link that loses packets.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use anabranch_base::{Instant, NodeId, Rate, Seed, SessionId, StreamId};
use anabranch_link::{Config as LinkConfig, Loss, RateSource, duplex::Configs};
use anabranch_session::{Adu, AllowList, Config, Event, Link, Order, StreamEvent, StreamSpec};
use anabranch_sim::{App, Context, World};

const ADUS: u64 = 200;
const BYTES: usize = 8_000;
const PERIOD: Duration = Duration::from_millis(20);

fn byte(sequence: u64, at: usize) -> u8 {
    (1 + (sequence as usize * 31 + at) % 255) as u8
}

/// Application that sends [`ADUS`] if it has a peer, and records events and arrivals.
#[derive(Default)]
struct End {
    peer: Option<NodeId>,
    links: Vec<Link>,
    open: Option<(SessionId, StreamId)>,
    is_dialled: bool,
    sent: u64,
    /// Parts of each ADU reported as arrived and as lost.
    lost: BTreeMap<u64, [Vec<Range<u64>>; 2]>,
    acked: u64,
    /// Bytes of each ADU whose fragments were acknowledged; `lost_bytes` is the total reported as lost.
    arrived: BTreeMap<u64, Vec<Range<u64>>>,
    lost_bytes: u64,
    got: Vec<Adu>,
}

impl App for End {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } if self.peer.is_some() && self.open.is_none() => {
                let spec = StreamSpec {
                    reliable: false,
                    order: Order::Unordered,
                    partial: true,
                    notify: true,
                    notify_fragments: true,
                    ..StreamSpec::default()
                };
                let stream = context.open(session, spec).expect("a good spec");
                self.open = Some((session, stream));
            }
            Event::Readable { session, stream } => {
                while let Some(adu) = context.receive(session, stream) {
                    self.got.push(adu);
                }
            }
            Event::Stream {
                event: StreamEvent::Lost { adu, arrived, lost },
                ..
            } => {
                self.lost.insert(adu, [arrived, lost]);
            }
            Event::Stream {
                event: StreamEvent::Acked { .. },
                ..
            } => self.acked += 1,
            Event::Stream {
                event:
                    StreamEvent::Fragment {
                        adu,
                        bytes,
                        rtt: Some(rtt),
                        ..
                    },
                ..
            } => {
                assert!(rtt >= Duration::from_millis(40), "both ways");
                self.arrived.entry(adu).or_default().push(bytes);
            }
            Event::Stream {
                event: StreamEvent::Fragment { bytes, .. },
                ..
            } => self.lost_bytes += bytes.end - bytes.start,
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if let Some(peer) = self.peer.filter(|_| !self.is_dialled) {
            context.connect(peer, self.links.clone());
            self.is_dialled = true;
        }
        let due = |sent: u64| Instant::from_secs(2) + PERIOD * sent as u32 <= context.now();
        if let Some((session, stream)) = self.open
            && self.sent < ADUS
            && due(self.sent)
        {
            let data: Vec<u8> = (0..BYTES).map(|at| byte(self.sent, at)).collect();
            let now = context.now();
            let engine = context.engine();
            engine
                .session(session)
                .expect("it is open")
                .stream(stream)
                .send_with_fields(now, data.into(), 0, &[])
                .expect("capacity");
            self.sent += 1;
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        if !self.is_dialled {
            return self.peer.map(|_| Instant::EPOCH);
        }
        let next = Instant::from_secs(2) + PERIOD * self.sent as u32;
        (self.sent < ADUS && self.open.is_some()).then_some(next)
    }
}

#[test]
fn the_rest_of_a_lost_adu_is_delivered() {
    let mut world = World::new(Seed(5));
    let sender = End {
        peer: Some(World::node_id(1)),
        ..End::default()
    };
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(a)]);
    let b = world.add_node(Config::default(), allowed, End::default());
    let path = |loss| LinkConfig {
        rate: RateSource::Constant(Rate::from_bps(20_000_000)),
        delay: Duration::from_millis(20),
        loss,
        ..LinkConfig::default()
    };
    let configs = Configs {
        forward: path(Loss::bursts(0.05, 1.5).expect("in range")),
        backward: path(Loss::None),
    };
    let wire = world.add_wire(a, b, configs).expect("a valid link");
    let link = world.link(a, wire);
    world.app::<End>(a).links = vec![link];
    world.with_node(a, |_| ());
    world.run_until(Instant::from_secs(12));

    let lost = std::mem::take(&mut world.app::<End>(a).lost);
    // The outcomes of fragments add up to those of whole ADUs.
    let fragments = std::mem::take(&mut world.app::<End>(a).arrived);
    let sum = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum();
    for adu in 0..ADUS {
        let arrived: u64 = sum(fragments.get(&adu).map_or(&[], Vec::as_slice));
        let reported = lost
            .get(&adu)
            .map_or(BYTES as u64, |[arrived, _]| sum(arrived));
        assert_eq!(arrived, reported, "{adu}");
    }
    let reported: u64 = lost.values().map(|[_, lost]| sum(lost)).sum();
    assert_eq!(world.app::<End>(a).lost_bytes, reported);
    let acked = world.app::<End>(a).acked;
    let got = std::mem::take(&mut world.app::<End>(b).got);
    assert_eq!(acked + lost.len() as u64, ADUS, "each has one outcome");
    let parts = got.iter().filter(|adu| !adu.missing.is_nothing()).count();
    assert!(parts > 20, "{parts} of {} in part", lost.len());
    for adu in &got {
        for (at, &value) in adu.data.iter().enumerate() {
            let mut gaps = adu.missing.ranges.iter();
            let is_missing = gaps.any(|range| range.contains(&(at as u64)));
            assert_eq!(
                value,
                if is_missing {
                    0
                } else {
                    byte(adu.sequence, at)
                }
            );
        }
        let Some([_, reported]) = lost.get(&adu.sequence) else {
            assert!(adu.missing.is_nothing() && adu.data.len() == BYTES);
            continue;
        };
        // Data declared lost may have arrived all the same.
        let mut gaps = adu.missing.ranges.iter();
        assert!(gaps.all(|gap| {
            reported
                .iter()
                .any(|range| range.start <= gap.start && gap.end <= range.end)
        }));
    }
    let arrived = lost
        .values()
        .filter(|[arrived, _]| !arrived.is_empty())
        .count();
    assert_eq!(got.len() as u64, acked + arrived as u64);
}

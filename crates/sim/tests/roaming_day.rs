//! A node whose three interfaces get other addresses all day, as in a train, with small messages as a tunnel carries packets: each has a
//! lifetime, and comes back from the peer. None of it may stall for long, and nothing may grow. This file has a single test, because the
//! allocator counts for the whole process.
//!
//! It takes as many virtual hours as `ROAMING_HOURS` says, or else two; a day:
//! `ROAMING_HOURS=24 cargo test -p anabranch-sim --test roaming_day -- --nocapture`.

mod interfaces;

use std::time::Duration;

use anabranch_base::{Instant, Seed, SessionId, StreamId};
use anabranch_session::{AllowList, Config, Event, Link, Order, SessionCloseReason, StreamSpec};
use anabranch_sim::{App, Context, World, apps};

use crate::interfaces::{GROWTH_MAX, Interface, allocated};

/// Time between two messages, and their size.
const EVERY: Duration = Duration::from_millis(50);
const BYTES: usize = 1_200;
/// Lifetime of a packet in a tunnel.
const LIFETIME: Duration = Duration::from_millis(1_200);
/// Time between two changes: each interface has another address every four minutes.
const CHANGE_EVERY: Duration = Duration::from_secs(80);
/// Longest time without a message while a path is there.
const STALL_MAX: Duration = Duration::from_millis(500);
/// The same after all paths were gone, from the time at which one is there.
const RETURN_MAX: Duration = Duration::from_millis(500);
/// Growth of memory in all, by what varies.
const VARIATION: u64 = 1 << 20;
/// Changes until the records of the paths reach as far back as they may: somewhat more than an hour.
const WARM: u64 = 54;
/// Channels of a node: those in use, and those on earlier addresses that the peer has not found silent yet.
const CHANNELS_MAX: usize = 6;

/// The moving node: sends messages, and notes when they come back.
struct Client {
    links: Vec<Link>,
    session: Option<SessionId>,
    stream: Option<StreamId>,
    closed: Vec<SessionCloseReason>,
    sent: u64,
    back: u64,
    last: Instant,
    gap_max: Duration,
}

impl Client {
    fn due(&self) -> Instant {
        Instant::from_secs(1) + EVERY * u32::try_from(self.sent).expect("some days at most")
    }

    /// Longest time without a message since the last call, and since the last message.
    fn take_gap(&mut self, now: Instant) -> Duration {
        std::mem::take(&mut self.gap_max).max(now.since(self.last))
    }
}

impl App for Client {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                let spec = StreamSpec {
                    order: Order::Unordered,
                    lifetime: Some(LIFETIME),
                    duplex: true,
                    ..StreamSpec::default()
                };
                self.stream = context.open(session, spec).ok();
                self.last = context.now();
            }
            Event::Readable { session, stream } => {
                while context.receive(session, stream).is_some() {
                    self.back += 1;
                    self.gap_max = self.gap_max.max(context.now().since(self.last));
                    self.last = context.now();
                }
            }
            Event::Closed { reason, .. } => self.closed.push(reason),
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        let session = *self
            .session
            .get_or_insert_with(|| context.connect(World::node_id(1), self.links.clone()));
        while self.due() <= context.now() {
            let message = apps::make_adu(context.now(), self.sent, BYTES);
            if let Some(stream) = self.stream {
                // What the stream does not take is lost, as in a tunnel.
                let _ = context.send(session, stream, message);
            }
            self.sent += 1;
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        Some(self.session.map_or(Instant::EPOCH, |_| self.due()))
    }
}

/// The node that stays: it sends every message back.
struct Echo;

impl App for Echo {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if let Event::Readable { session, stream } = event {
            while let Some(adu) = context.receive(session, stream) {
                let _ = context.send(session, stream, adu.data);
            }
        }
    }
}

/// Gives an interface another address, and what it needs to be reached.
#[track_caller]
fn gain(world: &mut World, interface: &mut Interface) {
    world.set_wire_up(interface.wire, true);
    let session = world.app::<Client>(0).session.expect("connected");
    interface.gain(world, session);
}

/// One change; returns the longest time without a message while a path was there, and after none was.
fn change(world: &mut World, interfaces: &mut [Interface; 3], number: u64) -> [Duration; 2] {
    let seconds = Duration::from_secs;
    let index = (number % 3) as usize;
    let start = world.now();
    world.app::<Client>(0).take_gap(start);
    let mut stalls = [Duration::ZERO; 2];
    match number % 8 {
        // The interface loses its address, and gets another.
        0 | 2 | 4 | 6 => {
            interfaces[index].lose(world);
            world.run_for(Duration::from_millis(200 * (1 + number % 20)));
            gain(world, &mut interfaces[index]);
        }
        // The network is silent at first: out of range, or a portal that answers nothing.
        1 | 5 => {
            world.set_wire_up(interfaces[index].wire, false);
            world.run_for(seconds(3 + number % 23));
            interfaces[index].lose(world);
            gain(world, &mut interfaces[index]);
        }
        // It comes back with the same address.
        3 => {
            world.set_wire_up(interfaces[index].wire, false);
            world.run_for(seconds(2 + number % 40));
            world.set_wire_up(interfaces[index].wire, true);
        }
        // A tunnel through a mountain: all are gone, and have other addresses then.
        _ => {
            for interface in interfaces.iter() {
                world.set_wire_up(interface.wire, false);
            }
            world.run_for(seconds(2 + number % 11));
            let now = world.now();
            world.app::<Client>(0).take_gap(now);
            for interface in &mut *interfaces {
                interface.lose(world);
                gain(world, interface);
            }
            world.app::<Client>(0).last = now;
            world.run_for(seconds(10));
            let now = world.now();
            stalls[1] = world.app::<Client>(0).take_gap(now);
        }
    }
    let rest = CHANGE_EVERY.saturating_sub(world.now().since(start));
    world.run_for(rest);
    let now = world.now();
    stalls[0] = world.app::<Client>(0).take_gap(now);
    stalls
}

#[test]
fn a_day_of_other_addresses_stalls_nothing_for_long_and_grows_nothing() {
    #[allow(clippy::disallowed_methods, reason = "a test may ask for its length")]
    let hours = std::env::var("ROAMING_HOURS").map_or(2, |text| text.parse().expect("hours"));
    let mut world = World::new(Seed(24));
    let client = Client {
        links: Vec::new(),
        session: None,
        stream: None,
        closed: Vec::new(),
        sent: 0,
        back: 0,
        last: Instant::EPOCH,
        gap_max: Duration::ZERO,
    };
    world.add_node(Config::default(), AllowList::default(), client);
    let allowed = AllowList::of([World::node_id(0)]);
    world.add_node(Config::default(), allowed, Echo);
    let networks = [
        ("wlan0", 8_000, 30),
        ("wwan0", 3_000, 60),
        ("wwan1", 2_000, 90),
    ];
    let mut interfaces = networks.map(|network| Interface::new(&mut world, network));
    world.app::<Client>(0).links = interfaces.iter().map(|interface| interface.link).collect();
    world.with_node(0, |_| ());
    world.run_until(Instant::from_secs(60));
    let changes = hours * 3_600 / CHANGE_EVERY.as_secs();
    let (mut before, mut growth) = (0, 0);
    let (mut worst, mut channels) = ([Duration::ZERO; 2], [0; 2]);
    for number in 0..changes {
        if number == WARM {
            before = allocated();
        }
        let stalls = change(&mut world, &mut interfaces, number);
        for (worst, stall) in worst.iter_mut().zip(stalls) {
            *worst = stall.max(*worst);
        }
        for (node, most) in channels.iter_mut().enumerate() {
            *most = world.engine(node).channel_count().max(*most);
        }
        assert!(stalls[0] <= STALL_MAX, "change {number}: {stalls:?}");
        assert!(stalls[1] <= RETURN_MAX, "change {number}: {stalls:?}");
        if number >= WARM {
            growth = growth.max(allocated().saturating_sub(before));
        }
    }
    let client = world.app::<Client>(0);
    let (sent, back) = (client.sent, client.back);
    eprintln!(
        "{hours} h, {changes} changes: {back} of {sent} messages; longest stall {worst:?}, channels {channels:?}, {before} bytes and at \
         most {growth} more"
    );
    assert_eq!(client.closed, [], "the session lasts");
    assert!(
        channels.iter().all(|&count| count <= CHANNELS_MAX),
        "{channels:?}"
    );
    let growth_max = VARIATION + GROWTH_MAX * (changes - WARM);
    assert!(growth <= growth_max, "{growth} bytes more");
    assert!(back * 100 >= sent * 98, "{back} of {sent}");
}

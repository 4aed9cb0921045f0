//! Pings: round trips of paths on which nothing else is sent.

use crate::common;

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, SessionId};
use anabranch_session::{AllowList, Config, Event, SessionEvent};
use anabranch_sim::{App, Context, World, apps::Receiver};

use common::link;

/// Pings every second; keeps the answers.
#[derive(Default)]
struct Pinging {
    session: Option<SessionId>,
    next: Option<Instant>,
    answers: Vec<(ChannelId, Option<Duration>)>,
}

impl App for Pinging {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                self.session = Some(session);
                self.next = Some(context.now() + Duration::from_secs(1));
            }
            Event::Session {
                event:
                    SessionEvent::Pong {
                        channel,
                        round_trip,
                    },
                ..
            } => self.answers.push((channel, round_trip)),
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.next = Some(context.now() + Duration::from_secs(1));
        if let Some(session) = self.session {
            context.engine().session(session).expect("open").ping();
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.next
    }
}

/// A peer that dies while there is nothing to send: a ping finds it out in less than a second, and otherwise the idle time-out does.
#[test]
fn a_ping_finds_out_that_the_peer_is_dead() {
    let silent_after = |pings: bool| {
        let mut world = World::new(anabranch_base::Seed(6));
        let a = world.add_node(Config::default(), AllowList::default(), Pinging::default());
        let allowed = AllowList::of([World::node_id(0)]);
        let b = world.add_node(Config::default(), allowed, Receiver::new());
        let wires =
            [link(20, 40), link(20, 100)].map(|configs| world.add_wire(a, b, configs).unwrap());
        let links = wires.map(|wire| world.link(a, wire)).to_vec();
        world.with_node(a, |context| {
            let now = context.now();
            context
                .engine()
                .connect(now, World::node_id(1), links)
                .unwrap();
        });
        let second = Duration::from_secs(1);
        let death = Instant::EPOCH + 20 * second;
        world.run_until(death - Duration::from_millis(9_500));
        let session = world.app::<Pinging>(a).session.unwrap();
        if !pings {
            *world.app::<Pinging>(a) = Pinging::default();
        }
        world.run_until(death);
        world.suspend(b);
        let mut now = death;
        loop {
            now += Duration::from_millis(10);
            world.run_until(now);
            let active = world.with_node(a, |context| {
                let stats = context
                    .engine()
                    .session(session)
                    .map(|mut session| session.stats());
                stats.map_or(0, |stats| stats.channels_active)
            });
            if active == 0 {
                return now.since(death);
            }
            assert!(now.since(death) < Duration::from_secs(120));
        }
    };
    let (with, without) = (silent_after(true), silent_after(false));
    assert!(with < Duration::from_millis(1_500), "{with:?}");
    assert!(without > Duration::from_secs(10), "{without:?}");
}

#[test]
fn a_ping_measures_each_path_without_the_delay_of_the_acknowledgement() {
    let delayed = Config::default().channel.ack_delay_max;
    assert!(delayed >= Duration::from_millis(4), "it would not show");
    let mut world = World::new(anabranch_base::Seed(5));
    let a = world.add_node(Config::default(), AllowList::default(), Pinging::default());
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let wires = [link(20, 40), link(20, 100)].map(|configs| world.add_wire(a, b, configs).unwrap());
    let links = wires.map(|wire| world.link(a, wire)).to_vec();
    world.with_node(a, |context| {
        let now = context.now();
        context
            .engine()
            .connect(now, World::node_id(1), links)
            .unwrap();
    });
    world.run_until(Instant::EPOCH + Duration::from_secs(12));
    let answers = &world.app::<Pinging>(a).answers;
    assert!(answers.len() >= 20, "{answers:?}");
    let mut channels: Vec<ChannelId> = answers.iter().map(|(channel, _)| *channel).collect();
    channels.sort_unstable();
    channels.dedup();
    let mut medians: Vec<Duration> = channels
        .iter()
        .map(|channel| {
            let of_channel = answers.iter().filter(|(id, _)| id == channel);
            let mut times: Vec<Duration> = of_channel
                .map(|(_, time)| time.expect("nothing is lost"))
                .collect();
            times.sort_unstable();
            // The first ones may follow what establishes the channel.
            times[times.len() / 2]
        })
        .collect();
    medians.sort_unstable();
    let [near, far] = medians[..] else {
        panic!("{medians:?}");
    };
    for (measured, ms) in [(near, 40.0), (far, 100.0)] {
        let measured_ms = measured.as_secs_f64() * 1e3;
        // The packets take some 0.1 ms to leave.
        assert!(
            (ms..ms + 0.5).contains(&measured_ms),
            "{measured_ms} of {ms}"
        );
    }
}

//! Interfaces that get other addresses, for tests of moving nodes; and the memory that the process holds.

use std::{alloc::System, time::Duration};

use anabranch_base::{Rate, SessionId};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::Link;
use anabranch_sim::{Hop, World};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Growth of memory for each change of an address, all of it in the simulated network, which remembers every address.
pub(crate) const GROWTH_MAX: u64 = 1_024;

/// Bytes allocated and not freed.
pub(crate) fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated) as u64
}

fn network(kbps: u64, rtt_ms: u64) -> Configs {
    let rate = Rate::from_kbps(kbps);
    let rtt = Duration::from_millis(rtt_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    })
}

/// A new address of `name`, by which the nodes reach each other over `wire`.
fn address(world: &mut World, name: &str, wire: usize) -> Link {
    let (there, back) = ([Hop::forward(wire)], [Hop::backward(wire)]);
    let route = world.add_route([0, 1], &there, &back);
    let link = world.route_link(0, route);
    world.engine(0).set_socket_name(link.socket, name);
    link
}

/// An interface of the first node, and the network behind it.
pub(crate) struct Interface {
    name: &'static str,
    pub(crate) wire: usize,
    pub(crate) link: Link,
}

impl Interface {
    /// An interface with an address, in a network of this rate and round-trip time.
    pub(crate) fn new(world: &mut World, (name, kbps, rtt_ms): (&'static str, u64, u64)) -> Self {
        let wire = world
            .add_trunk(network(kbps, rtt_ms))
            .expect("a valid link");
        let link = address(world, name, wire);
        Self { name, wire, link }
    }

    /// Takes its address, as the system reports it.
    pub(crate) fn lose(&self, world: &mut World) {
        let socket = self.link.socket;
        world.with_node(0, |context| {
            let now = context.now();
            context.engine().socket_down(now, socket);
        });
    }

    /// Gives it another address, and the session a link from there.
    #[track_caller]
    pub(crate) fn gain(&mut self, world: &mut World, session: SessionId) {
        self.link = address(world, self.name, self.wire);
        let link = self.link;
        let has_place = world.with_node(0, |context| {
            let now = context.now();
            let session = context.engine().session(session);
            session.expect("it is open").add_link(now, link)
        });
        assert!(has_place, "at {:?}", world.now());
    }
}

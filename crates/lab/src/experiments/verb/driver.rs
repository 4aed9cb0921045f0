//! One controller on one channel, through the whole engine.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, Controller, Order, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use super::channel::Channel;

/// Sampling interval of measurements.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of an ADU: small, so that the end of one does not delay a slow channel.
const ADU_BYTES: usize = 4_096;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Look {
    /// Bytes acknowledged since the beginning.
    pub(super) bytes_acked: u64,
    pub(super) packets_acked: u64,
    pub(super) packets_lost: u64,
    /// Newest round trip, if there was one since the last sample.
    pub(super) rtt_ms: Option<f64>,
}

/// Samples ten times a second; `None` if no session was established.
pub(super) fn run(channel: &Channel, controller: Controller, seed: Seed) -> Option<Vec<Look>> {
    let mut config = Config::default();
    config.channel.controller = controller;
    let load = Load {
        spec: StreamSpec {
            order: Order::Unordered,
            reliable: false,
            ..StreamSpec::bulk("bulk")
        },
        adu_bytes: ADU_BYTES,
        ..Load::bulk(1 << 45)
    };
    let load = Load {
        adus: u64::MAX,
        ..load
    };
    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), vec![load]);
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(a)]), Receiver::new());
    let wire = world.add_wire(a, b, channel.configs.clone()).ok()?;
    let links = vec![world.link(a, wire)];
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    let mut looks: Vec<Look> = Vec::new();
    while world.now() < channel.end() {
        world.run_for(LOOK);
        let before = looks.last().copied().unwrap_or_default();
        let reports = match world.app::<Sender>(a).session() {
            Some(session) => world
                .engine(a)
                .session(session)
                .map(|mut session| session.channel_stats())
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let Some(report) = reports.first() else {
            // Between two channels nothing is acknowledged.
            looks.push(Look {
                rtt_ms: None,
                ..before
            });
            continue;
        };
        let stats = &report.stats;
        let is_new = stats.packets_acked != before.packets_acked;
        looks.push(Look {
            bytes_acked: stats.bytes_acked,
            packets_acked: stats.packets_acked,
            packets_lost: stats.packets_lost,
            rtt_ms: is_new.then_some(stats.rtt_latest.as_secs_f64() * 1e3),
        });
    }
    Some(looks)
}

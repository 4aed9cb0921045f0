//! A run: a session with one live stream.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_link::duplex::Configs;
use anabranch_session::{AllowList, Config, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};
use serde_json::json;

use super::{COUNT, INTERVAL, LIFETIME, PACKET_BYTES};
use crate::Row;

const LABEL: &str = "media";
/// Time for the handshake before the media begin, and for the last packets after their end.
const MARGIN: Duration = Duration::from_secs(1);

/// Figures of a run over `links`.
pub(super) fn row(seed: Seed, links: &[Configs]) -> Row {
    let load = Load {
        spec: StreamSpec::live(LABEL, LIFETIME),
        adu_bytes: PACKET_BYTES,
        every: Some(INTERVAL),
        adus: COUNT,
        start: Instant::EPOCH + MARGIN,
    };
    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), vec![load]);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let b = world.add_node(
        Config::default(),
        AllowList::of([World::node_id(0)]),
        Receiver::new(),
    );
    let wires: Vec<_> = links
        .iter()
        .map(|link| {
            let wire = world.add_wire(a, b, link.clone());
            wire.expect("the links are valid")
        })
        .collect();
    let ends = wires.iter().map(|&wire| world.link(a, wire)).collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, ends);
    world.with_node(a, |_| ());
    let end = MARGIN + INTERVAL * COUNT as u32 + MARGIN;
    world.run_until(Instant::EPOCH + end);

    let record = world.app::<Receiver>(b).record(LABEL);
    let in_time = record.delays.iter().filter(|&&age| age <= LIFETIME).count();
    let received = record.delays.len();
    let ms = |q| record.delay_quantile(q).as_secs_f64() * 1e3;
    let session = world.app::<Sender>(a).session();
    let sent: u64 = session.map_or(0, |session| {
        let engine = world.engine(a);
        let channels = engine.session(session).map(|mut s| s.channel_stats());
        let channels = channels.unwrap_or_default();
        channels.iter().map(|c| c.payload_sent_bytes).sum()
    });
    let of_media = |packets: usize| packets as f64 / COUNT as f64;
    let mut row = Row::new();
    let fields = [
        ("in_time_fraction", of_media(in_time)),
        ("late_fraction", of_media(received - in_time)),
        ("dropped_fraction", 1.0 - of_media(received)),
        ("p50_ms", ms(0.5)),
        ("p99_ms", ms(0.99)),
        (
            "sent_over_media",
            sent as f64 / (COUNT as f64 * PACKET_BYTES as f64),
        ),
    ];
    row.extend(fields.map(|(name, value)| (name.to_owned(), json!(value))));
    row
}

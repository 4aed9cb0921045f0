//! Memory that the process of a storm may hold, derived from the windows in use.

use super::{ledger::Ledger, plan::Plan};
use crate::world::World;

/// Memory of two engines without channels, and of the storm itself: plan, ledger, event queue.
const ENGINES_BYTES: u64 = 2 << 18;
/// Memory of a channel without any data: its connection, the statistics of its path, and the forecasters of the path's capacity, whose
/// windows of samples fill only in part in the time of a storm.
const CHANNEL_BYTES: u64 = 100 << 10;
/// Memory of the model of a channel, which exists under a policy that plans: tones in search of a period, and the distributions of the
/// round trips that were met.
const MODEL_BYTES: u64 = 64 << 10;
/// Growth factor of a buffer, which doubles: reassembled data may take twice its size.
const GROWTH: u64 = 2;

/// Memory that may be held now: what does not depend on data, both nodes' send buffers and receive windows, what a hostile peer's
/// sessions may hold at its victim, and the packets in transit.
pub(super) fn bound(world: &World, plan: &Plan, ledger: &Ledger) -> u64 {
    let config = &plan.config;
    let hostile = 2 * ledger.hostile_sessions.min(2);
    let windows = [0, 1].map(|side| plan.kinds_read(side)).iter().sum::<u64>() + hostile;
    let mut sending = 0;
    for (side, load) in (0..)
        .zip(&plan.loads)
        .flat_map(|(side, loads)| loads.iter().map(move |load| (side, load)))
    {
        let buffer =
            |side: usize| ledger.send_buffer_max[side].max(config.send_buffer_bytes as u64);
        sending += buffer(side) + load.adu_bytes as u64;
        if let Some((_, adu_bytes)) = load.back {
            sending += buffer(1 - side) + adu_bytes as u64;
        }
    }
    let reading = GROWTH * windows * config.session_window_bytes;
    rest(plan) + sending + reading + GROWTH * world.bytes_under_way()
}

/// Memory that does not depend on data: each node has a channel on each path.
fn rest(plan: &Plan) -> u64 {
    let channels = 2 * plan.paths.len() as u64;
    let model = match plan.config.policy.may_plan() {
        true => MODEL_BYTES,
        false => 0,
    };
    ENGINES_BYTES + channels * (CHANNEL_BYTES + model)
}

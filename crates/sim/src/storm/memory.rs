//! Memory that the process of a storm may hold, derived from the windows in use.

use super::{ledger::Ledger, plan::Plan};
use crate::world::World;

/// Memory of two engines, their channels and their statistics without any data, and of the storm itself: plan, ledger,
/// event queue.
const REST_BYTES: u64 = 7 << 19;
/// Growth factor of a buffer, which doubles: reassembled data may take twice its size.
const GROWTH: u64 = 2;

/// Memory that may be held now: both nodes' send buffers and receive windows, what a hostile peer's sessions may hold
/// at its victim, and the packets in transit.
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
    REST_BYTES + sending + reading + GROWTH * world.bytes_under_way()
}

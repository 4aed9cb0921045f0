//! Supply of slots of a channel, for its model.

use anabranch_base::{Instant, Rate};
use anabranch_channel::Channel;
use anabranch_estimate::model::Supply;
use anabranch_sched::{ChannelView, arrival};

/// Supply of slots of a channel: those in `view`, and those that its congestion control and pacer will grant.
pub(super) fn supply(now: Instant, view: &ChannelView, next: u64, channel: &mut Channel) -> Supply {
    let stats = channel.stats();
    let rtt_s = view.rtt_smoothed.as_secs_f64();
    // No more than the pacer releases, nor than a window in each round trip.
    let by_pacer = stats.rate_paced;
    let by_window = match rtt_s > 0.0 {
        true => Rate::from_bps((view.window_bytes as f64 * 8.0 / rtt_s) as u64),
        false => by_pacer,
    };
    // While there are slots, the pacer does not predict the one after them.
    let wait = (view.slots == 0).then(|| channel.next_slot_at()).flatten();
    Supply {
        now,
        next,
        ready: u32::try_from(view.slots).unwrap_or(u32::MAX),
        rate: by_pacer.min(by_window),
        wait: wait.map(|at| at.since(now)),
        round_trip: view.rtt_smoothed,
        round_trip_min: view.rtt_min,
        queue: arrival::queue_in_flight(view),
        bytes_max: view.packet_bytes as u32,
        cost_per_byte: 0.0,
        slots_max: usize::MAX,
    }
}

//! Views of channels before a run of the pump, and afterwards the report whether
//! the channels or the application limited it.

use anabranch_base::{ChannelId, Instant};
use anabranch_channel::Channel;
use anabranch_sched::ChannelView;

use super::{
    Session,
    channels::{Barred, ChannelState},
    pump::{ARRIVAL_TOLERANCE, Run},
};
use crate::{links::Link, wire::container::HEADER_BYTES_MAX};

impl Session {
    pub(super) fn view_channels(&mut self, run: &mut Run<'_>) {
        run.scratch.channels.clear();
        run.scratch.places.clear();
        let mut windows = 0_usize;
        if let Some(at) = self.channels.orders.expire(run.now) {
            self.pump.wake_at(at);
        }
        let orders = &self.channels.orders;
        for (index, state) in self.channels.states.iter_mut().enumerate() {
            let usable = state.is_usable() && self.establishment.permits(state.id);
            if !usable || run.scratch.channels.len() >= 64 {
                continue;
            }
            let Some(channel) = run.endpoint.channel(state.id) else {
                continue;
            };
            let Some(capacity) = channel.container_bytes_max() else {
                continue;
            };
            let link = Link {
                socket: channel.socket(),
                remote: channel.remote(),
            };
            let is_out = orders.about(state.id, &link).is_some();
            if state.barred.is_out && !is_out {
                let place = self.channels.estimator.place(state.id);
                place.into_iter().for_each(|at| self.promises.path_in(at));
            }
            state.barred = Barred {
                is_used_up: channel.is_out_of_allowance(),
                is_out,
            };
            let is_held = self.neighbours.held_until(run.now, state.id);
            let is_held = is_held.is_some() && !self.promises.is_on(state.id);
            let slots = if is_held { 0 } else { channel.slots(run.now) };
            let packet_bytes = capacity.saturating_sub(HEADER_BYTES_MAX + 8);
            let view = channel_view(run.now, channel, (state.id, slots, packet_bytes));
            windows = windows.saturating_add(view.window_bytes as usize);
            run.scratch.places.push((index, capacity));
            run.scratch.channels.push(view);
        }
        let ids = || run.scratch.channels.iter().map(|channel| channel.id);
        let states = || (run.scratch.places.iter()).map(|&(index, _)| &self.channels.states[index]);
        let is_same = ids().eq(run.scratch.channels_before.iter().copied())
            && states()
                .zip(&run.scratch.traits)
                .all(|(state, traits)| state.has_traits(traits));
        if !is_same {
            run.scratch.channels_before = ids().collect();
            run.scratch.traits = states().map(ChannelState::traits).collect();
            run.scratch.streams.invalidate();
        }
        // A buffer that holds less than may be in flight would starve the channels.
        self.streams.buffer_bytes = self.config.send_buffer_bytes.max(windows.saturating_mul(2));
    }

    /// Reports to each channel whether the network limits it, and decides when to run again.
    pub(super) fn settle_limits(&mut self, run: &mut Run<'_>) {
        let mut waiting = run
            .scratch
            .streams
            .all()
            .iter()
            .filter(|view| view.is_waiting());
        let backlogged = waiting.any(|view| self.is_sendable(view.id));
        self.channels.estimator.note_backlog(backlogged);
        let held_until = self.scheduling.scheduler.held_until();
        if let Some(at) = held_until.map(|at| at + ARRIVAL_TOLERANCE) {
            self.pump.wake_at(at);
        }
        for view in &run.scratch.channels {
            let Some(channel) = run.endpoint.channel(view.id) else {
                continue;
            };
            if let Some(until) = self.neighbours.held_until(run.now, view.id)
                && !self.promises.is_on(view.id)
            {
                // That it is held is no measure of the path.
                channel.set_backlogged(false);
                self.channels.estimator.ran_dry(view.id);
                self.pump.wake_at(until);
                continue;
            }
            // A slot that the policy left unused is the application's limit, not the network's.
            let is_limited = channel.set_backlogged(backlogged && view.slots == 0);
            // A slot that the policy holds back for data expected next is no measure of the rate either; but the path is busy.
            let is_held = backlogged && held_until.is_some();
            if !is_limited && !is_held {
                self.channels.estimator.ran_dry(view.id);
            }
            if backlogged
                && view.slots == 0
                && let Some(at) = channel.next_slot_at()
            {
                self.pump.wake_at(at);
            }
        }
        // Without a slot nothing was planned, and the time to plan next is out of date.
        let has_slot = run.scratch.channels.iter().any(|view| view.slots > 0);
        if backlogged && has_slot && self.scheduling.planning.is_on {
            let wake = self.scheduling.scheduler.wakes_at();
            self.pump.due_at = [self.pump.due_at, wake].into_iter().flatten().min();
        }
    }
}

/// View of a channel with so many slots for packets of so many application bytes.
///
/// The queue that the last round trips met has drained since then, as far as the channel has been idle: without that, a channel whose
/// queue was long would be avoided, and so would never be measured again.
pub(super) fn channel_view(
    now: Instant,
    channel: &mut Channel,
    (id, slots, packet_bytes): (ChannelId, usize, usize),
) -> ChannelView {
    let stats = channel.stats();
    let queue = stats.rtt_smoothed.saturating_sub(stats.rtt_min);
    let drained = queue.min(channel.idle_time(now));
    ChannelView {
        id,
        slots,
        packet_bytes,
        rtt_smoothed: stats.rtt_smoothed - drained,
        rtt_min: stats.rtt_min,
        rtt_usual: stats.rtt_usual,
        rtt_variation: stats.rtt_variation,
        rate_bytes_per_s: stats.rate_delivered.as_bytes_per_s(),
        window_bytes: stats.window_bytes,
        in_flight_bytes: stats.in_flight_bytes,
        loss: stats.loss_fraction(),
    }
}

//! What the session sees of its channels before a run of the pump, and what they are told: how long their queues may be, and
//! whether it was they that limited it.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant};
use anabranch_channel::{Channel, Endpoint, QueueGoal};
use anabranch_sched::ChannelView;

use super::{
    Session,
    pump::{ARRIVAL_TOLERANCE, Scratch},
};
use crate::wire::container::HEADER_BYTES_MAX;

/// A pressing stream that has sent within this time keeps one channel's queue short.
pub(super) const URGENT_MEMORY: Duration = Duration::from_secs(2);

impl Session {
    /// Whether something flows that should meet short queues.
    pub(super) fn is_pressed(&self, now: Instant) -> bool {
        self.urgent_sent_at
            .is_some_and(|at| now.since(at) < URGENT_MEMORY)
    }

    /// While something pressing flows, one channel keeps its queue short: the nearest. Those that
    /// carry promised streams keep theirs steady: what waits in a queue is late when the path slows down.
    pub(super) fn set_queue_goals(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let nearest = if self.is_pressed(now) {
            self.members
                .iter()
                .filter(|member| member.connected && !member.suspected)
                .filter_map(|member| {
                    Some((endpoint.channel(member.id)?.stats().rtt_min, member.id))
                })
                .min()
                .map(|(_, id)| id)
        } else {
            None
        };
        for member in &mut self.members {
            let goal = if nearest == Some(member.id) {
                QueueGoal::Short
            } else if self.promises.is_on(member.id) {
                QueueGoal::Steady
            } else {
                QueueGoal::Full
            };
            if goal == member.queue_goal {
                continue;
            }
            if let Some(channel) = endpoint.channel(member.id) {
                channel.set_queue_goal(goal);
                member.queue_goal = goal;
            }
        }
    }

    /// Tells channels the rate that the application wants held, those that joined since included.
    pub(super) fn set_rates(&mut self, endpoint: &mut Endpoint) {
        for member in &mut self.members {
            let Some(rate) = member.own_rate.or(self.rate) else {
                continue;
            };
            if member.rate != Some(rate)
                && let Some(channel) = endpoint.channel(member.id)
            {
                channel.set_rate(rate);
                member.rate = Some(rate);
            }
        }
    }

    pub(super) fn view_channels(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
    ) {
        scratch.channels.clear();
        scratch.places.clear();
        let mut windows = 0_usize;
        for (index, member) in self.members.iter().enumerate() {
            let may_speak = self.established || self.initial_channel == Some(member.id);
            let usable = member.connected && !member.suspected && may_speak;
            if !usable || scratch.channels.len() >= 64 {
                continue;
            }
            let Some(channel) = endpoint.channel(member.id) else {
                continue;
            };
            let Some(capacity) = channel.container_bytes_max() else {
                continue;
            };
            let slots = channel.slots(now);
            let packet_bytes = capacity.saturating_sub(HEADER_BYTES_MAX + 8);
            let view = channel_view(channel, (member.id, slots, packet_bytes));
            windows = windows.saturating_add(view.window_bytes as usize);
            scratch.places.push((index, capacity));
            scratch.channels.push(view);
        }
        let ids = || scratch.channels.iter().map(|channel| channel.id);
        if !ids().eq(scratch.channels_before.iter().copied()) {
            scratch.channels_before = ids().collect();
            scratch.streams.invalidate();
        }
        // A buffer that holds less than what may be in flight would starve the channels.
        self.send_buffer = self.config.send_buffer_bytes.max(windows.saturating_mul(2));
    }

    /// Tells the channels what limits them, and decides when to run again.
    pub(super) fn settle_limits(&mut self, endpoint: &mut Endpoint, scratch: &Scratch) {
        let mut waiting = scratch
            .streams
            .all()
            .iter()
            .filter(|view| view.is_waiting());
        let backlogged = waiting.any(|view| self.is_sendable(view.id));
        let held_until = self.scheduler.held_until();
        if let Some(at) = held_until.map(|at| at + ARRIVAL_TOLERANCE) {
            self.pump_at = Some(self.pump_at.map_or(at, |earlier| earlier.min(at)));
        }
        for view in &scratch.channels {
            let Some(channel) = endpoint.channel(view.id) else {
                continue;
            };
            // A slot that the policy left unused is the application's limit, not the network's.
            let is_limited = channel.set_backlogged(backlogged && view.slots == 0);
            // One that it holds back for what comes next says as little of the rate; but the path is busy.
            let is_held = backlogged && held_until.is_some();
            if !is_limited && !is_held {
                self.measures.ran_dry(view.id);
            }
            if backlogged
                && view.slots == 0
                && let Some(at) = channel.next_slot_at()
            {
                self.pump_at = Some(self.pump_at.map_or(at, |earlier| earlier.min(at)));
            }
        }
        // Without a slot nothing was planned, and when to plan next is old news.
        let has_slot = scratch.channels.iter().any(|view| view.slots > 0);
        if backlogged && has_slot && self.planning.is_on {
            let wake = self.scheduler.wakes_at();
            self.pump_at = [self.pump_at, wake].into_iter().flatten().min();
        }
    }
}

/// A channel with so many slots for packets of so many application bytes.
pub(super) fn channel_view(
    channel: &mut Channel,
    (id, slots, packet_bytes): (ChannelId, usize, usize),
) -> ChannelView {
    let stats = channel.stats();
    ChannelView {
        id,
        slots,
        packet_bytes,
        rtt_smoothed: stats.rtt_smoothed,
        rtt_min: stats.rtt_min,
        rtt_variation: stats.rtt_variation,
        rate_bytes_per_s: stats.rate_delivered.as_bytes_per_s(),
        window_bytes: stats.window_bytes,
        in_flight_bytes: stats.in_flight_bytes,
        loss: stats.loss_fraction(),
    }
}

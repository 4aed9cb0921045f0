//! Capacity of a channel: the slots that its window and its pacer offer, limits on them, and how much of them is used.

use std::time::Duration;

use anabranch_base::{Instant, Rate};

use super::{BEYOND_WINDOW_BYTES, Channel, DATAGRAM_SEND_BYTES};
use crate::{stats::Load, tap::Recent};

impl Channel {
    /// True if a container for which there is no slot may be queued: false while much is in flight or queued beyond the
    /// window, because the peer elicits answers and acknowledges few of them. O(1).
    pub fn has_capacity(&mut self) -> bool {
        let space = self.connection.datagrams().send_buffer_space() as u64;
        let queued = (DATAGRAM_SEND_BYTES as u64).saturating_sub(space);
        let tap = self.tap.lock();
        let most = tap.control.window().saturating_add(BEYOND_WINDOW_BYTES);
        tap.in_flight + queued <= most
    }

    /// Bounds the mean rate of what is sent from now on, in bytes of UDP payload; `None`: no bound beside the controller's. Up to 200 ms
    /// at this rate may be made up for, so that the bursts of who sends less are not held back. A rate of zero counts as 1 bit per second.
    pub fn set_ceiling(&mut self, rate: Option<Rate>) {
        let rate = rate.map(|rate| rate.max(Rate::from_bps(1)).as_bytes_per_s());
        self.pacer.set_ceiling(rate);
        if rate.is_none() {
            self.tap.lock().recent.is_capped = false;
        }
    }

    /// True if something was acknowledged since the last [`Channel::take_load`] that was sent while there was more to send.
    pub fn is_loaded(&self) -> bool {
        self.tap.lock().recent.full_bytes > 0
    }

    /// Measurements since the last call. O(1).
    pub fn take_load(&mut self) -> Load {
        let mut tap = self.tap.lock();
        let is_capped = tap.recent.is_capped;
        let recent = std::mem::replace(
            &mut tap.recent,
            Recent {
                is_capped,
                ..Recent::default()
            },
        );
        Load {
            acked_bytes: tap.totals.bytes_acked,
            rtt: (recent.rtt != Duration::MAX).then_some(recent.rtt),
            is_busy: recent.full_bytes > 0 || (!tap.app_limited && tap.in_flight > 0),
            is_capped: recent.was_capped,
        }
    }

    /// Number of full packets that may leave now: space in the window, as far as the pacer has released it.
    ///
    /// Zero while the channel is not connected or is suspected. Costs O(1).
    pub fn slots(&mut self, now: Instant) -> usize {
        if !self.is_connected() || !self.liveness.is_active() {
            return 0;
        }
        let packet = f64::from(self.connection.current_mtu());
        let tap = self.tap.lock();
        let in_flight = tap.in_flight + self.queued_bytes;
        let available = tap.control.window().saturating_sub(in_flight) as f64;
        let rtt = tap.rtt_smoothed();
        let rate = tap.control.pacing_rate(rtt.as_secs_f64());
        let is_even = tap.control.is_even();
        drop(tap);
        let packets = rate / packet;
        self.pacer
            .set_quantum(self.queue_goal, rtt, packets, is_even);
        let was_awaited = is_even && self.awaits_pacer;
        let released = self.pacer.available(now, rate, packet, was_awaited);
        let released = released - self.queued_bytes as f64;
        let slots = (available.min(released).max(0.0) / packet) as usize;
        debug_assert!(
            slots as f64 * packet <= available,
            "slots are space in the window"
        );
        let Some(allowance) = self.allowance else {
            return slots;
        };
        let queued = (self.queued_bytes as f64 / packet).ceil() as usize;
        slots.min(allowance.saturating_sub(queued))
    }

    /// Time at which the pacer will have released another slot although none exists now; `None` if the window, and not
    /// the pacer, is the limit.
    pub fn next_slot_at(&self) -> Option<Instant> {
        if !self.is_connected() || !self.liveness.is_active() || self.is_out_of_allowance() {
            return None;
        }
        let packet = u64::from(self.connection.current_mtu());
        let tap = self.tap.lock();
        if tap.control.window() < tap.in_flight + self.queued_bytes + packet {
            return None;
        }
        let rate = tap.control.pacing_rate(tap.rtt_smoothed().as_secs_f64());
        drop(tap);
        let queued = self.queued_bytes as f64;
        Some(self.pacer.next_release(rate, packet as f64, queued))
    }

    /// Time for which packets and slots of this channel may wait for one another, so that one wake-up
    /// serves many: the pacer's quantum.
    pub fn coalescing_delay(&self) -> Duration {
        self.pacer.quantum()
    }

    /// Reports whether the session has more data that it would send on this channel if there were space. Call it when
    /// all slots have been offered. Returns true if the network is the limit now.
    pub fn set_backlogged(&mut self, backlogged: bool) -> bool {
        let packet = u64::from(self.connection.current_mtu());
        let mut tap = self.tap.lock();
        let in_flight = tap.in_flight + packet;
        let is_window_full = tap.control.window() < in_flight;
        // A path that is full is a limit by itself, whether or not more data waits behind it.
        let is_path_full = tap.control.window_unjittered() < in_flight;
        tap.app_limited = !backlogged && !is_path_full;
        tap.control.on_backlog(backlogged);
        if is_window_full && backlogged {
            tap.control.on_window_limited();
        }
        self.awaits_pacer = backlogged && !is_window_full;
        tap.recent.is_capped = self.awaits_pacer && self.pacer.is_capped();
        tap.recent.was_capped |= tap.recent.is_capped;
        backlogged || is_path_full
    }

    /// Limits the number of slots until the next call, however much space the window has; `None`: no limit. For
    /// channels with a quota.
    pub fn set_allowance(&mut self, slots: Option<usize>) {
        self.allowance = slots;
    }

    /// True if the last [`Channel::set_allowance`] left no slot: none comes before the next call, whatever is acknowledged.
    pub fn is_out_of_allowance(&self) -> bool {
        self.allowance == Some(0)
    }

    /// Forbids (true) even packets outside the slots, because the quota is used up. The flag changes nothing here: the
    /// code that fills containers and the code that polls for packets check it.
    pub fn set_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Last value given to [`Channel::set_held`]; false at first.
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

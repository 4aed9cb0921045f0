//! Models of the channels of a session that plans, one for each, given every container.
//!
//! A model is made when planning begins, or its channel comes, and dropped when planning or the channel ends. It learns
//! from the containers that are sent meanwhile.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, Rate};
use anabranch_channel::Channel;
use anabranch_hose::symbol;
use anabranch_sched::{
    ChannelView,
    model::{ChannelModel, Choice, Joint, Packet, Slots, Supply, Technology},
    objective::{Correlation, Slot},
};

/// Slots of a channel that are shown at a time: those that exist, and phantoms.
const SLOTS_MAX: usize = 64;
const PHANTOMS_MAX: usize = 32;

/// Key: session. Empty while the session does not plan.
#[derive(Debug)]
pub(super) struct Models {
    /// By place in `joint`, as far as it has places.
    all: Vec<Modelled>,
    joint: Joint,
}

/// Key: channel.
#[derive(Debug)]
struct Modelled {
    id: ChannelId,
    model: Box<dyn ChannelModel>,
    slots: Slots,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            joint: Joint::new(0),
        }
    }
}

impl Models {
    /// Each of these channels has a model from now on.
    pub(super) fn open(&mut self, channels: &[ChannelView], choice: Choice) {
        for view in channels {
            if self.place(view.id).is_none() {
                self.all.push(Modelled {
                    id: view.id,
                    model: choice.model(),
                    slots: Slots::new(0).limited(SLOTS_MAX, PHANTOMS_MAX),
                });
                self.seat();
            }
        }
    }

    /// The channel is over.
    pub(super) fn close(&mut self, channel: ChannelId) {
        if let Some(place) = self.place(channel) {
            self.all.remove(place);
            self.joint.remove(place);
            self.seat();
        }
    }

    /// Planning is over.
    pub(super) fn clear(&mut self) {
        if !self.all.is_empty() {
            *self = Self::default();
        }
    }

    /// Gives a place to those that have none yet and may have one.
    fn seat(&mut self) {
        while self.joint.channels() < self.all.len() && self.joint.add() {}
    }

    fn place(&self, channel: ChannelId) -> Option<usize> {
        self.all.iter().position(|one| one.id == channel)
    }

    /// A container of `bytes` was sent.
    pub(super) fn sent(&mut self, channel: ChannelId, number: u64, at: Instant, bytes: usize) {
        let Some(place) = self.place(channel) else {
            return;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.all[place].model.sent(Packet { number, at, bytes });
        self.joint.sent(place, at);
    }

    /// A container was acknowledged `rtt` after it was sent.
    pub(super) fn acked(&mut self, channel: ChannelId, number: u64, at: Instant, rtt: Duration) {
        if let Some(place) = self.place(channel) {
            self.all[place].model.acked(number, at, rtt);
        }
    }

    /// A container that was sent at `sent_at` was declared lost.
    pub(super) fn lost(&mut self, channel: ChannelId, number: u64, at: Instant, sent_at: Instant) {
        if let Some(place) = self.place(channel) {
            self.all[place].model.lost(number, at);
            self.joint.lost(place, sent_at);
        }
    }

    /// Whose model the channel has.
    pub(super) fn technology(&self, channel: ChannelId) -> Option<Technology> {
        self.place(channel)
            .map(|place| self.all[place].model.technology())
    }

    /// The symbol of that; NaN without a model.
    pub(super) fn technology_symbol(&self, channel: ChannelId) -> f64 {
        let technology = self.technology(channel);
        technology.map_or(f64::NAN, |technology| symbol(technology.name()))
    }

    /// Adds the slots of the channel that has index `at` in the cycle, those that exist first, then phantoms of the coming
    /// `look_ahead`. Nothing for a channel without a model.
    pub(super) fn offer(
        &mut self,
        at: usize,
        (id, supply): (ChannelId, &Supply),
        look_ahead: Duration,
        slots: &mut Vec<Slot>,
    ) {
        let Some(place) = self.place(id) else {
            return;
        };
        let one = &mut self.all[place];
        one.slots.set_channel(at as u32);
        one.slots
            .offer(supply, look_ahead, one.model.as_mut(), slots);
    }

    /// Writes how losses go together on the channels of a cycle.
    pub(super) fn correlate(&self, channels: &[ChannelId], correlation: &mut Correlation) {
        let places = channels.iter().filter_map(|&channel| self.place(channel));
        let models: Vec<_> = places
            .map(|place| (place, &*self.all[place].model))
            .collect();
        self.joint.write(&models, correlation);
    }
}

/// What a channel has of slots: `view`, and what its congestion control and pacer will grant.
pub(super) fn supply(now: Instant, view: &ChannelView, next: u64, channel: &mut Channel) -> Supply {
    let stats = channel.stats();
    let rtt_s = view.rtt_smoothed.as_secs_f64();
    // No more than the pacer releases, nor than a window in each round trip.
    let by_pacer = stats.rate_paced;
    let by_window = match rtt_s > 0.0 {
        true => Rate::from_bps((view.window_bytes as f64 * 8.0 / rtt_s) as u64),
        false => by_pacer,
    };
    // While there are slots, the pacer says nothing of the one after them.
    let wait = (view.slots == 0).then(|| channel.next_slot_at()).flatten();
    Supply {
        now,
        next,
        ready: u32::try_from(view.slots).unwrap_or(u32::MAX),
        rate: by_pacer.min(by_window),
        wait: wait.map(|at| at.since(now)),
        round_trip: view.rtt_smoothed,
        bytes_max: view.packet_bytes as u32,
        cost_per_byte: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_sched::model::CHANNELS_MAX;

    fn view(id: u64) -> ChannelView {
        ChannelView {
            id: ChannelId(id),
            slots: 0,
            packet_bytes: 1_200,
            rtt_smoothed: Duration::ZERO,
            rtt_min: Duration::ZERO,
            rtt_variation: Duration::ZERO,
            rate_bytes_per_s: 0.0,
            window_bytes: 0,
            in_flight_bytes: 0,
            loss: 0.0,
        }
    }

    #[test]
    fn channels_come_and_go_and_leave_nothing_behind() {
        let mut models = Models::default();
        for id in 0..300 {
            models.open(&[view(id), view(1_000)], Choice::Auto);
            models.sent(ChannelId(id), 1, Instant::from_millis(id), 1_200);
            models.close(ChannelId(id));
            models.lost(ChannelId(id), 1, Instant::from_millis(id), Instant::EPOCH);
        }
        let ids: Vec<_> = models.all.iter().map(|one| one.id).collect();
        assert_eq!((ids, models.joint.channels()), (vec![ChannelId(1_000)], 1));
        models.clear();
        assert!(models.all.is_empty() && models.joint.channels() == 0);
    }

    #[test]
    fn more_channels_than_pairs_are_kept_of_have_models_all_the_same() {
        let mut models = Models::default();
        let views: Vec<_> = (0..CHANNELS_MAX as u64 + 2).map(view).collect();
        models.open(&views, Choice::Auto);
        assert_eq!(models.joint.channels(), CHANNELS_MAX);
        let last = views[CHANNELS_MAX + 1].id;
        assert_eq!(models.technology(last), Some(Technology::Generic));
        let ids: Vec<_> = views.iter().map(|view| view.id).collect();
        let mut correlation = Correlation::independent(ids.len());
        models.correlate(&ids, &mut correlation);
        models.close(ids[0]);
        assert_eq!(
            models.joint.channels(),
            CHANNELS_MAX,
            "the next has its place"
        );
    }
}

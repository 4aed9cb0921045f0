//! Models of the channels of a session that plans, one for each, updated with every container.
//!
//! A model is created when planning begins, or its channel is opened, and dropped when planning or the channel ends. It learns
//! from the containers that are sent meanwhile.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant};
use anabranch_spec::{Correlation, Slot};

use crate::{
    model::{ChannelModel, Choice, Joint, Packet, Slots, Supply, Technology},
    order::Outcome,
};

/// Slots of a channel that are shown at a time: those that exist, and phantoms.
const SLOTS_MAX: usize = 64;
const PHANTOMS_MAX: usize = 32;

/// Models of all channels of a session. Empty while it does not plan.
#[derive(Debug)]
pub(crate) struct Models {
    /// Models by index in `joint`, as far as it has capacity.
    all: Vec<Modelled>,
    joint: Joint,
}

/// Model of one channel, and its slots.
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
    /// Creates a model for each of these channels that has none.
    pub(crate) fn open(&mut self, channels: impl Iterator<Item = ChannelId>, choice: Choice) {
        for id in channels {
            if self.place(id).is_none() {
                self.all.push(Modelled {
                    id,
                    model: choice.model(),
                    slots: Slots::new(0).limited(SLOTS_MAX, PHANTOMS_MAX),
                });
                self.seat();
            }
        }
    }

    /// Drops the model of a channel that is over.
    pub(crate) fn close(&mut self, channel: ChannelId) {
        if let Some(place) = self.place(channel) {
            self.all.remove(place);
            self.joint.remove(place);
            self.seat();
        }
    }

    /// Drops all models when planning ends.
    pub(crate) fn clear(&mut self) {
        if !self.all.is_empty() {
            *self = Self::default();
        }
    }

    /// Assigns an index in `joint` to models that have none, as far as it has capacity.
    fn seat(&mut self) {
        while self.joint.channels() < self.all.len() && self.joint.add() {}
    }

    fn place(&self, channel: ChannelId) -> Option<usize> {
        self.all.iter().position(|one| one.id == channel)
    }

    /// Adds a packet that is sent on `channel`.
    pub(crate) fn sent(&mut self, channel: ChannelId, packet: Packet) {
        if let Some(place) = self.place(channel) {
            self.all[place].model.sent(packet);
            self.joint.sent(place, packet.at);
        }
    }

    /// Takes the outcome of a packet that was sent at `sent_at`.
    pub(crate) fn observe(&mut self, channel: ChannelId, outcome: &Outcome<'_>, sent_at: Instant) {
        let Some(place) = self.place(channel) else {
            return;
        };
        self.all[place].model.observe(outcome);
        if outcome.rtt.is_none() {
            self.joint.lost(place, sent_at);
        }
    }

    /// Technology of the channel's model.
    pub(crate) fn technology(&self, channel: ChannelId) -> Option<Technology> {
        self.place(channel)
            .map(|place| self.all[place].model.technology())
    }

    /// Adds the slots of the channel that has index `at` in the cycle, those that exist first, then phantoms of the coming
    /// `look_ahead`. Nothing for a channel without a model.
    pub(crate) fn offer(
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

    /// Writes the correlation of losses between the channels of a cycle.
    pub(crate) fn correlate(&self, channels: &[ChannelId], correlation: &mut Correlation) {
        let places = channels.iter().filter_map(|&channel| self.place(channel));
        let models: Vec<_> = places
            .map(|place| (place, &*self.all[place].model))
            .collect();
        self.joint.write(&models, correlation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CHANNELS_MAX;

    fn packet(index: u64) -> Packet {
        let at = Instant::from_millis(index);
        let bytes = 1_200;
        Packet { index, at, bytes }
    }

    #[test]
    fn channels_come_and_go_and_leave_nothing_behind() {
        let mut models = Models::default();
        for id in 0..300 {
            let channels = [id, 1_000].map(ChannelId);
            models.open(channels.into_iter(), Choice::Auto);
            models.sent(ChannelId(id), packet(id));
            models.close(ChannelId(id));
            models.sent(ChannelId(id), packet(id + 1));
        }
        let ids: Vec<_> = models.all.iter().map(|one| one.id).collect();
        assert_eq!((ids, models.joint.channels()), (vec![ChannelId(1_000)], 1));
        models.clear();
        assert!(models.all.is_empty() && models.joint.channels() == 0);
    }

    #[test]
    fn more_channels_than_pairs_are_kept_of_have_models_all_the_same() {
        let mut models = Models::default();
        let ids: Vec<_> = (0..CHANNELS_MAX as u64 + 2).map(ChannelId).collect();
        models.open(ids.iter().copied(), Choice::Auto);
        assert_eq!(models.joint.channels(), CHANNELS_MAX);
        let last = ids[CHANNELS_MAX + 1];
        assert_eq!(models.technology(last), Some(Technology::Generic));
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

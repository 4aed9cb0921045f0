//! Coupled channels of a session: each is given its share, and is notified of congestion events of its partners.

use anabranch_base::{ChannelId, Instant};
use anabranch_channel::{Channel, Endpoint};

use super::channels::{ChannelState, Channels};
use crate::config::Coupling;

impl Channels {
    /// Notifies the partners of coupled channels of congestion events since the last call. O(channels), and nothing where
    /// none is coupled.
    pub(super) fn notify_partners(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for index in 0..self.states.len() {
            let state = &mut self.states[index];
            if state.given.share == 1.0 {
                state.congestion_reported = None;
                continue;
            }
            let id = state.id;
            let Some(events) = endpoint.peek(id).map(Channel::congestion_events) else {
                continue;
            };
            let is_new = state
                .congestion_reported
                .is_some_and(|reported| events > reported);
            state.congestion_reported = Some(events);
            if !is_new {
                continue;
            }
            let partners = self.states.iter().filter(|partner| {
                let is_other = partner.id != id && partner.given.share < 1.0;
                is_other && self.couplings.are_coupled(id, partner.id)
            });
            for partner in partners {
                if let Some(channel) = endpoint.channel(partner.id) {
                    channel.partner_congested(now);
                }
            }
        }
    }

    /// Sets the channels' shares of a flow, once a second, or at once if `is_new`. `part_of` returns the part that the promises of other
    /// sessions leave to a channel that delivers so many bits per second; 1 without any.
    pub(super) fn couple(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        coupling: Coupling,
        (is_new, mut part_of): (bool, impl FnMut(ChannelId, f64) -> f64),
    ) {
        if !self.couplings.is_due(now) && !is_new {
            return;
        }
        let sent = |state: &ChannelState| (state.id, state.payload_sent_bytes);
        let channels: Vec<(ChannelId, u64)> = self.usable().map(sent).collect();
        let is_given = coupling == Coupling::All;
        let estimator = &self.estimator;
        let shares = if coupling == Coupling::Off || channels.len() < 2 {
            vec![1.0; channels.len()]
        } else {
            self.couplings.shares(now, &channels, |one, other| {
                is_given || estimator.share_bottleneck(one, other)
            })
        };
        for (&(id, _), share) in channels.iter().zip(shares) {
            let (Some(state), Some(channel)) = (self.get_mut(id), endpoint.channel(id)) else {
                continue;
            };
            let share = share * part_of(id, channel.stats().rate_delivered.as_bps() as f64);
            if state.given.share != share {
                channel.set_share(share);
                state.given.share = share;
            }
        }
    }
}

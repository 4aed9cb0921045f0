//! Paths that their user has taken out of use: the channel stays open and is kept alive, and carries no data of streams.
//!
//! An order is kept for the link, so that it holds for the channel that takes the place of a lost one.

use std::sync::Arc;

use anabranch_base::{ChannelId, Instant};
use anabranch_channel::Endpoint;

use super::Session;
use crate::links::Link;

/// Most orders that are kept; the oldest give way.
const KEPT_MAX: usize = 64;

/// Order to use a path no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOut {
    /// Name of the user who gave it, for people.
    pub by: Arc<str>,
    /// Time at which the path is used again; `None`: when it is taken in.
    pub until: Option<Instant>,
}

/// Reason for which a path cannot be taken out or in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The session has no such channel.
    #[error("the session has no {0}; it may have been lost, see the list of paths")]
    Unknown(ChannelId),
    /// No other path could carry the session's data.
    #[error(
        "{0} is the last path that carries data: without it, the session's streams would wait; force it if that is what you want"
    )]
    Last(ChannelId),
    /// The path is used already.
    #[error("{0} is not out of use")]
    NotOut(ChannelId),
}

/// Orders of a session. Key: link.
#[derive(Debug, Default)]
pub(super) struct Orders(Vec<(ChannelId, Link, TakenOut)>);

impl Orders {
    /// The order about a channel or its link.
    pub(super) fn about(&self, channel: ChannelId, link: &Link) -> Option<&TakenOut> {
        let mut orders = self.0.iter();
        let found = orders.find(|(id, on, _)| *id == channel || on == link);
        found.map(|(_, _, order)| order)
    }

    fn put(&mut self, channel: ChannelId, link: Link, order: TakenOut) {
        self.remove(channel, &link);
        if self.0.len() >= KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push((channel, link, order));
    }

    /// Removes an order; false: there was none.
    fn remove(&mut self, channel: ChannelId, link: &Link) -> bool {
        let before = self.0.len();
        self.0.retain(|(id, on, _)| *id != channel && on != link);
        self.0.len() < before
    }

    /// Removes orders that are over; returns the time at which the next one is.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.0
            .retain(|(_, _, order)| order.until.is_none_or(|until| until > now));
        self.0.iter().filter_map(|(_, _, order)| order.until).min()
    }
}

/// The link of a channel.
fn link_of(endpoint: &Endpoint, channel: ChannelId) -> Option<Link> {
    endpoint.peek(channel).map(|channel| Link {
        socket: channel.socket(),
        remote: channel.remote(),
    })
}

impl Session {
    /// Takes a path out of use.
    pub(crate) fn take_out(
        &mut self,
        now: Instant,
        endpoint: &Endpoint,
        (channel, is_forced): (ChannelId, bool),
        order: TakenOut,
    ) -> Result<(), PathError> {
        let link = link_of(endpoint, channel).ok_or(PathError::Unknown(channel))?;
        if self
            .channels
            .get(channel)
            .is_none_or(|state| !state.connected)
        {
            return Err(PathError::Unknown(channel));
        }
        let is_another = |id: ChannelId| id != channel;
        if !is_forced && !self.channels.in_use().any(|state| is_another(state.id)) {
            return Err(PathError::Last(channel));
        }
        if let Some(place) = self.channels.estimator.place(channel) {
            let text = format!("{channel} was taken out of use by {}", order.by);
            self.promises.path_out(now, place, &text);
        }
        self.channels.orders.put(channel, link, order);
        self.apply_orders(endpoint);
        Ok(())
    }

    /// Uses a path again.
    pub(crate) fn take_in(
        &mut self,
        endpoint: &Endpoint,
        channel: ChannelId,
    ) -> Result<(), PathError> {
        let link = link_of(endpoint, channel).ok_or(PathError::Unknown(channel))?;
        if !self.channels.orders.remove(channel, &link) {
            return Err(PathError::NotOut(channel));
        }
        if let Some(place) = self.channels.estimator.place(channel) {
            self.promises.path_in(place);
        }
        self.apply_orders(endpoint);
        Ok(())
    }

    /// Marks the channels that are out of use, and lets promised streams use the others from their next review on.
    fn apply_orders(&mut self, endpoint: &Endpoint) {
        let orders = &self.channels.orders;
        for state in &mut self.channels.states {
            let link = link_of(endpoint, state.id);
            state.barred.is_out = link.is_some_and(|link| orders.about(state.id, &link).is_some());
        }
        self.permit_paths();
        self.pump.is_due = true;
    }
}

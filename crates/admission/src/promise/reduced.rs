//! Reduced promises: offers of warnings that a stream takes by itself, and the return to its demand.
//!
//! A stream with [`OnWarning::TakeOffer`] whose promise is warned is promised the offered rate at once, or the offered probability
//! if there is no rate; its owner is notified of the warning and then of the promise. The pace is that of levels. Within 30 s of
//! a change a promise is reduced only where it would be withdrawn otherwise, and leaves headroom then: forecasts fall further than
//! a path for a while. Its own demand is promised again when that has been possible for a while, 30 s after the last change at the
//! earliest, and later and later if it could not be held; and so is a part of it that is well above the reduced promise. A source
//! with levels is reduced below the lowest only.

use std::time::Duration;

use crate::mapping::{Hold, Placement, Request, offer};
use anabranch_base::{Instant, Rate, StreamId};
use anabranch_spec::{Guarantee, OnWarning};

use super::{
    Channels, Notice, OVERHEAD, Promises, Refusal, as_displayed,
    levels::{FALLING, Found},
    stream::Promised,
};

/// Time after a warning without a usable offer before another one is sought: each costs dozens of mappings.
const SEEK_EVERY: Duration = Duration::from_secs(5);

impl Promised {
    /// True if an offer may be taken for the stream now, although it was warned before.
    pub(super) fn may_take_offer(&self, now: Instant) -> bool {
        let is_time = |at: Instant| now.since(at) >= SEEK_EVERY;
        self.guarantee.on_warning == OnWarning::TakeOffer
            && self.pace.may_fall(now)
            && self.reduced.sought_at.is_none_or(is_time)
    }

    /// The guarantee that an offer amounts to; `None` if there is none below what is promised.
    fn offered(&self, now: Instant, refusal: &Refusal) -> Option<Guarantee> {
        let current = self.guarantee;
        let Some(rate) = refusal.offer.rate else {
            let probability = refusal.offer.probability?;
            return current
                .at_probability(probability)
                .reduced_to(current.required());
        };
        // Above the lowest level, another level takes the place of the promised one.
        let lowest = current.levels.into_iter().last();
        if lowest.is_some_and(|lowest| rate >= lowest) {
            return None;
        }
        let rate = match self.pace.may_fall(now) {
            true => rate,
            false => with_headroom(rate),
        };
        let reduced = current.reduced_to(rate)?;
        (reduced.required() < current.required()).then_some(reduced)
    }
}

impl Promises {
    /// Gives a stream that takes offers the one of this refusal, which is that of its promise; returns the placements of it and of
    /// the requests `kept`. `None` if it takes none, or there is none.
    pub(super) fn take_offer(
        &mut self,
        now: Instant,
        (stream, refusal): (StreamId, &Refusal),
        kept: &[Request],
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) -> Option<(Vec<Request>, Vec<Placement>)> {
        let entry = self.streams.get_mut(&stream)?;
        let is_time = entry.pace.may_fall(now) || entry.is_due(now);
        if entry.guarantee.on_warning != OnWarning::TakeOffer || !is_time {
            return None;
        }
        entry.reduced.sought_at = Some(now);
        let current = entry.guarantee;
        let reduced = entry.offered(now, refusal)?;
        let (own, was_warned) = (entry.own, entry.is_warned());
        let found = self.try_level(stream, (reduced, 1.0), kept, channels);
        let entry = self.streams.get_mut(&stream)?;
        if found.is_none() {
            (entry.guarantee, entry.own) = (current, own);
            return None;
        }
        if !was_warned {
            entry.warn(now, refusal);
            notices.push(Notice::Warned(stream, refusal.clone()));
        }
        entry.reduced.sought_at = None;
        entry.pace.falls(now);
        if entry.wanted.is_none() {
            entry.reduced.from.get_or_insert(current);
        }
        found
    }

    /// Promises streams with a reduced promise their own demand, or more of it, where that has been possible for a while.
    pub(super) fn review_reduced(
        &mut self,
        now: Instant,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        for stream in self.order() {
            let Some(entry) = self.streams.get(&stream) else {
                continue;
            };
            let Some(demand) = entry.reduced.from else {
                continue;
            };
            let can_rise = entry.is_in_force() && !entry.is_warned() && entry.pace.may_rise(now);
            let found = can_rise
                .then(|| self.original(stream, &demand, channels))
                .flatten();
            let is_more = found.is_some() || (can_rise && self.has_more(stream, &demand, channels));
            let Some(entry) = self.streams.get_mut(&stream) else {
                continue;
            };
            if !entry.pace.is_steady(now, is_more) {
                continue;
            }
            if found.is_some() {
                entry.reduced.from = None;
            }
            if let Some(more) = found.or_else(|| self.part(stream, &demand, channels)) {
                self.raise(now, stream, more, channels, notices);
            }
        }
    }

    /// The highest level of a stream's own demand that can be mapped beside all promises.
    fn original(
        &mut self,
        stream: StreamId,
        demand: &Guarantee,
        channels: Channels<'_>,
    ) -> Option<Found> {
        let mut levels = demand.by_level();
        levels.find_map(|level| self.try_beside(stream, level, 1.0, channels))
    }

    /// True if much more than the reduced rate could be promised, and still be held when paths fall a little.
    fn has_more(&mut self, stream: StreamId, demand: &Guarantee, channels: Channels<'_>) -> bool {
        let more = self.streams.get(&stream).and_then(|entry| {
            let current = entry.guarantee;
            let is_rate = current.probability() == demand.probability();
            let more = demand.reduced_to(current.required() * FALLING)?;
            (is_rate && more.required() > current.required()).then_some(more)
        });
        more.is_some_and(|more| self.try_beside(stream, more, FALLING, channels).is_some())
    }

    /// The largest part of a stream's own demand that can be mapped beside all promises with headroom.
    fn part(
        &mut self,
        stream: StreamId,
        demand: &Guarantee,
        channels: Channels<'_>,
    ) -> Option<Found> {
        let lowest = demand.by_level().last()?;
        let mut wanted = self.request_for(stream, &lowest, 1.0, channels)?;
        let tenant = self.streams.get(&stream)?.tenant;
        if let Some(allowance) = self.allowance(tenant, &wanted, channels) {
            wanted.rate_bps = wanted.rate_bps.min(allowance.most_bps());
        }
        let (others, _) = self.beside(&wanted, channels);
        let largest = offer::rate(&wanted, &others, &mut self.view(channels))?;
        let part = demand.reduced_to(with_headroom(as_displayed(largest)))?;
        let current = self.streams.get(&stream)?.guarantee;
        if part.required() <= current.required() {
            return None;
        }
        self.try_beside(stream, part, 1.0, channels)
    }

    /// The placements of this guarantee for a stream beside all promises, at `headroom` times its rate.
    fn try_beside(
        &mut self,
        stream: StreamId,
        guarantee: Guarantee,
        headroom: f64,
        channels: Channels<'_>,
    ) -> Option<Found> {
        let wanted = self.request_for(stream, &guarantee, 1.0, channels)?;
        if !self.may_have(&wanted, channels) {
            return None;
        }
        let wanted = Request {
            rate_bps: headroom * wanted.rate_bps,
            ..wanted
        };
        let placements = self.map_with(&wanted, channels)?;
        Some((guarantee, placements))
    }

    fn request_for(
        &self,
        stream: StreamId,
        guarantee: &Guarantee,
        headroom: f64,
        channels: Channels<'_>,
    ) -> Option<Request> {
        let entry = self.streams.get(&stream)?;
        Some(Request {
            rate_bps: guarantee.required().as_bps() as f64 * OVERHEAD * headroom,
            demand: guarantee.demand,
            constraint: guarantee.constraint(),
            hold: Hold::New,
            ..entry.request(stream, channels, OVERHEAD)
        })
    }
}

/// A rate that can be held when paths fall a little, where this one can be promised now.
fn with_headroom(rate: Rate) -> Rate {
    rate * (1.0 / FALLING)
}

#[cfg(test)]
mod tests;

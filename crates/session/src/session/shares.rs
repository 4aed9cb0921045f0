//! `Throttle` events: what share of the session's capacity each stream may count on.
//!
//! The basic form: the delivery rates of all channels, divided among the streams that are sending,
//! by weight within the highest priority that is sending.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, Rate, StreamId};

use super::{Session, pump::Scratch};
use crate::event::Event;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(200);
/// A stream counts as sending for this long after its last fragment.
const SENDING: Duration = Duration::from_millis(500);
/// Relative change of a share that is worth an event.
const CHANGE: f64 = 0.25;

/// Key: session.
#[derive(Debug)]
pub(super) struct Shares {
    check_at: Instant,
    told: BTreeMap<StreamId, f64>,
}

impl Shares {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            check_at: now + PERIOD,
            told: BTreeMap::new(),
        }
    }
}

impl Session {
    pub(super) fn note_shares(
        &mut self,
        now: Instant,
        scratch: &Scratch,
        events: &mut VecDeque<Event>,
    ) {
        if now < self.shares.check_at {
            return;
        }
        self.shares.check_at = now + PERIOD;
        let capacity: f64 = scratch.channels.iter().map(|c| c.rate_bytes_per_s).sum();
        let sending = || {
            self.send
                .values()
                .filter(|half| half.sent_at.is_some_and(|at| now.since(at) < SENDING))
        };
        let weights: f64 = sending().map(|half| f64::from(half.spec.weight)).sum();
        if weights <= 0.0 {
            self.shares.told = BTreeMap::new();
            return;
        }
        if capacity <= 0.0 {
            return;
        }
        let mut told = BTreeMap::new();
        for half in sending() {
            let share = capacity * f64::from(half.spec.weight) / weights;
            let before = self.shares.told.get(&half.id).copied();
            let changed = before.is_none_or(|before| (share - before).abs() > CHANGE * before);
            if changed {
                events.push_back(Event::Throttle {
                    session: self.id,
                    stream: half.id,
                    rate: Rate::from_bps((share * 8.0) as u64),
                });
            }
            told.insert(
                half.id,
                if changed {
                    share
                } else {
                    before.unwrap_or(share)
                },
            );
        }
        self.shares.told = told;
    }
}

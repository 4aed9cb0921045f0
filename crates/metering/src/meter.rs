//! Meter of a channel's use in the current period.

use super::{CapReached, Cost, Model, Price};

/// Beginning of a period, as its owner counts: seconds since 1970, days, months. A later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(pub u64);

/// Counts what is used of one channel. It uses no clock: its owner states when a period begins, and keeps
/// [`Meter::period`] and [`Meter::used_bytes`] where they survive a restart. Key: channel's local link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    model: Model,
    period: Period,
    used_bytes: u64,
}

impl Meter {
    /// A meter in the period that began at `period`, of which `used_bytes` are used already.
    pub fn new(model: Model, period: Period, used_bytes: u64) -> Self {
        Self {
            model,
            period,
            used_bytes,
        }
    }

    /// Its price list.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Another price list from now on; what was used stays.
    pub fn set_model(&mut self, model: Model) {
        self.model = model;
    }

    /// Beginning of the current period.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Bytes used in it.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes left in it; `None`: any number.
    pub fn left_bytes(&self) -> Option<u64> {
        let cap = self.model.cap_bytes()?;
        Some(cap.saturating_sub(self.used_bytes))
    }

    /// The price of the next byte, and how many bytes have it (`None`: all that follow); nothing at the cap. O(steps).
    pub fn next_price(&self) -> Option<(Price, Option<u64>)> {
        self.model.next_price(self.used_bytes)
    }

    /// Cost of it, at today's prices. O(steps).
    pub fn paid(&self) -> Cost {
        let within = self.model.cap_bytes().unwrap_or(u64::MAX);
        let paid = self.model.cost(0, self.used_bytes.min(within));
        paid.unwrap_or_default()
    }

    /// A period began. One that is not later than the current one changes nothing: a clock that was set
    /// back does not give a quota twice.
    pub fn begin(&mut self, period: Period) {
        if period > self.period {
            self.period = period;
            self.used_bytes = 0;
        }
    }

    /// Cost of `bytes` more. O(steps).
    ///
    /// # Errors
    /// They do not fit below the cap.
    pub fn cost(&self, bytes: u64) -> Result<Cost, CapReached> {
        self.model.cost(self.used_bytes, bytes)
    }

    /// Uses `bytes`; what they cost. O(steps).
    ///
    /// # Errors
    /// They do not fit below the cap, and nothing was used.
    pub fn spend(&mut self, bytes: u64) -> Result<Cost, CapReached> {
        let cost = self.cost(bytes)?;
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        Ok(cost)
    }
}

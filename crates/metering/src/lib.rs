//! Metering: price lists, billing periods, meters and quotas of what is sent [Horde §4.1: cost(x), §5: ADU transmission cost].
//!
//! Arithmetic on bytes and periods. Hosts read clocks and record the usage; the engine asks what may be sent.
//!
//! A [`Model`] is a price list: so many bytes at one price, then so many at the next; the last price applies
//! to all that follows, or nothing more is sent. That covers channels that are free, paid by the byte, free up to a
//! quota and then paid, or closed at a monthly cap. What is paid is money or energy; the two are never
//! added.
//!
//! A [`Meter`] counts what was used in the current period. Everything is exact: whole millionths
//! ([`Cost`]), and the costs of parts add up to the cost of the whole.
//!
//! | file | holds |
//! |---|---|
//! | `lib` | [`Model`], [`Price`], [`Cost`]: what so many bytes more cost |
//! | `meter` | [`Meter`]: what was used in a period |
//! | `calendar` | [`Billing`]: when periods begin |
//! | `text` | `"2 GB then 0.01/MB"` |
//! | `quotas` | [`Quotas`]: the meters of a node's sockets, and what may be sent on each |

mod calendar;
mod meter;
mod quotas;
#[cfg(test)]
mod tests;
mod text;

pub use calendar::{Billing, Date, ParseDateError, ParseZoneError, Zone};
pub use meter::{Meter, Period};
pub use quotas::{Marginal, Quotas, Stage};
pub use text::ParseModelError;

/// Most steps of a price list, the last one included.
pub const STEPS_MAX: usize = 8;

/// An amount in millionths: of the currency unit in which the operator writes prices (it is not named here), or
/// of a joule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cost(u64);

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// In millionths.
    pub const fn as_millionths(self) -> u64 {
        self.0
    }
}

/// Unit of what is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Money, in the operator's currency.
    #[default]
    Money,
    /// Energy, in joules.
    Energy,
}

/// A price: so many millionths for so many bytes; an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Price {
    millionths: u64,
    bytes: u64,
}

impl Price {
    /// Nothing.
    pub const FREE: Self = Self {
        millionths: 0,
        bytes: 1,
    };

    /// `cost` for every `bytes`; `None` when `bytes` is 0.
    pub const fn new(cost: Cost, bytes: u64) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        Some(Self {
            millionths: cost.0,
            bytes,
        })
    }

    /// True if nothing is paid.
    pub fn is_free(self) -> bool {
        self.millionths == 0
    }

    /// Of one byte, in units of currency or joules.
    pub fn per_byte(self) -> f64 {
        self.millionths as f64 / 1e6 / self.bytes as f64
    }

    /// True if this is more than another price. Both are of the same unit.
    pub fn is_above(self, other: Self) -> bool {
        let (own, others) = (
            u128::from(self.millionths) * u128::from(other.bytes),
            u128::from(other.millionths) * u128::from(self.bytes),
        );
        own > others
    }

    /// Cost of `bytes` from the first on, rounded down.
    fn of(self, bytes: u64) -> u128 {
        u128::from(self.millionths) * u128::from(bytes) / u128::from(self.bytes)
    }
}

/// So many bytes at one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Their number.
    pub bytes: u64,
    /// At which price.
    pub price: Price,
}

/// The price list of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    unit: Unit,
    steps: Vec<Step>,
    /// The price of what comes after all steps; `None`: nothing may.
    last: Option<Price>,
}

/// The cap of a period is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the channel's cap is reached: {left_bytes} bytes are left, {wanted_bytes} were to be sent"
)]
pub struct CapReached {
    /// Bytes that may still be sent in this period.
    pub left_bytes: u64,
    /// Bytes that were to be sent.
    pub wanted_bytes: u64,
}

/// A price list that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too many steps.
    #[error("a price list has at most 8 steps, this one has {0}")]
    Steps(usize),
    /// A step holds nothing.
    #[error("step {0} of the price list holds 0 bytes; leave it out")]
    Empty(usize),
    /// The steps together hold more bytes than can be counted.
    #[error("the steps of the price list hold more than 2^64 bytes together")]
    TooLarge,
}

impl Default for Model {
    /// Free.
    fn default() -> Self {
        Self::flat(Unit::Money, Price::FREE)
    }
}

impl Model {
    /// Every byte at the same price.
    pub fn flat(unit: Unit, price: Price) -> Self {
        Self {
            unit,
            steps: Vec::new(),
            last: Some(price),
        }
    }

    /// `steps` one after the other, then all the rest at the price `last`, or nothing more (`None`).
    ///
    /// # Errors
    /// More than seven steps, one without bytes, or too many bytes.
    pub fn new(unit: Unit, steps: Vec<Step>, last: Option<Price>) -> Result<Self, ModelError> {
        if steps.len() >= STEPS_MAX {
            return Err(ModelError::Steps(steps.len() + 1));
        }
        if let Some(place) = steps.iter().position(|step| step.bytes == 0) {
            return Err(ModelError::Empty(place + 1));
        }
        let mut sizes = steps.iter().map(|step| step.bytes);
        if sizes.try_fold(0, u64::checked_add).is_none() {
            return Err(ModelError::TooLarge);
        }
        Ok(Self { unit, steps, last })
    }

    /// Unit of what is paid.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The price of every byte; `None`: it depends on what was sent before.
    pub fn only_price(&self) -> Option<Price> {
        self.last.filter(|_| self.steps.is_empty())
    }

    /// Its steps, and the price after them.
    pub fn steps(&self) -> (&[Step], Option<Price>) {
        (&self.steps, self.last)
    }

    /// True if nothing is ever paid, nor refused.
    pub fn is_free(&self) -> bool {
        self.last.is_some_and(Price::is_free) && self.steps.iter().all(|step| step.price.is_free())
    }

    /// Bytes that may be sent in a period; `None`: any number.
    pub fn cap_bytes(&self) -> Option<u64> {
        let sizes = self.steps.iter().map(|step| step.bytes);
        self.last.is_none().then(|| sizes.sum())
    }

    /// The price of the next byte after `used_bytes`, and how many bytes have it (`None`: all that follow); nothing at
    /// the cap. O(steps).
    pub fn next_price(&self, used_bytes: u64) -> Option<(Price, Option<u64>)> {
        let mut before = used_bytes;
        for step in &self.steps {
            if before < step.bytes {
                return Some((step.price, Some(step.bytes - before)));
            }
            before -= step.bytes;
        }
        self.last.map(|price| (price, None))
    }

    /// Cost of `bytes` more after `used_bytes` in the same period. What is beyond 2^64 millionths counts
    /// as that. The cost of a whole is that of its parts, in any division. O(steps).
    ///
    /// # Errors
    /// They do not fit below the cap.
    pub fn cost(&self, used_bytes: u64, bytes: u64) -> Result<Cost, CapReached> {
        let left_bytes = self
            .cap_bytes()
            .map_or(u64::MAX, |cap| cap.saturating_sub(used_bytes));
        if bytes > left_bytes {
            return Err(CapReached {
                left_bytes,
                wanted_bytes: bytes,
            });
        }
        let after = self.total(used_bytes.saturating_add(bytes));
        let cost = after - self.total(used_bytes);
        Ok(Cost(u64::try_from(cost).unwrap_or(u64::MAX)))
    }

    /// Cost of the first `bytes` of a period.
    fn total(&self, bytes: u64) -> u128 {
        let (mut left, mut total) = (bytes, 0);
        for step in &self.steps {
            let here = left.min(step.bytes);
            total += step.price.of(here);
            left -= here;
        }
        total + self.last.map_or(0, |price| price.of(left))
    }
}

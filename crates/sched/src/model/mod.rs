//! Models of channels: what to expect of a packet that is sent now, or soon [Horde §4.1, §4.2, §7.4.2].
//!
//! A [`ChannelModel`] is told of every packet of one channel: sent, arrived after so long, or lost. It knows
//! no clock and no transport. [`Slots`] turns what it expects, and what the channel's owner says of rate and window,
//! into the slots and phantoms of a cycle; [`Joint`] adds how losses of different channels go together.
//!
//! ```
//! use std::time::Duration;
//! use anabranch_base::{Instant, Rate};
//! use anabranch_sched::{
//!     model::{ChannelModel, Choice, Joint, Packet, Slots, Supply},
//!     objective::{Correlation, Slot},
//! };
//!
//! // For each channel, a model and a maker of slots; for all of them, one `Joint`.
//! let mut model = "cellular".parse::<Choice>()?.model();
//! let (mut slots, mut joint) = (Slots::new(0), Joint::new(1));
//!
//! // As packets are sent and their fates come back:
//! for number in 0..100 {
//!     let at = Instant::from_millis(number * 20);
//!     model.sent(Packet { number, at, bytes: 1_200 });
//!     joint.sent(0, at);
//!     if number % 10 == 9 {
//!         model.lost(number, at + Duration::from_millis(120));
//!         joint.lost(0, at);
//!     } else {
//!         let rtt = Duration::from_millis(80);
//!         model.acked(number, at + rtt, rtt);
//!     }
//! }
//!
//! // In each cycle: two packets may be sent now, and one every 20 ms after that.
//! let supply = Supply {
//!     now: Instant::from_millis(2_000),
//!     next: 100,
//!     ready: 2,
//!     rate: Rate::from_bps(480_000),
//!     wait: Some(Duration::from_millis(5)),
//!     round_trip: Duration::from_millis(80),
//!     bytes_max: 1_200,
//!     cost_per_byte: 0.0,
//! };
//! let mut cycle: Vec<Slot> = Vec::new();
//! slots.offer(&supply, Duration::from_millis(200), model.as_mut(), &mut cycle);
//! assert!(!cycle[1].is_phantom() && cycle[2].is_phantom());
//! assert!((cycle[0].round_trip_ms - 80.0).abs() < 4.0);
//!
//! let mut correlation = Correlation::independent(1);
//! joint.write(&[(0, &*model)], &mut correlation);
//! assert!(correlation.both(&cycle[0], &cycle[1]) < 0.2, "no two in a row were lost");
//!
//! // And more than a slot holds: which round trip will not be exceeded in 95 % of all cases?
//! let expected = model.expect(0, supply.now);
//! assert!(expected.round_trip.is_some_and(|trip| trip.quantile(0.95) < 100.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `generic` | [`Generic`]: smoothed round trip, fraction lost, as published |
//! | `cellular` | [`Cellular`]: p_k(x\|z), periodic drain of a queue, bursts of losses |
//! | `satellite` | [`Satellite`]: handovers in a rhythm |
//! | `recognised` | [`Recognised`]: which of them it is, by a rule |
//! | `slots` | [`Slots`]: slots and phantoms |
//! | `joint` | [`Joint`]: losses of two channels |
//! | `distribution`, `spread`, `rivals` | quantiles; how far guesses lie off; which guess is best |
//! | `outcomes`, `losses`, `base` | packets in order; losses in bursts; what all models keep |
//! | `given`, `drain`, `periodicity`, `average` | p_k(x\|z); periods of packets, and of seconds; means |

mod average;
mod base;
mod cellular;
mod distribution;
mod drain;
mod generic;
mod given;
mod joint;
mod losses;
mod outcomes;
mod periodicity;
mod recognised;
mod rivals;
mod satellite;
mod slots;
mod spread;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr, time::Duration};

use anabranch_base::Instant;

pub use self::{
    cellular::Cellular,
    distribution::{Distribution, LEVELS},
    generic::Generic,
    joint::{CHANNELS_MAX, Joint},
    recognised::{Recognised, Recogniser},
    satellite::Satellite,
    slots::{SLOTS_MAX, Slots, Supply},
};

/// A packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number on its channel; numbers ascend, and may have holes.
    pub number: u64,
    /// Time.
    pub at: Instant,
    /// Its size.
    pub bytes: u32,
}

/// What to expect of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// P(it is lost), in [0, 1].
    pub loss: f64,
    /// The time until it is acknowledged, if it is; `None` until the first packet was.
    pub round_trip: Option<Distribution>,
}

/// What to expect of one channel, by what its packets tell.
///
/// Calls come in the order of time: [`sent`](Self::sent) for each packet, then exactly one of
/// [`acked`](Self::acked) and [`lost`](Self::lost), in any order of packets; questions at any time. A packet told twice, or
/// never sent, changes nothing. Telling costs O(1) and allocates nothing once as many packets were in flight as ever will
/// be; memory is bounded. On a busy machine with two cores, a packet and its fate cost 0.4 to 0.7 µs with [`Generic`], 3 to 4 µs
/// with [`Cellular`] and [`Satellite`], up to 5 µs with [`Recognised`] (`cargo bench -p anabranch-sched --bench model`).
pub trait ChannelModel: Send + fmt::Debug {
    /// Whose model it is.
    fn technology(&self) -> Technology;

    /// A packet was sent. One whose number does not exceed the last one's is passed over.
    fn sent(&mut self, packet: Packet);

    /// A packet was acknowledged at `at`, `rtt` after it was sent.
    fn acked(&mut self, number: u64, at: Instant, rtt: Duration);

    /// A packet was declared lost at `at`.
    fn lost(&mut self, number: u64, at: Instant);

    /// What to expect of the packet that is sent at `at`, after `ahead` others that are not sent yet.
    fn expect(&mut self, ahead: u32, at: Instant) -> Expectation;

    /// P(both are lost | either is) of two packets so many apart; 1 for 0.
    fn lost_together(&self, apart: u64) -> f64;
}

/// What a channel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Technology {
    /// Anything.
    Generic,
    /// Mobile telephony.
    Cellular,
    /// Satellites that are handed over.
    Satellite,
}

impl Technology {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Generic, Self::Cellular, Self::Satellite];

    /// The name by which configurations and objectives know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Cellular => "cellular",
            Self::Satellite => "satellite",
        }
    }
}

impl fmt::Display for Technology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which model a channel gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// That of the technology that it is recognised to be: `auto`.
    #[default]
    Auto,
    /// This one, whatever it does.
    Fixed(Technology),
}

impl Choice {
    /// A model that knows nothing yet.
    pub fn model(self) -> Box<dyn ChannelModel> {
        match self {
            Self::Auto => Box::new(Recognised::new()),
            Self::Fixed(Technology::Generic) => Box::new(Generic::new()),
            Self::Fixed(Technology::Cellular) => Box::new(Cellular::new()),
            Self::Fixed(Technology::Satellite) => Box::new(Satellite::new()),
        }
    }
}

/// A text names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a channel model; write \"auto\", \"generic\", \"cellular\" or \"satellite\"")]
pub struct UnknownModel(pub String);

impl FromStr for Choice {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let mut all = Technology::ALL.into_iter();
        let found = all.find(|technology| technology.name() == text);
        found
            .map(Self::Fixed)
            .ok_or_else(|| UnknownModel(text.to_owned()))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(technology) => technology.fmt(f),
        }
    }
}

//! Models of channels: the expected outcome of a packet that is sent now, or soon [Horde §4.1, §4.2, §7.4.2].
//!
//! A [`ChannelModel`] receives every packet of one channel, and its outcome through a [`PacketOrder`](crate::PacketOrder). It
//! knows no clock and no transport. [`Slots`] turns its expectations, and the rate and window of the channel, into the slots and
//! phantoms of a cycle; [`Joint`] adds the correlation of losses of different channels.
//!
//! ```
//! use std::time::Duration;
//! use anabranch_base::{Instant, Rate};
//! use anabranch_estimate::{PacketOrder, model::{ChannelModel, Choice, Joint, Packet, Slots, Supply}};
//! use anabranch_spec::{Correlation, Slot};
//!
//! // For each channel, the order of its packets, a model and a maker of slots; for all of them, one `Joint`.
//! let (mut order, mut model) = (PacketOrder::new(), "cellular".parse::<Choice>()?.model());
//! let (mut slots, mut joint) = (Slots::new(0), Joint::new(1));
//!
//! // As packets are sent and their outcomes come back:
//! for number in 0..100 {
//!     let at = Instant::from_millis(number * 20);
//!     if let Some(index) = order.sent(number, at) {
//!         model.sent(Packet { index, at, bytes: 1_200 });
//!         joint.sent(0, at);
//!     }
//!     let outcome = if number % 10 == 9 {
//!         joint.lost(0, at);
//!         order.lost(number, at + Duration::from_millis(120))
//!     } else {
//!         let rtt = Duration::from_millis(80);
//!         order.acked(number, at + rtt, rtt)
//!     };
//!     model.observe(&outcome.expect("the packet was sent"));
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
//!     round_trip_min: Duration::from_millis(80),
//!     queue: Duration::ZERO,
//!     bytes_max: 1_200,
//!     cost_per_byte: 0.0,
//!     slots_max: usize::MAX,
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
//! // Beyond the contents of a slot: the round trip that 95 % of packets will not exceed.
//! let expected = model.expect(0, supply.now);
//! assert!(expected.round_trip.is_some_and(|trip| trip.quantile(0.95) < 100.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `generic` | [`Generic`]: smoothed round trip, fraction lost, as published |
//! | `cellular` | [`Cellular`]: p_k(x\|z), periodic drain of a queue, bursts of losses |
//! | `satellite` | [`Satellite`]: periodic handovers |
//! | `recognised` | [`Recognised`]: the model of the technology that a rule recognises |
//! | `slots` | [`Slots`]: slots and phantoms |
//! | `joint` | [`Joint`]: losses of two channels |
//! | `distribution`, `spread`, `rivals` | quantiles; errors of guesses; the best guess |
//! | `base`, `guesses`, `losses` | common parts of all models; guesses about open packets; losses in bursts |
//! | `given`, `drain`, `periodicity`, `average` | p_k(x\|z); periods of packets, and of seconds; means |

mod average;
mod base;
mod cellular;
mod distribution;
mod drain;
mod generic;
mod given;
mod guesses;
mod joint;
mod losses;

mod periodicity;
mod recognised;
mod rivals;
mod satellite;
mod slots;
mod spread;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use anabranch_base::Instant;

use crate::order::Outcome;

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
    /// Number of packets that were sent before it on its channel ([`PacketOrder::sent`](crate::PacketOrder::sent)).
    pub index: u64,
    /// Time.
    pub at: Instant,
    /// Its size.
    pub bytes: u32,
}

/// Expected outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// P(it is lost), in [0, 1].
    pub loss: f64,
    /// The time until it is acknowledged, if it is; `None` until the first packet was.
    pub round_trip: Option<Distribution>,
}

/// Expected outcome of the packets of one channel, learned from its packets.
///
/// Calls come in the order of time: [`sent`](Self::sent) for each packet, then [`observe`](Self::observe) once, in any order of
/// packets; questions at any time. A packet costs O(1) and allocates nothing once as many packets were in flight as ever will
/// be; memory is bounded. On a busy machine with two cores, a packet and its outcome cost 0.4 to 0.7 µs with [`Generic`], 3 to
/// 4 µs with [`Cellular`] and [`Satellite`], up to 5 µs with [`Recognised`] (`cargo bench -p anabranch-estimate --bench model`).
pub trait ChannelModel: Send + fmt::Debug {
    /// The technology that it models.
    fn technology(&self) -> Technology;

    /// Adds a packet that is sent.
    fn sent(&mut self, packet: Packet);

    /// Takes the outcome of a packet, and those that are in order with it.
    fn observe(&mut self, outcome: &Outcome<'_>);

    /// The expected outcome of the packet that is sent at `at`, after `ahead` others that are not sent yet.
    fn expect(&mut self, ahead: u32, at: Instant) -> Expectation;

    /// P(both are lost | either is) of two packets so many apart; 1 for 0.
    fn lost_together(&self, apart: u64) -> f64;
}

/// Technology of a channel.
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

/// Choice of a channel's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// That of the technology that it is recognised to be: `auto`.
    #[default]
    Auto,
    /// This one, whatever the channel does.
    Fixed(Technology),
}

impl Choice {
    /// Creates a model that knows nothing yet.
    pub fn model(self) -> Box<dyn ChannelModel> {
        match self {
            Self::Auto => Box::new(Recognised::new()),
            Self::Fixed(Technology::Generic) => Box::new(Generic::new()),
            Self::Fixed(Technology::Cellular) => Box::new(Cellular::new()),
            Self::Fixed(Technology::Satellite) => Box::new(Satellite::new()),
        }
    }
}

/// The name is not that of a model.
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

//! Cross-traffic: packets of other users on a link.
//!
//! A [`Traffic`] describes the kind, a [`Source`] is one in progress: an iterator of [`Arrival`]s in order of time,
//! without clock and without end. The driver offers each to a [`Link`](crate::Link) at its time:
//!
//! ```
//! use anabranch_base::{Instant, Rate, Seed};
//! use anabranch_link::{Config, Link, traffic::{Poisson, Sizes, Source, Traffic}, RateSource};
//!
//! let traffic = Traffic::Poisson(Poisson {
//!     rate: RateSource::Constant(Rate::from_mbps(6)),
//!     sizes: Sizes::Imix,
//! });
//! let mut link = Link::new("rate=10 Mbit/s".parse()?, Seed(1))?;
//! for arrival in Source::new(&traffic, Instant::EPOCH, Seed(2))?.take(1_000) {
//!     let _ = link.offer(arrival.at, arrival.bytes, false);
//! }
//! assert_eq!(link.stats().offered.packets, 1_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! None of these responds to congestion; flows that do are whole sessions in the simulator. All sizes are those of IP
//! packets.

mod on_off;
mod replay;

use std::time::Duration;

use anabranch_base::{Instant, Random, Rate, Seed};

pub use on_off::{ON_OFF_MAX, PERIOD_MIN, ParetoOnOff, SHAPE_MAX};
pub use replay::{Replay, SPEED_MAX};

use crate::{
    ConfigError, RateSource,
    limits::{MTU_MAX_BYTES, PACKET_MIN_BYTES},
    transmitter::Transmitter,
};

/// Kind of traffic that a source offers.
#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    /// Packets evenly spaced at a rate: constant, walking or recorded.
    Paced(Paced),
    /// Packets at random times, independent of each other, at a rate: constant, walking or recorded.
    Poisson(Poisson),
    /// Many sources that are alternately silent and busy, for times with a heavy tail.
    ParetoOnOff(ParetoOnOff),
    /// Recorded packets.
    Replay(Replay),
}

/// Packets spaced as a saturated transmitter of this rate sends them: the replay of a rate trace.
///
/// A packet arrives when its last bit is due, so the first one arrives after its own transmission time.
#[derive(Debug, Clone, PartialEq)]
pub struct Paced {
    /// The rate; not [`RateSource::Unlimited`].
    pub rate: RateSource,
    /// Distribution of packet sizes.
    pub sizes: Sizes,
}

/// A Poisson process: the number of packets in any time is Poisson-distributed and independent of those
/// at any other time.
///
/// If the rate changes, the process is inhomogeneous; it is drawn by the time-rescaling theorem: in units of the work
/// that the rate has done, the gaps are exponential.
#[derive(Debug, Clone, PartialEq)]
pub struct Poisson {
    /// The mean rate in bits per second; not [`RateSource::Unlimited`].
    pub rate: RateSource,
    /// Distribution of packet sizes, independent of the times.
    pub sizes: Sizes,
}

/// Distribution of packet sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// A constant size in bytes; 20 to 65,535.
    Fixed(usize),
    /// The "simple Internet mix" that router tests use: of twelve packets, seven of 40 bytes, four of 576
    /// and one of 1500, drawn independently. The mean is 340⅓ bytes.
    Imix,
}

/// A packet of cross-traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which it is to be offered to the link.
    pub at: Instant,
    /// Its size, IP header included.
    pub bytes: usize,
}

impl Traffic {
    /// A constant rate of evenly spaced packets.
    pub const fn constant(rate: Rate, packet_bytes: usize) -> Self {
        Self::Paced(Paced {
            rate: RateSource::Constant(rate),
            sizes: Sizes::Fixed(packet_bytes),
        })
    }

    /// A Poisson process of a constant mean rate.
    pub const fn poisson(rate: Rate, sizes: Sizes) -> Self {
        Self::Poisson(Poisson {
            rate: RateSource::Constant(rate),
            sizes,
        })
    }

    /// Its mean rate over a long time.
    pub fn mean(&self) -> Rate {
        match self {
            Self::Paced(Paced { rate, .. }) | Self::Poisson(Poisson { rate, .. }) => {
                rate.mean().unwrap_or_default()
            }
            Self::ParetoOnOff(model) => model.mean(),
            Self::Replay(replay) => replay.mean(),
        }
    }

    /// Checks every part.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Paced(Paced { rate, sizes }) | Self::Poisson(Poisson { rate, sizes }) => {
                if *rate == RateSource::Unlimited {
                    return Err(ConfigError::TrafficUnlimited);
                }
                rate.validate()?;
                sizes.validate()
            }
            Self::ParetoOnOff(model) => model.validate(),
            Self::Replay(replay) => replay.validate(),
        }
    }
}

impl Sizes {
    /// The mean, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        match *self {
            Self::Fixed(bytes) => bytes as f64,
            Self::Imix => (7.0 * 40.0 + 4.0 * 576.0 + 1500.0) / 12.0,
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::Fixed(value) if !(PACKET_MIN_BYTES..=MTU_MAX_BYTES).contains(&value) => {
                Err(ConfigError::PacketBytes { value })
            }
            Self::Fixed(_) | Self::Imix => Ok(()),
        }
    }

    fn draw(self, random: &mut Random) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Imix => match random.below(12) {
                0..7 => 40,
                7..11 => 576,
                _ => 1500,
            },
        }
    }
}

/// State of a [`Traffic`]: packets in order of time, as an iterator.
///
/// Its randomness comes from the seed alone. It ends only at the end of time ([`Instant::FAR_FUTURE`]). Each packet
/// costs O(1), amortised over the steps of a trace; O(log n) with n on–off sources.
#[derive(Debug, Clone)]
pub struct Source {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Paced {
        transmitter: Transmitter,
        sizes: Sizes,
        random: Random,
    },
    Poisson {
        transmitter: Transmitter,
        sizes: Sizes,
        random: Random,
    },
    OnOff(on_off::Process),
    Replay(replay::Process),
}

impl Source {
    /// A source that begins at `begin`. A rate trace or recording plays from there.
    ///
    /// # Errors
    /// The traffic has a value outside its range.
    pub fn new(traffic: &Traffic, begin: Instant, seed: Seed) -> Result<Self, ConfigError> {
        traffic.validate()?;
        let random = seed.stream("traffic");
        let kind = match traffic {
            Traffic::Paced(Paced { rate, sizes }) => Kind::Paced {
                transmitter: Transmitter::new(rate, begin, seed),
                sizes: *sizes,
                random,
            },
            Traffic::Poisson(Poisson { rate, sizes }) => Kind::Poisson {
                transmitter: Transmitter::new(rate, begin, seed),
                sizes: *sizes,
                random,
            },
            Traffic::ParetoOnOff(model) => Kind::OnOff(on_off::Process::new(*model, begin, seed)),
            Traffic::Replay(replay) => Kind::Replay(replay::Process::new(replay.clone(), begin)),
        };
        Ok(Self { kind })
    }
}

impl Iterator for Source {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let arrival = match &mut self.kind {
            Kind::Paced {
                transmitter,
                sizes,
                random,
            } => {
                let bytes = sizes.draw(random);
                let at = transmitter.send(Instant::EPOCH, bytes as u64);
                Arrival { at, bytes }
            }
            Kind::Poisson {
                transmitter,
                sizes,
                random,
            } => {
                // Work, not time, is drawn, so that a gap may span any change of the rate. Rounding to whole bytes
                // moves a packet by less than one byte's time.
                let gap_bytes = random.exponential(sizes.mean_bytes()).round() as u64;
                let at = transmitter.send(Instant::EPOCH, gap_bytes);
                let bytes = sizes.draw(random);
                Arrival { at, bytes }
            }
            Kind::OnOff(process) => process.next(),
            Kind::Replay(process) => process.next(),
        };
        (arrival.at < Instant::FAR_FUTURE).then_some(arrival)
    }
}

/// The bytes that arrive in each of `count` windows of `width`, beginning at time zero. The rest of a link's rate is
/// the bandwidth available to other flows.
///
/// # Panics
/// When `width` is zero.
pub fn bytes_per_window(
    arrivals: impl IntoIterator<Item = Arrival>,
    width: Duration,
    count: usize,
) -> Vec<u64> {
    assert!(!width.is_zero(), "windows without width");
    let mut windows = vec![0; count];
    for arrival in arrivals {
        let index = arrival.at.since_epoch().as_nanos() / width.as_nanos();
        let Some(window) = usize::try_from(index).ok().and_then(|i| windows.get_mut(i)) else {
            break;
        };
        *window += arrival.bytes as u64;
    }
    windows
}

#[cfg(test)]
mod tests;

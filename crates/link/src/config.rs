//! Configuration of one direction of a link.

use std::time::Duration;

use crate::{Jitter, Loss, Queue, RateSource};

/// The longest delay, jitter and walk step that a config accepts: an hour.
pub const DURATION_MAX: Duration = Duration::from_secs(3_600);
/// The latest time at which a planned outage may end, counted from the epoch.
pub const OUTAGE_MAX: Duration = Duration::from_secs(360_000);
/// The smallest MTU that a config accepts: the minimum of every IPv4 link (RFC 791).
pub const MTU_MIN_BYTES: usize = 68;
/// The largest MTU that a config accepts: the largest length that an IP header can state.
pub const MTU_MAX_BYTES: usize = 65_535;

/// The smallest packet that cross-traffic may send: a bare IPv4 header.
pub const PACKET_MIN_BYTES: usize = 20;

/// One direction of a link.
///
/// The default is a wire without limits: unlimited rate, no delay, no loss, packets up to 1500 bytes, so that a test
/// states exactly what it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Rate at which packets are put on the wire.
    pub rate: RateSource,
    /// Propagation delay, one way; the time between a packet's last bit leaving and arriving.
    pub delay: Duration,
    /// Delay added to `delay`, packet by packet.
    pub jitter: Jitter,
    /// Loss of packets on the wire, after they have used their share of the rate.
    pub loss: Loss,
    /// Limit on the bytes that wait to be sent, and threshold of ECN marking.
    pub queue: Queue,
    /// The largest IP packet the link carries, in bytes; larger ones are dropped.
    pub mtu_bytes: usize,
    /// Planned times without service, in order and apart from each other.
    pub outages: Vec<Outage>,
}

/// A planned time during which the link is down, in time since the host's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Beginning of the time without service.
    pub from: Duration,
    /// End of the time without service.
    pub to: Duration,
}

/// Error in a config.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside its range.
    #[error("{field} is {value}; give a probability from 0 to 1")]
    Probability {
        /// The field.
        field: &'static str,
        /// Value that was given.
        value: f64,
    },
    /// A mean burst length with which the mean loss rate cannot be reached.
    #[error(
        "loss bursts of {burst_packets} packets cannot give a mean loss rate of {rate}; give at least one packet, and a rate of at most burst/(burst+1)"
    )]
    Burst {
        /// The mean loss rate.
        rate: f64,
        /// The mean burst length.
        burst_packets: f64,
    },
    /// A rate with which a packet would never leave, or leave in years.
    #[error(
        "a rate of {rate_bps} bit/s is below the lowest accepted, {lowest_bps} bit/s; to stop a link, take it down"
    )]
    RateTooLow {
        /// Value that was given, in bits per second.
        rate_bps: u64,
        /// The lowest accepted.
        lowest_bps: u64,
    },
    /// A walk's spread outside its range.
    #[error("the rate's spread is {value}; give a fraction of the rate from 0 to 1")]
    Spread {
        /// Value that was given.
        value: f64,
    },
    /// A walk that changes too often.
    #[error("the rate would change every {every:?}; give at least {least:?}")]
    Every {
        /// Interval that was given.
        every: Duration,
        /// The shortest accepted.
        least: Duration,
    },
    /// A trace whose rate, times the scale, is zero throughout.
    #[error(
        "trace '{name}', scaled by {scale}, never lets a packet leave; give one with a rate above zero, or a larger scale"
    )]
    TraceWithoutRate {
        /// The trace's name.
        name: String,
        /// The scale.
        scale: f64,
    },
    /// A scale outside its range.
    #[error("the trace's scale is {value}; give a number above 0, at most {most}")]
    Scale {
        /// Value that was given.
        value: f64,
        /// The largest accepted.
        most: f64,
    },
    /// A duration beyond its limit.
    #[error("{field} is {value:?}; the maximum is {most:?}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Value that was given.
        value: Duration,
        /// The longest accepted.
        most: Duration,
    },
    /// A packet limit outside its range.
    #[error("mtu is {value} bytes; give {MTU_MIN_BYTES} to {MTU_MAX_BYTES}")]
    Mtu {
        /// Value that was given.
        value: usize,
    },
    /// A queue larger than any real one.
    #[error("the queue holds {value} bytes; the maximum is {most}")]
    QueueTooLarge {
        /// Value that was given.
        value: u64,
        /// The largest accepted.
        most: u64,
    },
    /// Cross-traffic without a rate.
    #[error("cross-traffic cannot be unlimited; give it a rate, a walk or a trace")]
    TrafficUnlimited,
    /// A packet of an impossible size.
    #[error("packets of {value} bytes; give {PACKET_MIN_BYTES} to {MTU_MAX_BYTES}")]
    PacketBytes {
        /// Value that was given.
        value: usize,
    },
    /// No on–off source, or too many.
    #[error("{value} on-off sources; give 1 to {}", crate::traffic::ON_OFF_MAX)]
    Sources {
        /// Value that was given.
        value: u32,
    },
    /// A mean on or off time that is too short.
    #[error("a mean {field} of {value:?}; give at least {least:?}")]
    Period {
        /// The field.
        field: &'static str,
        /// Value that was given.
        value: Duration,
        /// The shortest accepted.
        least: Duration,
    },
    /// The shape of a Pareto distribution outside its range.
    #[error(
        "the shape is {value}; give a number above 1, at most {}",
        crate::traffic::SHAPE_MAX
    )]
    Shape {
        /// Value that was given.
        value: f64,
    },
    /// A speed outside its range.
    #[error("the recording's speed is {value}; give a number above 0, at most {most}")]
    Speed {
        /// Value that was given.
        value: f64,
        /// The largest accepted.
        most: f64,
    },
    /// Loss bursts that double beyond their limit.
    #[error("bursts of up to {value} packets; give a power of two from 1 to {most}")]
    BurstMax {
        /// Value that was given.
        value: u32,
        /// The longest accepted.
        most: u32,
    },
    /// A decay with which the lengths of bursts have no distribution.
    #[error("the decay of burst lengths is {value}; give a number from 0 to 0.5")]
    Decay {
        /// Value that was given.
        value: f64,
    },
    /// Outages out of order, overlapping, touching or empty.
    #[error(
        "the outage from {from:?} to {to:?} ends before it begins or begins before an earlier one has ended; list outages in order and apart from each other"
    )]
    Outage {
        /// Its beginning.
        from: Duration,
        /// Its end.
        to: Duration,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: RateSource::Unlimited,
            delay: Duration::ZERO,
            jitter: Jitter::None,
            loss: Loss::None,
            queue: Queue::default(),
            mtu_bytes: 1500,
            outages: Vec::new(),
        }
    }
}

impl Config {
    /// Checks every part.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rate.validate()?;
        at_most("delay", self.delay, DURATION_MAX)?;
        self.jitter.validate()?;
        self.loss.validate()?;
        self.queue.validate()?;
        if !(MTU_MIN_BYTES..=MTU_MAX_BYTES).contains(&self.mtu_bytes) {
            return Err(ConfigError::Mtu {
                value: self.mtu_bytes,
            });
        }
        let mut free_from = Duration::ZERO;
        for (index, &Outage { from, to }) in self.outages.iter().enumerate() {
            at_most("outage", to, OUTAGE_MAX)?;
            let touches = index > 0 && from <= free_from;
            if touches || to <= from {
                return Err(ConfigError::Outage { from, to });
            }
            free_from = to;
        }
        Ok(())
    }
}

/// Rejects a duration above `most`.
pub(crate) fn at_most(
    field: &'static str,
    value: Duration,
    most: Duration,
) -> Result<(), ConfigError> {
    if value > most {
        return Err(ConfigError::TooLong { field, value, most });
    }
    Ok(())
}

/// Rejects a value that is not a probability.
pub(crate) fn probability(field: &'static str, value: f64) -> Result<(), ConfigError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(ConfigError::Probability { field, value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rate;

    fn outages(list: &[(u64, u64)]) -> Result<(), ConfigError> {
        let outages = list.iter().map(|&(from, to)| Outage {
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        });
        Config {
            outages: outages.collect(),
            ..Config::default()
        }
        .validate()
    }

    #[test]
    fn outages_must_be_in_order() {
        assert_eq!(outages(&[(0, 1), (2, 3)]), Ok(()));
        assert!(outages(&[(2, 3), (0, 1)]).is_err());
        assert!(outages(&[(0, 2), (1, 3)]).is_err());
        assert!(outages(&[(0, 2), (2, 3)]).is_err());
        assert!(outages(&[(2, 2)]).is_err());
    }

    #[test]
    fn a_refusal_names_field_value_and_range() {
        let config = Config {
            rate: RateSource::Constant(Rate::ZERO),
            ..Config::default()
        };
        let text = config.validate().unwrap_err().to_string();
        assert!(
            text.contains("0 bit/s") && text.contains("1000 bit/s"),
            "{text}"
        );
        let config = Config {
            mtu_bytes: 20,
            ..Config::default()
        };
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains("20") && text.contains("68"), "{text}");
    }
}

//! Limits of the values in a config, and the error of a value beyond them.

use std::time::Duration;

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
/// The maximum number of on–off sources of one aggregate.
pub const ON_OFF_MAX: u32 = 10_000;
/// The largest shape of a Pareto distribution that a config accepts; from 2 on, the tail is no longer heavy.
pub const SHAPE_MAX: f64 = 10.0;

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
    #[error("{value} on-off sources; give 1 to {ON_OFF_MAX}")]
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
    #[error("the shape is {value}; give a number above 1, at most {SHAPE_MAX}")]
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

//! Configuration of a relay: the capacity it offers.

use std::time::Duration;

use anabranch_base::{NodeId, Rate};

/// Quota of one source at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most circuits at a time.
    pub circuits: u32,
    /// UDP payload of all its circuits, both directions together.
    pub rate: Rate,
    /// Bytes of UDP payload in one period, both directions together.
    pub bytes_per_period: u64,
}

impl Default for Quota {
    /// Defaults for a handful of sites that trust each other: enough for a link between any two, and unlimited data;
    /// the limit is the relay's capacity.
    fn default() -> Self {
        Self {
            circuits: 64,
            rate: Rate::from_mbps(1_000),
            bytes_per_period: u64::MAX,
        }
    }
}

/// Configuration of a relay.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The relay itself.
    pub node: NodeId,
    /// UDP payload that it can forward, all circuits and both directions together.
    pub capacity: Rate,
    /// Number of times that the capacity may be granted; at least 1. Sources rarely use all of their grants at the same
    /// time.
    pub overbooking: f64,
    /// Most circuits at a time, of all sources.
    pub circuits_max: usize,
    /// Most ports at a time. Circuits share a port unless two peers have the same address, so this is approximately the
    /// number of circuits of which one peer can be an end.
    pub ports_max: usize,
    /// Longest lifetime of a circuit without a refresh.
    pub lifetime_max: Duration,
    /// Least rate that is granted.
    pub rate_min: Rate,
    /// The bucket of a circuit or a source holds what its rate adds in this time, and at least 64 KiB.
    pub burst: Duration,
    /// Most bytes that go to a next hop before it has answered.
    pub unanswered_bytes_max: u64,
    /// Quota of a source for which no other was set.
    pub quota: Quota,
    /// Period over which [`Quota::bytes_per_period`] is counted.
    pub period: Duration,
}

impl Config {
    /// Defaults for a relay in a data centre: 1 Gbit/s granted up to twice, 16,384 circuits on up to 1,024
    /// ports, which live for 60 s.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            capacity: Rate::from_mbps(1_000),
            overbooking: 2.0,
            circuits_max: 16_384,
            ports_max: 1_024,
            lifetime_max: Duration::from_secs(60),
            rate_min: Rate::from_kbps(64),
            burst: Duration::from_millis(100),
            // Enough for a handshake with its repetitions, but no flood at a host that never asked for it.
            unanswered_bytes_max: 64 << 10,
            quota: Quota::default(),
            period: Duration::from_secs(24 * 3600),
        }
    }

    /// # Errors
    /// A value is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let in_range = [
            (
                self.capacity >= self.rate_min,
                "capacity",
                "at least rate_min",
            ),
            (
                (1.0..=1000.0).contains(&self.overbooking),
                "overbooking",
                "1 to 1000",
            ),
            (
                (1..=1 << 20).contains(&self.circuits_max),
                "circuits_max",
                "1 to 1,048,576",
            ),
            (
                (1..=1 << 15).contains(&self.ports_max),
                "ports_max",
                "1 to 32,768",
            ),
            (
                (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.lifetime_max),
                "lifetime_max",
                "1 s to 1 h",
            ),
            (
                self.rate_min >= Rate::from_kbps(1),
                "rate_min",
                "at least 1 kbit/s",
            ),
            (
                self.burst <= Duration::from_secs(10),
                "burst",
                "at most 10 s",
            ),
            (
                self.unanswered_bytes_max >= 1_500,
                "unanswered_bytes_max",
                "at least 1,500",
            ),
            (
                self.period >= Duration::from_secs(1),
                "period",
                "at least 1 s",
            ),
        ];
        match in_range.into_iter().find(|(is_fine, ..)| !is_fine) {
            Some((_, field, range)) => Err(ConfigError { field, range }),
            None => Ok(()),
        }
    }

    /// Bytes in the bucket of a circuit or source with this rate.
    pub(super) fn burst_bytes(&self, rate: Rate) -> u64 {
        rate.bytes_in(self.burst).max(64 << 10)
    }
}

/// A value is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("relay: {field} must be {range}")]
pub struct ConfigError {
    field: &'static str,
    range: &'static str,
}

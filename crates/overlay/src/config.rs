//! Configuration of the overlay.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{NodeId, Rate};

use crate::wire::record::ADDRESSES_MAX;

/// Largest overlay.
pub const MEMBERS_MAX: usize = 4_096;

/// One entry of the configured list. No other node is ever admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Addresses from the list; dialled before those that the node publishes itself.
    pub addresses: Vec<SocketAddr>,
}

/// Settings of an agent; the defaults suit some fifty nodes across the Internet.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Members asked first when no member is known to live; any when empty.
    pub seeds: Vec<NodeId>,
    /// Addresses of this node, if the lists of others may be wrong; at most four.
    pub addresses: Vec<SocketAddr>,
    /// First version of this node's record. Seconds since a fixed date are suitable; 0 works, too, because the node
    /// learns its last version from others.
    pub version: u64,
    /// Interval at which a node sends heartbeats to its monitors. 0.1 to 60 s.
    pub heartbeat: Duration,
    /// Silence after which a monitor accuses; at least two heartbeats.
    pub suspect_after: Duration,
    /// Time in which an accused node can answer before it counts as down.
    pub down_after: Duration,
    /// Interval at which a node publishes its record without a change, in overlays of up to fifty nodes; in larger ones
    /// it is longer in proportion, so that the traffic per node stays constant.
    pub refresh: Duration,
    /// Estimates older than this are not used, in overlays of up to fifty nodes.
    pub age_max: Duration,
    /// Relative change of a link's estimate that causes a new record.
    pub change: f64,
    /// Measuring.
    pub probing: Probing,
    /// Choosing paths.
    pub routing: Routing,
}

/// Measurement of links.
#[derive(Debug, Clone, PartialEq)]
pub struct Probing {
    /// Most links measured at a time, 1 to 32.
    pub links: usize,
    /// Share of a link's rate that probes may take, above 0 and at most 0.5.
    pub share: f64,
    /// Bytes of probes in an hour, over all links.
    pub bytes_per_hour: u64,
    /// Smallest and largest message, in bytes; the largest at most 8 MiB.
    pub bytes_min: u64,
    /// See `bytes_min`.
    pub bytes_max: u64,
    /// Interval at which a new allocation of the budget is planned.
    pub plan: Duration,
    /// Messages behind an estimate, 5 to 512.
    pub memory: usize,
}

/// Choice of paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// Most paths of one message beside the direct link, 1 to 8.
    pub paths: usize,
    /// Most links of a path, 1 to 8.
    pub hops: usize,
    /// Fraction by which a new set of paths must be quicker than the one in use.
    pub gain: f64,
    /// Time for which it must have been quicker.
    pub hold: Duration,
    /// The rate that this node relays for others; `None`: it does not relay.
    pub relays: Option<Rate>,
    /// Time for which a path or link that failed is left out, at first; doubles with every failure.
    pub penalty: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            addresses: Vec::new(),
            version: 0,
            heartbeat: Duration::from_secs(1),
            suspect_after: Duration::from_millis(3_500),
            down_after: Duration::from_secs(4),
            refresh: Duration::from_secs(120),
            age_max: Duration::from_secs(900),
            change: 0.25,
            probing: Probing::default(),
            routing: Routing::default(),
        }
    }
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            links: 8,
            share: 0.02,
            bytes_per_hour: 200_000_000,
            bytes_min: 1_000,
            bytes_max: 1_000_000,
            plan: Duration::from_secs(30),
            memory: 48,
        }
    }
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            paths: 4,
            hops: 3,
            gain: 0.15,
            hold: Duration::from_secs(8),
            relays: None,
            penalty: Duration::from_secs(10),
        }
    }
}

/// Invalid configuration of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting is outside its range.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// The field.
        field: &'static str,
        /// The value.
        value: String,
        /// Its valid range.
        range: &'static str,
    },
    /// The keys of two members have the same first six bytes.
    #[error("members {0} and {1} have the same first six bytes; one of them needs a new key")]
    Alike(Box<NodeId>, Box<NodeId>),
}

impl Config {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first one that is outside its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let s = |time: Duration| time.as_secs_f64();
        let (probing, routing) = (&self.probing, &self.routing);
        within("heartbeat", s(self.heartbeat), 0.1, 60.0, "0.1 s to 60 s")?;
        let beats = s(self.suspect_after) / s(self.heartbeat);
        within("suspect_after", beats, 2.0, 100.0, "2 to 100 heartbeats")?;
        within(
            "down_after",
            s(self.down_after),
            0.1,
            600.0,
            "0.1 s to 600 s",
        )?;
        within("refresh", s(self.refresh), 5.0, 3600.0, "5 s to 3600 s")?;
        within("age_max", s(self.age_max), 10.0, 86_400.0, "10 s to a day")?;
        within("change", self.change, 0.01, 1.0, "0.01 to 1")?;
        within(
            "addresses",
            self.addresses.len() as f64,
            0.0,
            ADDRESSES_MAX as f64,
            "at most 4",
        )?;
        within("probing.links", probing.links as f64, 1.0, 32.0, "1 to 32")?;
        within(
            "probing.share",
            probing.share,
            1e-6,
            0.5,
            "above 0 and at most 0.5",
        )?;
        within(
            "probing.bytes_min",
            probing.bytes_min as f64,
            16.0,
            1e6,
            "16 to 1,000,000 bytes",
        )?;
        let most = probing.bytes_max as f64;
        within(
            "probing.bytes_max",
            most,
            2.0 * probing.bytes_min as f64,
            8_388_608.0,
            "twice bytes_min to 8 MiB",
        )?;
        within(
            "probing.plan",
            s(probing.plan),
            1.0,
            3600.0,
            "1 s to an hour",
        )?;
        within(
            "probing.memory",
            probing.memory as f64,
            5.0,
            512.0,
            "5 to 512 messages",
        )?;
        within("routing.paths", routing.paths as f64, 1.0, 8.0, "1 to 8")?;
        within("routing.hops", routing.hops as f64, 1.0, 8.0, "1 to 8")?;
        within("routing.gain", routing.gain, 0.0, 1.0, "0 to 1")?;
        within(
            "routing.penalty",
            s(routing.penalty),
            1.0,
            3600.0,
            "1 s to an hour",
        )
    }
}

fn within(
    field: &'static str,
    value: f64,
    least: f64,
    most: f64,
    range: &'static str,
) -> Result<(), ConfigError> {
    // NaN is in no range.
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::Range {
        field,
        value: value.to_string(),
        range,
    })
}

//! Configuration of one direction of a link.

use std::time::Duration;

pub use crate::limits::{
    ConfigError, DURATION_MAX, MTU_MAX_BYTES, MTU_MIN_BYTES, OUTAGE_MAX, PACKET_MIN_BYTES,
};
use crate::{Jitter, Loss, Queue, RateSource, limits::at_most};

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

//! Both directions of a link.

use anabranch_base::{Instant, Seed};

use crate::{Config, ConfigError, Link};

/// The configs of both directions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configs {
    /// From the first end (A) to the second (B).
    pub forward: Config,
    /// From B to A.
    pub backward: Config,
}

/// Two links, one in each direction, with independent queues and randomness.
#[derive(Debug, Clone)]
pub struct Duplex {
    /// From the first end (A) to the second (B).
    pub forward: Link,
    /// From B to A.
    pub backward: Link,
}

impl Configs {
    /// The same in both directions.
    pub fn symmetric(config: Config) -> Self {
        Self {
            forward: config.clone(),
            backward: config,
        }
    }
}

impl Duplex {
    /// Both directions, up and empty. Each has a separate seed, derived from `seed`.
    ///
    /// # Errors
    /// One of the configs has a value outside its range.
    pub fn new(configs: Configs, seed: Seed) -> Result<Self, ConfigError> {
        Ok(Self {
            forward: Link::new(configs.forward, seed.child("forward"))?,
            backward: Link::new(configs.backward, seed.child("backward"))?,
        })
    }

    /// The same config in both directions, with independent randomness.
    ///
    /// # Errors
    /// The config has a value outside its range.
    pub fn symmetric(config: Config, seed: Seed) -> Result<Self, ConfigError> {
        Self::new(Configs::symmetric(config), seed)
    }

    /// Changes both directions, see [`Link::set_config`].
    ///
    /// # Errors
    /// One of the configs has a value outside its range; both directions stay unchanged.
    pub fn set_configs(&mut self, now: Instant, configs: &Configs) -> Result<(), ConfigError> {
        configs.backward.validate()?;
        self.forward.set_config(now, &configs.forward)?;
        self.backward.set_config(now, &configs.backward)
    }

    /// Switches both directions on or off, see [`Link::set_up`].
    pub fn set_up(&mut self, now: Instant, up: bool) {
        self.forward.set_up(now, up);
        self.backward.set_up(now, up);
    }

    /// True if both directions are up.
    pub fn is_up(&self, now: Instant) -> bool {
        self.forward.is_up(now) && self.backward.is_up(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loss, Verdict};

    #[test]
    fn directions_do_not_share_randomness() {
        let config = Config {
            loss: Loss::random(0.5).unwrap(),
            ..Config::default()
        };
        let mut duplex = Duplex::symmetric(config, Seed(1)).unwrap();
        let outcomes = |link: &mut Link| -> Vec<bool> {
            let offer = |_| matches!(link.offer(Instant::EPOCH, 100, false), Verdict::Drop(_));
            (0..64).map(offer).collect()
        };
        assert_ne!(
            outcomes(&mut duplex.forward),
            outcomes(&mut duplex.backward)
        );
    }

    #[test]
    fn both_directions_change_or_none() {
        let with = |delay_s| Config {
            delay: std::time::Duration::from_secs(delay_s),
            ..Config::default()
        };
        let mut duplex = Duplex::symmetric(with(1), Seed(1)).unwrap();
        let bad = Configs {
            forward: with(2),
            backward: with(1_000_000),
        };
        assert!(duplex.set_configs(Instant::EPOCH, &bad).is_err());
        assert_eq!(duplex.forward.config(), &with(1));
        let good = Configs {
            forward: with(2),
            backward: with(3),
        };
        duplex.set_configs(Instant::EPOCH, &good).unwrap();
        assert_eq!(
            (duplex.forward.config(), duplex.backward.config()),
            (&with(2), &with(3))
        );
    }

    #[test]
    fn both_directions_go_down_together() {
        let mut duplex = Duplex::symmetric(Config::default(), Seed(1)).unwrap();
        duplex.set_up(Instant::EPOCH, false);
        assert!(!duplex.forward.is_up(Instant::EPOCH));
        assert!(!duplex.is_up(Instant::EPOCH));
        duplex.set_up(Instant::EPOCH, true);
        assert!(duplex.is_up(Instant::EPOCH));
    }
}

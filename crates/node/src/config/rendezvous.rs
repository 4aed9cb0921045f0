//! The rendezvous that a node serves, in the text form of the configuration.

use std::{net::IpAddr, ops::RangeInclusive};

use anabranch_base::Rate;
use anabranch_net::{
    Host,
    relay::{Quota, Relay, RelayConfig, RelayError},
};
use serde::{Deserialize, Serialize};

use super::{ConfigError, Relaying, overlay::range, parsed, set, size};

/// Rate of all circuits, unless set.
const RATE: Rate = Rate::from_mbps(100);
/// Bytes that are relayed for one node in a day, unless set.
const PER_DAY_BYTES: u64 = 10_000_000_000;
/// Circuits of one node at a time.
const CIRCUITS: u32 = 4;

/// A rendezvous, as texts with units.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RendezvousLayer {
    /// True if every node may use it.
    pub strangers: bool,
    /// Rate of all that is relayed.
    pub rate: Option<String>,
    /// Limit on what is relayed for one node per day.
    pub per_day: Option<String>,
    /// UDP ports of circuits, `FIRST-LAST`.
    pub ports: Option<String>,
    /// Address of the node as others see it, if different.
    pub public: Option<String>,
}

/// The rendezvous that a node serves; checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RendezvousConfig {
    /// True if every node may use it.
    pub strangers: bool,
    /// Rate of all that is relayed.
    pub rate: Rate,
    /// Limit on what is relayed for one node per day.
    pub per_day_bytes: u64,
    /// UDP ports of circuits; `None`: any.
    pub ports: Option<RangeInclusive<u16>>,
    /// The node's address as others see it, if different from its own.
    pub public: Option<IpAddr>,
}

impl RendezvousLayer {
    pub(super) fn resolve(&self) -> Result<RendezvousConfig, ConfigError> {
        let mut config = RendezvousConfig {
            strangers: self.strangers,
            rate: RATE,
            per_day_bytes: PER_DAY_BYTES,
            ports: None,
            public: None,
        };
        set(&mut config.rate, "rendezvous.rate", &self.rate, parsed)?;
        set(
            &mut config.per_day_bytes,
            "rendezvous.per_day",
            &self.per_day,
            size,
        )?;
        set(&mut config.ports, "rendezvous.ports", &self.ports, |text| {
            range(text).map(Some)
        })?;
        set(
            &mut config.public,
            "rendezvous.public",
            &self.public,
            |text| parsed(text).map(Some),
        )?;
        Ok(config)
    }
}

impl RendezvousConfig {
    /// True if both have the same settings for the relay.
    pub(crate) fn has_relay_of(&self, other: &Self) -> bool {
        let strangers = self.strangers;
        *self
            == Self {
                strangers,
                ..other.clone()
            }
    }

    /// Starts the relay of its circuits, on the addresses of the host.
    pub(crate) fn start(&self, host: &Host) -> Result<Relay, RelayError> {
        Relay::start(self.relay(host))
    }

    /// Configuration of that relay.
    pub(crate) fn relay(&self, host: &Host) -> RelayConfig {
        let relaying = Relaying {
            capacity: self.rate,
            ports: self.ports.clone(),
            public: self.public,
            quotas: Default::default(),
        };
        let mut config = relaying.config(host);
        config.circuits.quota = Quota {
            circuits: CIRCUITS,
            rate: self.rate,
            bytes_per_period: self.per_day_bytes,
        };
        config
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Layer;

    fn resolve(text: &str) -> Result<crate::config::NodeConfig, String> {
        let layer = Layer::from_toml(text).map_err(|error| error.to_string())?;
        let config = layer.resolve(|name| (name == "HOME").then(|| "/home/ada".to_owned()));
        config.map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_makes_a_rendezvous() {
        assert_eq!(resolve("").unwrap().rendezvous, None);
        let usual = resolve("[rendezvous]\n").unwrap().rendezvous.unwrap();
        assert!(!usual.strangers);
        assert_eq!(usual.per_day_bytes, super::PER_DAY_BYTES);
        let text = "[rendezvous]\nstrangers = true\nrate = \"20 Mbit/s\"\nper_day = \"1 GB\"\nports = \"5000-5009\"\npublic = \"198.51.100.7\"\n";
        let set = resolve(text).unwrap().rendezvous.unwrap();
        assert!(set.strangers);
        assert_eq!(set.rate, super::Rate::from_mbps(20));
        assert_eq!(set.per_day_bytes, 1_000_000_000);
        assert_eq!(set.ports, Some(5000..=5009));
        assert_eq!(set.public, Some([198, 51, 100, 7].into()));
    }

    #[test]
    fn every_fault_is_named() {
        for (text, word) in [
            ("rate = \"fast\"", "rendezvous.rate"),
            ("per_day = \"-1\"", "rendezvous.per_day"),
            ("ports = \"9-5\"", "the first port and the last"),
            ("public = \"here\"", "rendezvous.public"),
            ("guests = 3", "guests"),
        ] {
            let error = resolve(&format!("[rendezvous]\n{text}\n")).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let node = anabranch_base::NodeId::from_public_key([1; 32]);
        let peer =
            format!("[[peer]]\nname = \"ada\"\nnode = \"{node}\"\nmay = [\"use-rendezvous\"]\n");
        assert!(resolve(&peer).unwrap_err().contains("[rendezvous]"));
        assert!(resolve(&format!("{peer}[rendezvous]\n")).is_ok());
    }
}

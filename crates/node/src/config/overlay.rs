//! The overlay, in the text form of the configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::RangeInclusive,
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::{
    Host, HostAddress, Remotes,
    relay::{Quota, Relay, RelayConfig, RelayError},
};
use anabranch_overlay::{ADDRESSES_MAX, Config};
use serde::{Deserialize, Serialize};

use super::{ConfigError, missing, node, parsed, percent, refused, set, size};

/// A member, as configured by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name for display.
    pub name: String,
    /// Addresses at which it can be reached.
    pub addresses: Vec<SocketAddr>,
    /// Names of hosts at which it can be reached, resolved whenever it is dialled.
    pub hosts: Vec<HostAddress>,
}

/// A member of the overlay, as texts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemberLayer {
    /// Name for display.
    pub name: String,
    /// Its id.
    pub node: String,
    /// Its addresses, `IP:PORT` or `HOST:PORT`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Rights here beside membership.
    #[serde(default)]
    pub may: Vec<super::GrantLayer>,
    /// Rate limit on all that this node relays for it.
    pub relay_rate: Option<String>,
    /// Circuits that it may have here at a time.
    pub relay_circuits: Option<u32>,
    /// Limit on what this node relays for it per day.
    pub relay_per_day: Option<String>,
}

impl MemberLayer {
    /// Quota of the member, if it differs from the default.
    fn quota(&self) -> Result<Option<Quota>, ConfigError> {
        let usual = Quota::default();
        let mut quota = usual;
        let rate = &mut quota.rate;
        set(rate, "overlay.member.relay_rate", &self.relay_rate, parsed)?;
        let bytes = &mut quota.bytes_per_period;
        set(
            bytes,
            "overlay.member.relay_per_day",
            &self.relay_per_day,
            size,
        )?;
        quota.circuits = self.relay_circuits.unwrap_or(quota.circuits);
        Ok((quota != usual).then_some(quota))
    }
}

/// The overlay that the node takes part in, as texts with units.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverlayLayer {
    /// Its members.
    pub member: Option<Vec<MemberLayer>>,
    /// Total rate that this node relays for others.
    pub relay: Option<String>,
    /// UDP ports of its circuits, `FIRST-LAST`.
    pub relay_ports: Option<String>,
    /// Address of the node as others see it, if different.
    pub relay_public: Option<String>,
    /// Names of the members asked first.
    pub seeds: Option<Vec<String>>,
    /// Addresses at which others reach this node, `IP:PORT` or `HOST:PORT`.
    pub addresses: Option<Vec<String>>,
    /// Share of a link that test messages may take.
    pub probes: Option<String>,
    /// Test messages in an hour, over all links.
    pub probes_per_hour: Option<String>,
    /// Limit on the paths to one node, beside the direct link.
    pub paths: Option<u8>,
    /// Limit on the links of a path.
    pub hops: Option<u8>,
}

/// The overlay that the node takes part in; checked.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayConfig {
    /// The members.
    pub sites: BTreeMap<NodeId, Site>,
    /// Configuration of the overlay agent.
    pub agent: Config,
    /// Names of hosts at which others reach this node, beside the addresses of the agent; resolved while the node runs.
    pub hosts: Vec<HostAddress>,
    /// Relay settings; `None`: nothing is relayed.
    pub relay: Option<Relaying>,
}

/// Settings for relaying on behalf of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relaying {
    /// Capacity of all circuits together.
    pub capacity: Rate,
    /// UDP ports of circuits; `None`: any.
    pub ports: Option<RangeInclusive<u16>>,
    /// The node's address as others see it, if different from its own.
    pub public: Option<IpAddr>,
    /// Quotas of members that are given more or less than the default.
    pub quotas: BTreeMap<NodeId, Quota>,
}

impl Relaying {
    /// Starts the relay, on the addresses of the host.
    pub(crate) fn start(self, host: &Host) -> Result<Relay, RelayError> {
        let relay = Relay::start(self.config(host))?;
        for (node, quota) in self.quotas {
            relay.set_quota(node, quota);
        }
        Ok(relay)
    }

    /// Configuration of the relay on the addresses of the host, without quotas of members.
    pub(crate) fn config(&self, host: &Host) -> RelayConfig {
        let own: BTreeSet<IpAddr> = host.addresses().iter().map(SocketAddr::ip).collect();
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = own.iter().partition(|ip| ip.is_ipv4());
        // One of several addresses may reach the source and another one the next hop.
        let of = |ips: &[IpAddr], all: IpAddr| match ips {
            [] => None,
            [only] => Some(*only),
            _ => Some(all),
        };
        let addresses = [
            of(&v4, Ipv4Addr::UNSPECIFIED.into()),
            of(&v6, Ipv6Addr::UNSPECIFIED.into()),
        ];
        let mut config = RelayConfig::new(host.node_id(), addresses.into_iter().flatten());
        config.circuits.capacity = self.capacity;
        config.ports.clone_from(&self.ports);
        config.public = self.public.into_iter().collect();
        config.clock = Some(host.clock());
        config.mark = host.mark();
        config
    }
}

impl OverlayLayer {
    /// This layer, with keys that it does not contain taken from `below`.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            member: self.member.or(below.member),
            relay: self.relay.or(below.relay),
            relay_ports: self.relay_ports.or(below.relay_ports),
            relay_public: self.relay_public.or(below.relay_public),
            seeds: self.seeds.or(below.seeds),
            addresses: self.addresses.or(below.addresses),
            probes: self.probes.or(below.probes),
            probes_per_hour: self.probes_per_hour.or(below.probes_per_hour),
            paths: self.paths.or(below.paths),
            hops: self.hops.or(below.hops),
        }
    }

    /// `None` if there are no members, and no other key of an overlay.
    pub(super) fn resolve(&self) -> Result<Option<OverlayConfig>, ConfigError> {
        let Some(members) = self.member.as_ref().filter(|members| !members.is_empty()) else {
            if *self == Self::default() {
                return Ok(None);
            }
            let reason = "an overlay needs members: add a section [[overlay.member]] for each";
            return Err(missing("overlay.member", reason));
        };
        let (mut sites, mut quotas) = (BTreeMap::new(), BTreeMap::new());
        for member in members {
            let id = node("overlay.member.node", &member.node)?;
            let remotes = remotes("overlay.member.addresses", &member.addresses)?;
            let site = Site {
                name: member.name.clone(),
                addresses: remotes.addresses,
                hosts: remotes.hosts,
            };
            if member.name.is_empty() || sites.values().any(|other: &Site| other.name == site.name)
            {
                let reason = "give every member a name of its own";
                return Err(refused("overlay.member.name", &member.name, reason));
            }
            if sites.insert(id, site).is_some() {
                let reason = "this id is listed twice";
                return Err(refused("overlay.member.node", &member.node, reason));
            }
            if let Some(quota) = member.quota()? {
                if self.relay.is_none() {
                    let reason = "this node relays nothing; specify how much in [overlay] relay";
                    return Err(refused("overlay.member.name", &member.name, reason));
                }
                quotas.insert(id, quota);
            }
        }
        let mut agent = Config::default();
        for name in self.seeds.iter().flatten() {
            let found = sites.iter().find(|(_, site)| site.name == *name);
            let reason = "no member has this name";
            let (id, _) = found.ok_or_else(|| refused("overlay.seeds", name, reason))?;
            agent.seeds.push(*id);
        }
        let own = self.addresses.as_deref().unwrap_or_default();
        let own = remotes("overlay.addresses", own)?;
        if own.len() > ADDRESSES_MAX {
            let reason = format!("give at most {ADDRESSES_MAX}");
            return Err(refused("overlay.addresses", "these", reason));
        }
        agent.addresses = own.addresses;
        set(
            &mut agent.probing.share,
            "overlay.probes",
            &self.probes,
            percent,
        )?;
        let per_hour = &mut agent.probing.bytes_per_hour;
        set(
            per_hour,
            "overlay.probes_per_hour",
            &self.probes_per_hour,
            size,
        )?;
        agent.routing.paths = self.paths.map_or(agent.routing.paths, usize::from);
        agent.routing.hops = self.hops.map_or(agent.routing.hops, usize::from);
        set(
            &mut agent.routing.relays,
            "overlay.relay",
            &self.relay,
            |text| parsed(text).map(Some),
        )?;
        agent
            .check()
            .map_err(|error| refused("overlay", "these values", error.to_string()))?;
        let mut ports = None;
        set(
            &mut ports,
            "overlay.relay_ports",
            &self.relay_ports,
            |text| range(text).map(Some),
        )?;
        let mut public = None;
        set(
            &mut public,
            "overlay.relay_public",
            &self.relay_public,
            |text| parsed(text).map(Some),
        )?;
        let relay = agent.routing.relays.map(|capacity| Relaying {
            capacity,
            ports,
            public,
            quotas,
        });
        Ok(Some(OverlayConfig {
            relay,
            sites,
            agent,
            hosts: own.hosts,
        }))
    }
}

/// Parses a port range such as `40000-40063`.
pub(super) fn range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || "write the first port and the last, such as 40000-40063".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|&port| port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(wrong()),
    }
}

fn remotes(key: &str, texts: &[String]) -> Result<Remotes, ConfigError> {
    let mut remotes = Remotes::default();
    for text in texts {
        let added = remotes.add(text);
        added.map_err(|error| refused(key, text, error.to_string()))?;
    }
    Ok(remotes)
}

#[cfg(test)]
mod tests {
    use anabranch_session::SecretKey;

    use super::*;
    use crate::config::Layer;

    fn member(name: &str, key: u8, more: &str) -> String {
        let node = SecretKey::from_seed([key; 32]).node_id();
        format!("[[overlay.member]]\nname = \"{name}\"\nnode = \"{node}\"\n{more}\n")
    }

    fn resolve(text: &str) -> Result<Option<OverlayConfig>, String> {
        let layer = Layer::from_toml(text).map_err(|error| error.to_string())?;
        let config = layer
            .resolve(|name| (name == "HOME").then(|| "/home/ada".to_owned()))
            .map_err(|error| error.to_string())?;
        Ok(config.overlay)
    }

    #[test]
    fn a_member_has_a_quota_of_its_own() {
        let text = "[overlay]\nrelay = \"100 Mbit/s\"\nrelay_ports = \"40000-40003\"\n".to_owned()
            + &member(
                "studio",
                1,
                "may = [\"use-relay\"]\nrelay_rate = \"20 Mbit/s\"\nrelay_circuits = 8\nrelay_per_day = \"50 GB\"",
            )
            + &member("van", 2, "");
        let relay = resolve(&text).unwrap().unwrap().relay.unwrap();
        assert_eq!(relay.ports, Some(40_000..=40_003));
        let studio = SecretKey::from_seed([1; 32]).node_id();
        let quota = Quota {
            circuits: 8,
            rate: Rate::from_mbps(20),
            bytes_per_period: 50_000_000_000,
        };
        assert_eq!(relay.quotas, BTreeMap::from([(studio, quota)]));
    }

    #[test]
    fn the_nodes_own_addresses_may_be_names() {
        let own = "[overlay]\naddresses = [\"192.0.2.1:4433\", \"van.example:4433\"]\n";
        let config = resolve(&(own.to_owned() + &member("studio", 1, "")));
        let config = config.unwrap().unwrap();
        assert_eq!(config.agent.addresses, ["192.0.2.1:4433".parse().unwrap()]);
        assert_eq!(config.hosts, ["van.example:4433".parse().unwrap()]);
    }

    #[test]
    fn every_fault_is_named() {
        let studio = member("studio", 1, "");
        let cases = [
            (
                "[overlay]\nrelay = \"1 Mbit/s\"\n".to_owned(),
                "needs members",
            ),
            (
                studio.clone() + &member("studio", 2, ""),
                "a name of its own",
            ),
            (member("", 1, ""), "a name of its own"),
            (studio.clone() + &member("van", 1, ""), "listed twice"),
            (
                studio.clone().replace("node = \"", "node = \"x"),
                "overlay.member.node",
            ),
            (
                member("studio", 1, "addresses = [\"studio.example\"]"),
                "overlay.member.addresses",
            ),
            (
                "[overlay]\naddresses = [\"studio.example\"]\n".to_owned() + &studio,
                "overlay.addresses",
            ),
            (
                "[overlay]\naddresses = [\"a.example:1\", \"a.example:2\", \"192.0.2.1:3\", \"a.example:4\", \"a.example:5\"]\n".to_owned()
                    + &studio,
                "at most 4",
            ),
            (
                member("studio", 1, "relay_circuits = 8"),
                "this node relays nothing",
            ),
            (
                "[overlay]\nrelay = \"1 Mbit/s\"\n".to_owned()
                    + &member("studio", 1, "relay_rate = \"fast\""),
                "relay_rate",
            ),
            (
                "[overlay]\nseeds = [\"van\"]\n".to_owned() + &studio,
                "no member has this name",
            ),
            (
                "[overlay]\nrelay = \"lots\"\n".to_owned() + &studio,
                "overlay.relay",
            ),
            (
                "[overlay]\nrelay_ports = \"50-40\"\n".to_owned() + &studio,
                "the first port and the last",
            ),
            (
                "[overlay]\nrelay_ports = \"0-40\"\n".to_owned() + &studio,
                "the first port and the last",
            ),
            (
                "[overlay]\nrelay_public = \"here\"\n".to_owned() + &studio,
                "overlay.relay_public",
            ),
            ("[overlay]\nhops = 9\n".to_owned() + &studio, "1 to 8"),
            ("[overlay]\npaths = 0\n".to_owned() + &studio, "1 to 8"),
            (
                "[overlay]\nprobes = \"90 %\"\n".to_owned() + &studio,
                "probing.share",
            ),
            (
                "[overlay]\nprobes_per_hour = \"-1\"\n".to_owned() + &studio,
                "overlay.probes_per_hour",
            ),
            ("[overlay]\nroute = 1\n".to_owned() + &studio, "route"),
        ];
        for (text, reason) in cases {
            let error = resolve(&text).expect_err(&text);
            assert!(
                error.contains(reason),
                "{text}\n{error}\nshould say {reason}"
            );
        }
    }
}

//! Rules from their texts.

use anabranch::{
    Share,
    base::{NodeId, Rate},
    config::{ConfigError, MatchLayer, PortsLayer, RuleLayer},
};

use super::{
    Action, Limits, Rule, Table,
    matching::{Address, Matching, Protocol, Wanted},
};
use crate::{
    endpoint::{Endpoint, port_number},
    service::Services,
};

/// Longest name of a rule, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {number}: {error}")]
pub struct RulesError {
    /// Its number, from 1 on, in the order of the file.
    pub number: usize,
    /// The value that is refused.
    #[source]
    pub error: ConfigError,
}

fn refused(key: &str, value: &dyn ToString, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_string(),
        reason: reason.into(),
    }
}

impl Table {
    /// Reads rules. `peer` finds a peer by its name or ID; its error explains why there is none.
    ///
    /// # Errors
    /// The first rule that is refused.
    pub fn read(
        layers: &[RuleLayer],
        peer: impl Fn(&str) -> Result<NodeId, String>,
    ) -> Result<Self, RulesError> {
        let mut table = Self::default();
        for (number, layer) in (1..).zip(layers) {
            let name = layer.name.clone().unwrap_or_else(|| number.to_string());
            let rule = rule(layer, &name, &peer);
            let rule = rule.map_err(|error| RulesError { number, error })?;
            if table.rules.iter().any(|other| other.name == rule.name) {
                let error = refused("name", &name, "another rule has this name");
                return Err(RulesError { number, error });
            }
            table.rules.push(rule.into());
        }
        Ok(table)
    }
}

fn rule(
    layer: &RuleLayer,
    name: &str,
    peer: impl Fn(&str) -> Result<NodeId, String>,
) -> Result<Rule, ConfigError> {
    let is_fine = |text: &str| {
        let count = text.chars().count();
        (1..=NAME_CHARS_MAX).contains(&count) && !text.chars().any(char::is_control)
    };
    if !is_fine(name) {
        let reason = format!("give 1 to {NAME_CHARS_MAX} characters");
        return Err(refused("name", &name, reason));
    }
    let matching = matching(&layer.matches)?;
    let limits = limits(layer)?;
    let is_limited = limits != Limits::default();
    let has_effect = layer.service.is_some() || layer.peer.is_some() || is_limited;
    let action = match (layer.deny, has_effect) {
        (true, true) => {
            let reason =
                "a flow that is refused has no service, no peer and no limits; leave them out";
            return Err(refused("deny", &true, reason));
        }
        (true, false) => Action::Deny,
        (false, false) => {
            return Err(ConfigError::Missing {
                key: "service".to_owned(),
                reason:
                    "give a service, a peer, a limit, or deny = true; service = {} is the preset"
                        .to_owned(),
            });
        }
        (false, true) => {
            let is_udp = match &matching {
                Matching {
                    protocol: Some(protocol),
                    ..
                } => Some(*protocol == Protocol::Udp),
                _ => None,
            };
            let services = match &layer.service {
                None => Services::preset(),
                Some(text) => Services::read(&text.0, is_udp)
                    .map_err(|error| refused("service", &text, error.to_string()))?,
            };
            let find = |name: &String| peer(name).map_err(|reason| refused("peer", &name, reason));
            let peer = layer.peer.as_ref().map(find).transpose()?;
            Action::Carry { services, peer }
        }
    };
    Ok(Rule::new(
        Some(name),
        matching,
        action,
        limits,
        layer.clone(),
    ))
}

fn limits(layer: &RuleLayer) -> Result<Limits, ConfigError> {
    let rate = |key: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match text.parse::<Rate>() {
            Ok(rate) => Ok(Some(rate)),
            Err(error) => Err(refused(key, &text, error.to_string())),
        },
    };
    let share = |text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match text.parse::<Share>() {
            Ok(share) => Ok(Some(share)),
            Err(error) => Err(refused("promised_share_max", &text, error.to_string())),
        },
    };
    let limits = Limits {
        flows: layer.flows_max,
        promised_rate: rate("promised_rate_max", &layer.promised_rate_max)?,
        promised_share: share(&layer.promised_share_max)?,
        rate: rate("rate_max", &layer.rate_max)?,
    };
    let reason = "no flow could send anything; give more, or deny = true";
    if limits.flows == Some(0) {
        return Err(refused("flows_max", &0, reason));
    }
    if let (Some(Rate::ZERO), Some(text)) = (limits.rate, &layer.rate_max) {
        return Err(refused("rate_max", &text, reason));
    }
    Ok(limits)
}

fn matching(layer: &MatchLayer) -> Result<Matching, ConfigError> {
    let protocol = match layer.protocol.as_deref() {
        None => None,
        Some("tcp") => Some(Protocol::Tcp),
        Some("udp") => Some(Protocol::Udp),
        Some("unix") => Some(Protocol::Unix),
        Some(other) => {
            let reason = "give \"tcp\", \"udp\" or \"unix\"";
            return Err(refused("match.protocol", &other, reason));
        }
    };
    let texts = layer.address.as_ref().map_or(&[][..], |texts| texts.all());
    if layer.address.is_some() && texts.is_empty() {
        let reason = "an empty list matches nothing; leave it out for any address";
        return Err(refused("match.address", &"[]", reason));
    }
    let addresses = texts
        .iter()
        .map(|text| address(text))
        .collect::<Result<_, _>>()?;
    let ports = match &layer.port {
        None => None,
        Some(PortsLayer::One(port)) => Some((*port, *port)),
        Some(PortsLayer::Range(text)) => {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let pair = port_number(first).zip(port_number(last));
            Some(pair.unwrap_or((0, 0)))
        }
    };
    if let (Some((first, last)), Some(text)) = (ports, &layer.port)
        && (first == 0 || first > last)
    {
        let reason = "give a port from 1 to 65535, or a range such as \"5004-5010\"";
        return Err(refused("match.port", &text, reason));
    }
    if protocol == Some(Protocol::Unix)
        && let Some(text) = &layer.port
    {
        let reason = "a Unix socket has no port; leave it out";
        return Err(refused("match.port", &text, reason));
    }
    if let Some(dscp) = layer.dscp {
        if dscp > 63 {
            return Err(refused("match.dscp", &dscp, "give a number from 0 to 63"));
        }
        if protocol != Some(Protocol::Udp) {
            let reason = "the system reports it for datagrams only; add protocol = \"udp\"";
            return Err(refused("match.dscp", &dscp, reason));
        }
        known_on_linux("match.dscp", &dscp.to_string())?;
    }
    Ok(Matching {
        addresses,
        ports: ports.map(|(first, last)| first..=last),
        protocol,
        dscp: layer.dscp,
        program: program(layer)?,
    })
}

/// Refuses a key that can be determined on Linux only.
fn known_on_linux(key: &str, value: &str) -> Result<(), ConfigError> {
    match cfg!(target_os = "linux") {
        true => Ok(()),
        false => Err(refused(key, &value, "can be determined on Linux only")),
    }
}

fn address(text: &str) -> Result<Address, ConfigError> {
    let wrong = |reason: String| refused("match.address", &text, reason);
    if let Some(path) = text.strip_prefix("unix:") {
        return match Endpoint::unix(path).map_err(|error| wrong(error.to_string()))? {
            Endpoint::Unix(path) => Ok(Address::Unix(path)),
            Endpoint::Port { .. } => Err(wrong("give the path of a socket".to_owned())),
        };
    }
    let reason = "give a network such as 10.0.0.0/8, an address, a name, *.NAME for all below it, or unix:PATH";
    text.parse()
        .map(Address::Host)
        .map_err(|error| match error {
            anabranch::rights::targets::ParseTargetsError::HostBits(_) => wrong(error.to_string()),
            _ => wrong(reason.to_owned()),
        })
}

fn program(layer: &MatchLayer) -> Result<Option<Wanted>, ConfigError> {
    if let Some(process) = &layer.process {
        known_on_linux("match.process", process)?;
        let name = process.strip_prefix('/').unwrap_or(process);
        let is_path = process.starts_with('/');
        if name.is_empty() || (!is_path && name.contains('/')) {
            let reason =
                "give the file name of an executable, such as \"ffmpeg\", or its absolute path";
            return Err(refused("match.process", &process, reason));
        }
    }
    if let Some(cgroup) = &layer.cgroup {
        known_on_linux("match.cgroup", cgroup)?;
        if !cgroup.starts_with('/') || (cgroup.ends_with('/') && cgroup != "/") {
            let reason =
                "give a path as in /proc/PID/cgroup, such as \"/system.slice/backup.service\"";
            return Err(refused("match.cgroup", &cgroup, reason));
        }
    }
    let is_named = layer.process.is_some() || layer.cgroup.is_some();
    Ok(is_named.then(|| Wanted {
        process: layer.process.clone(),
        cgroup: layer.cgroup.clone(),
    }))
}

//! Rules of the configuration, as texts: the gateway reads them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, refused};
use crate::spec::ServiceText;

/// Most rules of a node.
pub const RULES_MAX: usize = 256;

/// A rule for flows of forwards and of SOCKS.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleLayer {
    /// Name for reports; absent: its number.
    pub name: Option<String>,
    /// The flows that the rule is for; empty: all.
    #[serde(rename = "match")]
    pub matches: MatchLayer,
    /// Service for their data.
    pub service: Option<ServiceText>,
    /// Name or ID of the peer that makes the connections of SOCKS.
    pub peer: Option<String>,
    /// Rate of all promises together that its flows ask for.
    pub promised_rate_max: Option<String>,
    /// Share of what can be promised that all its flows together may have.
    pub promised_share_max: Option<String>,
    /// Rate at which all its flows together may send.
    pub rate_max: Option<String>,
    /// Its flows that are open at a time.
    pub flows_max: Option<u32>,
    /// True if they are refused.
    pub deny: bool,
}

/// The flows that a rule is for: those that have all that is named.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchLayer {
    /// Targets: networks, addresses, names, names below one, or Unix sockets.
    pub address: Option<Texts>,
    /// Ports of the target.
    pub port: Option<PortsLayer>,
    /// `tcp`, `udp` or `unix`: that of the target.
    pub protocol: Option<String>,
    /// Differentiated services code point of the first datagram, 0 to 63.
    pub dscp: Option<u8>,
    /// Control group of the program, or one above it.
    pub cgroup: Option<String>,
    /// Executable of the program: its file name, or its path.
    pub process: Option<String>,
}

/// One text, or several.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "give a text in quotes, or a list of texts")]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Texts {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// A port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "give a port from 1 to 65535, or a range such as \"5004-5010\""
)]
pub enum PortsLayer {
    /// One.
    One(u16),
    /// A range, as text.
    Range(String),
}

impl fmt::Display for PortsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(port) => write!(f, "{port}"),
            Self::Range(text) => f.write_str(text),
        }
    }
}

/// The keys that are set, such as `protocol udp, port 5004`; `any` if there are none.
impl fmt::Display for MatchLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.as_ref().map(|texts| texts.all().join(" or "));
        let named = [
            ("protocol", self.protocol.clone()),
            ("address", address),
            ("port", self.port.as_ref().map(ToString::to_string)),
            ("dscp", self.dscp.map(|dscp| dscp.to_string())),
            ("process", self.process.clone()),
            ("cgroup", self.cgroup.clone()),
        ];
        let parts: Vec<String> = named
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key} {}", value?)))
            .collect();
        match parts.is_empty() {
            true => f.write_str("any"),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

impl Layer {
    /// The rules, not yet read.
    pub(super) fn rules(&self) -> Result<Vec<RuleLayer>, ConfigError> {
        let rules = self.rule.clone().unwrap_or_default();
        if rules.len() > RULES_MAX {
            let count = rules.len().to_string();
            let reason = format!("a node has at most {RULES_MAX} rules");
            return Err(refused("rule", &count, reason));
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RuleLayer, String> {
        let layer = Layer::from_toml(&format!("[[rule]]\n{text}"));
        let layer = layer.map_err(|error| error.to_string())?;
        Ok(layer.rule.unwrap().remove(0))
    }

    #[test]
    fn rules_are_read_and_shown() {
        let rule = read(
            "match = { protocol = \"udp\", port = 5004 }\nservice = { rate = \"6 Mbit/s\", probability = \"99 %\" }",
        )
        .unwrap();
        assert_eq!(rule.matches.port, Some(PortsLayer::One(5004)));
        assert_eq!(rule.matches.to_string(), "protocol udp, port 5004");
        assert!(rule.service.unwrap().0.guarantee.is_some());
        let rule = read(
            "match = { address = [\"10.0.0.0/8\", \"*.internal\"], port = \"1-2\" }\ndeny = true",
        );
        let shown = rule.unwrap().matches.to_string();
        assert_eq!(shown, "address 10.0.0.0/8 or *.internal, port 1-2");
        assert_eq!(
            read("service = \"bulk\"").unwrap().matches.to_string(),
            "any"
        );
    }

    #[test]
    fn wrong_types_and_keys_are_refused_with_what_would_be_accepted() {
        for (text, word) in [
            ("match = { port = 70000 }", "65535"),
            ("match = { port = true }", "65535"),
            ("match = { address = 7 }", "list of texts"),
            ("match = { dscp = 300 }", "0 to 255"),
            ("match = { adress = \"10.0.0.0/8\" }", "adress"),
            ("services = \"bulk\"", "services"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

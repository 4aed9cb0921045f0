//! Settings: the sections `[[forward]]`, `[[gateway.socks]]` and `[[rule]]` of a node's configuration, checked.

use std::path::Path;

use anabranch::{
    base::NodeId,
    config::{ConfigError, ForwardLayer, GatewayConfig, NodeConfig, SocksLayer},
    rights::Transport,
};

use crate::{
    endpoint::Endpoint,
    rules::{RulesError, Table},
    service::{Service, Services},
    socks::{Login, StartError, check_exposed},
    target::{Mapping, acceptable},
};

/// A section of the configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A value of a forward or of a SOCKS server.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A rule.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

/// All settings of a gateway.
#[derive(Debug, Default)]
pub struct Settings {
    /// Forwards, in the order of the configuration.
    pub forwards: Vec<ForwardSetting>,
    /// SOCKS servers.
    pub socks: Vec<SocksSetting>,
    /// Rules for the flows of both.
    pub rules: Table,
    /// Timeouts.
    pub config: GatewayConfig,
}

/// A forward.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardSetting {
    /// The address that accepts connections, and the target that the other side connects to.
    pub mapping: Mapping,
    /// True if the peer accepts the connections, which are made here.
    pub is_reverse: bool,
    /// The peer.
    pub peer: NodeId,
    /// The service for the data; `None`: by the rules.
    pub service: Option<Service>,
}

/// A SOCKS server.
#[derive(Clone, Debug, PartialEq)]
pub struct SocksSetting {
    /// Address at which it listens.
    pub at: Endpoint,
    /// The peer for connections for which no rule names one.
    pub peer: Option<NodeId>,
    /// Name and password that programs must give.
    pub login: Option<Login>,
    /// The service for the data; `None`: by the rules.
    pub services: Option<Services>,
}

fn refused(key: &str, value: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.into(),
    }
}

/// The node with a name or an ID of the configuration.
fn peer(config: &NodeConfig, wanted: &str) -> Result<NodeId, String> {
    let mut names = config.names.iter();
    if let Some((node, _)) = names.find(|(_, name)| **name == wanted) {
        return Ok(*node);
    }
    let listed = wanted
        .parse()
        .ok()
        .filter(|node| config.names.contains_key(node));
    let reason = "there is no [[peer]] or member of the overlay with this name";
    listed.ok_or_else(|| reason.to_owned())
}

impl ForwardSetting {
    /// Checks one forward.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn read(layer: &ForwardLayer, config: &NodeConfig) -> Result<Self, ConfigError> {
        let transport = match layer.protocol.as_deref() {
            None | Some("tcp") => Transport::Tcp,
            Some("udp") => Transport::Udp,
            Some(other) => {
                let reason = "give \"tcp\" or \"udp\"";
                return Err(refused("forward.protocol", other, reason));
            }
        };
        let endpoint = |key: &str, text: &str| {
            let parsed = match text.strip_prefix("unix:") {
                Some(path) => Endpoint::unix(path),
                None => Endpoint::port_of(transport, text),
            };
            parsed.map_err(|error| refused(key, text, error.to_string()))
        };
        let (key, local, is_reverse) = accepting(layer)?;
        let accept = endpoint(key, local)?;
        let to = endpoint("forward.to", &layer.to)?;
        let mapping = Mapping::new(accept, to)
            .map_err(|error| refused("forward", local, error.to_string()))?;
        let peer = peer(config, &layer.peer)
            .map_err(|reason| refused("forward.peer", &layer.peer, reason))?;
        let service = match &layer.service {
            None => None,
            Some(text) => {
                let service = Service::from_text(&mapping.to, &text.0);
                let wrong =
                    |error: ConfigError| refused("forward.service", local, error.to_string());
                Some(service.map_err(wrong)?)
            }
        };
        Ok(Self {
            mapping,
            is_reverse,
            peer,
            service,
        })
    }
}

/// The accepting end, with its key; true if it is at the peer.
fn accepting(layer: &ForwardLayer) -> Result<(&'static str, &str, bool), ConfigError> {
    match (&layer.local, &layer.remote) {
        (Some(local), None) => Ok(("forward.local", local, false)),
        (None, Some(remote)) => Ok(("forward.remote", remote, true)),
        _ => Err(ConfigError::Missing {
            key: "forward".to_owned(),
            reason: "give local, where connections are accepted here, or remote, where the peer accepts them".to_owned(),
        }),
    }
}

impl SocksSetting {
    /// Checks one server.
    ///
    /// # Errors
    /// The first value that is refused; the password cannot be read.
    pub fn read(layer: &SocksLayer, config: &NodeConfig) -> Result<Self, ConfigError> {
        let at = Endpoint::port_of(Transport::Tcp, &layer.local)
            .map_err(|error| refused("gateway.socks.local", &layer.local, error.to_string()))?;
        let at = acceptable(at)
            .map_err(|error| refused("gateway.socks.local", &layer.local, error.to_string()))?;
        let peer = match &layer.peer {
            None => None,
            Some(name) => Some(
                peer(config, name).map_err(|reason| refused("gateway.socks.peer", name, reason))?,
            ),
        };
        let login = login(layer.user.as_deref(), layer.password_file.as_deref())?;
        check_exposed(&at, login.as_ref()).map_err(|error: StartError| {
            let reason = format!("{error} (user = \"…\", password_file = \"…\")");
            refused("gateway.socks.local", &layer.local, reason)
        })?;
        let services = match &layer.service {
            None => None,
            Some(text) => Some(Services::read(&text.0, None).map_err(|error| {
                refused("gateway.socks.service", &layer.local, error.to_string())
            })?),
        };
        Ok(Self {
            at,
            peer,
            login,
            services,
        })
    }
}

fn login(user: Option<&str>, file: Option<&Path>) -> Result<Option<Login>, ConfigError> {
    match (user, file) {
        (None, None) => Ok(None),
        (Some(user), Some(file)) => {
            let key = "gateway.socks.password_file";
            let shown = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|error| refused(key, &shown, format!("cannot be read: {error}")))?;
            let password = text.lines().next().unwrap_or_default();
            let login = Login::new(user, password);
            login
                .map(Some)
                .map_err(|error| refused("gateway.socks.user", user, error.to_string()))
        }
        _ => Err(ConfigError::Missing {
            key: "gateway.socks.user".to_owned(),
            reason: "give user and password_file together".to_owned(),
        }),
    }
}

impl Settings {
    /// Checks all sections of a configuration.
    ///
    /// # Errors
    /// The first value that is refused; two forwards or servers accept at the same endpoint.
    pub fn read(config: &NodeConfig) -> Result<Self, SettingError> {
        let mut all = Self {
            rules: Table::read(&config.rules, |name| peer(config, name))?,
            config: config.gateway.clone(),
            ..Self::default()
        };
        for layer in &config.forwards {
            let setting = ForwardSetting::read(layer, config)?;
            let accept = &setting.mapping.accept;
            let is_twice = match setting.is_reverse {
                true => all.asks(setting.peer, accept),
                false => all.listens(accept),
            };
            if is_twice {
                let (key, text, _) = accepting(layer)?;
                return Err(refused(key, text, "is given twice").into());
            }
            all.forwards.push(setting);
        }
        for layer in &config.gateway.socks {
            let setting = SocksSetting::read(layer, config)?;
            if all.listens(&setting.at) {
                return Err(refused("gateway.socks.local", &layer.local, "is given twice").into());
            }
            all.socks.push(setting);
        }
        Ok(all)
    }

    /// True if a forward or a server accepts connections at an endpoint.
    fn listens(&self, at: &Endpoint) -> bool {
        let here = self.forwards.iter().filter(|setting| !setting.is_reverse);
        let forwards = here.map(|setting| &setting.mapping.accept);
        let mut all = forwards.chain(self.socks.iter().map(|setting| &setting.at));
        all.any(|other| other == at)
    }

    /// True if a peer is asked to accept connections at an endpoint.
    fn asks(&self, peer: NodeId, at: &Endpoint) -> bool {
        let mut there = self.forwards.iter().filter(|setting| setting.is_reverse);
        there.any(|other| other.peer == peer && other.mapping.accept == *at)
    }
}

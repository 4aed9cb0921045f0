//! The section `[[forward]]` of a node's configuration, and the gateway of a node as a whole.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch::{
    base::NodeId,
    config::{ConfigError, ForwardLayer, NodeConfig},
    daemon::{Commit, Handle, Part},
    rights::Transport,
    service::{Registration, TooManyServices},
};
use tokio::task::AbortHandle;

use crate::{
    connections::Connections,
    credit::Pools,
    endpoint::Endpoint,
    error::{Code, Refusal},
    forward::{Forward, ListenError},
    notice::{Notice, Notices},
    route::{Route, Switch},
    serve::Server,
    service::Service,
    target::Mapping,
    uplink::{NodeUplink, Uplink, Waiting},
};

/// A forward of the configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The address that accepts connections, and the target that the peer connects to.
    pub mapping: Mapping,
    /// The peer.
    pub peer: NodeId,
    /// The service for the data.
    pub service: Service,
}

fn refused(key: &str, value: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.into(),
    }
}

impl Setting {
    /// Checks one forward.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn read(layer: &ForwardLayer, config: &NodeConfig) -> Result<Self, ConfigError> {
        let transport = match layer.protocol.as_deref() {
            None | Some("tcp") => Transport::Tcp,
            Some("udp") => Transport::Udp,
            Some(other) => {
                return Err(refused(
                    "forward.protocol",
                    other,
                    "give \"tcp\" or \"udp\"",
                ));
            }
        };
        let endpoint = |key: &str, text: &str| {
            let parsed = match text.strip_prefix("unix:") {
                Some(path) => Endpoint::unix(path),
                None => Endpoint::port_of(transport, text),
            };
            parsed.map_err(|error| refused(key, text, error.to_string()))
        };
        let accept = endpoint("forward.local", &layer.local)?;
        let to = endpoint("forward.to", &layer.to)?;
        let mapping = Mapping::new(accept, to)
            .map_err(|error| refused("forward", &layer.local, error.to_string()))?;
        let mut names = config.names.iter();
        let named = names.find(|(_, name)| **name == layer.peer);
        let peer = match named {
            Some((node, _)) => *node,
            None => layer
                .peer
                .parse()
                .ok()
                .filter(|node| config.names.contains_key(node))
                .ok_or_else(|| {
                    let reason = "there is no [[peer]] or member of the overlay with this name";
                    refused("forward.peer", &layer.peer, reason)
                })?,
        };
        let service = match &layer.service {
            None => Service::of(&mapping.to),
            Some(text) => Service::from_text(&mapping.to, text)
                .map_err(|error| refused("forward.service", &layer.local, error.to_string()))?,
        };
        Ok(Self {
            mapping,
            peer,
            service,
        })
    }

    /// Checks all forwards of a configuration.
    ///
    /// # Errors
    /// The first value that is refused; two forwards accept at the same endpoint.
    pub fn all(config: &NodeConfig) -> Result<Vec<Self>, ConfigError> {
        let mut all: Vec<Self> = Vec::new();
        for layer in &config.forwards {
            let setting = Self::read(layer, config)?;
            let accept = &setting.mapping.accept;
            if all.iter().any(|other| other.mapping.accept == *accept) {
                return Err(refused("forward.local", &layer.local, "is given twice"));
            }
            all.push(setting);
        }
        Ok(all)
    }
}

/// The gateway of a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An endpoint cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The node has too many services.
    #[error(transparent)]
    Services(#[from] TooManyServices),
}

/// A forward that runs.
#[derive(Debug)]
struct Running {
    setting: Setting,
    route: Switch,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The node of a gateway, taken from it when the gateway is dropped, because the node keeps its parts.
type Slot = Arc<Mutex<Option<Handle>>>;

/// Sessions of the node, for as long as its gateway exists.
#[derive(Debug)]
struct SlotUplink {
    node: Slot,
    peer: NodeId,
}

impl Uplink for SlotUplink {
    fn session(&self) -> Waiting<'_> {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        let node = node.clone();
        Box::pin(async move {
            match node {
                Some(handle) => NodeUplink::new(handle, self.peer).session().await,
                None => Err(Refusal::new(Code::Failed, "the gateway has ended")),
            }
        })
    }
}

/// The forwards of a node, which follow its configuration.
#[derive(Debug)]
struct Forwards {
    running: Arc<Mutex<Vec<Running>>>,
    connections: Connections,
    node: Slot,
}

impl Forwards {
    fn route(&self, setting: &Setting) -> Route {
        let uplink = SlotUplink {
            node: self.node.clone(),
            peer: setting.peer,
        };
        Route::to(
            &setting.mapping.to,
            setting.service.clone(),
            Arc::new(uplink),
        )
    }

    /// Opens the endpoints that are not open yet, and returns what makes these the forwards that run. Connections that are open
    /// go on, and so does an endpoint whose target changes.
    fn change(&self, settings: Vec<Setting>) -> Result<Commit, ListenError> {
        let mut opened = Vec::new();
        {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            for setting in settings {
                let accept = &setting.mapping.accept;
                let is_open = running
                    .iter()
                    .any(|other| other.setting.mapping.accept == *accept);
                let route = self.route(&setting);
                let forward = match is_open {
                    true => None,
                    false => Some(Forward::open(accept, self.connections.clone())?),
                };
                opened.push((setting, route, forward));
            }
        }
        let (running, notices) = (self.running.clone(), self.connections.notices().clone());
        Ok(Box::new(move || {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = std::mem::take(&mut *running);
            for (setting, route, forward) in opened {
                let accept = &setting.mapping.accept;
                let same = |other: &Running| other.setting.mapping.accept == *accept;
                if let Some(same) = before.iter().position(same) {
                    let mut same = before.swap_remove(same);
                    if same.setting != setting {
                        same.route.turn(route);
                        same.setting = setting;
                    }
                    running.push(same);
                } else if let Some(forward) = forward {
                    notices.show(&Notice::Listening {
                        at: forward.local().clone(),
                        to: Some(setting.mapping.to.clone()),
                        is_remote: false,
                    });
                    let route = Switch::new(route);
                    let task = tokio::spawn(forward.run(route.clone())).abort_handle();
                    running.push(Running {
                        setting,
                        route,
                        task,
                    });
                }
            }
        }))
    }
}

impl Part for Forwards {
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String> {
        let settings = Setting::all(config).map_err(|error| error.to_string())?;
        self.change(settings).map_err(|error| error.to_string())
    }
}

/// The gateway of a node: the connections that peers ask for, and the forwards of the configuration. It ends when dropped.
#[derive(Debug)]
pub struct Gateway {
    forwards: Arc<Forwards>,
    server: Arc<Server>,
    _registration: Registration,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The node keeps its parts, and must not keep itself with them.
        let mut node = self
            .forwards
            .node
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *node = None;
        let running = self.forwards.running.lock();
        running.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Gateway {
    /// Starts the gateway of a node, and makes it follow reloads of the configuration. Must be called within a runtime.
    ///
    /// # Errors
    /// The configuration is refused, or an endpoint cannot be opened.
    pub fn start(
        node: &Handle,
        config: &NodeConfig,
        notices: Notices,
    ) -> Result<Self, GatewayError> {
        let settings = Setting::all(config)?;
        let pools = Pools::default();
        let server = Arc::new(Server::sharing(node.rights().clone(), pools.clone()));
        let registration = node.services().register(server.clone())?;
        let forwards = Arc::new(Forwards {
            running: Arc::default(),
            connections: Connections::sharing(notices, pools),
            node: Arc::new(Mutex::new(Some(node.clone()))),
        });
        let gateway = Self {
            forwards,
            server,
            _registration: registration,
        };
        gateway.forwards.change(settings)?();
        node.attach(gateway.forwards.clone());
        Ok(gateway)
    }

    /// The service for what peers ask for.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The connections that were accepted here.
    pub fn connections(&self) -> &Connections {
        &self.forwards.connections
    }
}

#[cfg(test)]
mod tests {
    use anabranch::{SecretKey, config::Layer};

    use super::*;

    fn read(section: &str) -> Result<Vec<Setting>, ConfigError> {
        let id = SecretKey::from_seed([1; 32]).node_id();
        let peer = format!("[[peer]]\nname = \"studio\"\nnode = \"{id}\"\nmay = []\n");
        let text = peer + "[[forward]]\n" + section;
        let config = Layer::from_toml(&text)?.resolve(|_| Some("/tmp".to_owned()))?;
        Setting::all(&config)
    }

    #[test]
    fn forwards_are_read() {
        let all = read("local = \"127.0.0.1:5433\"\npeer = \"studio\"\nto = \"db:5432\"").unwrap();
        assert_eq!(all[0].mapping, "5433:db:5432".parse().unwrap());
        assert_eq!(all[0].service, Service::bytes());
        let all = read(
            "local = \"[::1]:53\"\npeer = \"studio\"\nto = \"10.0.0.1:53\"\nprotocol = \"udp\"\n\
             service = { priority = \"urgent\", lifetime = \"200 ms\" }",
        )
        .unwrap();
        let spec = all[0].service.spec();
        assert!(all[0].mapping.accept.is_udp() && !spec.reliable && spec.duplex);
        assert_eq!(spec.priority, anabranch::Priority::URGENT);
        assert_eq!(spec.lifetime, Some(std::time::Duration::from_millis(200)));
        let all = read("local = \"unix:/run/a\"\npeer = \"studio\"\nto = \"unix:/run/b\"").unwrap();
        assert_eq!(all[0].mapping.to, "unix:/run/b".parse().unwrap());
    }

    #[test]
    fn wrong_forwards_are_refused_by_key() {
        let to = "peer = \"studio\"\nto = \"db:5432\"";
        let cases = [
            ("forward.local", format!("local = \"5433\"\n{to}")),
            ("forward ", format!("local = \"db:5433\"\n{to}")),
            (
                "forward.protocol",
                format!("local = \"127.0.0.1:1\"\nprotocol = \"sctp\"\n{to}"),
            ),
            (
                "forward.peer",
                "local = \"127.0.0.1:1\"\npeer = \"other\"\nto = \"db:1\"".to_owned(),
            ),
            (
                "forward.to",
                "local = \"127.0.0.1:1\"\npeer = \"studio\"\nto = \"db\"".to_owned(),
            ),
            (
                "forward.service",
                format!("local = \"127.0.0.1:1\"\n{to}\nservice = {{ lifetime = \"1 s\" }}"),
            ),
            (
                "forward.service",
                format!("local = \"127.0.0.1:1\"\n{to}\nservice = {{ label = \"x\" }}"),
            ),
            (
                "forward.local",
                format!(
                    "local = \"127.0.0.1:1\"\n{to}\n[[forward]]\nlocal = \"127.0.0.1:1\"\n{to}"
                ),
            ),
        ];
        for (key, section) in cases {
            let error = read(&section).unwrap_err().to_string();
            assert!(error.starts_with(key), "{section}: {error}");
        }
    }
}

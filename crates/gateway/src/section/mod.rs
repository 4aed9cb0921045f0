//! The gateway of a node: the sections `[[forward]]`, `[[gateway.socks]]` and `[[rule]]` of its configuration, and the service for its
//! peers.

mod reverse;
mod running;
mod setting;

use std::sync::Arc;

use anabranch::{
    config::NodeConfig,
    daemon::{FlowReport, Handle},
    service::{Registration, TooManyServices},
};

use self::running::{Listeners, OpenError, Slot};
pub use self::setting::{ForwardSetting, SettingError, Settings, SocksSetting};
use crate::{
    connections::{Connections, Means},
    forward::ListenError,
    notice::Notices,
    serve::Server,
    socks::StartError,
};

/// The gateway of a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The configuration is refused.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// An endpoint cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A SOCKS server cannot start.
    #[error(transparent)]
    Socks(#[from] StartError),
    /// The node has too many services.
    #[error(transparent)]
    Services(#[from] TooManyServices),
}

impl From<OpenError> for GatewayError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Listen(error) => Self::Listen(error),
            OpenError::Start(error) => Self::Socks(error),
        }
    }
}

/// The gateway of a node: the connections that peers ask for, and the forwards and SOCKS servers of the configuration. It ends when
/// dropped.
#[derive(Debug)]
pub struct Gateway {
    listeners: Arc<Listeners>,
    server: Arc<Server>,
    _registration: Registration,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The node keeps its parts, and must not keep itself with them.
        self.listeners.clear();
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
        let settings = Settings::read(config)?;
        let means = Means::new(notices);
        let server = Arc::new(Server::with(node.rights().clone(), means.clone()));
        let registration = node.services().register(server.clone())?;
        let slot = Slot::new(node.clone());
        let expected = server.expected().clone();
        let gateway = Self {
            listeners: Arc::new(Listeners::new(Connections::with(means), expected, slot)),
            server,
            _registration: registration,
        };
        gateway.listeners.change(settings)?();
        node.attach(gateway.listeners.clone());
        Ok(gateway)
    }

    /// The service for what peers ask for.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The open flows, those that peers asked for included.
    pub fn flows(&self) -> Vec<FlowReport> {
        self.listeners.connections().means().register.report()
    }

    /// The connections that were accepted here.
    pub fn connections(&self) -> &Connections {
        self.listeners.connections()
    }
}

#[cfg(test)]
mod tests;

//! Routes: where accepted connections go.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{endpoint::Endpoint, service::Service, uplink::Uplink, wire::Action};

/// Destination of accepted connections.
#[derive(Debug)]
pub struct Route {
    /// Target, for display and as the key of flows.
    pub(crate) to: Endpoint,
    pub(crate) action: Action,
    pub(crate) service: Service,
    pub(crate) uplink: Arc<dyn Uplink>,
}

impl Route {
    /// Connections to a target, made by the peer of an uplink.
    pub fn to(target: &Endpoint, service: Service, uplink: Arc<dyn Uplink>) -> Self {
        Self::by(
            Action::Connect(target.clone()),
            target.clone(),
            service,
            uplink,
        )
    }

    pub(crate) fn by(
        action: Action,
        to: Endpoint,
        service: Service,
        uplink: Arc<dyn Uplink>,
    ) -> Self {
        Self {
            to,
            action,
            service,
            uplink,
        }
    }
}

/// The route of an endpoint, which can be changed while connections are accepted. Clones share it.
#[derive(Clone, Debug)]
pub struct Switch(Arc<Mutex<Arc<Route>>>);

impl Switch {
    /// Begins with this route.
    pub fn new(route: Route) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(route))))
    }

    /// Sends connections that are accepted from now on to another route.
    pub fn turn(&self, route: Route) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(route);
    }

    pub(crate) fn route(&self) -> Arc<Route> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

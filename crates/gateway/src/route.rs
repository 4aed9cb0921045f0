//! Routes: where accepted connections go, and with which service.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    endpoint::Endpoint,
    error::{Code, Refusal},
    rules::{Facts, Rule, Rules},
    service::{Service, Services},
    uplink::{Exits, OnlyExit, Uplink},
    wire::Action,
};

/// Choice of the service and of the peer for flows.
#[derive(Clone, Debug)]
pub struct Chooser {
    /// A service of its own; `None`: by the rules.
    services: Option<Services>,
    exits: Arc<dyn Exits>,
}

/// Choice for a flow.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The rule, unless the flow has a service of its own.
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) service: Arc<Service>,
    pub(crate) uplink: Arc<dyn Uplink>,
}

impl Chooser {
    /// Flows with these services, or by the rules if there are none.
    pub fn new(services: Option<Services>, exits: Arc<dyn Exits>) -> Self {
        Self { services, exits }
    }

    /// The choice for a flow.
    ///
    /// # Errors
    /// A rule refuses the flow, or there is no peer for it.
    pub(crate) async fn choose(&self, rules: &Rules, facts: Facts<'_>) -> Result<Choice, Refusal> {
        if let Some(services) = &self.services {
            return Ok(Choice {
                rule: None,
                service: services.of(facts.target),
                uplink: self.exits.exit(None)?,
            });
        }
        let rule = rules.decide(&facts).await;
        let Some(services) = rule.services() else {
            let name = rule.name().unwrap_or_default();
            let text = format!("rule {name} of this node refuses it");
            return Err(Refusal::new(Code::NotAllowed, text));
        };
        Ok(Choice {
            service: services.of(facts.target),
            uplink: self.exits.exit(rule.peer())?,
            rule: Some(rule),
        })
    }
}

/// Destination of accepted connections.
#[derive(Debug)]
pub struct Route {
    /// Target, for display and as the key of flows.
    pub(crate) to: Endpoint,
    pub(crate) action: Action,
    pub(crate) chooser: Chooser,
}

impl Route {
    /// Connections to a target, made by the peer of an uplink; without a service, the rules choose it.
    pub fn to(target: &Endpoint, service: Option<Service>, uplink: Arc<dyn Uplink>) -> Self {
        let action = Action::Connect(target.clone());
        Self::by(action, target.clone(), service, uplink)
    }

    pub(crate) fn by(
        action: Action,
        to: Endpoint,
        service: Option<Service>,
        uplink: Arc<dyn Uplink>,
    ) -> Self {
        let services = service.map(|service| Services::only(&to, service));
        Self {
            to,
            action,
            chooser: Chooser::new(services, Arc::new(OnlyExit(uplink))),
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

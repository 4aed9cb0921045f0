//! Routes: where accepted connections go, and with which service.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch::{Session, Stream, StreamFailure, daemon::PromiseState};

use crate::{
    connections::Means,
    endpoint::Endpoint,
    error::{Code, Refusal},
    notice::{Notice, Notices},
    rules::{Exceeded, Facts, Lease, Rule},
    service::{Service, Services},
    uplink::{Exits, OnlyExit, Uplink},
    wire::{Action, LABEL},
};

/// Choice of the service and of the peer for flows.
#[derive(Clone, Debug)]
pub struct Chooser {
    /// A service of its own; `None`: by the rules.
    services: Option<Services>,
    exits: Arc<dyn Exits>,
    /// Label of the streams.
    label: &'static str,
}

/// Choice for a flow.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The rule, unless the flow has a service of its own.
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) service: Arc<Service>,
    /// State of the promise before the stream opens; `None`: the service has none.
    pub(crate) promise: Option<PromiseState>,
    pub(crate) uplink: Arc<dyn Uplink>,
    label: &'static str,
    /// Its place under the limits of the rule.
    _lease: Option<Lease>,
}

impl Choice {
    /// Opens a stream for the flow, under the limits of its rule.
    pub(crate) fn open(
        &self,
        session: &Session,
        to: &Endpoint,
        notices: &Notices,
    ) -> Result<Stream, StreamFailure> {
        let account = self.rule.as_ref().map(|rule| rule.account());
        if let Some(account) = account
            && self.service.is_promised()
        {
            session.set_promised_share(account.tenant(), account.limits().promised_share);
        }
        let tenant = account.map(|account| account.tenant());
        self.service
            .open(session, (tenant, self.label), to, notices)
    }
}

impl Chooser {
    /// Flows with these services, or by the rules if there are none.
    pub fn new(services: Option<Services>, exits: Arc<dyn Exits>) -> Self {
        Self {
            services,
            exits,
            label: LABEL,
        }
    }

    /// The same, with another label for the streams.
    pub(crate) fn with_label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// The choice for a flow.
    ///
    /// # Errors
    /// A rule refuses the flow, its limits do, or there is no peer for it.
    pub(crate) async fn choose(&self, means: &Means, facts: Facts<'_>) -> Result<Choice, Refusal> {
        if let Some(services) = &self.services {
            let service = services.of(facts.target);
            return Ok(Choice {
                rule: None,
                promise: service.is_promised().then_some(PromiseState::Waiting),
                service,
                uplink: self.exits.exit(None)?,
                label: self.label,
                _lease: None,
            });
        }
        let rule = means.rules.decide(&facts).await;
        let Some(services) = rule.services() else {
            let name = rule.name().unwrap_or_default();
            let text = format!("rule {name} of this node refuses it");
            return Err(Refusal::new(Code::NotAllowed, text));
        };
        let uplink = self.exits.exit(rule.peer())?;
        let exceeded = |exceeded: Exceeded| {
            rule.count_denied();
            let name = rule.name().unwrap_or_default();
            let text = format!("rule {name} of this node refuses it: {exceeded}");
            Refusal::new(Code::TooMany, text)
        };
        let mut service = services.of(facts.target);
        let mut promise = service.is_promised().then_some(PromiseState::Waiting);
        let mut lease = rule.account().enter().map_err(exceeded)?;
        if let Some(asked) = service.promised_rate()
            && let Err(error) = lease.promise(asked)
        {
            service = service
                .without_promise()
                .ok_or_else(|| exceeded(error.clone()))?;
            promise = Some(PromiseState::OverLimit);
            let (to, rule) = (facts.target.clone(), rule.name().unwrap_or_default());
            let cause = format!("rule {rule}: {error}");
            means.notices.show(&Notice::OverLimit { to, cause });
        }
        Ok(Choice {
            service,
            promise,
            uplink,
            label: self.label,
            rule: Some(rule),
            _lease: Some(lease),
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

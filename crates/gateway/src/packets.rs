//! Rules for packets: decisions about flows that another part of the node carries packet by packet, as a tunnel does, and the streams of
//! the rules that have a service.
//!
//! A flow is decided with its first packet, and again after other rules were applied ([`PacketRules::generation`]). All flows of a
//! rule share one stream, and with it one promise.

use std::{net::IpAddr, sync::Arc, time::Duration};

use anabranch::{
    Guarantee, Session, Stream, StreamFailure, base::Rate, daemon::PromiseState, rights::Transport,
};

use crate::{
    connections::{Connections, Means},
    endpoint::{Endpoint, Host},
    notice::Notice,
    register::Promise,
    rules::{Lease, PacketFacts, Rule},
    service::Service,
};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A flow of packets, as its first packet shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFlow {
    /// Protocol number, such as 17 for UDP.
    pub protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Ports of source and destination; `None`: the protocol has none, or the packet does not show them.
    pub ports: Option<(u16, u16)>,
    /// Code point of the packet, 0 to 63.
    pub dscp: u8,
}

impl PacketFlow {
    fn transport(&self) -> Option<Transport> {
        match self.protocol {
            TCP => Some(Transport::Tcp),
            UDP => Some(Transport::Udp),
            _ => None,
        }
    }

    fn facts(&self) -> PacketFacts {
        PacketFacts {
            source: self.source,
            destination: self.destination,
            transport: self.transport(),
            ports: self.ports,
            dscp: self.dscp,
        }
    }

    /// The target in notices, with port 0 where there is none.
    fn target(&self) -> Endpoint {
        Endpoint::Port {
            transport: self.transport().unwrap_or(Transport::Udp),
            host: Host::Ip(self.destination),
            port: self.ports.map_or(0, |(_, to)| to),
        }
    }
}

/// A rule that flows of packets are under.
#[derive(Clone, Debug)]
pub struct PacketRule(Arc<Rule>);

/// A flow under its rule, which counts it until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    rule: PacketRule,
    _lease: Lease,
}

impl Admitted {
    /// The rule.
    pub fn rule(&self) -> &PacketRule {
        &self.rule
    }
}

/// Decision about a flow.
#[derive(Debug)]
pub enum Decision {
    /// It is carried.
    Carried(Admitted),
    /// The rule, or one of its limits, refuses it.
    Denied(PacketRule),
}

/// The stream of a rule's flows cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The promise is refused, and the service does not wait for it (`waits = false`).
    #[error("its promise is refused, and its service does not wait for it: {0}")]
    NotPromised(String),
    /// The session refuses the stream, or is over.
    #[error(transparent)]
    Stream(#[from] StreamFailure),
}

/// The rules of a gateway, for packets. Clones share them.
#[derive(Clone, Debug)]
pub struct PacketRules(Means);

impl PacketRules {
    /// The rules of these connections, which this does not keep.
    pub fn new(connections: &Connections) -> Self {
        Self(connections.means().clone())
    }

    /// Number of times that other rules were applied.
    pub fn generation(&self) -> u64 {
        self.0.rules.generation()
    }

    /// Time without a packet after which a flow is over.
    pub fn idle(&self) -> Duration {
        self.0.timeouts.flow()
    }

    /// The decision about a flow. `None`: a rule asks for its program, and [`PacketRules::search`] decides. O(rules).
    pub fn decide(&self, flow: &PacketFlow) -> Option<Decision> {
        Some(decision(&self.0.rules.decide_packet(&flow.facts())?))
    }

    /// The decision about a flow, after a search for its program among those of this machine.
    pub async fn search(&self, flow: &PacketFlow) -> Decision {
        decision(&self.0.rules.decide_with_program(&flow.facts()).await)
    }

    /// True if a rule is in force.
    pub fn has(&self, rule: &PacketRule) -> bool {
        self.0.rules.has(&rule.0)
    }

    /// Opens the stream of a rule's flows, of which `first` is one, under the limits of the rule. A promise that is refused does not
    /// refuse the stream, unless its service says so; it is a notice.
    ///
    /// # Errors
    /// The stream cannot be opened.
    pub fn open(
        &self,
        rule: &PacketRule,
        (session, label): (&Session, &str),
        first: &PacketFlow,
    ) -> Result<PacketStream, OpenError> {
        let (to, notices) = (first.target(), &self.0.notices);
        let account = rule.0.account();
        let mut service = rule.service().ok_or_else(|| {
            let text = format!("rule {} refuses flows", rule.name().unwrap_or_default());
            OpenError::NotPromised(text)
        })?;
        let mut state = service.is_promised().then_some(PromiseState::Waiting);
        let mut lease = account.enter_promise();
        if let Some(asked) = service.promised_rate()
            && let Err(error) = lease.promise(asked)
        {
            let cause = format!("rule {}: {error}", rule.name().unwrap_or_default());
            let without = service.without_promise();
            service = without.ok_or_else(|| OpenError::NotPromised(cause.clone()))?;
            state = Some(PromiseState::OverLimit);
            let to = to.clone();
            notices.show(&Notice::OverLimit { to, cause });
        }
        if service.is_promised() {
            session.set_promised_share(account.tenant(), account.limits().promised_share);
        }
        let tenant = (Some(account.tenant()), label);
        let stream = service.open(session, tenant, &to, notices);
        let stream = stream.map_err(|failure| match failure.refusal() {
            Some(refusal) => OpenError::NotPromised(refusal.to_string()),
            None => OpenError::Stream(failure),
        })?;
        Ok(PacketStream {
            stream,
            service,
            promise: Promise::new(state),
            to,
            means: self.0.clone(),
            _lease: lease,
        })
    }
}

fn decision(rule: &Arc<Rule>) -> Decision {
    let under = PacketRule(rule.clone());
    if rule.services().is_none() {
        return Decision::Denied(under);
    }
    match rule.account().enter() {
        Ok(lease) => Decision::Carried(Admitted {
            rule: under,
            _lease: lease,
        }),
        Err(_) => {
            rule.count_denied();
            Decision::Denied(under)
        }
    }
}

impl PacketRule {
    /// True if both are the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its name; `None`: it is that of flows without a rule.
    pub fn name(&self) -> Option<String> {
        self.0.name()
    }

    /// True if its flows are to have a stream of their own: they have a service, or share a rate.
    pub fn has_stream(&self) -> bool {
        self.0.has_service() || self.rate_max().is_some()
    }

    fn service(&self) -> Option<Arc<Service>> {
        let services = self.0.services()?;
        Some(services.packets().clone())
    }

    /// Its service in words.
    pub fn service_name(&self) -> String {
        let service = self.service();
        service.map_or_else(|| "deny".to_owned(), |service| service.name().to_string())
    }

    /// The promise that its service asks for.
    pub fn guarantee(&self) -> Option<Guarantee> {
        let service = self.service()?;
        service.spec().guarantee.as_deref().copied()
    }

    /// Rate at which its flows together may send.
    pub fn rate_max(&self) -> Option<Rate> {
        self.0.account().limits().rate
    }

    /// Waits until its rate permits to send.
    pub async fn ready(&self) {
        self.0.account().ready().await;
    }

    /// True if its rate permits to send now.
    pub fn is_ready(&self) -> bool {
        self.0.account().is_ready()
    }

    /// Counts bytes towards its rate.
    pub fn pace(&self, bytes: usize) {
        self.0.account().sent(bytes);
    }

    /// Counts bytes that were sent to the peer, in its report.
    pub fn count_sent(&self, bytes: usize) {
        self.0.traffic().add_sent(bytes);
    }

    /// Counts bytes of the peer, in its report.
    pub fn count_received(&self, bytes: usize) {
        self.0.traffic().add_received(bytes);
    }
}

/// The stream of a rule's flows.
#[derive(Debug)]
pub struct PacketStream {
    stream: Stream,
    service: Arc<Service>,
    promise: Promise,
    to: Endpoint,
    means: Means,
    /// Its promise under the limits of the rule.
    _lease: Lease,
}

impl PacketStream {
    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// True if a promise is asked for.
    pub fn is_promised(&self) -> bool {
        self.service.is_promised()
    }

    /// State of its promise; `None`: its service asks for none.
    pub fn promise(&self) -> Option<PromiseState> {
        self.promise.get()
    }

    /// Reports the events of its promise; does not return.
    pub async fn watch(&self) {
        let (notices, promise) = (&self.means.notices, &self.promise);
        let watching = self
            .service
            .watch_promise(&self.stream, &self.to, notices, promise);
        watching.await;
    }
}

#[cfg(test)]
mod tests;

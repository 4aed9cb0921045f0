//! Services: specs of the streams that carry connections and datagrams.
//!
//! A stream that asks for a promise opens without it while it cannot be promised, and is promised it as soon as it can be: the program
//! knows nothing of promises and could not ask for less, and nothing can be promised before a path was measured for some seconds.
//! `waits = false` refuses the flow instead.

use std::{sync::Arc, time::Duration};

use anabranch::{
    DropOrder, Guarantee, Order, Profile, Session, Stream, StreamFailure, StreamSpec, Tenant,
    base::Rate,
    config::ConfigError,
    daemon::PromiseState,
    spec::{ServiceText, SpecText},
};

use crate::{
    endpoint::Endpoint,
    notice::{Notice, Notices},
    register::{Promise, Registered},
    wire::LABEL,
};

/// Lifetime of datagrams unless another one is asked for.
pub const LIFETIME: Duration = Duration::from_secs(1);
/// Lifetime of packets unless another one is asked for. Until then, one that was lost is sent again: that costs less than the reaction of
/// the inner connection to the loss. It is a little longer than that of latency-sensitive streams, of which copies would be sent.
pub const PACKET_LIFETIME: Duration = Duration::from_millis(1200);

/// Time after which the state of a promise in danger is looked at again.
const WARNED_EVERY: Duration = Duration::from_secs(1);

/// The service that the data of a flow gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its guarantee does not wait.
    spec: StreamSpec,
    /// True if the stream opens without the promise while that cannot be given.
    waits: bool,
    /// The service in words.
    name: Arc<str>,
}

/// Kind of what a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The bytes of a connection.
    Bytes,
    /// The datagrams of a flow.
    Datagrams,
    /// The packets of flows, of any protocol.
    Packets,
}

impl Kind {
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.is_udp() {
            true => Self::Datagrams,
            false => Self::Bytes,
        }
    }
}

fn refused(key: &str, value: &str, reason: &str) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.to_owned(),
    }
}

impl Service {
    fn preset(spec: StreamSpec) -> Self {
        Self {
            spec,
            waits: true,
            name: "preset".into(),
        }
    }

    /// The preset for byte streams: reliable and ordered, of normal priority.
    pub fn bytes() -> Self {
        Self::preset(StreamSpec {
            duplex: true,
            label: LABEL.to_owned(),
            ..StreamSpec::default()
        })
    }

    /// The preset for datagrams: each by itself, of normal priority, given up after a second; too many for the paths are dropped,
    /// oldest first.
    pub fn datagrams() -> Self {
        Self::preset(StreamSpec {
            reliable: false,
            order: Order::Unordered,
            lifetime: Some(LIFETIME),
            drop: Some(DropOrder::Oldest),
            ..Self::bytes().spec
        })
    }

    /// The preset for packets: each by itself, of normal priority, sent again until it is over.
    pub fn packets() -> Self {
        Self::preset(StreamSpec {
            order: Order::Unordered,
            lifetime: Some(PACKET_LIFETIME),
            ..Self::bytes().spec
        })
    }

    /// The preset for an endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        match endpoint.is_udp() {
            true => Self::datagrams(),
            false => Self::bytes(),
        }
    }

    /// The preset for an endpoint, changed by a specification in text form.
    ///
    /// # Errors
    /// A value is refused, or does not fit the kind of flow.
    pub fn from_text(endpoint: &Endpoint, text: &SpecText) -> Result<Self, ConfigError> {
        Self::read(Kind::of(endpoint), text)
    }

    /// The service of one kind. A profile gives them the values that they can have: a byte stream stays reliable,
    /// ordered and without a lifetime, and datagrams of a profile without a lifetime keep those of the preset. A key that is given
    /// explicitly and does not fit is refused; but packets of connections may have any lifetime.
    fn read(kind: Kind, text: &SpecText) -> Result<Self, ConfigError> {
        if text.label.is_some() || text.duplex == Some(false) {
            let reason = "are set by the forward; leave them out";
            return Err(refused("label, duplex", "", reason));
        }
        let name = ServiceText(text.clone()).to_string();
        let mut text = text.clone();
        let profile: Option<Profile> = text.profile.as_ref().and_then(|name| name.parse().ok());
        if kind != Kind::Bytes && text.partial == Some(true) {
            let reason = "a datagram arrives whole or not at all; leave it out";
            return Err(refused("partial", "true", reason));
        }
        if kind == Kind::Packets {
            text.order = Some("unordered".to_owned());
            if profile.is_none_or(|profile| profile.spec().lifetime.is_none()) {
                let is_dropped = text.drop.as_ref().is_some_and(|drop| drop != "none");
                text.reliable = text.reliable.or(Some(!is_dropped));
                let lifetime = format!("{} ms", PACKET_LIFETIME.as_millis());
                text.lifetime = text.lifetime.or(Some(lifetime));
            }
        } else if kind == Kind::Datagrams {
            text.order = text.order.or(Some("unordered".to_owned()));
            if profile.is_none_or(|profile| profile.spec().lifetime.is_none()) {
                text.reliable = text.reliable.or(Some(false));
                text.lifetime = text.lifetime.or(Some("1 s".to_owned()));
            }
            if text.reliable == Some(false) {
                text.drop = text.drop.or(Some("oldest".to_owned()));
            }
        } else {
            let is_other = text.reliable == Some(false)
                || text.order.as_ref().is_some_and(|order| order != "ordered")
                || text.lifetime.is_some()
                || text.drop.as_ref().is_some_and(|drop| drop != "none");
            if is_other {
                let reason = "a byte stream is reliable, ordered and without a lifetime; leave these out, or name datagrams with \
                              protocol = \"udp\"";
                return Err(refused("reliable, order, lifetime, drop", "", reason));
            }
            text.reliable = Some(true);
            text.order = Some("ordered".to_owned());
            text.drop = Some("none".to_owned());
        }
        let waits = text.guarantee.as_ref().and_then(|asked| asked.waits);
        if let Some(guarantee) = &mut text.guarantee {
            guarantee.waits = None;
        }
        let mut spec = text.resolve()?;
        if kind == Kind::Bytes {
            spec.lifetime = None;
        }
        spec.duplex = true;
        LABEL.clone_into(&mut spec.label);
        Ok(Self {
            spec,
            waits: waits.unwrap_or(true),
            name: name.into(),
        })
    }

    /// The service of what a peer sends on this stream, for streams opened back.
    pub(crate) fn like(stream: &Stream, lifetime_ms: u32) -> Self {
        let (asked, mut service) = match lifetime_ms {
            0 => (stream.spec(), Self::bytes()),
            _ => (stream.spec(), Self::datagrams()),
        };
        service.spec.priority = asked.priority;
        service.spec.weight = asked.weight;
        if lifetime_ms > 0 {
            let longest = Duration::from_secs(3600);
            service.spec.lifetime = Some(Duration::from_millis(lifetime_ms.into()).min(longest));
        }
        service
    }

    /// The specification of streams.
    pub fn spec(&self) -> &StreamSpec {
        &self.spec
    }

    /// The service in words.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The rate of the promise that is asked for.
    pub(crate) fn promised_rate(&self) -> Option<Rate> {
        let guarantee = self.spec.guarantee.as_deref();
        guarantee.map(Guarantee::required)
    }

    /// The same service without its promise; `None`: a flow without it is refused.
    pub(crate) fn without_promise(&self) -> Option<Arc<Self>> {
        let spec = StreamSpec {
            guarantee: None,
            ..self.spec.clone()
        };
        let (waits, name) = (self.waits, self.name.clone());
        waits.then(|| Arc::new(Self { spec, waits, name }))
    }

    /// True if a promise is asked for.
    pub(crate) fn is_promised(&self) -> bool {
        self.spec.guarantee.is_some()
    }

    /// Opens a stream with a label for a flow of a tenant to a target. If its promise is refused and it may wait, it opens without, which is a notice.
    pub(crate) fn open(
        &self,
        session: &Session,
        (tenant, label): (Option<Tenant>, &str),
        to: &Endpoint,
        notices: &Notices,
    ) -> Result<Stream, StreamFailure> {
        let spec = StreamSpec {
            tenant,
            label: label.to_owned(),
            ..self.spec.clone()
        };
        let failure = match session.open_stream(spec.clone()) {
            Ok(stream) => return Ok(stream),
            Err(failure) => failure,
        };
        let (Some(refusal), Some(guarantee), true) =
            (failure.refusal(), &self.spec.guarantee, self.waits)
        else {
            return Err(failure);
        };
        notices.show(&Notice::NotPromised {
            to: to.clone(),
            refusal: refusal.clone(),
        });
        session.open_stream(StreamSpec {
            guarantee: Some(Box::new(guarantee.waiting())),
            ..spec
        })
    }

    /// Reports the events of a stream's promise, also in the register; does not return.
    pub(crate) async fn watch(
        &self,
        stream: &Stream,
        to: &Endpoint,
        notices: &Notices,
        flow: &Registered,
    ) {
        self.watch_promise(stream, to, notices, flow.promise())
            .await;
    }

    /// The same, of a stream with the promise of several flows.
    pub(crate) async fn watch_promise(
        &self,
        stream: &Stream,
        to: &Endpoint,
        notices: &Notices,
        promise: &Promise,
    ) {
        while self.is_promised() {
            // A danger that has passed is no event.
            let passing = async {
                match promise.is_warned() {
                    true => tokio::time::sleep(WARNED_EVERY).await,
                    false => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = stream.next_promise() => Some(event),
                () = passing => None,
            };
            if let Some(explained) = stream.explain() {
                promise.set(PromiseState::of(&explained));
            }
            match event {
                Some(Ok(event)) => {
                    let to = to.clone();
                    notices.show(&Notice::Promise { to, event });
                }
                Some(Err(_)) => break,
                None => {}
            }
        }
        // The end of the stream ends the flow.
        std::future::pending::<()>().await;
    }
}

/// Services of byte streams, of datagrams and of packets, of one text. At least one of the first two is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    bytes: Option<Arc<Service>>,
    datagrams: Option<Arc<Service>>,
    packets: Arc<Service>,
}

impl Services {
    /// The presets.
    pub fn preset() -> Self {
        Self {
            bytes: Some(Arc::new(Service::bytes())),
            datagrams: Some(Arc::new(Service::datagrams())),
            packets: Arc::new(Service::packets()),
        }
    }

    /// The services of a text, for the kinds of flows that it is for: only those of datagrams if `is_udp` is true, only byte streams
    /// if it is false, both if it is `None`.
    ///
    /// # Errors
    /// A value is refused, or does not fit one of the kinds.
    pub fn read(text: &SpecText, is_udp: Option<bool>) -> Result<Self, ConfigError> {
        let read = |kind: Kind| match is_udp.is_none_or(|only| only == (kind == Kind::Datagrams)) {
            true => Service::read(kind, text).map(|service| Some(Arc::new(service))),
            false => Ok(None),
        };
        Ok(Self {
            bytes: read(Kind::Bytes)?,
            datagrams: read(Kind::Datagrams)?,
            packets: Arc::new(Service::read(Kind::Packets, text)?),
        })
    }

    /// The service of one kind of flows.
    pub fn only(endpoint: &Endpoint, service: Service) -> Self {
        let service = Some(Arc::new(service));
        let packets = Arc::new(Service::packets());
        match endpoint.is_udp() {
            true => Self {
                bytes: None,
                datagrams: service,
                packets,
            },
            false => Self {
                bytes: service,
                datagrams: None,
                packets,
            },
        }
    }

    /// The service for packets.
    pub(crate) fn packets(&self) -> &Arc<Service> {
        &self.packets
    }

    /// The service for flows to a target; the preset if there is none for its kind.
    pub fn of(&self, target: &Endpoint) -> Arc<Service> {
        let service = match target.is_udp() {
            true => &self.datagrams,
            false => &self.bytes,
        };
        service
            .clone()
            .unwrap_or_else(|| Arc::new(Service::of(target)))
    }

    /// The text in words.
    pub fn name(&self) -> &str {
        let mut both = self.bytes.iter().chain(&self.datagrams);
        both.next().map_or("preset", |service| service.name())
    }
}

#[cfg(test)]
mod tests;

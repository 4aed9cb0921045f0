//! Services: specs of the streams that carry connections and datagrams.

use std::time::Duration;

use anabranch::{DropOrder, Order, Stream, StreamSpec, config::ConfigError, spec::SpecText};

use crate::{endpoint::Endpoint, wire::LABEL};

/// Lifetime of datagrams unless another one is asked for.
pub const LIFETIME: Duration = Duration::from_secs(1);
/// The service that the data of a forward gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Service(StreamSpec);

impl Service {
    /// The preset for byte streams: reliable and ordered, of normal priority.
    pub fn bytes() -> Self {
        Self(StreamSpec {
            duplex: true,
            label: LABEL.to_owned(),
            ..StreamSpec::default()
        })
    }

    /// The preset for datagrams: each by itself, of normal priority, given up after a second; too many for the paths are dropped,
    /// oldest first.
    pub fn datagrams() -> Self {
        Self(StreamSpec {
            reliable: false,
            order: Order::Unordered,
            lifetime: Some(LIFETIME),
            drop: Some(DropOrder::Oldest),
            ..Self::bytes().0
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
    /// A value is refused, or does not fit byte streams.
    pub fn from_text(endpoint: &Endpoint, text: &SpecText) -> Result<Self, ConfigError> {
        let refused = |key: &str, reason: &str| ConfigError::Value {
            key: key.to_owned(),
            value: String::new(),
            reason: reason.to_owned(),
        };
        if text.label.is_some() || text.duplex == Some(false) {
            return Err(refused(
                "label, duplex",
                "are set by the forward; leave them out",
            ));
        }
        let mut text = text.clone();
        if endpoint.is_udp() {
            text.reliable = text.reliable.or(Some(false));
            text.order = text.order.or(Some("unordered".to_owned()));
            text.lifetime = text.lifetime.or(Some("1 s".to_owned()));
            if text.reliable == Some(false) {
                text.drop = text.drop.or(Some("oldest".to_owned()));
            }
        }
        let mut spec = text.resolve()?;
        if !endpoint.is_udp() {
            if !spec.reliable || spec.order != Order::Ordered || spec.lifetime.is_some() {
                let reason =
                    "a byte stream is reliable, ordered and without a lifetime; leave these out";
                return Err(refused("reliable, order, lifetime", reason));
            }
        } else if spec.partial {
            return Err(refused(
                "partial",
                "a datagram arrives whole or not at all; leave it out",
            ));
        }
        spec.duplex = true;
        LABEL.clone_into(&mut spec.label);
        Ok(Self(spec))
    }

    /// The service of what a peer sends on this stream, for streams opened back.
    pub(crate) fn like(stream: &Stream, lifetime_ms: u32) -> Self {
        let (asked, mut service) = match lifetime_ms {
            0 => (stream.spec(), Self::bytes()),
            _ => (stream.spec(), Self::datagrams()),
        };
        service.0.priority = asked.priority;
        service.0.weight = asked.weight;
        if lifetime_ms > 0 {
            let longest = Duration::from_secs(3600);
            service.0.lifetime = Some(Duration::from_millis(lifetime_ms.into()).min(longest));
        }
        service
    }

    /// The specification of streams.
    pub fn spec(&self) -> &StreamSpec {
        &self.0
    }
}

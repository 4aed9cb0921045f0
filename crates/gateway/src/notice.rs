//! Notices: what happens in a gateway, for logs and progress lines.

use std::{fmt, sync::Arc, time::Duration};

use anabranch::PromiseEvent;

use crate::{Refusal, endpoint::Endpoint};

/// An event that users want to see.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Connections are accepted at this endpoint.
    Listening {
        /// Address.
        at: Endpoint,
        /// Target of the connections; `None`: each names its own.
        to: Option<Endpoint>,
        /// True if the peer accepts them.
        is_remote: bool,
    },
    /// A connection was not made.
    Failed {
        /// The target.
        to: Endpoint,
        /// The cause.
        refusal: Refusal,
    },
    /// The peer does not accept connections at an endpoint; it is asked again.
    NotListening {
        /// The endpoint at the peer.
        at: Endpoint,
        /// The cause.
        refusal: Refusal,
    },
    /// A flow is carried without the promise that its service asks for, until that can be given.
    NotPromised {
        /// The target.
        to: Endpoint,
        /// The reason, and what could be promised instead.
        refusal: anabranch::Refusal,
    },
    /// A flow is carried without the promise that its service asks for, because the flows of its rule have what they may have.
    OverLimit {
        /// The target.
        to: Endpoint,
        /// The limit.
        cause: String,
    },
    /// The promise of a flow has changed.
    Promise {
        /// The target.
        to: Endpoint,
        /// The change.
        event: PromiseEvent,
    },
    /// No connections are accepted for a while.
    Paused {
        /// The endpoint.
        at: Endpoint,
        /// The cause.
        cause: String,
    },
    /// A session has had no path for this time; its connections were reset.
    Outage(Duration),
    /// A session with the peer is open.
    Connected,
    /// There is no session with the peer, for this cause; it is dialled again.
    Disconnected(String),
}

impl Notice {
    /// Name of the kind of event, for JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Listening { .. } => "listening",
            Self::Failed { .. } => "failed",
            Self::NotListening { .. } => "not_listening",
            Self::NotPromised { .. } => "not_promised",
            Self::OverLimit { .. } => "over_limit",
            Self::Promise { event, .. } => match event {
                PromiseEvent::Promised(_) => "promised",
                PromiseEvent::Warned(_) => "promise_warned",
                PromiseEvent::Withdrawn(_) => "promise_withdrawn",
                PromiseEvent::Closed(_) => "promise_closed",
                _ => "promise",
            },
            Self::Paused { .. } => "paused",
            Self::Outage(_) => "outage",
            Self::Connected => "connected",
            Self::Disconnected(_) => "disconnected",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { at, to, is_remote } => {
                let place = if *is_remote { " at the peer" } else { "" };
                match to {
                    Some(to) => write!(f, "listening at {at}{place}, for {to}"),
                    None => write!(f, "listening at {at}{place}"),
                }
            }
            Self::Failed { to, refusal } => write!(f, "no connection to {to}: {refusal}"),
            Self::NotListening { at, refusal } => {
                write!(
                    f,
                    "not listening at {at} at the peer: {refusal}; asking again"
                )
            }
            Self::NotPromised { to, refusal } => {
                write!(
                    f,
                    "carrying the flow to {to} without its promise for now: {refusal}"
                )
            }
            Self::OverLimit { to, cause } => {
                write!(f, "carrying the flow to {to} without its promise: {cause}")
            }
            Self::Promise { to, event } => write!(f, "flow to {to} {event}"),
            Self::Paused { at, cause } => {
                write!(f, "accepting no connections at {at} for a second: {cause}")
            }
            Self::Outage(after) => write!(
                f,
                "no path to the peer for {} s: connections are reset",
                after.as_secs()
            ),
            Self::Connected => f.write_str("the peer answers"),
            Self::Disconnected(cause) => {
                write!(f, "no session with the peer: {cause}; dialling again")
            }
        }
    }
}

/// Receiver of notices. Clones share it.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&Notice) + Send + Sync>);

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

impl Notices {
    /// Calls a function for each notice, at once: it must be quick.
    pub fn new(show: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Writes notices to the log, limited.
    pub fn to_log() -> Self {
        Self::new(|notice| match notice {
            Notice::Listening { .. } | Notice::Connected => tracing::info!("{notice}"),
            Notice::NotPromised { .. } | Notice::OverLimit { .. } | Notice::Promise { .. } => {
                anabranch::net::limited!(info, "{notice}");
            }
            _ => anabranch::net::limited!(warn, "{notice}"),
        })
    }

    /// Reports an event.
    pub fn show(&self, notice: &Notice) {
        (self.0)(notice);
    }
}

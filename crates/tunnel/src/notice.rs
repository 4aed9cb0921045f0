//! Notices: what happens in a tunnel, for logs and progress lines.

use std::{fmt, sync::Arc};

use anabranch::base::NodeId;

use crate::{counters::DroppedSince, wire::Terms};

/// An event that users want to see.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The device of a server is there.
    Serving {
        /// The device.
        device: String,
        /// Addresses of the server, with their networks.
        addresses: Vec<String>,
    },
    /// The machine forwards nothing for its clients.
    NotForwarding {
        /// The setting of the kernel that is off.
        setting: &'static str,
    },
    /// A node is in the tunnel.
    Joined {
        /// The node.
        node: NodeId,
        /// Its addresses.
        terms: Terms,
    },
    /// A node is no longer in the tunnel.
    Left {
        /// The node.
        node: NodeId,
    },
    /// A request of a node was refused.
    Refused {
        /// The node.
        node: NodeId,
        /// The reason.
        cause: String,
    },
    /// This machine is in the tunnel.
    Up {
        /// The device.
        device: String,
        /// Its addresses.
        terms: Terms,
    },
    /// This machine is not in the tunnel, for this reason; it asks again.
    Down(String),
    /// Packets were dropped.
    Dropped(DroppedSince),
    /// Something that may need attention.
    Warning(String),
}

impl Notice {
    /// Name of the kind, for reports.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Serving { .. } => "serving",
            Self::NotForwarding { .. } => "not_forwarding",
            Self::Joined { .. } => "joined",
            Self::Left { .. } => "left",
            Self::Refused { .. } => "refused",
            Self::Up { .. } => "up",
            Self::Down(_) => "down",
            Self::Dropped(_) => "dropped",
            Self::Warning(_) => "warning",
        }
    }
}

/// Addresses of terms in words.
struct Addresses<'a>(&'a Terms);

impl fmt::Display for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms { v4, v6, mtu } = self.0;
        if let Some(v4) = v4 {
            write!(f, "{}/{}, ", v4.address, v4.length)?;
        }
        if let Some(v6) = v6 {
            write!(f, "{}/{}, ", v6.address, v6.length)?;
        }
        write!(f, "MTU {mtu}")
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving { device, addresses } => {
                write!(
                    f,
                    "serving the tunnel at {device}: {}",
                    addresses.join(", ")
                )
            }
            Self::NotForwarding { setting } => write!(
                f,
                "clients reach this machine only: it forwards nothing ({setting} is 0); --masquerade (`masquerade`) turns it on: docs/tunnel.md, \"The exit\""
            ),
            Self::Joined { node, terms } => write!(f, "{node} joined: {}", Addresses(terms)),
            Self::Left { node } => write!(f, "{node} left"),
            Self::Refused { node, cause } => write!(f, "{node} may not join: {cause}"),
            Self::Up { device, terms } => {
                write!(f, "the tunnel is up at {device}: {}", Addresses(terms))
            }
            Self::Down(cause) => write!(f, "the tunnel is down: {cause}"),
            Self::Dropped(dropped) => write!(f, "{dropped}"),
            Self::Warning(text) => f.write_str(text),
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
    /// Calls `show` with each notice.
    pub fn new(show: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Writes them to the log, a bounded number of each kind.
    pub fn to_log() -> Self {
        Self::new(|notice| match notice {
            Notice::Down(_) | Notice::Warning(_) | Notice::NotForwarding { .. } => {
                anabranch::net::limited!(warn, "{notice}");
            }
            Notice::Dropped(_) | Notice::Refused { .. } => {
                anabranch::net::limited!(info, "{notice}");
            }
            _ => anabranch::net::limited!(info, "{notice}"),
        })
    }

    /// Shows one.
    pub fn show(&self, notice: &Notice) {
        (self.0)(notice);
    }
}

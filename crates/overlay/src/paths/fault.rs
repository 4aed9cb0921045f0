//! Location of a path's failure.

use anabranch_base::NodeId;

use crate::relay::{Broken, Refusal};

/// Location of a path's failure, as far as its source knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Between the ends.
    Somewhere,
    /// At this relay.
    Relay(NodeId),
    /// On the link that leads to this relay.
    Before(NodeId),
    /// On the link that leads on from this relay.
    After(NodeId),
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Refused { relay, refusal } => match refusal {
                Refusal::Origin => Self::Before(relay),
                Refusal::Towards => Self::After(relay),
                _ => Self::Relay(relay),
            },
            Broken::Lost { relay } => Self::Relay(relay),
            Broken::Route | Broken::Closed => Self::Somewhere,
        }
    }
}

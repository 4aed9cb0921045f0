//! Reports of a service, for those who run it.

use anabranch::base::NodeId;
use anabranch_process::ModuleHash;

/// Something that a service reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A source is there, for the first time or again.
    Offered {
        /// Its node.
        peer: NodeId,
        /// Name of its stream.
        name: String,
        /// Number of the first ADU that it sends.
        next: u64,
    },
    /// A source has left.
    OfferOver {
        /// Its node.
        peer: NodeId,
        /// Name of its stream.
        name: String,
        /// True if it has sent everything.
        is_complete: bool,
    },
    /// A subscriber is there.
    Subscribed {
        /// Its node.
        peer: NodeId,
        /// Name of the stream.
        name: String,
        /// Pipeline.
        pipeline: String,
    },
    /// A subscriber has changed its pipeline.
    Changed {
        /// Its node.
        peer: NodeId,
        /// Name of the stream.
        name: String,
        /// Pipeline.
        pipeline: String,
    },
    /// A subscriber has left.
    SubscriptionOver {
        /// Its node.
        peer: NodeId,
        /// Name of the stream.
        name: String,
        /// ADUs that were sent.
        sent: u64,
    },
    /// A subscriber has brought a module.
    Module {
        /// Its node.
        peer: NodeId,
        /// Name of the stream.
        name: String,
        /// The module.
        hash: ModuleHash,
        /// Its size.
        bytes: usize,
    },
    /// A request was refused.
    Refused {
        /// Node that made it.
        peer: NodeId,
        /// Name of the stream.
        name: String,
        /// Reason.
        why: String,
    },
}

//! Terms of the table: names of sources and subscribers, bounds, errors, results.

use crate::{Failure, Limits, StartError};

/// Source stream, numbered by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// Subscriber of a derived stream; never reused by one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Bounds on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Subscribers.
    pub subscribers: usize,
    /// Different derivations.
    pub derivations: usize,
    /// Bytes that one subscriber's queue may be asked to hold.
    pub queue_bytes: usize,
    /// Bounds on operators.
    pub operators: Limits,
}

impl Default for Bounds {
    /// A node that serves a few sources to some hundred viewers.
    fn default() -> Self {
        Self {
            subscribers: 1_024,
            derivations: 256,
            queue_bytes: 64 << 20,
            operators: Limits::default(),
        }
    }
}

/// Error of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// There are as many subscribers as are allowed.
    #[error("there are {0} subscribers already; end one first")]
    Subscribers(usize),
    /// There are as many derivations as are allowed.
    #[error(
        "{0} different derivations are computed already; use the pipeline of one of them, or end one first"
    )]
    Derivations(usize),
    /// The queue would be empty always, or too large.
    #[error("a queue holds 1 ADU or more, and 1 to {0} bytes; ask for less")]
    Queue(usize),
    /// An operator cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Modules of a peer have taken what they may, in units of fuel a second.
    #[error(
        "WebAssembly modules have taken their share of the processor, {0} units of fuel a second; give them fewer ADUs, as by \"every 2\" before them, or make them cheaper"
    )]
    Fuel(u64),
    /// There is no such subscriber, or it has ended.
    #[error("the subscription has ended; subscribe again")]
    Ended,
}

/// Result of pushing one ADU of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Units of work of all derivations.
    pub work: u64,
    /// Derivations that could not process the ADU: the pipeline's error. Each subscriber's [`Status`] has its own.
    pub failures: Vec<Failure>,
    /// Reliable subscribers whose queue became full, so that their subscription ended.
    pub ended: Vec<SubscriberId>,
}

/// State of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// ADUs and bytes that wait.
    pub queued: (usize, usize),
    /// ADUs that were lost because they were not taken.
    pub lost: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// ADUs of the source that the pipeline could not process, and the last error.
    pub failed: (u64, Option<Failure>),
    /// Changes of the pipeline that the subscriber has made.
    pub changes: u32,
    /// True if nothing is added any more: the queue of a reliable subscriber was full, or the source has ended. What waits can
    /// be taken.
    pub has_ended: bool,
}

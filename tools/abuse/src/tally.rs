//! Counts of a kind of abuse, and its failure.

use std::error::Error;

/// Error that ends a kind.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Counts of a kind: packets sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) attempts: u64,
    pub(crate) connected: u64,
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    /// Connections that the victim ended.
    pub(crate) closed: u64,
    /// Answers that asked for a proof of address.
    pub(crate) retries: u64,
}

//! Refusal of an offer or a subscription.

use anabranch_process::memory::{Account, Memory};

/// Refusal of the first request of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Reason and remedy.
    pub(super) why: String,
    /// True if the same request can be granted later.
    pub(super) may_retry: bool,
}

impl Refusal {
    /// One whose reason stays.
    pub(super) fn lasting(why: String) -> Self {
        let may_retry = false;
        Self { why, may_retry }
    }

    /// One whose reason may pass.
    pub(super) fn for_now(why: String) -> Self {
        let may_retry = true;
        Self { why, may_retry }
    }

    /// That of a peer which may not have more memory.
    pub(super) fn without_memory(memory: &Memory, account: &Account) -> Self {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        Self::for_now(format!(
            "of the {} MiB of memory for processing, {} are used, {} of them for this node, which gets no more now; try again later, \
             or end a slow subscription",
            mib(memory.bound()),
            mib(memory.used()),
            mib(account.used())
        ))
    }
}

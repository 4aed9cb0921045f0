//! Receive streams: fragments in, whole ADUs out, each once.

mod assembly;
mod holes;
mod horizon;
#[cfg(test)]
mod parts;
mod stream;

pub(crate) use stream::{Accepted, Accounts, Capacity, Counters, Load, RecvStream};

/// The peer violated the protocol; the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// Two fragments of an ADU disagree about its length.
    #[error("fragments of one ADU disagree about its length")]
    Length,
    /// The peer sent more than it had credit for.
    #[error("more was sent than the credit permits")]
    Credit,
    /// The peer returned credit that was not, or could not have been, used.
    #[error("a skipped ADU or reset stream cannot have used the credit that the peer reports")]
    Charge,
    /// An ADU came after the announced end of the stream.
    #[error("an ADU follows the announced end of its stream")]
    AfterEnd,
    /// The numbers of ADUs have more gaps than any conforming sender leaves.
    #[error("the numbers of ADUs have too many gaps")]
    Gaps,
}

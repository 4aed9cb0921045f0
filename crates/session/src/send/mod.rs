//! Send streams: ADUs in, fragments out, outcomes back.

mod adu;
mod carried;
mod newest;
mod runs;
mod stream;

pub(crate) use stream::{
    AduOutcome, Counters, Outlook, Piece, Receipt, SendStream, Settled, WaitingAdu,
};

/// Credit that an ADU uses beside its bytes: the most that keeping one costs the receiver, so that windows bound memory whatever
/// the size of ADUs.
pub(crate) const ADU_OVERHEAD_BYTES: u64 = 128;

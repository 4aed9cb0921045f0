//! The sending half of streams: ADUs in, fragments out, fates back.

mod adu;
mod stream;

pub(crate) use stream::{AduOutcome, Outlook, Piece, Receipt, SendStream, Settled, WaitingAdu};

/// Credit that an ADU uses beside its bytes: what keeping one costs the receiver at most, so that windows bound memory whatever
/// the size of ADUs.
pub(crate) const ADU_OVERHEAD_BYTES: u64 = 128;

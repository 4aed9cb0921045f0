//! The sending half of streams: ADUs in, fragments out, fates back.

mod adu;
mod stream;

pub(crate) use stream::{AduFate, Outlook, Piece, Receipt, SendStream, Settled, WaitingAdu};

/// Credit that an ADU uses beside its bytes, for what keeping it costs the receiver; so that many
/// tiny ADUs cannot use unbounded memory.
pub(crate) const ADU_OVERHEAD_BYTES: u64 = 32;

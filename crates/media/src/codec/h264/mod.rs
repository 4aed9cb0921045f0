//! H.264: slice headers, and stand-ins for frames that are missing.

mod parameters;
mod reference;
mod slice;
mod stand_in;

pub(crate) use slice::slice;
pub(crate) use stand_in::Writer as StandIns;

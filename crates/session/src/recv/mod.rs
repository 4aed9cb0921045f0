//! The receiving half of streams: fragments in, whole ADUs out, each once.

mod assembly;
mod horizon;
#[cfg(test)]
mod parts;
mod stream;

pub(crate) use stream::{Accepted, RecvStream, Violation};

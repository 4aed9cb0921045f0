//! The receiving half of streams: fragments in, whole ADUs out, each once.

mod assembly;
mod stream;

pub(crate) use stream::{Accepted, RecvStream, Violation};

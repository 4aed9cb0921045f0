//! The commands of `anabranch video` as processes.

#[cfg(feature = "console")]
mod console;
mod http;
mod tickets;

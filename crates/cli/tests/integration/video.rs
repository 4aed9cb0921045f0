//! The commands of `anabranch video` as processes.

mod http;
mod tickets;

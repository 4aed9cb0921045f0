//! `anabranch demo`, `demo-gateway`, `demo-overlay`, `demo-tunnel` and `demo-video`: demonstrations on one machine.

pub(crate) mod gateway;
mod links;
pub(crate) mod overlay;
pub(crate) mod paths;
mod stage;
#[cfg(target_os = "linux")]
pub(crate) mod tunnel;
pub(crate) mod video;
mod web;

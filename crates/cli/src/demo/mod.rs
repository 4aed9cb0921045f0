//! `anabranch demo`, `demo-gateway`, `demo-overlay`, `demo-records`, `demo-tunnel` and `demo-video`: demonstrations on one machine.

mod data;
pub(crate) mod gateway;
mod links;
pub(crate) mod overlay;
pub(crate) mod paths;
#[cfg(feature = "records")]
pub(crate) mod records;
mod stage;
#[cfg(target_os = "linux")]
pub(crate) mod tunnel;
#[cfg(feature = "video")]
pub(crate) mod video;
mod web;

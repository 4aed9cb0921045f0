//! `anabranch demo`, `demo-gateway`, `demo-overlay` and `demo-video`: demonstrations on one machine.

pub(crate) mod gateway;
mod links;
pub(crate) mod overlay;
pub(crate) mod paths;
mod stage;
pub(crate) mod video;

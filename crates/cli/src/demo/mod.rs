//! `anabranch demo`, `demo-clinic`, `demo-gateway`, `demo-overlay`, `demo-process`, `demo-records`, `demo-tunnel`, `demo-video` and `demo-visualise`: demonstrations on one machine.

#[cfg(feature = "clinic")]
pub(crate) mod clinic;
mod data;
pub(crate) mod gateway;
mod links;
#[cfg(any(feature = "process", feature = "records", feature = "visualise"))]
mod nodes;
pub(crate) mod overlay;
pub(crate) mod paths;
#[cfg(feature = "process")]
pub(crate) mod process;
#[cfg(feature = "records")]
pub(crate) mod records;
mod stage;
#[cfg(target_os = "linux")]
pub(crate) mod tunnel;
#[cfg(feature = "video")]
pub(crate) mod video;
#[cfg(feature = "visualise")]
pub(crate) mod visualise;
mod web;

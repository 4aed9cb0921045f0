//! Integration tests of the crate, in one program: each is linked once.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod acts;
#[cfg(target_os = "linux")]
mod asked;
mod at_source;
mod attached_send;
#[cfg(feature = "clinic")]
mod clinic;
mod codes;
mod command;
mod configuration;
mod connecting;
#[cfg(all(feature = "demo", feature = "clinic"))]
mod demo_clinic;
#[cfg(all(feature = "demo", feature = "console"))]
mod demo_console;
#[cfg(all(feature = "demo", feature = "process"))]
mod demo_process;
#[cfg(all(feature = "demo", feature = "records"))]
mod demo_records;
#[cfg(all(feature = "demo", feature = "visualise"))]
mod demo_visualise;
#[cfg(all(
    feature = "demo",
    any(
        feature = "clinic",
        feature = "process",
        feature = "records",
        feature = "visualise"
    )
))]
mod demos;
mod drone;
mod everyday;
mod exports;
mod fallback;
mod faults;
mod gateway;
#[path = "../harness/mod.rs"]
mod harness;
mod hose;
#[cfg(feature = "visualise")]
mod imd;
mod json;
mod moves;
mod named;
mod named_updates;
mod numbered;
mod pair;
#[cfg(feature = "process")]
mod processing;
#[cfg(feature = "records")]
mod records;
mod service;
#[cfg(feature = "visualise")]
mod smartpointer;
mod stopped;
mod stream;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(all(target_os = "linux", feature = "top"))]
mod top;
mod trees;
mod tun;
mod updates;
mod video;
mod watched;

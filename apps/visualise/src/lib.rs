//! Simulations watched live: a source beside a simulation that speaks IMDv3, and viewers that serve IMDv3 to unmodified clients.
//!
//! The sections of a frame travel on streams of their own: box and positions with a promise, velocities and forces with what is
//! left, energies before all. A viewer puts frames together again; a frame of which a section is missing is skipped as a whole.
//! User's guide in `docs/visualise.md`, protocol in `spec/visualise.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`imd`] | the codec of IMDv3 |
//! | [`wire`] | the protocol between source and viewer: labels, messages, parts of sections |
//! | [`source`] | the application beside the simulation |
//! | [`viewer`] | the application that serves clients |
//! | `queue` | frames for one receiver |
//! | `holds` | pauses of several |
//! | `error` | [`VisualiseError`] |

mod error;
mod holds;
pub mod imd;
mod queue;
pub mod source;
pub mod viewer;
pub mod wire;

pub use error::VisualiseError;

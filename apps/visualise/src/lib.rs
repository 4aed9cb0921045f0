//! Simulations watched live: a source beside a simulation that speaks IMDv3, and viewers that serve IMDv3 to unmodified clients.
//!
//! The sections of a frame travel on streams of their own: box and positions with a promise, velocities and forces with what is
//! left, energies before all. A viewer puts frames together again; a frame of which a section is missing is skipped as a whole.
//! SmartPointer shows a molecule in a browser instead: atoms and the bonds in view with a promise, those out of view with what is left.
//! User's guide in `docs/visualise.md`, protocol in `spec/visualise.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`imd`] | the codec of IMDv3 |
//! | [`wire`] | the protocol between source and viewer: labels, messages, parts of sections |
//! | [`source`] | the application beside the simulation |
//! | [`viewer`] | the application that serves clients |
//! | [`molecule`] | readers of topologies (PSF) and trajectories (DCD) |
//! | [`smartpointer`] | atoms and bonds of a molecule by the view of who looks, shown in a browser |
//! | `streams` | streams that viewers open at a source |
//! | [`promise`] | promises for streams with frames |
//! | `queue` | frames for one receiver |
//! | `holds` | pauses of several |
//! | `error` | [`VisualiseError`] |

mod error;
mod holds;
pub mod imd;
pub mod molecule;
pub mod promise;
mod queue;
pub mod smartpointer;
pub mod source;
mod streams;
pub mod viewer;
pub mod wire;

pub use error::VisualiseError;

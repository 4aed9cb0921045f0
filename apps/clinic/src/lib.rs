//! Telemedicine: an ambulance with several modems sends what a hospital needs to see.
//!
//! Record, numbers, video, speech and files travel on streams of their own, each with the demands of its content. User's guide in `docs/clinic.md`,
//! protocol in `spec/clinic.md`. No fitness for diagnosis is claimed.
//!
//! | module | holds |
//! |---|---|
//! | [`ambulance`] | the application that plays a case and sends it |
//! | [`hospital`] | the application that receives cases and keeps them |
//! | [`wire`] | the protocol between them |
//! | [`wfdb`] | records of signals such as an ECG (WFDB): headers, samples, files |
//! | [`speech`] | packets of Opus, and files of them (Ogg) |
//! | [`annexb`] | access units of H.264 in a byte stream |
//! | [`vitals`] | the heart rate from a lead |
//! | `error` | [`ClinicError`] |

pub mod ambulance;
pub mod annexb;
mod error;
pub mod hospital;
pub mod speech;
pub mod vitals;
pub mod wfdb;
pub mod wire;

pub use error::ClinicError;

/// Objectives of the streams, for policies that follow objectives.
pub const OBJECTIVES: &str = include_str!("objectives.hose");

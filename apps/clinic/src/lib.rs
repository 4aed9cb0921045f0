//! Telemedicine: an ambulance with several modems sends what a hospital needs to see.
//!
//! User's guide in `docs/clinic.md`. No fitness for diagnosis is claimed.
//!
//! | module | holds |
//! |---|---|
//! | [`wfdb`] | records of signals such as an ECG (WFDB): headers, samples, files |
//! | [`annexb`] | access units of H.264 in a byte stream |

pub mod annexb;
pub mod wfdb;

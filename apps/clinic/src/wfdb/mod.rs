//! Records of sampled signals in the format of WFDB (PhysioNet): a header in text, and files of samples.
//!
//! A record holds one sample of each lead at each sampling time: a *frame*. Formats 16 and 212 are read and written. Headers and samples are
//! read from bytes, without files; [`files`] reads and writes those of a record.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | limits, [`WfdbError`] |
//! | `header` | [`Header`]: reader and writer |
//! | `samples` | [`Format`], and the bytes of samples |
//! | `sums` | [`Sum`]: checksum and first sample of a lead |
//! | `holes` | [`Holes`]: samples that are missing |
//! | [`files`] | a record in files: [`files::Reader`], [`files::Writer`] |

pub mod files;
mod header;
mod holes;
mod samples;
mod sums;
#[cfg(test)]
pub(crate) mod tests;

pub use header::{Header, Lead};
pub use holes::{Hole, Holes};
pub use samples::{Format, Packer, Unpacker};
pub use sums::Sum;

/// Most leads of a record.
pub const LEADS_MAX: usize = 64;
/// Largest header, in bytes.
pub const HEADER_BYTES_MAX: usize = 256 << 10;
/// Highest sampling frequency, in Hz.
pub const FREQUENCY_MAX: f64 = 100_000.0;
/// Most frames of a record: a year at 10 kHz.
pub const FRAMES_MAX: u64 = 1 << 40;
/// Value of a sample that is missing or invalid, in every format; in format 212 it is stored as -2048.
pub const INVALID: i16 = i16::MIN;

/// A record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WfdbError {
    /// The header has more bytes than are read.
    #[error("the header has more than {HEADER_BYTES_MAX} bytes; is it a .hea file?")]
    Long,
    /// A line of the header is wrong.
    #[error("line {line} of the header: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Deviation, and what would be right.
        why: String,
    },
    /// The header ends before its leads.
    #[error("the header promises {promised} leads and describes {found}; it was cut off")]
    Leads {
        /// Number in the first line.
        promised: usize,
        /// Lines of leads.
        found: usize,
    },
    /// None of the files with samples is there.
    #[error("no file of the record is there; it needs {0} beside the header")]
    NoFile(String),
    /// A file holds fewer frames than the header states.
    #[error(
        "{file} holds {found} samples of each lead, and the header states {stated}; it was cut off"
    )]
    Short {
        /// Name of the file.
        file: String,
        /// Whole frames in it.
        found: u64,
        /// Frames in the header.
        stated: u64,
    },
    /// A file cannot be read or written.
    #[error("{file}: {why}")]
    File {
        /// The file.
        file: String,
        /// Error of the system.
        why: std::io::Error,
    },
}

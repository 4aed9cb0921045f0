//! Text form of a link's config on one line, both read and written.
//!
//! `rate=50 Mbit/s, delay=30 ms, loss=1 %, queue=250 kB, jitter=2 ms`
//!
//! | key | value |
//! |---|---|
//! | `rate` | `unlimited` · `50 Mbit/s` · `20 Mbit/s +- 50 % every 500 ms` · `trace NAME [x0.5] [from 10 s]` |
//! | `delay` | `30 ms` |
//! | `jitter` | `none` · `2 ms` (uniform, 0 to 2 ms) · `normal 2 ms` · `gaussian 2 ms` (around 6 ms); then optionally `reordering` |
//! | `loss` | `none` · `1 %` · `1 % in bursts of 4` · `gilbert GB/BG/G/B` (the four probabilities of [`GilbertElliott`]) · `20 % in bursts up to 16` · `doubling START/DECAY/MAX` (the parts of [`Doubling`]) |
//! | `queue` | `250 kB` · `100 ms` (at the mean rate) |
//! | `ecn` | `none` · `60 kB` (mark above) |
//! | `mtu` | `1400 B` |
//! | `outage` | `5 s to 7 s`, may be repeated, in order |
//!
//! Every key may be omitted; [`Config::default`](crate::Config) then applies. The first part may be a preset's name,
//! with `-up` for its uplink: `lte-up, delay=80 ms`. A trace's name is put in quotation marks if it contains a space or
//! comma.
//!
//! Both directions are written `forward ; backward`. A single part applies to both; if it begins with a preset, forward
//! is its uplink and backward its downlink.
//!
//! [`GilbertElliott`]: crate::loss::GilbertElliott
//! [`Doubling`]: crate::loss::Doubling

mod both;
mod parse;
mod print;
mod value;

use std::sync::Arc;

pub use both::parse_both;
pub use parse::{KEYS, parse};

use crate::{ConfigError, Trace};

/// Loads a trace by the name in a description, usually by reading a file. The error is shown to the user.
pub type LoadTrace<'a> = dyn FnMut(&str) -> Result<Arc<Trace>, String> + 'a;

/// A [`LoadTrace`] for callers without files: every trace is rejected.
///
/// # Errors
/// Always.
pub fn no_traces(_name: &str) -> Result<Arc<Trace>, String> {
    Err("traces cannot be read here; state a rate".to_owned())
}

/// Error in the description of a link.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// A key that does not exist.
    #[error("a link has no '{key}'; the keys are {}", KEYS.join(", "))]
    UnknownKey {
        /// Key as written.
        key: String,
    },
    /// A part that is neither a setting nor, at the beginning, a preset.
    #[error(
        "'{part}' is not of the form key=value; a preset ({}) is allowed at the beginning only",
        preset_names()
    )]
    NotASetting {
        /// Part as written.
        part: String,
    },
    /// A key given twice.
    #[error("'{key}' is given twice; give it once")]
    Twice {
        /// The key.
        key: &'static str,
    },
    /// A value of another form than its key's.
    #[error("{key}={value}: expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Value as written.
        value: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// A trace that could not be loaded.
    #[error("rate=trace {name}: {cause}")]
    Trace {
        /// Its name.
        name: String,
        /// Error of the loader.
        cause: String,
    },
    /// A value of the right form that is out of range.
    #[error(transparent)]
    Range(#[from] ConfigError),
    /// More than two directions.
    #[error(
        "a link has two directions, this text has {count} parts separated by ';'; write forward ; backward"
    )]
    Directions {
        /// Number of parts.
        count: usize,
    },
}

fn preset_names() -> String {
    crate::preset::names().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;

//! Exported directories: a peer reads them by byte ranges, over one stream (`docs/exports.md`, `spec/exports.md`).
//!
//! Every request has a number, many are outstanding, and answers come in any order, each in an ADU of its own: a range that a slow
//! path delays does not hold up the others. A file has a [`Version`], which every answer about it states, so that two ranges of
//! different contents are an error and never a mixture.
//!
//! | module | holds |
//! |---|---|
//! | `message` | requests and answers as bytes |
//! | `path` | the path of a request: an export, and a place beneath it |
//! | `root` | files and directories beneath an exported directory, whatever is moved there meanwhile |
//! | `server` | the service of a node |
//! | `client` | [`Exports`]: the side that reads |
//! | `error` | [`ExportError`] |

mod client;
mod error;
mod message;
mod path;
mod root;
mod server;

pub use self::{
    client::{Exports, Listed, Part},
    error::ExportError,
    message::{
        Answer, DecodeError, Entry, Fault, Kind, LIST_MAX, Metadata, ParseVersionError,
        READ_BYTES_MAX, REQUEST_BYTES_MAX, Request, Version,
    },
};
pub(crate) use self::{
    root::is_readable,
    server::{Server, Settings},
};

/// Label of the streams on which a node reads the exports of a peer.
pub const LABEL: &str = "anabranch-exports/1";

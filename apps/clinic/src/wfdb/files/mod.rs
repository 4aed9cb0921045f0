//! A record in files: a header `NAME.hea`, and files of samples beside it.
//!
//! | file | holds |
//! |---|---|
//! | `read` | [`Reader`]: the frames of a record, one after the other |
//! | `write` | [`Writer`]: a record that grows, and can be read at any time |

mod read;
mod write;

use std::{io, path::Path};

use super::WfdbError;

pub use read::{Missing, Reader};
pub use write::{HOLE_FRAMES_MAX, Writer};

/// Bytes of a file that are read or written at a time.
const PIECE_BYTES: usize = 64 << 10;

fn failed(path: &Path, why: io::Error) -> WfdbError {
    WfdbError::File {
        file: path.display().to_string(),
        why,
    }
}

//! `--text`: words in place of a file.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anabranch::texts::{TEXT_BYTES_MAX, new_name};
use tempfile::TempDir;

use crate::exit::Failure;

/// A text in a private file, which is removed with it.
pub(super) struct Text {
    path: PathBuf,
    _folder: TempDir,
}

impl Text {
    pub(super) fn new(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(Failure::usage("--text: the text is empty"));
        }
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(Failure::usage(format!(
                "--text: {} bytes are more than {TEXT_BYTES_MAX}; send a file, or standard input as -",
                text.len()
            )));
        }
        let failed = |error: std::io::Error| Failure::file(format!("--text: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let path = folder.path().join(new_name().map_err(failed)?);
        let mut file = std::fs::File::create(&path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(Self {
            path,
            _folder: folder,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

//! Systems on which directories cannot be exported. The configuration refuses exports there.

use std::{io, path::Path};

use super::{Range, Read};
use crate::exports::message::{Entry, Fault, Metadata};

pub(crate) fn is_readable(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(in crate::exports) fn stat(_: &Path, _: &str) -> Result<Metadata, Fault> {
    Err(Fault::NotFound)
}

pub(in crate::exports) fn list(
    _: &Path,
    _: &str,
    _: &str,
    _: usize,
    _: impl Fn(&str) -> bool,
) -> Result<(Vec<Entry>, bool), Fault> {
    Err(Fault::NotFound)
}

pub(in crate::exports) fn read(_: &Path, _: &str, _: Range, _: usize) -> Result<Read, Fault> {
    Err(Fault::NotFound)
}

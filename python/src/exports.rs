//! Exported directories of a peer.

use anabranch::{
    AduStream, Priority,
    exports::{self, Entry, ExportError, Kind, Part, Version},
    local::client,
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};

use crate::{
    failure::Failed,
    fork::Owned,
    operation::{self, Value, value},
};

enum Either {
    Here(exports::Exports<anabranch::Stream>),
    Attached(exports::Exports<client::Stream>),
}

/// Exported directories of a peer, read over a session.
#[pyclass(frozen, weakref)]
pub(crate) struct Exports(Owned<Either>);

impl Exports {
    pub(crate) async fn here(session: anabranch::Session) -> Result<Self, Failed> {
        let exports = exports::Exports::open(&session, Priority::NORMAL).await?;
        Ok(Self(Owned::new(Either::Here(exports))))
    }

    pub(crate) async fn attached(session: client::Session) -> Result<Self, Failed> {
        let exports = exports::Exports::open(&session, Priority::NORMAL).await?;
        Ok(Self(Owned::new(Either::Attached(exports))))
    }
}

impl From<ExportError> for Failed {
    fn from(error: ExportError) -> Self {
        let text = error.to_string();
        match error {
            ExportError::Fault { fault, .. } => {
                Self::with_code("ExportError", text, (fault as u8).into())
            }
            ExportError::Over(_) => Self::new("Closed", text),
            ExportError::NotExported => Self::new("Rejected", text),
            _ => Self::new("AnabranchError", text),
        }
    }
}

/// The same expression for either kind.
macro_rules! either {
    ($of:expr, $exports:ident => $result:expr) => {
        match $of {
            Either::Here(here) => {
                let $exports = here.clone();
                $result
            }
            Either::Attached(attached) => {
                let $exports = attached.clone();
                $result
            }
        }
    };
}

/// Name, true for a directory, size, time and version of an entry.
type Row = (String, bool, u64, i64, String);

fn row(entry: Entry) -> Row {
    let of = entry.metadata;
    let is_directory = of.kind == Kind::Directory;
    let version = of.version.to_string();
    (
        entry.name,
        is_directory,
        of.size_bytes,
        of.modified_ns,
        version,
    )
}

fn version(text: Option<&str>) -> Result<Option<Version>, Failed> {
    let Some(text) = text else {
        return Ok(None);
    };
    let read = text.parse();
    let wrong = |_| {
        Failed::new(
            "SpecError",
            format!("{text:?} is not the version of a file"),
        )
    };
    read.map(Some).map_err(wrong)
}

/// Bytes, size and version.
fn read(part: Part) -> Value {
    value(move |py| {
        let bytes = PyBytes::new_with(py, part.len(), |all| {
            let mut rest = all;
            for piece in &part.pieces {
                let (here, after) = rest.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                rest = after;
            }
            Ok(())
        })?;
        let version = part.version.to_string();
        let all = (bytes, part.size_bytes, version).into_pyobject(py)?;
        Ok(all.into_any().unbind())
    })
}

async fn list<S: AduStream>(
    exports: exports::Exports<S>,
    path: String,
    after: String,
) -> Result<Value, Failed> {
    let listed = exports.list(&path, &after).await?;
    Ok(value(move |py| {
        let rows: Vec<Row> = listed.entries.into_iter().map(row).collect();
        let all: Bound<'_, PyTuple> = (rows, listed.more_after).into_pyobject(py)?;
        Ok(all.into_any().unbind())
    }))
}

#[pymethods]
impl Exports {
    /// Name, true for a directory, size, time of modification in nanoseconds and version of a file or directory.
    fn stat(&self, py: Python<'_>, path: String) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, exports => operation::start(py, async move {
            let metadata = exports.stat(&path).await?;
            let entry = Entry { name: path, metadata };
            Ok(value(move |py| Ok(row(entry).into_pyobject(py)?.into_any().unbind())))
        }))
    }

    /// Entries of a directory after a name, and the name after which others follow, if they do.
    fn list(&self, py: Python<'_>, path: String, after: String) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, exports => operation::start(py, list(exports, path, after)))
    }

    /// Bytes of a file from an offset on, its size and its version.
    #[pyo3(signature = (path, offset, bytes, version=None))]
    fn read(
        &self,
        py: Python<'_>,
        path: String,
        offset: u64,
        bytes: u64,
        version: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let version = self::version(version)?;
        either!(self.0.get()?, exports => operation::start(py, async move {
            Ok(read(exports.read(&path, offset, bytes, version).await?))
        }))
    }
}

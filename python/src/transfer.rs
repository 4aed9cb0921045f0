//! Transfers of files to holders of a ticket's other end: `anabranch recv`, or a node that takes files.

use std::path::PathBuf;

use anabranch::{
    Host, Ticket,
    transfer::{Completed, Manner, Progress, Selection, TransferError, send_with_retries},
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    failure::Failed,
    operation::{self, value},
    report::fields,
};

impl From<TransferError> for Failed {
    fn from(error: TransferError) -> Self {
        Self::new("TransferError", error.to_string())
    }
}

/// The ticket, whose secret may admit a sender that the receiver does not know.
pub(crate) fn ticket(text: &str) -> Result<Ticket, Failed> {
    let wrong =
        |error: anabranch::ticket::ParseTicketError| Failed::new("TicketError", error.to_string());
    text.parse().map_err(wrong)
}

fn completed<'py>(py: Python<'py>, done: &Completed) -> PyResult<Bound<'py, PyDict>> {
    let left_out = done.left_out.named.iter();
    let left_out: Vec<(&str, &str)> = left_out
        .map(|left| (left.path.as_str(), left.reason))
        .collect();
    Ok(fields!(py,
        "name": &done.name,
        "files": done.files,
        "bytes": done.bytes,
        "left_out": left_out,
    ))
}

/// Sends a file or directory, under another name if one is given, and waits until the receiver has all of it.
pub(crate) fn send(
    py: Python<'_>,
    host: Host,
    text: &str,
    path: PathBuf,
    name: Option<String>,
    retry_for_s: f64,
) -> PyResult<Py<PyAny>> {
    let ticket = ticket(text)?;
    let mut selection = Selection::new(path);
    if let Some(name) = name {
        selection = selection.named(name);
    }
    let retry_for = std::time::Duration::try_from_secs_f64(retry_for_s).map_err(|_| {
        let text = format!("retry_for: {retry_for_s} s is not a time; give 0 or more");
        Failed::new("SpecError", text)
    })?;
    operation::start(py, async move {
        let progress = Progress::default();
        let manner = Manner {
            retry_for,
            ..Manner::default()
        };
        let done = send_with_retries(&host, &ticket, selection, manner, &progress, |_| {}).await?;
        Ok(value(move |py| {
            Ok(completed(py, &done)?.into_any().unbind())
        }))
    })
}

//! Sessions, of a node in this process or of one to which it is attached.

use anabranch::{
    AduSession, ObjectiveId, Policy, SessionCloseReason, StreamFailure, local::client,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    event,
    exports::Exports,
    failure::Failed,
    fork::Owned,
    objective::{self, Finding},
    operation::{self, value},
    report,
    stream::Stream,
    words,
};

pub(crate) enum Either {
    Here(anabranch::Session),
    Attached(client::Session),
}

/// A session with a peer.
#[pyclass(frozen, weakref)]
pub(crate) struct Session(Owned<Either>);

impl Session {
    pub(crate) fn here(session: anabranch::Session) -> Self {
        Self(Owned::new(Either::Here(session)))
    }

    pub(crate) fn attached(session: client::Session) -> Self {
        Self(Owned::new(Either::Attached(session)))
    }

    fn get_here(&self, needed: &str) -> PyResult<&anabranch::Session> {
        match self.0.get()? {
            Either::Here(session) => Ok(session),
            Either::Attached(_) => {
                let text = format!("{needed} of a node to which this program is attached");
                Err(Failed::new("AnabranchError", text).into())
            }
        }
    }
}

/// The same expression for either kind.
macro_rules! either {
    ($of:expr, $session:ident => $result:expr) => {
        match $of {
            Either::Here(here) => {
                let $session = here.clone();
                $result
            }
            Either::Attached(attached) => {
                let $session = attached.clone();
                $result
            }
        }
    };
}

fn reason(reason: &SessionCloseReason) -> String {
    reason.to_string()
}

fn added(py: Python<'_>, ids: &[ObjectiveId], warnings: &[Finding]) -> PyResult<Py<PyAny>> {
    let ids: Vec<u64> = ids.iter().map(|id| id.0).collect();
    let pair = (ids, objective::list(py, warnings)?);
    Ok(pair.into_pyobject(py)?.into_any().unbind())
}

#[pymethods]
impl Session {
    /// Identity of the peer.
    #[getter]
    fn peer(&self) -> PyResult<String> {
        Ok(either!(self.0.get()?, session => session.peer().to_string()))
    }

    /// Opens a stream with a specification as JSON.
    fn open(&self, py: Python<'_>, spec: &str) -> PyResult<Py<PyAny>> {
        let spec = words::spec(spec)?;
        match self.0.get()? {
            Either::Here(session) => {
                let stream = py
                    .detach(|| session.open_stream(spec))
                    .map_err(Failed::from)?;
                Ok(Py::new(py, Stream::here(stream))?.into_any())
            }
            Either::Attached(session) => {
                let session = session.clone();
                operation::start(py, async move {
                    let stream = session.open_stream(spec).await?;
                    Ok(value(|py| {
                        Ok(Py::new(py, Stream::attached(stream))?.into_any())
                    }))
                })
            }
        }
    }

    /// The exported directories of the peer.
    fn exports(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let opened = |exports| value(move |py| Ok(Py::new(py, exports)?.into_any()));
        match self.0.get()? {
            Either::Here(session) => {
                let session = session.clone();
                operation::start(py, async move { Ok(opened(Exports::here(session).await?)) })
            }
            Either::Attached(session) => {
                let session = session.clone();
                operation::start(
                    py,
                    async move { Ok(opened(Exports::attached(session).await?)) },
                )
            }
        }
    }

    /// The next stream that the peer opens.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let session =
            self.get_here("streams that peers open come to a service, not to a session,")?;
        let session = session.clone();
        operation::start(py, async move {
            let stream = session.accept_stream().await.map_err(StreamFailure::from)?;
            Ok(value(
                |py| Ok(Py::new(py, Stream::here(stream))?.into_any()),
            ))
        })
    }

    /// The promise that a stream with this specification would get.
    fn admit(&self, py: Python<'_>, spec: &str) -> PyResult<Py<PyAny>> {
        let spec = words::spec(spec)?;
        either!(self.0.get()?, session => operation::start(py, async move {
            let grant = AduSession::admit(&session, &spec).await?;
            Ok(value(move |py| Ok(report::grant(py, &grant)?.into_any().unbind())))
        }))
    }

    /// Applies the objectives of a text: their ids, and warnings about the text.
    fn add_objectives(&self, py: Python<'_>, text: String) -> PyResult<Py<PyAny>> {
        match self.0.get()? {
            Either::Here(session) => {
                let injected = py
                    .detach(|| session.inject_objectives(&text))
                    .map_err(Failed::from)?;
                let warnings = objective::findings(&injected.warnings);
                added(py, &injected.ids, &warnings)
            }
            Either::Attached(session) => {
                let session = session.clone();
                operation::start(py, async move {
                    let ids = session.inject_objectives(&text).await?;
                    Ok(value(move |py| added(py, &ids, &[])))
                })
            }
        }
    }

    /// Removes an objective; false if it is not in force.
    fn remove_objective(&self, py: Python<'_>, id: u64) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, session => operation::start(py, async move {
            let removed = AduSession::remove_objective(&session, ObjectiveId(id)).await?;
            Ok(value(move |py| Ok(removed.into_pyobject(py)?.to_owned().into_any().unbind())))
        }))
    }

    /// The objectives in force; with what they did, of a session here.
    fn objectives(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let tallies = match self.0.get()? {
            Either::Here(session) => py.detach(|| session.tallies()),
            Either::Attached(_) => Vec::new(),
        };
        either!(self.0.get()?, session => operation::start(py, async move {
            let entries = AduSession::objectives(&session).await?;
            Ok(value(move |py| {
                let list = PyList::empty(py);
                for entry in &entries {
                    let tally = tallies.iter().find(|(id, _)| *id == entry.id);
                    list.append(objective::entry(py, entry, tally.map(|(_, tally)| tally))?)?;
                }
                Ok(list.into_any().unbind())
            }))
        }))
    }

    /// Changes the scheduling policy of what this side sends.
    fn set_policy(&self, py: Python<'_>, policy: &str) -> PyResult<()> {
        let session = self.get_here("the policy is set in the node's configuration")?;
        let policy: Policy = policy
            .parse()
            .map_err(|error| Failed::new("SpecError", format!("policy: {error}")))?;
        py.detach(|| session.set_policy(policy))
            .map_err(Failed::from)?;
        Ok(())
    }

    fn next_event(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, session => operation::start(py, async move {
            let happened = AduSession::next_event(&session).await?;
            Ok(value(move |py| {
                Ok(event::session(py, &happened)?.into_pyobject(py)?.into_any().unbind())
            }))
        }))
    }

    /// The reason of the end, once the session is over.
    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, session => operation::start(py, async move {
            let text = reason(&AduSession::closed(&session).await?);
            Ok(value(move |py| Ok(text.into_pyobject(py)?.into_any().unbind())))
        }))
    }

    /// Closes the session. The one of an attached program belongs to the node, which keeps it for others.
    fn close(&self, py: Python<'_>, code: u32, reason: &str) -> PyResult<()> {
        if let Either::Here(session) = self.0.get()? {
            py.detach(|| session.close(code, reason));
        }
        Ok(())
    }

    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let session = self.get_here("`anabranch paths` shows the paths")?;
        let channels = py.detach(|| session.channels());
        report::paths(py, &channels)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let session = self.get_here("`anabranch status` shows the sessions")?;
        let stats = py.detach(|| session.stats());
        stats.map(|stats| report::session(py, &stats)).transpose()
    }

    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let session = self.get_here("`anabranch status` shows the streams")?;
        let streams = py.detach(|| session.streams());
        report::list(py, &streams, report::stream)
    }
}

//! Connections to a running node, through its local interface.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{AduListener, local::client};
use pyo3::prelude::*;

use crate::{
    failure::Failed,
    fork::Owned,
    operation::{self, value},
    session::Session,
    stream::Stream,
};

/// A program's connection to a running node.
#[pyclass(frozen, weakref)]
pub(crate) struct Client(Owned<client::Client>);

/// Streams that peers open with a label.
#[pyclass(frozen, weakref)]
pub(crate) struct Service(Owned<std::sync::Arc<client::Service>>);

#[pymethods]
impl Client {
    /// Attaches to the node at this Unix socket, or to that of this user.
    #[staticmethod]
    fn attach(py: Python<'_>, path: Option<PathBuf>, program: String) -> PyResult<Py<PyAny>> {
        operation::start(py, async move {
            let client = match path {
                Some(path) => client::Client::attach(path, &program).await?,
                None => client::Client::attach_default(&program).await?,
            };
            Ok(value(|py| {
                Ok(Py::new(py, Self(Owned::new(client)))?.into_any())
            }))
        })
    }

    /// Identity of the node.
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.0.get()?.node().to_string())
    }

    fn connect(&self, py: Python<'_>, peer: String, addresses: Vec<String>) -> PyResult<Py<PyAny>> {
        let client = self.0.get()?.clone();
        let parse = |text: &String| {
            let text = format!("{text:?} is not an address; give IP:PORT, such as 192.0.2.1:4433");
            move |_| Failed::new("SpecError", text)
        };
        let addresses = addresses
            .iter()
            .map(|text| text.parse().map_err(parse(text)));
        let addresses = addresses.collect::<Result<Vec<SocketAddr>, Failed>>()?;
        operation::start(py, async move {
            let session = client.connect_at(&peer, &addresses).await?;
            Ok(value(|py| {
                Ok(Py::new(py, Session::attached(session))?.into_any())
            }))
        })
    }

    fn register(&self, py: Python<'_>, label: String) -> PyResult<Py<PyAny>> {
        let client = self.0.get()?.clone();
        operation::start(py, async move {
            let service = client.register(&label).await?;
            let service = Service(Owned::new(service.into()));
            Ok(value(|py| Ok(Py::new(py, service)?.into_any())))
        })
    }
}

#[pymethods]
impl Service {
    /// The next stream, with the identity of the peer that opened it.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let service = self.0.get()?.clone();
        operation::start(py, async move {
            let (peer, stream) = AduListener::accept(&*service).await?;
            let peer = peer.to_string();
            Ok(value(move |py| {
                let pair = (peer, Py::new(py, Stream::attached(stream))?);
                Ok(pair.into_pyobject(py)?.into_any().unbind())
            }))
        })
    }
}

//! Nodes in this process.

use std::{net::SocketAddr, path::Path};

use anabranch::{
    AllowList, Controller, Host, HostConfig, Remotes, SecretKey, Ticket, base::NodeId, keys,
};
use pyo3::prelude::*;

use crate::{
    failure::Failed,
    fork::Owned,
    operation::{self, nothing, value},
    runtime,
    session::Session,
    transfer,
};

/// A node.
#[pyclass(frozen, weakref)]
pub(crate) struct Node(Owned<Inner>);

struct Inner {
    host: Host,
    allowed: AllowList,
}

/// The key of a node.
#[derive(FromPyObject)]
enum Key {
    /// Its seed.
    Seed([u8; 32]),
    /// Its file, which is created if it does not exist.
    File(std::path::PathBuf),
}

fn start(error: impl ToString) -> Failed {
    Failed::new("StartError", error.to_string())
}

fn node_id(text: &str) -> Result<NodeId, Failed> {
    let wrong = |error| {
        Failed::new(
            "SpecError",
            format!("{text:?} is not the id of a node: {error}"),
        )
    };
    text.parse().map_err(wrong)
}

fn load(key: Option<Key>) -> Result<SecretKey, Failed> {
    match key {
        None => keys::generate().map_err(start),
        Some(Key::Seed(seed)) => Ok(SecretKey::from_seed(seed)),
        Some(Key::File(path)) => keys::load_or_create(Path::new(&path)).map_err(start),
    }
}

fn remotes(texts: &[String]) -> Result<Remotes, Failed> {
    let mut remotes = Remotes::default();
    for text in texts {
        let added = remotes.add(text);
        added.map_err(|error| Failed::new("SpecError", error.to_string()))?;
    }
    Ok(remotes)
}

#[pymethods]
impl Node {
    /// Starts a node at these local addresses, or at all interfaces, that admits these nodes, or everyone.
    #[new]
    fn new(
        py: Python<'_>,
        key: Option<Key>,
        bind: Option<Vec<String>>,
        allow: Option<Vec<String>>,
        controller: Option<&str>,
    ) -> PyResult<Self> {
        let allowed = match allow {
            None => AllowList::everyone_listed(),
            Some(nodes) => {
                let nodes = nodes.iter().map(|text| node_id(text));
                AllowList::of(nodes.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let mut config = HostConfig::new(load(key)?, allowed.clone());
        if let Some(texts) = bind {
            let parse = |text: &String| {
                let wrong = |_| {
                    let text = format!(
                        "bind: {text:?} is not a local address; give IP:PORT, such as 127.0.0.1:0"
                    );
                    Failed::new("SpecError", text)
                };
                text.parse::<SocketAddr>().map_err(wrong)
            };
            let addresses = texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
            config = config.bind(addresses);
        }
        if let Some(text) = controller {
            let parsed: Result<Controller, _> = text.parse();
            let wrong = |error| Failed::new("SpecError", format!("controller: {error}"));
            config.engine.channel.controller = parsed.map_err(wrong)?;
        }
        let runtime = runtime::handle()?;
        let host = py.detach(|| {
            let _entered = runtime.enter();
            Host::start(config)
        });
        let host = host.map_err(start)?;
        Ok(Self(Owned::new(Inner { host, allowed })))
    }

    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.0.get()?.host.node_id().to_string())
    }

    fn addresses(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let host = &self.0.get()?.host;
        let addresses = py.detach(|| host.addresses());
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    /// One line of text with which a node that this one admits reaches it.
    fn ticket(&self, py: Python<'_>) -> PyResult<String> {
        let host = &self.0.get()?.host;
        let mut addresses = py.detach(|| host.addresses());
        addresses.truncate(anabranch::ticket::ADDRESSES_MAX);
        let ticket = Ticket {
            node: host.node_id(),
            secret: None,
            addresses,
            hosts: Vec::new(),
            via: None,
        };
        Ok(ticket.to_string())
    }

    fn allow(&self, peer: &str) -> PyResult<()> {
        self.0.get()?.allowed.add(node_id(peer)?);
        Ok(())
    }

    fn connect(&self, py: Python<'_>, peer: &str, addresses: Vec<String>) -> PyResult<Py<PyAny>> {
        let (host, peer) = (self.0.get()?.host.clone(), node_id(peer)?);
        let remotes = remotes(&addresses)?;
        operation::start(py, async move {
            let session = host.connect(peer, remotes).await?;
            Ok(value(|py| {
                Ok(Py::new(py, Session::here(session))?.into_any())
            }))
        })
    }

    /// The next session that a peer opens; `None` once the node has shut down.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let host = self.0.get()?.host.clone();
        operation::start(py, async move {
            let session = host.accept().await;
            Ok(value(|py| match session {
                Some(session) => Ok(Py::new(py, Session::here(session))?.into_any()),
                None => Ok(py.None()),
            }))
        })
    }

    /// Sends a file or directory to the receiver of a ticket.
    fn send_files(
        &self,
        py: Python<'_>,
        ticket: &str,
        path: std::path::PathBuf,
        name: Option<String>,
        retry_for_s: f64,
    ) -> PyResult<Py<PyAny>> {
        let host = self.0.get()?.host.clone();
        transfer::send(py, host, ticket, path, name, retry_for_s)
    }

    fn shutdown(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let host = self.0.get()?.host.clone();
        operation::start(py, async move {
            host.shutdown().await;
            Ok(nothing())
        })
    }
}

/// The node and the addresses of a ticket.
#[pyfunction]
pub(crate) fn parse_ticket(text: &str) -> PyResult<(String, Vec<String>)> {
    let ticket = transfer::ticket(text)?;
    let addresses = ticket.addresses.iter().map(ToString::to_string);
    let hosts = ticket.hosts.iter().map(ToString::to_string);
    Ok((ticket.node.to_string(), addresses.chain(hosts).collect()))
}

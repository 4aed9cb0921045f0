//! Emulated links between UDP ports of this machine.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anabranch::{
    base::Seed,
    net::emulate::{
        Emulator as Running, LineStats, Path, PathSpec,
        link::{Trace, describe::parse_both, duplex::Configs},
    },
};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{failure::Failed, fork::Owned, report::fields};

/// Running links, which end when they are dropped.
#[pyclass(frozen, weakref)]
pub(crate) struct Emulator(Owned<Running>);

fn wrong(error: impl ToString) -> Failed {
    Failed::new("SpecError", error.to_string())
}

/// A trace that a description names by its file.
fn load(name: &str) -> Result<Arc<Trace>, String> {
    let bytes = std::fs::read(PathBuf::from(name));
    let bytes = bytes.map_err(|error| format!("cannot read {name}: {error}"))?;
    let trace = Trace::parse(name, &bytes);
    trace
        .map(Arc::new)
        .map_err(|error| format!("{name}: {error}"))
}

fn described(name: &str, link: &str) -> Result<Configs, Failed> {
    parse_both(link, &mut load).map_err(|error| wrong(format!("link '{name}': {error}")))
}

fn counted<'py>(py: Python<'py>, stats: &LineStats) -> PyResult<Bound<'py, PyDict>> {
    Ok(fields!(py,
        "offered": stats.offered.packets,
        "offered_bytes": stats.offered.bytes,
        "delivered": stats.delivered.packets,
        "delivered_bytes": stats.delivered.bytes,
        "queue_full": stats.queue_full.packets,
        "lost": stats.loss.packets,
        "down": stats.down.packets,
    ))
}

impl Emulator {
    fn path(&self, name: &str) -> PyResult<&Path> {
        let paths = self.0.get()?.paths();
        let found = paths.iter().find(|path| path.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = paths.iter().map(Path::name).collect();
            PyKeyError::new_err(format!(
                "there is no link {name:?}; the links are {}",
                names.join(", ")
            ))
        })
    }
}

#[pymethods]
impl Emulator {
    /// Starts links, each a name and a description, that lead to an address.
    #[new]
    fn new(
        py: Python<'_>,
        target: &str,
        links: Vec<(String, String)>,
        seed: u64,
    ) -> PyResult<Self> {
        let target: SocketAddr = target.parse().map_err(|_| {
            wrong(format!(
                "target: {target:?} is not an address; give IP:PORT, such as 127.0.0.1:4433"
            ))
        })?;
        let listen = match target {
            SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
            SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0)),
        };
        let specs = links.into_iter().map(|(name, link)| {
            let links = described(&name, &link)?;
            Ok(PathSpec {
                name,
                listen,
                target,
                links,
            })
        });
        let specs = specs.collect::<Result<Vec<_>, Failed>>()?;
        let running = py.detach(|| Running::start(specs, Seed(seed)));
        let running = running.map_err(|error| Failed::new("StartError", error.to_string()))?;
        Ok(Self(Owned::new(running)))
    }

    /// Name and address of each link.
    fn addresses(&self) -> PyResult<Vec<(String, String)>> {
        let running = self.0.get()?;
        let names = running.paths().iter().map(|path| path.name().to_owned());
        let addresses = running.addresses().iter().map(ToString::to_string);
        Ok(names.zip(addresses).collect())
    }

    /// Changes a link, for packets that enter it from now on.
    fn set(&self, py: Python<'_>, name: &str, link: &str) -> PyResult<()> {
        let (path, configs) = (self.path(name)?, described(name, link)?);
        Ok(py.detach(|| path.set(&configs)).map_err(wrong)?)
    }

    /// Takes a link down, or up again.
    fn set_up(&self, py: Python<'_>, name: &str, up: bool) -> PyResult<()> {
        let path = self.path(name)?;
        py.detach(|| path.set_up(up));
        Ok(())
    }

    /// Totals of both directions, towards the target first.
    fn stats<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyTuple>> {
        let path = self.path(name)?;
        let (forward, backward) = py.detach(|| path.stats());
        PyTuple::new(py, [counted(py, &forward)?, counted(py, &backward)?])
    }
}

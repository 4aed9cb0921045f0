//! The console of a node by its configuration.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch::{
    config::NodeConfig,
    daemon::{Commit, Daemon, Part},
};
use anabranch_console::{Console, Settings, Source};

use crate::exit::Failure;

#[derive(Debug, Default)]
struct Running {
    /// As the configuration has it; the port that is listened on may be another one.
    address: Option<SocketAddr>,
    console: Option<Console>,
}

/// Console that follows reloads of the node's configuration.
#[derive(Clone, Debug, Default)]
struct OfNode(Arc<Mutex<Running>>);

impl OfNode {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for OfNode {
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String> {
        if self.running().address == config.console {
            return Ok(Box::new(|| ()));
        }
        let start = |listen| {
            let source = Source::Node(config.control.clone());
            Console::start(Settings { listen, source }).map_err(|error| error.to_string())
        };
        let address = config.console;
        let console = address.map(start).transpose()?;
        let own = self.clone();
        Ok(Box::new(move || {
            if let Some(console) = &console {
                tracing::info!(address = %console.address(), "the console listens");
            }
            *own.running() = Running { address, console };
        }))
    }

    fn console_link(&self) -> Option<Result<String, String>> {
        let running = self.running();
        let link = running.console.as_ref()?.link();
        Some(link.map_err(|error| error.to_string()))
    }
}

/// Starts the console of a node, if its configuration has one, now or after a reload.
pub(crate) fn start(daemon: &Daemon, config: &NodeConfig) -> Result<(), Failure> {
    let part = OfNode::default();
    part.prepare(config).map_err(Failure::other)?();
    daemon.handle().attach(Arc::new(part));
    Ok(())
}

//! Ready list that names all ports, so that each is polled.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_overlay::relay::PortId;

use super::super::pool::Port;
use crate::waker::Waker;

/// The ports that are watched.
#[derive(Debug)]
pub(in super::super) struct Ready {
    ports: Mutex<Vec<(PortId, Arc<Port>)>>,
}

impl Ready {
    /// # Errors
    /// None here.
    pub(in super::super) fn new() -> io::Result<Self> {
        Ok(Self {
            ports: Mutex::new(Vec::new()),
        })
    }

    /// Watches a port.
    ///
    /// # Errors
    /// None here.
    pub(in super::super) fn add(&self, id: PortId, port: &Arc<Port>) -> io::Result<()> {
        self.lock().push((id, port.clone()));
        Ok(())
    }

    /// Stops watching a port.
    pub(in super::super) fn remove(&self, id: PortId, _: &Arc<Port>) {
        self.lock().retain(|(watched, _)| *watched != id);
    }

    /// Appends all ports.
    pub(in super::super) fn list(&self, named: &mut Vec<PortId>) {
        named.extend(self.lock().iter().map(|(id, _)| *id));
    }

    /// Sleeps until a port has packets, the waker rings, or `most` has passed.
    pub(in super::super) fn sleep(&self, waker: &Waker, most: Option<Duration>) {
        let ports = self.lock().clone();
        let watched = ports.iter().map(|(_, port)| port.socket.watch(true));
        waker.sleep(watched, most);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(PortId, Arc<Port>)>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

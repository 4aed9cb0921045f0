//! Emulated paths between UDP sockets, without privileges.
//!
//! Every path listens on a port; packets that arrive there cross the link to the target, and replies
//! cross it back to the sender. Further entrances of a path lead to other targets over the same link. A separate thread does
//! the timing.

use std::net::SocketAddr;

use anabranch_base::Seed;

pub use super::control::{Entrance, PathSpec};
use super::{
    control::{EmulateError, Path, Shared, Worker},
    relay::Relay,
};

/// Running paths between UDP sockets; dropping it ends them.
#[derive(Debug)]
pub struct Emulator {
    paths: Vec<Path>,
    addresses: Vec<SocketAddr>,
    entrances: Vec<SocketAddr>,
    _worker: Worker,
}

impl Emulator {
    /// Opens the ports and starts. The same specs and `seed` give the same losses and jitter, packet for packet.
    ///
    /// # Errors
    /// A port cannot be opened or a link's config is out of range.
    pub fn start(specs: Vec<PathSpec>, seed: Seed) -> Result<Self, EmulateError> {
        Self::start_with(specs, &[], seed)
    }

    /// As [`Emulator::start`], with further entrances: for several targets behind the same links.
    ///
    /// # Errors
    /// As [`Emulator::start`]; an entrance names a path that is not there.
    pub fn start_with(
        specs: Vec<PathSpec>,
        entrances: &[Entrance],
        seed: Seed,
    ) -> Result<Self, EmulateError> {
        let configs = specs.iter().map(|spec| (spec.name.as_str(), &spec.links));
        let shared = Shared::new(configs, seed)?;
        let relay = Relay::open(shared.clone(), &specs, entrances)?;
        let addresses = relay.addresses().to_vec();
        let entrances = relay.entrances().to_vec();
        let thread = std::thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || relay.run())?;
        let path = |(index, spec): (usize, PathSpec)| Path {
            shared: shared.clone(),
            index,
            name: spec.name,
        };
        Ok(Self {
            paths: specs.into_iter().enumerate().map(path).collect(),
            addresses,
            entrances,
            _worker: Worker {
                shared,
                thread: Some(thread),
            },
        })
    }

    /// The paths, in the order of their specs.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Addresses on which the paths listen, in the same order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Addresses on which the further entrances listen, in their order.
    pub fn entrances(&self) -> &[SocketAddr] {
        &self.entrances
    }
}

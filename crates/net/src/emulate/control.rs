//! Control of running paths from outside the thread that moves their packets.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{ConfigError, Duplex, duplex::Configs};
use tokio::sync::Notify;

use super::line::LineStats;
use crate::{clock::Clock, socket::BindError, waker::Waker};

/// Emulation cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulateError {
    /// A link's config is out of range.
    #[error("path '{name}': {source}")]
    Link {
        /// The path.
        name: String,
        /// The error.
        source: ConfigError,
    },
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A network namespace cannot be entered.
    #[error(
        "cannot enter network namespace '{name}': {source}; this needs root, and `ip netns list` shows the namespaces"
    )]
    Namespace {
        /// The namespace.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A TUN device cannot be made or configured.
    #[error(
        "cannot set up TUN device '{name}': {reason}; this needs root, /dev/net/tun and the `ip` command"
    )]
    Device {
        /// The device.
        name: String,
        /// The error of the system.
        reason: String,
    },
    /// An entrance names a path that is not there.
    #[error("an entrance leads to path {path}, but there are only {paths} paths, numbered from 0")]
    Entrance {
        /// The number that it names.
        path: usize,
        /// Number of paths.
        paths: usize,
    },
    /// The thread or its runtime cannot be started.
    #[error("cannot start the emulator: {0}")]
    Io(#[from] io::Error),
}

/// One emulated path.
#[derive(Clone, Debug)]
pub struct PathSpec {
    /// Name, for display only.
    pub name: String,
    /// Address on which it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Address to which it leads.
    pub target: SocketAddr,
    /// The link: forward is from the senders to the target.
    pub links: Configs,
}

/// A further port of a path. It leads to a target of its own, and shares the rate and the queue of the path's link.
#[derive(Clone, Copy, Debug)]
pub struct Entrance {
    /// The path, by its place in the list of paths.
    pub path: usize,
    /// Address on which it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Address to which it leads.
    pub target: SocketAddr,
}

/// State shared with the thread that moves the packets.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    state: Mutex<State>,
    /// Notification that a path was changed or the emulator is to end: for a thread with a reactor, and for one without.
    changed: Notify,
    pub(super) waker: Waker,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) links: Vec<Duplex>,
    pub(super) is_over: bool,
}

impl Shared {
    /// Creates links with the given names and configs. Each gets a separate seed.
    pub(super) fn new<'a>(
        specs: impl Iterator<Item = (&'a str, &'a Configs)>,
        seed: Seed,
    ) -> Result<Arc<Self>, EmulateError> {
        let mut links = Vec::new();
        for (name, configs) in specs {
            let link = Duplex::new(configs.clone(), seed.child(name));
            links.push(link.map_err(|source| EmulateError::Link {
                name: name.to_owned(),
                source,
            })?);
        }
        Ok(Arc::new(Self {
            clock: Clock::start(),
            state: Mutex::new(State {
                links,
                is_over: false,
            }),
            changed: Notify::new(),
            waker: Waker::new()?,
        }))
    }

    /// Ready when something has changed since the last time.
    #[cfg(target_os = "linux")]
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn note_change(&self) {
        self.changed.notify_one();
        self.waker.ring();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to one running path.
#[derive(Clone, Debug)]
pub struct Path {
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    pub(super) name: String,
}

impl Path {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the path down or up, in both directions.
    pub fn set_up(&self, up: bool) {
        let now = self.now();
        self.shared.lock().links[self.index].set_up(now, up);
        self.shared.note_change();
    }

    /// Changes the path's properties, for packets that enter it from now on; planned outages are kept.
    ///
    /// # Errors
    /// A value is outside its range; the path is unchanged.
    pub fn set(&self, configs: &Configs) -> Result<(), ConfigError> {
        let now = self.now();
        self.shared.lock().links[self.index].set_configs(now, configs)?;
        self.shared.note_change();
        Ok(())
    }

    /// True if it carries packets now.
    pub fn is_up(&self) -> bool {
        let now = self.now();
        self.shared.lock().links[self.index].is_up(now)
    }

    /// Totals of both directions, forward first.
    pub fn stats(&self) -> (LineStats, LineStats) {
        let state = self.shared.lock();
        let link = &state.links[self.index];
        (*link.forward.stats(), *link.backward.stats())
    }

    /// The rate of both directions now, forward first; `None` where it is unlimited.
    pub fn rates(&self) -> (Option<Rate>, Option<Rate>) {
        let now = self.now();
        let state = self.shared.lock();
        let link = &state.links[self.index];
        (link.forward.rate_at(now), link.backward.rate_at(now))
    }

    /// The emulator's time, to which traces and planned outages refer.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }
}

/// Handle to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.note_change();
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic itself.
            let _ = thread.join();
        }
    }
}

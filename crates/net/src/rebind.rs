//! Change of the local addresses of a running host: first all sockets are opened, then they are put into force.

use std::net::SocketAddr;

use anabranch_base::{Instant, SocketId};
use tokio::sync::OwnedMutexGuard;

use crate::{
    error::StartError,
    host::Host,
    place::Place,
    socket::Bind,
    sockets::{Locals, Opened},
    state::{SocketEntry, Stage, State},
    watch::{self, Watch},
};

/// Local addresses that can be put into force without fail ([`Host::prepare_locals`]). Dropping it closes what was opened. While it
/// exists, the host opens and closes no other socket.
#[derive(Debug)]
#[must_use = "nothing changes before it is committed"]
pub struct Prepared {
    host: Host,
    locals: Locals,
    /// Sockets that stay.
    kept: Vec<SocketId>,
    opened: Vec<Opened>,
    watch: Option<Watch>,
    /// Nothing else opens or closes sockets meanwhile.
    alone: OwnedMutexGuard<()>,
}

impl Host {
    /// Opens the sockets that other local addresses need; nothing else changes before [`Prepared::commit`]. An address that the host
    /// uses already keeps its socket; port 0 keeps whatever port there is. Waits for a former call's result to be committed or
    /// dropped.
    ///
    /// # Errors
    /// A socket cannot be opened, also because one of this host is in the way; there is no address; a tariff is for a
    /// place that would have none; to follow the interfaces, there is no tokio runtime.
    pub async fn prepare_locals(&self, locals: Locals) -> Result<Prepared, StartError> {
        let shared = &self.inner.shared;
        let alone = shared.rebinding.clone().lock_owned().await;
        let (unused, is_watching) = {
            let binding = &shared.lock().binding;
            let watcher = binding.watcher.as_ref();
            let is_watching = watcher.is_some_and(|watcher| !watcher.is_finished());
            (binding.unused.clone(), is_watching)
        };
        // Before the addresses are read, so that no change is missed.
        let watch = match &locals {
            Locals::Interfaces { .. } if !is_watching => Some(Watch::open()?),
            _ => None,
        };
        let binds = match &locals {
            Locals::Fixed(binds) if binds.is_empty() => return Err(StartError::NoAddress),
            Locals::Fixed(binds) => binds.clone(),
            Locals::Interfaces { port, only } => watch::list(*port, only, &unused)?,
        };
        let (kept, new) = {
            let state = shared.lock();
            let (kept, new) = divide(&state.sockets, &locals, &unused, binds);
            if let Some(error) = overlap(&state.sockets, &new) {
                return Err(error);
            }
            if let Locals::Fixed(_) = locals {
                state.check_places(&kept, &new)?;
            }
            (kept, new)
        };
        let opened = new.into_iter().map(|bind| shared.open_socket(bind));
        Ok(Prepared {
            opened: opened.collect::<Result<_, _>>()?,
            host: self.clone(),
            locals,
            kept,
            watch,
            alone,
        })
    }

    /// The local addresses in force.
    pub fn locals(&self) -> Locals {
        self.inner.shared.lock().binding.locals.clone()
    }
}

impl Prepared {
    /// Puts the addresses into force. Sessions that this node opened get paths over the new sockets. Sockets of former addresses are
    /// *retired*: nothing new begins there, and each closes as soon as every session has another path.
    pub fn commit(self) {
        let Self {
            host,
            locals,
            kept,
            opened,
            watch,
            alone,
        } = self;
        let shared = &host.inner.shared;
        let follows = matches!(locals, Locals::Interfaces { .. });
        shared.command(|state, now| {
            state.binding.locals = locals;
            let mut offered = state.keep_only(now, &kept);
            for opened in opened {
                offered.push((opened.socket.id, opened.socket.local));
                state.adopt(now, opened);
            }
            for (id, local) in offered {
                state.offer_links(now, id, local);
            }
            state.binding.look_due = Some(now);
        });
        match (watch, follows) {
            (Some(watch), true) => {
                let watcher = watch.start(shared);
                shared.lock().binding.watcher = Some(watcher);
            }
            (_, true) => {}
            (_, false) => {
                if let Some(watcher) = shared.lock().binding.watcher.take() {
                    watcher.abort();
                }
            }
        }
        drop(alone);
        // It looks for retired sockets that are not needed.
        shared.rouse();
    }
}

impl State {
    /// Retires all sockets but these. Returns those of them that had been retired.
    fn keep_only(&mut self, now: Instant, kept: &[SocketId]) -> Vec<(SocketId, SocketAddr)> {
        let mut back = Vec::new();
        for entry in &mut self.sockets {
            let before = entry.stage;
            match (kept.contains(&entry.id), before) {
                (true, Stage::InUse) | (false, Stage::Retired | Stage::Closing) => continue,
                (true, Stage::Retired | Stage::Closing) => entry.stage = Stage::InUse,
                (false, Stage::InUse) => entry.stage = Stage::Retired,
            }
            let is_back = !entry.is_retired();
            self.engine.set_accepting(entry.id, is_back);
            tracing::info!(local = %entry.local, is_back, "local address changed");
            if is_back {
                if before == Stage::Closing {
                    self.engine.socket_up(now, entry.id);
                }
                back.push((entry.id, entry.local));
            }
        }
        back
    }

    /// Refuses addresses among which a place with a tariff has none, because the user would rely on its cap.
    fn check_places(&self, kept: &[SocketId], new: &[Bind]) -> Result<(), StartError> {
        for account in &self.accounts {
            let place = &account.tariff.place;
            let is_at = |bind: &Bind| match place {
                Place::Address(ip) => bind.address.ip() == *ip,
                Place::Interface(name) => {
                    let interface = bind.interface.clone();
                    let interface = interface.or_else(|| watch::interface_of(bind.address.ip()));
                    interface.as_ref() == Some(name)
                }
            };
            let is_kept = account.sockets.iter().any(|id| kept.contains(id));
            if !is_kept && !new.iter().any(is_at) {
                return Err(StartError::Place(place.clone()));
            }
        }
        Ok(())
    }
}

/// Sockets that stay for these addresses, and the addresses that need a new one.
fn divide(
    sockets: &[SocketEntry],
    locals: &Locals,
    unused: &[String],
    mut binds: Vec<Bind>,
) -> (Vec<SocketId>, Vec<Bind>) {
    let follows = matches!(locals, Locals::Interfaces { .. });
    // A given port comes before any port.
    binds.sort_by_key(|bind| bind.address.port() == 0);
    let mut kept: Vec<SocketId> = Vec::new();
    let mut new = Vec::new();
    for bind in binds {
        let fits = |entry: &&SocketEntry| {
            let port = bind.address.port();
            entry.bind.interface == bind.interface
                && entry.local.ip() == bind.address.ip()
                && (port == 0 || entry.local.port() == port)
                // Only the watch of the interfaces opens one again whose address has gone.
                && (entry.is_up || (follows && !entry.is_retired()))
                && !kept.contains(&entry.id)
        };
        let fitting = sockets.iter().filter(fits);
        match fitting.min_by_key(|entry| (entry.is_retired(), entry.id)) {
            Some(entry) => kept.push(entry.id),
            None => new.push(bind),
        }
    }
    // An address of an interface that is followed may be back at any time.
    if let Locals::Interfaces { port, only } = locals {
        let is_followed = |entry: &&SocketEntry| {
            let interface = entry.bind.interface.as_ref();
            let is_wanted = interface.is_some_and(|name| {
                (only.is_empty() || only.contains(name)) && !unused.contains(name)
            });
            is_wanted && !entry.is_retired() && (*port == 0 || entry.local.port() == *port)
        };
        for entry in sockets.iter().filter(is_followed) {
            if !kept.contains(&entry.id) {
                kept.push(entry.id);
            }
        }
    }
    (kept, new)
}

/// Error of an address that cannot be bound beside a socket of this host.
fn overlap(sockets: &[SocketEntry], new: &[Bind]) -> Option<StartError> {
    let mut errors = new.iter().filter_map(|bind| {
        let wanted = bind.address;
        let is_in_the_way = |entry: &&SocketEntry| {
            let (local, held) = (entry.local, &entry.bind.interface);
            let is_wide = local.ip().is_unspecified() || wanted.ip().is_unspecified();
            entry.is_up
                && wanted.port() != 0
                && local.port() == wanted.port()
                && local.is_ipv4() == wanted.is_ipv4()
                && (is_wide || local.ip() == wanted.ip())
                && (held.is_none() || bind.interface.is_none() || *held == bind.interface)
        };
        let entry = sockets.iter().find(is_in_the_way)?;
        Some(StartError::Overlap {
            wanted,
            held: entry.local,
            is_retired: entry.is_retired(),
        })
    });
    errors.next()
}

#[cfg(test)]
mod tests;

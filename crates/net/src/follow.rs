//! Search for a peer whose session has lost all paths: its names are resolved again, and its detour is opened again.

use std::{net::SocketAddr, time::Duration};

use crate::{
    remotes::Remotes,
    session_handle::{Session, WeakSession},
};

/// Time between two looks at a session. One that has no path then is searched for.
const EVERY: Duration = Duration::from_secs(5);
/// Looks from one opening of the detour to the next: the handshake through the one before may be under way.
const DETOUR_EVERY: u32 = 3;

/// Paths of a session, as far as the search asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paths {
    Some,
    None,
    /// The session is over.
    Over,
}

/// A session of which the peer is searched for, and the means to do so.
trait Search {
    fn paths(&self) -> Paths;

    /// Resolves the names of the peer; empty if that fails.
    async fn resolve(&self) -> Vec<SocketAddr>;

    /// Opens the detour to the peer; `None`: there is none now.
    async fn open(&self) -> Option<SocketAddr>;

    /// Lets the session dial these addresses, too.
    fn add(&self, found: &[SocketAddr]);

    /// Lets the session dial this detour in place of the one before.
    fn replace(&self, before: Option<SocketAddr>, detour: SocketAddr);
}

/// Searches for the peer of a session that this node opened, whenever the session has no path, until it is over. `detour` is the one
/// over which it was opened.
pub(crate) async fn follow(session: WeakSession, names: Remotes, detour: Option<SocketAddr>) {
    search(&Followed { session, names }, detour).await;
}

async fn search(session: &impl Search, mut detour: Option<SocketAddr>) {
    let mut looks = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        match session.paths() {
            Paths::Over => return,
            Paths::Some => {
                looks = 0;
                continue;
            }
            Paths::None => {}
        }
        session.add(&session.resolve().await);
        if looks % DETOUR_EVERY == 0
            && let Some(opened) = session.open().await
            && session.paths() == Paths::None
        {
            session.replace(detour.replace(opened), opened);
        }
        looks += 1;
    }
}

/// No handle to the session is held while something is waited for.
struct Followed {
    session: WeakSession,
    names: Remotes,
}

impl Search for Followed {
    fn paths(&self) -> Paths {
        let is_alone = |session: &Session| {
            session
                .stats()
                .is_some_and(|stats| stats.channels_active == 0)
        };
        match self.session.upgrade() {
            Some(session) if session.close_reason().is_some() => Paths::Over,
            Some(session) if is_alone(&session) => Paths::None,
            Some(_) => Paths::Some,
            None => Paths::Over,
        }
    }

    async fn resolve(&self) -> Vec<SocketAddr> {
        match self.names.hosts.is_empty() {
            true => Vec::new(),
            false => self.names.resolve().await.unwrap_or_default(),
        }
    }

    async fn open(&self) -> Option<SocketAddr> {
        let opening = {
            let session = self.session.upgrade()?;
            let detours = &session.inner.host.shared.detours;
            detours.of(session.peer())?.open()
        };
        opening.await
    }

    fn add(&self, found: &[SocketAddr]) {
        if let Some(session) = self.session.upgrade() {
            session.add_remotes(found);
        }
    }

    fn replace(&self, before: Option<SocketAddr>, detour: SocketAddr) {
        if let Some(session) = self.session.upgrade() {
            if let Some(before) = before.filter(|before| *before != detour) {
                session.remove_remote(before);
            }
            session.add_remote(detour);
        }
    }
}

#[cfg(test)]
mod tests;

//! Choice of a session's links between local sockets and remote addresses.

use std::{collections::BTreeSet, net::SocketAddr};

use anabranch_base::{Instant, SocketId};
use anabranch_session::Link;

use crate::state::{SocketEntry, State};

/// Links of one session at most, even with several interfaces on both sides. Each is a separate connection
/// with its own handshake, so that they are not multiplied without need.
pub(crate) const LINKS_MAX: usize = 16;

/// All useful pairs, beginning with one per remote address, so that even a truncated list covers every address.
pub(crate) fn pair(sockets: &[SocketEntry], remotes: &[SocketAddr]) -> Vec<Link> {
    let usable = sockets.iter();
    let usable: Vec<_> = usable
        .filter(|socket| socket.is_up && !socket.is_retired())
        .collect();
    let mut links = Vec::new();
    for shift in 0..usable.len() {
        for (index, &remote) in remotes.iter().enumerate() {
            let socket = usable[(index + shift) % usable.len()];
            if can_reach(socket.local, remote) && links.len() < LINKS_MAX {
                links.push(Link {
                    socket: socket.id,
                    remote,
                });
            }
        }
    }
    links
}

/// The links that a new socket adds to a session with these remote addresses.
pub(crate) fn of_socket(id: SocketId, local: SocketAddr, remotes: &[SocketAddr]) -> Vec<Link> {
    let reachable = remotes.iter().filter(|&&remote| can_reach(local, remote));
    let links = reachable.map(|&remote| Link { socket: id, remote });
    links.take(LINKS_MAX).collect()
}

impl State {
    /// Adds the links of a socket to the sessions that this node opened, also to those over given links that are on retired sockets.
    pub(crate) fn offer_links(&mut self, now: Instant, id: SocketId, local: SocketAddr) {
        let retired = self.sockets.iter().filter(|socket| socket.is_retired());
        let retired: Vec<SocketId> = retired.map(|socket| socket.id).collect();
        for (&session, entry) in &self.sessions {
            let mut remotes = entry.remotes.clone();
            if let Ok(mut session) = self.engine.session(session)
                && !retired.is_empty()
            {
                let links = session.links().into_iter();
                let links = links.filter(|link| retired.contains(&link.socket));
                remotes.extend(links.map(|link| link.remote));
                let mut known = BTreeSet::new();
                remotes.retain(|remote| known.insert(*remote));
            }
            for link in of_socket(id, local, &remotes) {
                if let Ok(mut session) = self.engine.session(session)
                    && !session.add_link(now, link)
                {
                    tracing::warn!(%local, remote = %link.remote, "not used: the session has all the links that it may have");
                }
            }
        }
    }
}

/// True if packets from `local` may arrive at `remote`.
fn can_reach(local: SocketAddr, remote: SocketAddr) -> bool {
    if local.is_ipv4() != remote.is_ipv4() || remote.port() == 0 || remote.ip().is_unspecified() {
        return false;
    }
    local.ip().is_unspecified() || local.ip().is_loopback() == remote.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{socket::SocketStats, state::Stage};

    fn sockets(addresses: &[&str]) -> Vec<SocketEntry> {
        let parse = |(id, text): (usize, &&str)| {
            let local: SocketAddr = text.parse().unwrap();
            SocketEntry {
                id: SocketId(id as u64),
                bind: local.into(),
                device: None,
                interface: None,
                local,
                is_up: true,
                stage: Stage::InUse,
                stats: SocketStats::default(),
            }
        };
        addresses.iter().enumerate().map(parse).collect()
    }

    fn remotes(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_and_loopback_do_not_mix() {
        let sockets = sockets(&["192.0.2.1:1", "[2001:db8::1]:1", "127.0.0.1:1"]);
        let links = pair(
            &sockets,
            &remotes(&["192.0.2.9:5", "127.0.0.1:5", "192.0.2.9:0"]),
        );
        let pairs: Vec<_> = links
            .iter()
            .map(|l| (l.socket.0, l.remote.to_string()))
            .collect();
        assert_eq!(pairs.len(), 2);
        assert!(pairs.contains(&(0, "192.0.2.9:5".to_owned())));
        assert!(pairs.contains(&(2, "127.0.0.1:5".to_owned())));
    }

    #[test]
    fn every_remote_is_covered_before_any_pair_is_doubled() {
        let locals: Vec<String> = (0..5).map(|n| format!("10.0.0.{n}:1")).collect();
        let far: Vec<String> = (0..5).map(|n| format!("10.0.1.{n}:1")).collect();
        let links = pair(
            &sockets(&locals.iter().map(String::as_str).collect::<Vec<_>>()),
            &remotes(&far.iter().map(String::as_str).collect::<Vec<_>>()),
        );
        assert_eq!(links.len(), LINKS_MAX);
        let mut first: Vec<_> = links[..5].iter().map(|link| link.remote).collect();
        first.dedup();
        assert_eq!(first.len(), 5);
    }

    #[test]
    fn a_wildcard_socket_reaches_everything_of_its_family() {
        let links = pair(
            &sockets(&["0.0.0.0:1"]),
            &remotes(&["127.0.0.1:5", "192.0.2.1:5", "[::1]:5"]),
        );
        assert_eq!(links.len(), 2);
    }

    #[test]
    fn a_retired_socket_gets_no_new_links() {
        let mut sockets = sockets(&["127.0.0.1:1", "127.0.0.1:2"]);
        sockets[0].stage = Stage::Retired;
        let links = pair(&sockets, &remotes(&["127.0.0.1:5"]));
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].socket, SocketId(1));
    }
}

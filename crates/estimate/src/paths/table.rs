//! Table of paths: places for a bounded number of paths, which keep what is known of those that come back.
//!
//! A path is recognised by its local socket and remote address. When an interface gets another address, or the peer does, the
//! channels that take over are on paths that were never seen; they take the place of one that lost its channel, if it began
//! at the same interface:
//!
//! | the new path has | and keeps |
//! |---|---|
//! | the same socket and remote address | everything |
//! | the same interface and remote host | everything |
//! | the same interface only, as a replaced relay | the latest [`RECENT_WINDOWS`] |
//! | nothing in common with a path without a channel | nothing |
//!
//! When the table is full, the path that has been without a channel for longest is forgotten.

use std::{net::SocketAddr, sync::Arc};

use anabranch_base::{ChannelId, SocketId};

use super::path::Path;

/// Paths that are remembered. More than the channels of a session, so that some of those without a channel are.
const PATHS_MAX: usize = 48;
/// Windows kept of a path that continues as another one of the same interface.
pub const RECENT_WINDOWS: usize = 60;

/// A path with less than one in so many of another's windows is hardly known beside it.
const HARDLY: u64 = 4;

/// Ends of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The local socket.
    pub socket: SocketId,
    /// Interface of the socket, which may get other addresses and then other sockets; `None` if it is not known.
    pub interface: Option<Arc<str>>,
    /// The remote address.
    pub remote: SocketAddr,
}

/// Evidence that a new path takes over from the one whose place it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// None: the path is new.
    Nothing,
    /// The latest [`RECENT_WINDOWS`].
    Recent,
    /// All.
    Everything,
}

/// A path whose place in the rows is now that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its index.
    pub path: usize,
    /// Evidence that stays. Never [`Kept::Everything`].
    pub kept: Kept,
}

impl Replaced {
    /// Windows that were measured on the earlier path and stay known.
    pub fn windows_kept(self) -> usize {
        match self.kept {
            Kept::Nothing => 0,
            Kept::Recent => RECENT_WINDOWS,
            Kept::Everything => usize::MAX,
        }
    }
}

impl Ends {
    /// Evidence of a path with these ends that holds for one with the ends `other`.
    fn shared_with(&self, other: &Self) -> Kept {
        let is_same_socket = self.socket == other.socket;
        let is_same_interface =
            is_same_socket || (self.interface.is_some() && self.interface == other.interface);
        if is_same_socket && self.remote == other.remote {
            Kept::Everything
        } else if !is_same_interface || self.remote.is_ipv4() != other.remote.is_ipv4() {
            Kept::Nothing
        } else if self.remote.ip() == other.remote.ip() && !self.remote.ip().is_loopback() {
            // On loopback, ports are hosts: emulated paths end there.
            Kept::Everything
        } else {
            Kept::Recent
        }
    }
}

/// Paths of a session by index, which is their column in the rows of samples. Key: session.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) paths: Vec<Path>,
    /// Number of channels that left, in whose order paths are forgotten.
    left: u64,
}

impl Table {
    pub(super) fn index(&self, channel: ChannelId) -> Option<usize> {
        self.paths
            .iter()
            .position(|path| path.channel() == Some(channel))
    }

    /// Finds a place for a channel: its index, and what is kept of the path that was there.
    pub(super) fn place(&mut self, channel: ChannelId, ends: Ends) -> Option<(usize, Kept)> {
        let vacant = || {
            let paths = self.paths.iter().enumerate();
            paths.filter(|(_, path)| path.channel().is_none())
        };
        // A channel may still be open when the next one on the same path is.
        let is_same =
            |path: &Path| path.ends.socket == ends.socket && path.ends.remote == ends.remote;
        let same = self.paths.iter().enumerate();
        let same = same.filter(|(_, path)| is_same(path));
        let same = same.max_by_key(|(_, path)| path.samples());
        let same = same.map(|(index, _)| index);
        let like = vacant()
            .map(|(index, path)| (path.ends.shared_with(&ends), path.left, index))
            .max()
            .filter(|(kept, ..)| *kept > Kept::Nothing);
        let (index, kept) = if let Some(index) = same {
            (index, Kept::Everything)
        } else if let Some((kept, _, index)) = like {
            (index, kept)
        } else if self.paths.len() < PATHS_MAX {
            self.paths.push(Path::new(channel, ends));
            return Some((self.paths.len() - 1, Kept::Nothing));
        } else {
            let oldest = vacant().min_by_key(|(_, path)| (path.is_measured(), path.left));
            (oldest?.0, Kept::Nothing)
        };
        let path = &mut self.paths[index];
        match kept {
            Kept::Nothing => *path = Path::new(channel, ends),
            Kept::Recent => path.continue_at(channel, ends),
            Kept::Everything => path.join(channel, ends),
        }
        Some((index, kept))
    }

    /// Takes the channel off its path. A path that took over while this one was still open, and is hardly known, moves to its
    /// place; returns the index that then is empty.
    pub(super) fn leave(&mut self, channel: ChannelId) -> Option<usize> {
        let index = self.index(channel)?;
        self.left += 1;
        let leaving = &mut self.paths[index];
        leaving.leave(self.left);
        let (ends, known) = (leaving.ends.clone(), leaving.samples());
        let heirs = self.paths.iter().enumerate();
        let heirs =
            heirs.filter(|(_, path)| path.channel().is_some() && HARDLY * path.samples() < known);
        let of_interface = heirs.filter(|(_, path)| {
            path.ends.interface.is_some() && path.ends.shared_with(&ends) == Kept::Everything
        });
        let heir = of_interface
            .min_by_key(|(_, path)| path.samples())
            .map(|(index, _)| index)?;
        let moved = self.paths[heir].channel()?;
        let moved_ends = self.paths[heir].ends.clone();
        self.paths[heir].clear();
        self.paths[index].join(moved, moved_ends);
        Some(heir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(socket: u64, interface: &str, remote: &str) -> Ends {
        Ends {
            socket: SocketId(socket),
            interface: (!interface.is_empty()).then(|| interface.into()),
            remote: remote.parse().unwrap(),
        }
    }

    fn place(table: &mut Table, channel: u64, ends: Ends) -> (usize, Kept) {
        table
            .place(ChannelId(channel), ends)
            .expect("there is a place")
    }

    #[test]
    fn evidence_stays_with_what_stays_the_same() {
        let mut table = Table::default();
        let host = "192.0.2.1:4433";
        assert_eq!(
            place(&mut table, 1, ends(1, "wlan0", host)),
            (0, Kept::Nothing)
        );
        assert_eq!(
            place(&mut table, 2, ends(2, "wwan0", host)),
            (1, Kept::Nothing)
        );
        table.leave(ChannelId(1));
        // The interface has another address; the peer's port changed with the address of its NAT.
        let again = ends(3, "wlan0", "192.0.2.1:5000");
        assert_eq!(place(&mut table, 3, again), (0, Kept::Everything));
        table.leave(ChannelId(3));
        // Another relay, by the same interface.
        let relay = ends(3, "wlan0", "198.51.100.7:1");
        assert_eq!(place(&mut table, 4, relay), (0, Kept::Recent));
        // Not in place of a path that has a channel, nor of one of another interface or address family.
        table.leave(ChannelId(2));
        let others = [
            ends(4, "wlan0", host),
            ends(5, "eth0", host),
            ends(6, "wwan0", "[2001:db8::1]:4433"),
            ends(7, "", host),
        ];
        for (number, other) in others.into_iter().enumerate() {
            let found = place(&mut table, 10 + number as u64, other);
            assert_eq!(found, (2 + number, Kept::Nothing));
        }
    }

    #[test]
    fn the_longest_unused_path_is_forgotten() {
        let mut table = Table::default();
        for number in 0..500 {
            let remote = format!("10.0.{}.{}:1", number / 250, number % 250);
            let (index, kept) = place(&mut table, number, ends(number, "", &remote));
            assert_eq!(kept, Kept::Nothing);
            assert_eq!(index as u64, if number < 48 { number } else { number % 48 });
            table.leave(ChannelId(number));
        }
        assert_eq!(table.paths.len(), PATHS_MAX);
        // The latest are remembered.
        let known = ends(460, "", "10.0.1.210:1");
        assert_eq!(place(&mut table, 1_000, known).1, Kept::Everything);
        // Paths in use are not forgotten for others.
        let mut full = Table::default();
        for number in 0..PATHS_MAX as u64 {
            place(&mut full, number, ends(number, "", "10.0.0.1:1"));
        }
        assert_eq!(full.place(ChannelId(99), ends(99, "", "10.0.0.1:1")), None);
    }
}

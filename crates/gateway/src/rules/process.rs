//! Programs at the other end of local sockets: executable and control group.
//!
//! Of a Unix socket the system names the process. Of TCP and UDP it is the one that has the socket whose row in `/proc/net` has the
//! addresses of the flow. It is found only among processes whose files this user may list: its own, or all if it is root. A program
//! on another machine, or in another network namespace, has no row here.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anabranch::rights::Transport;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::source::Source;

/// Searches at a time: each reads some thousand links.
const SEARCHES_MAX: usize = 2;

/// A program of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) executable: Option<PathBuf>,
    pub(super) cgroup: Option<String>,
}

/// The program that a flow comes from; `None`: it is not one of this machine, or cannot be determined.
pub(super) async fn program(source: &Source) -> Option<Program> {
    static SEARCHES: OnceLock<Semaphore> = OnceLock::new();
    let searches = SEARCHES.get_or_init(|| Semaphore::new(SEARCHES_MAX));
    let _search = searches.acquire().await.ok()?;
    let source = source.clone();
    let found = spawn_blocking(move || match source {
        Source::Unix(process) => described(process?),
        Source::Address {
            transport,
            client,
            at,
        } => described(holder(&row(transport, client, at, false)?)?),
        Source::Machine {
            transport,
            client,
            at,
        } => described(holder(&row(transport, client, at, true)?)?),
        Source::Peer | Source::Unknown => None,
    });
    found.await.ok().flatten()
}

fn described(process: i32) -> Option<Program> {
    let folder = Path::new("/proc").join(process.to_string());
    let executable = fs::read_link(folder.join("exe")).ok().map(|path| {
        // One that was replaced while it runs.
        let text = path.to_string_lossy();
        text.strip_suffix(" (deleted)")
            .map_or(path.clone(), PathBuf::from)
    });
    let groups = fs::read_to_string(folder.join("cgroup")).ok()?;
    let program = Program {
        executable,
        cgroup: group(&groups).map(str::to_owned),
    };
    Some(program)
}

/// The group in the unified hierarchy, or else the first named one of the others.
fn group(groups: &str) -> Option<&str> {
    let mut first = None;
    for line in groups.lines() {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if number == "0" && controllers.is_empty() {
            return Some(path);
        }
        first = first.or(Some(path));
    }
    first
}

/// A socket of this machine, as `/proc/net` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRow {
    /// Its own address.
    pub local: SocketAddr,
    /// The other end's; unspecified if it is not connected.
    pub remote: SocketAddr,
    /// User who made it.
    pub uid: u32,
    /// Its number in the file system of sockets; 0: no process has it.
    pub inode: u64,
}

/// Reads a row of `/proc/net/tcp`, `tcp6`, `udp` or `udp6` (Linux, `proc_net_tcp.txt`); `None` for the heading and for anything else.
pub fn socket_row(line: &str) -> Option<SocketRow> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let local = address(words.next()?)?;
    let remote = address(words.next()?)?;
    // State, queues, timer, retransmissions.
    let mut words = words.skip(4);
    let uid = words.next()?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(SocketRow {
        local,
        remote,
        uid,
        inode,
    })
}

/// `0100007F:1F90`: 32-bit words in the byte order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(8 * at..8 * at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

impl SocketRow {
    /// True if it is the program's end of a flow. `is_own`: that is on this machine, whatever its address.
    fn is_of(
        &self,
        transport: Transport,
        client: SocketAddr,
        at: SocketAddr,
        is_own: bool,
    ) -> bool {
        let same = |one: SocketAddr, other: SocketAddr| {
            one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
        };
        if transport == Transport::Tcp {
            return same(self.local, client) && same(self.remote, at);
        }
        // A socket for datagrams may be bound to no address, and connected to none. One of another machine could have the same port.
        let is_any = self.local.ip().is_unspecified()
            && self.local.port() == client.port()
            && (is_own || client.ip().to_canonical().is_loopback());
        let is_for = |remote: SocketAddr| remote.port() == 0 || remote.port() == at.port();
        (same(self.local, client) || is_any) && is_for(self.remote)
    }
}

/// The socket of a flow's program.
fn row(
    transport: Transport,
    client: SocketAddr,
    at: SocketAddr,
    is_own: bool,
) -> Option<SocketRow> {
    let tables = match transport {
        Transport::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Transport::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    tables.iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        let mut rows = text.lines().filter_map(socket_row);
        rows.find(|row| row.inode != 0 && row.is_of(transport, client, at, is_own))
    })
}

/// User who owns a file; `None` on a system that does not number users.
fn owner(metadata: &fs::Metadata) -> Option<u32> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::MetadataExt::uid(metadata));
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// The process that has a socket.
fn holder(socket: &SocketRow) -> Option<i32> {
    let link = format!("socket:[{}]", socket.inode);
    let has_it = |folder: &Path| {
        let files = fs::read_dir(folder.join("fd")).into_iter().flatten();
        files.flatten().any(|file| {
            fs::read_link(file.path()).is_ok_and(|path| path.as_os_str() == link.as_str())
        })
    };
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry))
    });
    // A socket may have been handed to a process of another user, which is looked at last.
    let is_own = |entry: &fs::DirEntry| {
        let metadata = entry.metadata();
        metadata.is_ok_and(|found| owner(&found) == Some(socket.uid))
    };
    let (own, others): (Vec<_>, Vec<_>) = processes.partition(|(_, entry)| is_own(entry));
    let mut all = own.into_iter().chain(others);
    all.find(|(_, entry)| has_it(&entry.path()))
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_kernel_are_read() {
        let line = "   1: 0100007F:1F90 0200007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 54321 1 0000 20 4 30 10 -1";
        let row = socket_row(line);
        if cfg!(target_endian = "little") {
            assert_eq!(
                row,
                Some(SocketRow {
                    local: "127.0.0.1:8080".parse().unwrap(),
                    remote: "127.0.0.2:54321".parse().unwrap(),
                    uid: 1000,
                    inode: 54321,
                })
            );
            let mapped = "0000000000000000FFFF00000100007F:0050";
            assert_eq!(address(mapped), Some("127.0.0.1:80".parse().unwrap()));
            let loopback = "00000000000000000000000001000000:0050";
            assert_eq!(address(loopback), Some("[::1]:80".parse().unwrap()));
        }
        for wrong in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "1: 0100007F 0200007F:D431 01 0:0 0:0 0 0 0 1",
            "1: 01007F:1F90 0200007F:D431 01 0:0 0:0 0 0 0 1",
        ] {
            assert_eq!(socket_row(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_datagram_of_another_machine_is_not_that_of_a_local_socket_with_its_port() {
        let any = SocketRow {
            local: "0.0.0.0:5000".parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            uid: 0,
            inode: 1,
        };
        let at = "127.0.0.1:53".parse().unwrap();
        let is_of =
            |client: &str, is_own| any.is_of(Transport::Udp, client.parse().unwrap(), at, is_own);
        assert!(is_of("127.0.0.1:5000", false));
        assert!(!is_of("127.0.0.1:5001", false));
        assert!(!is_of("192.0.2.1:5000", false));
        assert!(is_of("192.0.2.1:5000", true) && !is_of("192.0.2.1:5001", true));
    }

    #[test]
    fn the_unified_group_is_preferred() {
        let hybrid = "12:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/user.slice/c:d\n";
        assert_eq!(group(hybrid), Some("/user.slice/c:d"));
        assert_eq!(group("12:cpu:/a\n"), Some("/a"));
        assert_eq!(group(""), None);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn this_program_is_found_by_its_sockets() {
        let own = std::env::current_exe().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let source = Source::Address {
            transport: Transport::Tcp,
            client: client.local_addr().unwrap(),
            at: listener.local_addr().unwrap(),
        };
        let found = program(&source).await.unwrap();
        assert_eq!(found.executable.as_ref(), Some(&own));
        assert!(found.cgroup.unwrap().starts_with('/'));

        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let source = Source::Address {
            transport: Transport::Udp,
            client: socket.local_addr().unwrap(),
            at: "127.0.0.1:53".parse().unwrap(),
        };
        let found = program(&source).await.unwrap();
        assert_eq!(found.executable, Some(own.clone()));

        let (one, _other) = tokio::net::UnixStream::pair().unwrap();
        let process = one.peer_cred().unwrap().pid();
        let found = program(&Source::Unix(process)).await.unwrap();
        assert_eq!(found.executable, Some(own));
        // Nobody has it.
        drop(client);
        assert_eq!(program(&Source::Unknown).await, None);
    }
}

//! Connections to targets: resolution of the name, check of each address, and attempts in turn.
//!
//! The address that is connected to is the one that was checked: the name is resolved once. Attempts overlap, as in RFC 8305: the
//! next address is tried when the one before has failed, or has not answered for 250 ms; the first connection is used.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anabranch::rights::{Targets, Transport};
use tokio::{
    net::{TcpStream, UdpSocket, lookup_host},
    task::JoinSet,
    time::timeout,
};

use crate::{
    endpoint::{Endpoint, Host},
    error::{Code, Refusal},
    limits::{CONNECT_TIMEOUT, RESOLVE_TIMEOUT},
    socket::Socket,
    unix_socket::UnixStream,
};

/// Pause before the next address is tried beside those that have not answered (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Targets that may be connected to.
#[derive(Clone, Copy)]
pub(crate) enum Allowed<'t> {
    /// Any: the user of this node named the target.
    All,
    /// Those in the terms of a peer's right.
    Targets(&'t Targets),
    /// Addresses for which this is true, and no names or Unix sockets.
    Addresses(&'t (dyn Fn(IpAddr) -> bool + Sync)),
}

fn not_allowed(target: &Endpoint) -> Refusal {
    let text = format!("{target} is not among the targets that this peer may reach from here");
    Refusal::new(Code::NotAllowed, text)
}

fn timed_out() -> Refusal {
    let text = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
    Refusal::new(Code::TimedOut, text)
}

impl Allowed<'_> {
    fn address(self, transport: Transport, host: &Host, address: SocketAddr) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::Addresses(allows), Host::Ip(_)) => allows(address.ip()),
            (Self::Addresses(_), Host::Name(_)) => false,
            (Self::Targets(targets), Host::Ip(_)) => targets.allows_address(transport, address),
            (Self::Targets(targets), Host::Name(name)) => {
                targets.allows_named(transport, name, address)
            }
        }
    }

    /// True if an open connection may stay: its target, resolved to `address` before, is still allowed.
    pub(crate) fn still(self, target: &Endpoint, address: Option<SocketAddr>) -> bool {
        match (self, target, address) {
            (Self::All, ..) => true,
            (Self::Targets(targets), Endpoint::Unix(path), _) => targets.allows_path(path),
            (Self::Addresses(_), Endpoint::Unix(_), _) => false,
            (
                _,
                Endpoint::Port {
                    transport, host, ..
                },
                Some(address),
            ) => self.address(*transport, host, address),
            (_, Endpoint::Port { .. }, None) => false,
        }
    }
}

/// Addresses of a target that may be connected to, in the order of attempts.
async fn addresses(
    target: &Endpoint,
    transport: Transport,
    host: &Host,
    port: u16,
    allowed: Allowed<'_>,
) -> Result<Vec<SocketAddr>, Refusal> {
    let found = match host {
        Host::Ip(address) => vec![SocketAddr::new(*address, port)],
        Host::Name(name) => {
            // A peer must not learn names, or make requests to their servers, that it could not use.
            let may_be_used = match allowed {
                Allowed::All => true,
                Allowed::Targets(targets) => targets.may_allow_named(transport, name, port),
                Allowed::Addresses(_) => false,
            };
            if !may_be_used {
                return Err(not_allowed(target));
            }
            let looking = lookup_host((name.as_str(), port));
            let found = match timeout(RESOLVE_TIMEOUT, looking).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => {
                    let text = format!("{name} cannot be resolved: {error}");
                    return Err(Refusal::new(Code::NoSuchName, text));
                }
                Err(_) => {
                    let text = format!(
                        "{name} was not resolved within {} s",
                        RESOLVE_TIMEOUT.as_secs()
                    );
                    return Err(Refusal::new(Code::NoSuchName, text));
                }
            };
            found.collect()
        }
    };
    if found.is_empty() {
        let text = format!("{host} has no address");
        return Err(Refusal::new(Code::NoSuchName, text));
    }
    let mut usable: Vec<SocketAddr> = Vec::new();
    for address in found {
        if allowed.address(transport, host, address) && !usable.contains(&address) {
            usable.push(address);
        }
    }
    if usable.is_empty() {
        return Err(not_allowed(target));
    }
    let mut ordered = interleaved(usable);
    ordered.truncate(ADDRESSES_MAX);
    Ok(ordered)
}

/// Addresses with their families in turn, beginning with that of the first.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first);
    let mut ordered = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        let pair = [one.next(), other.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

/// Connects to a target. Returns the connection and its address, `None` for a Unix socket.
///
/// # Errors
/// The target is not allowed, cannot be resolved or does not accept; of several failures, that of the first address.
pub(crate) async fn connect(
    target: &Endpoint,
    allowed: Allowed<'_>,
) -> Result<(Socket, Option<SocketAddr>), Refusal> {
    let connecting = async {
        match target {
            Endpoint::Unix(path) => {
                if !allowed.still(target, None) {
                    return Err(not_allowed(target));
                }
                let stream = UnixStream::connect(path).await;
                let stream = stream.map_err(|error| Refusal::of_io(&error))?;
                Ok((stream.into(), None))
            }
            Endpoint::Port {
                transport,
                host,
                port,
            } => {
                let addresses = addresses(target, *transport, host, *port, allowed).await?;
                let stream = first_of(addresses, TcpStream::connect).await;
                let (stream, address) = stream.map_err(|error| Refusal::of_io(&error))?;
                Ok((stream.into(), Some(address)))
            }
        }
    };
    let result = timeout(CONNECT_TIMEOUT, connecting).await;
    result.unwrap_or_else(|_| Err(timed_out()))
}

/// Opens a socket for datagrams to a target, and returns it with its address.
///
/// # Errors
/// The target is not allowed, or cannot be resolved.
pub(crate) async fn open_flow(
    target: &Endpoint,
    allowed: Allowed<'_>,
) -> Result<(UdpSocket, SocketAddr), Refusal> {
    let Endpoint::Port {
        transport: Transport::Udp,
        host,
        port,
    } = target
    else {
        let text = format!("{target} takes no datagrams");
        return Err(Refusal::new(Code::Unsupported, text));
    };
    let addresses = addresses(target, Transport::Udp, host, *port, allowed).await?;
    // An address without a route fails at once.
    let mut failure = None;
    for address in addresses {
        match flow_to(address).await {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let failure = failure.unwrap_or_else(|| io::ErrorKind::NotFound.into());
    Err(Refusal::of_io(&failure))
}

async fn flow_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Result of the first attempt that succeeds; the others are dropped.
async fn first_of<T, F>(
    addresses: Vec<SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> io::Result<(T, SocketAddr)>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure: Option<(usize, io::Error)> = None;
    let mut started = 0;
    loop {
        let next = waiting.next();
        let is_more = next.is_some();
        if let Some(address) = next {
            let (number, attempt) = (started, attempt(address));
            started += 1;
            attempts.spawn(async move { (number, address, attempt.await) });
        }
        // Waits for a result, at most for the delay if there may be another address.
        let ended = match is_more {
            true => timeout(ATTEMPT_DELAY, attempts.join_next())
                .await
                .unwrap_or(None),
            false => attempts.join_next().await,
        };
        match ended {
            Some(Ok((_, address, Ok(done)))) => return Ok((done, address)),
            Some(Ok((number, _, Err(error)))) => {
                if failure.as_ref().is_none_or(|(first, _)| number < *first) {
                    failure = Some((number, error));
                }
            }
            Some(Err(error)) => return Err(io::Error::other(error)),
            None if is_more => {}
            None => {
                let failure = failure.map(|(_, error)| error);
                return Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns() {
        let ordered = interleaved(vec![
            address("[2001:db8::1]:1"),
            address("[2001:db8::2]:1"),
            address("192.0.2.1:1"),
            address("[2001:db8::3]:1"),
        ]);
        let families: Vec<bool> = ordered.iter().map(SocketAddr::is_ipv6).collect();
        assert_eq!(families, [true, false, true, true]);
    }

    #[tokio::test]
    async fn an_address_that_is_silent_or_refuses_does_not_hide_the_next() {
        let all: Vec<SocketAddr> = [1, 2, 3].map(|n| ([192, 0, 2, n], 1).into()).to_vec();
        let attempt = |address: SocketAddr| async move {
            match address.ip().to_string().as_str() {
                "192.0.2.1" => std::future::pending().await,
                "192.0.2.2" => Err(io::ErrorKind::ConnectionRefused.into()),
                other => Ok(other.to_owned()),
            }
        };
        let (done, used) = first_of(all.clone(), attempt).await.unwrap();
        assert_eq!((done.as_str(), used), ("192.0.2.3", all[2]));
    }

    #[tokio::test]
    async fn of_several_failures_that_of_the_first_address_is_reported() {
        let all: Vec<SocketAddr> = [1, 2].map(|n| ([192, 0, 2, n], 1).into()).to_vec();
        let attempt = |address: SocketAddr| async move {
            match address.ip().to_string().as_str() {
                "192.0.2.1" => Err::<(), _>(io::ErrorKind::ConnectionRefused.into()),
                _ => Err(io::ErrorKind::HostUnreachable.into()),
            }
        };
        let error = first_of(all, attempt).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_special_address_is_refused() {
        let targets = Targets::parse(["0.0.0.0/0:*", "[::]/0:*"]).unwrap();
        let target: Endpoint = "localhost:9".parse().unwrap();
        let refused = connect(&target, Allowed::Targets(&targets)).await;
        assert_eq!(refused.unwrap_err().code, Code::NotAllowed);
    }

    #[tokio::test]
    async fn names_that_could_not_be_used_are_not_resolved() {
        let targets = Targets::parse(["db.internal:5432"]).unwrap();
        let target: Endpoint = "name.invalid:5432".parse().unwrap();
        let refused = connect(&target, Allowed::Targets(&targets)).await;
        assert_eq!(refused.unwrap_err().code, Code::NotAllowed);
        let any = Targets::parse(["10.0.0.0/8:*"]).unwrap();
        let refused = connect(&target, Allowed::Targets(&any)).await;
        assert_eq!(refused.unwrap_err().code, Code::NoSuchName);
    }
}

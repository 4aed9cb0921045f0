//! Endpoints: where connections are accepted or made, as an address, the name of a host, or a Unix socket.
//!
//! Text: `HOST:PORT` with IPv6 addresses in brackets, `udp:HOST:PORT`, or `unix:PATH`.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use anabranch::rights::{
    Transport,
    targets::{is_plain_path, normal_name},
};

/// Longest path of a Unix socket, in bytes (`sun_path` without its final zero).
pub const PATH_BYTES_MAX: usize = 107;

/// A host: an address, or a name that the side which connects resolves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name, in lower case.
    Name(String),
}

/// Endpoint of connections or flows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A port.
    Port {
        /// TCP or UDP.
        transport: Transport,
        /// The host.
        host: Host,
        /// The port; 0 only where connections are accepted, for any that is free.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// The text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseEndpointError {
    /// No port.
    #[error(
        "give HOST:PORT with a port from 0 to 65535, or unix:PATH; an IPv6 address goes in brackets"
    )]
    Port,
    /// Neither an address nor a name.
    #[error("'{0}' is neither an address nor the name of a host; an IPv6 address goes in brackets")]
    Host(String),
    /// Not a path of a socket.
    #[error(
        "give an absolute path without '.' and '..', of at most {PATH_BYTES_MAX} bytes, after unix:"
    )]
    Path,
}

impl Host {
    /// Reads an address, with or without brackets, or a name.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, ParseEndpointError> {
        let wrong = || ParseEndpointError::Host(text.to_owned());
        if let Some(rest) = text.strip_prefix('[') {
            let inside = rest.strip_suffix(']').ok_or_else(wrong)?;
            let address: Ipv6Addr = inside.parse().map_err(|_| wrong())?;
            return Ok(Self::Ip(address.into()));
        }
        match text.parse() {
            Ok(IpAddr::V4(address)) => Ok(Self::Ip(address.into())),
            // Its last group would read as a port.
            Ok(IpAddr::V6(_)) => Err(wrong()),
            Err(_) => normal_name(text).map(Self::Name).ok_or_else(wrong),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Endpoint {
    /// A TCP port of an address.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::address(Transport::Tcp, address)
    }

    /// A UDP port of an address.
    pub fn udp(address: SocketAddr) -> Self {
        Self::address(Transport::Udp, address)
    }

    fn address(transport: Transport, address: SocketAddr) -> Self {
        Self::Port {
            transport,
            host: Host::Ip(address.ip()),
            port: address.port(),
        }
    }

    /// Reads a Unix path.
    ///
    /// # Errors
    /// It is no path for a socket.
    pub fn unix(path: &str) -> Result<Self, ParseEndpointError> {
        let bytes = path.len();
        let path = PathBuf::from(path);
        match is_plain_path(&path) && bytes <= PATH_BYTES_MAX {
            true => Ok(Self::Unix(path)),
            false => Err(ParseEndpointError::Path),
        }
    }

    /// Reads `HOST:PORT` as a port of this transport.
    ///
    /// # Errors
    /// It is no host with a port.
    pub fn port_of(transport: Transport, text: &str) -> Result<Self, ParseEndpointError> {
        let (host, port) = text.rsplit_once(':').ok_or(ParseEndpointError::Port)?;
        Ok(Self::Port {
            transport,
            host: Host::parse(host)?,
            port: port_number(port).ok_or(ParseEndpointError::Port)?,
        })
    }

    /// True if datagrams go to it.
    pub fn is_udp(&self) -> bool {
        matches!(
            self,
            Self::Port {
                transport: Transport::Udp,
                ..
            }
        )
    }
}

/// A port in decimal digits.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Port {
                transport: Transport::Udp,
                host,
                port,
            } => write!(f, "udp:{host}:{port}"),
            Self::Port { host, port, .. } => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        match text.strip_prefix("udp:") {
            Some(rest) => Self::port_of(Transport::Udp, rest),
            None => Self::port_of(Transport::Tcp, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "127.0.0.1:80",
            "[::1]:443",
            "db.internal:5432",
            "udp:10.0.0.1:53",
            "udp:[2001:db8::1]:53",
            "unix:/run/x.sock",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(endpoint.is_udp(), text.starts_with("udp:"));
        }
    }

    #[test]
    fn wrong_texts_are_refused() {
        let long = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX));
        for text in [
            "",
            "80",
            ":80",
            "a:",
            "a:+1",
            "a:65536",
            "::1:80",
            "[::1:80",
            "a b:80",
            "127.1:80",
            "unix:x",
            "unix:/a/../b",
            &long,
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}

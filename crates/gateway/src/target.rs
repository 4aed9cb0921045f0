//! Mappings: the arguments of `-L` and `-R`, as in ssh.
//!
//! ```text
//! [udp:][ADDRESS:]PORT:HOST:PORT     accept at ADDRESS (127.0.0.1 if absent), connect to HOST
//! unix:PATH:HOST:PORT                accept at a Unix socket
//! [ADDRESS:]PORT:unix:PATH           connect to a Unix socket
//! ```
//!
//! IPv6 addresses go in brackets. A path before a colon contains none.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use anabranch::rights::Transport;

use crate::endpoint::{Endpoint, Host, ParseEndpointError, port_number};

/// The address that accepts connections, and the target that they are made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Accepting end: an address, not a name; or a Unix socket.
    pub accept: Endpoint,
    /// Target of the connections. Datagrams if `accept` takes datagrams.
    pub to: Endpoint,
}

/// The text is not a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseMappingError {
    /// Too few parts.
    #[error(
        "give [ADDRESS:]PORT:HOST:PORT, such as 5433:db.internal:5432, with unix:PATH in place of either side"
    )]
    Form,
    /// Connections are accepted at addresses only.
    #[error(
        "'{0}' is not an address to accept connections at; give an IP address (IPv6 in brackets) or localhost"
    )]
    Accept(String),
    /// One of the sides is not an endpoint.
    #[error(transparent)]
    Endpoint(#[from] ParseEndpointError),
    /// Connections are made to a port.
    #[error("give the port to connect to, from 1 to 65535")]
    PortZero,
    /// There are no datagrams on Unix sockets.
    #[error("udp: is for ports on both sides; a Unix socket carries a byte stream")]
    Datagrams,
}

/// An endpoint at which connections can be accepted: an address, or `localhost` for 127.0.0.1.
///
/// # Errors
/// The host is a name.
pub fn acceptable(endpoint: Endpoint) -> Result<Endpoint, ParseMappingError> {
    match endpoint {
        Endpoint::Port {
            transport,
            host: Host::Name(name),
            port,
        } => {
            if name != "localhost" {
                return Err(ParseMappingError::Accept(name));
            }
            let host = Host::Ip(Ipv4Addr::LOCALHOST.into());
            Ok(Endpoint::Port {
                transport,
                host,
                port,
            })
        }
        other => Ok(other),
    }
}

impl Mapping {
    /// Joins two endpoints.
    ///
    /// # Errors
    /// They do not fit each other.
    pub fn new(accept: Endpoint, to: Endpoint) -> Result<Self, ParseMappingError> {
        let accept = acceptable(accept)?;
        if matches!(to, Endpoint::Port { port: 0, .. }) {
            return Err(ParseMappingError::PortZero);
        }
        if accept.is_udp() != to.is_udp() {
            return Err(ParseMappingError::Datagrams);
        }
        Ok(Self { accept, to })
    }
}

/// The first part of a text, in brackets or up to a colon, and what is behind the colon.
fn part(text: &str) -> Option<(&str, &str)> {
    let start = match text.starts_with('[') {
        true => text.find(']')?,
        false => 0,
    };
    let colon = start + text[start..].find(':')?;
    Some((&text[..colon], &text[colon + 1..]))
}

impl FromStr for Mapping {
    type Err = ParseMappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (transport, text) = match text.strip_prefix("udp:") {
            Some(rest) => (Transport::Udp, rest),
            None => (Transport::Tcp, text),
        };
        let (accept, to) = match text.strip_prefix("unix:") {
            Some(rest) => {
                let (path, to) = rest.split_once(':').ok_or(ParseMappingError::Form)?;
                (Endpoint::unix(path)?, to)
            }
            None => {
                let (first, rest) = part(text).ok_or(ParseMappingError::Form)?;
                let (host, port, to) = match port_number(first) {
                    Some(port) => (Host::Ip(Ipv4Addr::LOCALHOST.into()), port, rest),
                    None => {
                        let (port, to) = part(rest).ok_or(ParseMappingError::Form)?;
                        let port = port_number(port).ok_or(ParseEndpointError::Port)?;
                        let host = Host::parse(first)
                            .map_err(|_| ParseMappingError::Accept(first.to_owned()))?;
                        (host, port, to)
                    }
                };
                let accept = Endpoint::Port {
                    transport,
                    host,
                    port,
                };
                (accept, to)
            }
        };
        let to = match to.strip_prefix("unix:") {
            Some(path) => Endpoint::unix(path)?,
            None if !to.contains(':') => return Err(ParseMappingError::Form),
            None => Endpoint::port_of(transport, to)?,
        };
        Self::new(accept, to)
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Endpoint::Port {
                host,
                port,
                transport: Transport::Udp,
            } => write!(f, "{}:{host}:{port}", self.accept),
            to => write!(f, "{}:{to}", self.accept),
        }
    }
}

/// True if an endpoint is reached from its own machine only.
pub fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Unix(_) => true,
        Endpoint::Port {
            host: Host::Ip(address),
            ..
        } => address.to_canonical().is_loopback(),
        Endpoint::Port { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_ssh_are_read() {
        let cases = [
            ("5433:db:5432", "127.0.0.1:5433:db:5432"),
            ("0.0.0.0:80:10.0.0.1:8080", "0.0.0.0:80:10.0.0.1:8080"),
            ("[::1]:80:[2001:db8::1]:8080", "[::1]:80:[2001:db8::1]:8080"),
            ("localhost:80:a:1", "127.0.0.1:80:a:1"),
            ("0:a:1", "127.0.0.1:0:a:1"),
            ("udp:53:10.0.0.1:53", "udp:127.0.0.1:53:10.0.0.1:53"),
            ("udp:[::]:53:[::1]:53", "udp:[::]:53:[::1]:53"),
            ("unix:/run/a.sock:db:5432", "unix:/run/a.sock:db:5432"),
            ("80:unix:/run/b.sock", "127.0.0.1:80:unix:/run/b.sock"),
            ("unix:/a:unix:/b:c", "unix:/a:unix:/b:c"),
        ];
        for (text, printed) in cases {
            let mapping: Mapping = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(mapping.to_string(), printed);
            assert_eq!(printed.parse(), Ok(mapping), "{printed}");
        }
    }

    #[test]
    fn wrong_forms_are_refused_with_their_reasons() {
        use ParseMappingError as E;
        let cases = [
            ("", E::Form),
            ("80", E::Form),
            ("80:db", E::Form),
            ("a:80:db", E::Form),
            ("db:80:x:1", E::Accept("db".into())),
            ("*:80:x:1", E::Accept("*".into())),
            ("::1:80:x:1", E::Endpoint(ParseEndpointError::Port)),
            ("127.0.0.1:x:db:1", E::Endpoint(ParseEndpointError::Port)),
            ("80:db:x", E::Endpoint(ParseEndpointError::Port)),
            ("80:db:0", E::PortZero),
            (
                "80:::1:1",
                E::Endpoint(ParseEndpointError::Host("::1".into())),
            ),
            ("unix:/a", E::Form),
            ("unix:a:db:1", E::Endpoint(ParseEndpointError::Path)),
            ("80:unix:b", E::Endpoint(ParseEndpointError::Path)),
            ("udp:80:unix:/b", E::Datagrams),
            ("udp:unix:/b:a:1", E::Datagrams),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Mapping>(), Err(error), "{text}");
        }
    }

    #[test]
    fn loopback_addresses_and_paths_are_local() {
        for (text, expected) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/a", true),
            ("0.0.0.0:1", false),
            ("10.0.0.1:1", false),
            ("[::]:1", false),
            ("a:1", false),
        ] {
            assert_eq!(is_local(&text.parse().unwrap()), expected, "{text}");
        }
    }

    fn host() -> impl Strategy<Value = Host> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(|bytes| Host::Ip(bytes.into())),
            any::<[u8; 16]>().prop_map(|bytes| Host::Ip(bytes.into())),
            "[a-z][a-z0-9]{0,8}(\\.[a-z][a-z0-9]{0,8}){0,2}".prop_map(Host::Name),
        ]
    }

    fn endpoint(transport: Transport) -> impl Strategy<Value = Endpoint> {
        let port = (host(), 1u16..).prop_map(move |(host, port)| Endpoint::Port {
            transport,
            host,
            port,
        });
        let unix = "(/[a-zA-Z0-9._-]{1,8}x){1,3}".prop_map(|path| Endpoint::Unix(path.into()));
        let unix_weight = u32::from(transport == Transport::Tcp);
        prop_oneof![4 => port, unix_weight => unix]
    }

    fn mapping() -> impl Strategy<Value = Mapping> {
        let tcp = (endpoint(Transport::Tcp), endpoint(Transport::Tcp));
        let udp = (endpoint(Transport::Udp), endpoint(Transport::Udp));
        let pair = prop_oneof![tcp, udp];
        pair.prop_filter_map("names are not accepted at", |(accept, to)| {
            Mapping::new(accept, to).ok()
        })
    }

    proptest! {
        #[test]
        fn texts_round_trip(mapping in mapping()) {
            prop_assert_eq!(mapping.to_string().parse(), Ok(mapping));
        }

        #[test]
        fn accepted_texts_print_to_the_same_mapping(text in "[a-z0-9:\\[\\]./*-]{0,40}") {
            if let Ok(mapping) = text.parse::<Mapping>() {
                prop_assert_eq!(mapping.to_string().parse(), Ok(mapping));
            }
        }
    }
}

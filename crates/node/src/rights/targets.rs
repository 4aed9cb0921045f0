//! Targets: the addresses, names and Unix sockets that a node may have connections made to, as patterns.
//!
//! | pattern | stands for |
//! |---|---|
//! | `10.0.0.0/8:*`, `[2001:db8::]/32:443` | TCP ports of the addresses of a network; ports are `*`, a number, or a range such as `8000-8010` |
//! | `127.0.0.1:5432`, `[::1]:5432` | TCP ports of one address |
//! | `db.internal:5432`, `*.internal:*` | TCP ports of a name, or of all names below one, whose addresses are not special |
//! | `udp:10.0.0.0/8:53` | the same for UDP |
//! | `unix:/run/x.sock` | a Unix socket |
//!
//! *Special* addresses (listed in `special.rs`) are in a target only if a pattern names that address, or a network inside the same
//! special range: `0.0.0.0/0:*` does not contain 127.0.0.1, and neither does a name that resolves to it.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use super::special::{Network, canonical, special_range};

/// Most patterns of one right.
pub const PATTERNS_MAX: usize = 1024;
/// Longest name of a host, in bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Transport protocol of a target with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The text is not a pattern of targets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTargetsError {
    /// There is no port behind the address.
    #[error("give ports after the last colon: a number, a range such as 8000-8010, or *")]
    Ports,
    /// Neither a network nor a name.
    #[error(
        "give an address, a network such as 10.0.0.0/8 or [2001:db8::]/32, or the name of a host, before the ports"
    )]
    Host,
    /// Bits of the address are outside its network.
    #[error("the address has bits beyond the length of its network; write {0}")]
    HostBits(String),
    /// A name for the loopback addresses.
    #[error(
        "list the addresses instead, as 127.0.0.1 and [::1]: a name never allows a loopback address"
    )]
    Localhost,
    /// Not the path of a socket.
    #[error("give an absolute path without '.' or '..' after unix:")]
    Path,
    /// Too many patterns.
    #[error("there are more than {PATTERNS_MAX} patterns; use networks and ranges of ports")]
    TooMany,
}

/// Ports from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports(u16, u16);

impl Ports {
    const ALL: Self = Self(0, u16::MAX);

    fn contains(self, port: u16) -> bool {
        (self.0..=self.1).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = ParseTargetsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::ALL);
        }
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u16>().ok().filter(|&port| port > 0);
            number.filter(|_| is_number).ok_or(ParseTargetsError::Ports)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self(number(first)?, number(last)?);
        (ports.0 <= ports.1)
            .then_some(ports)
            .ok_or(ParseTargetsError::Ports)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("*"),
            Self(first, last) if first == last => write!(f, "{first}"),
            Self(first, last) => write!(f, "{first}-{last}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Network(Network),
    /// One name, in lower case.
    Name(String),
    /// All names that end with this, which begins with a dot.
    Below(String),
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, ParseTargetsError> {
        if text.starts_with('[') || text.parse::<IpAddr>().is_ok() || text.contains('/') {
            return parse_network(text).map(Self::Network);
        }
        let (name, is_below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let name = normal_name(name).ok_or(ParseTargetsError::Host)?;
        Ok(if is_below {
            Self::Below(format!(".{name}"))
        } else {
            Self::Name(name)
        })
    }

    /// True for the names of the loopback addresses.
    fn is_localhost(&self) -> bool {
        match self {
            Self::Network(_) => false,
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Below(end) => end == ".localhost" || end.ends_with(".localhost"),
        }
    }

    /// True if a name in its normal form matches.
    fn has_name(&self, name: &str) -> bool {
        match self {
            Self::Network(_) => false,
            Self::Name(known) => known == name,
            Self::Below(end) => name.len() > end.len() && name.ends_with(end.as_str()),
        }
    }
}

/// Reads `10.0.0.0/8`, `[2001:db8::]/32` or `[2001:db8::/32]`.
fn parse_network(text: &str) -> Result<Network, ParseTargetsError> {
    let wrong = ParseTargetsError::Host;
    let (address, length) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, behind) = rest.split_once(']').ok_or(wrong.clone())?;
            let (address, length) = match (inside.split_once('/'), behind.strip_prefix('/')) {
                (Some((address, length)), None) if behind.is_empty() => (address, Some(length)),
                (None, length) if length.is_some() || behind.is_empty() => (inside, length),
                _ => return Err(wrong),
            };
            let address: Ipv6Addr = address.parse().map_err(|_| wrong.clone())?;
            (IpAddr::V6(address), length)
        }
        None => {
            let (address, length) = match text.split_once('/') {
                Some((address, length)) => (address, Some(length)),
                None => (text, None),
            };
            let address = address.parse().map_err(|_| wrong.clone())?;
            if matches!(address, IpAddr::V6(_)) {
                return Err(wrong);
            }
            (address, length)
        }
    };
    let length = match length {
        None => None,
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(text.parse::<u8>().map_err(|_| wrong.clone())?)
        }
        Some(_) => return Err(wrong),
    };
    let network = Network::new(address, length).ok_or(wrong)?;
    match network.is_exact(address) {
        true => Ok(network),
        false => Err(ParseTargetsError::HostBits(network.to_string())),
    }
}

/// A name of a host in lower case and without the final dot; `None` if it is none. An address is no name.
pub fn normal_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A resolver reads digits at the end as an address, in forms such as 127.1 and 0x7f000001.
    let last = text.rsplit('.').next()?;
    let is_number = last.starts_with(|first: char| first.is_ascii_digit())
        && (last.bytes().all(|byte| byte.is_ascii_digit())
            || last.starts_with("0x")
            || last.starts_with("0X"));
    let is_name = text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label) && !is_number;
    is_name.then(|| text.to_ascii_lowercase())
}

/// True if a path can be that of a Unix socket in a pattern or a request: absolute, without `.` and `..`.
pub fn is_plain_path(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let mut parts = path.components();
    let plain = |part| matches!(part, Component::Normal(_));
    text.starts_with(b"/")
        && text.len() > 1
        && !text.contains(&0)
        && parts.next() == Some(Component::RootDir)
        && parts.all(plain)
        && !text.windows(2).any(|pair| pair == b"//")
        && !text.windows(3).any(|three| three == b"/./")
        && !text.ends_with(b"/")
        && !text.ends_with(b"/.")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Port {
        transport: Transport,
        hosts: Hosts,
        ports: Ports,
    },
    Unix(PathBuf),
}

impl FromStr for Pattern {
    type Err = ParseTargetsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return match is_plain_path(&path) {
                true => Ok(Self::Unix(path)),
                false => Err(ParseTargetsError::Path),
            };
        }
        let (transport, rest) = match text.strip_prefix("udp:") {
            Some(rest) => (Transport::Udp, rest),
            None => (Transport::Tcp, text),
        };
        let (hosts, ports) = rest.rsplit_once(':').ok_or(ParseTargetsError::Ports)?;
        let (ports, hosts) = (ports.parse()?, Hosts::parse(hosts)?);
        if hosts.is_localhost() {
            return Err(ParseTargetsError::Localhost);
        }
        Ok(Self::Port {
            transport,
            ports,
            hosts,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (transport, hosts, ports) = match self {
            Self::Unix(path) => return write!(f, "unix:{}", path.display()),
            Self::Port {
                transport,
                hosts,
                ports,
            } => (transport, hosts, ports),
        };
        if *transport == Transport::Udp {
            f.write_str("udp:")?;
        }
        match hosts {
            Hosts::Network(network) => write!(f, "{network}:{ports}"),
            Hosts::Name(name) => write!(f, "{name}:{ports}"),
            Hosts::Below(end) => write!(f, "*{end}:{ports}"),
        }
    }
}

/// Hosts without ports, in the text form of patterns, for selections that grant nothing: no address is special, and an IPv6 network
/// needs no brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(Hosts);

impl HostPattern {
    /// True if it is a network that contains the address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        matches!(&self.0, Hosts::Network(network) if network.contains(canonical(address)))
    }

    /// True if it is this name, or one above it.
    pub fn has_name(&self, name: &str) -> bool {
        normal_name(name).is_some_and(|name| self.0.has_name(&name))
    }
}

impl FromStr for HostPattern {
    type Err = ParseTargetsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.contains(':') && !text.starts_with('[') {
            true => Hosts::parse(&format!("[{text}]")).map(Self),
            false => Hosts::parse(text).map(Self),
        }
    }
}

/// Targets of a right; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets(Vec<Pattern>);

impl Targets {
    /// Reads patterns.
    ///
    /// # Errors
    /// The first that is not valid, with its error; the text is empty if there are too many.
    pub fn parse<'a>(
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, (String, ParseTargetsError)> {
        let mut patterns = Vec::new();
        for text in texts {
            if patterns.len() == PATTERNS_MAX {
                return Err((String::new(), ParseTargetsError::TooMany));
            }
            patterns.push(text.parse().map_err(|error| (text.to_owned(), error))?);
        }
        Ok(Self(patterns))
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patterns as texts.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(Pattern::to_string)
    }

    /// Patterns for this port.
    fn hosts(&self, wanted: Transport, port: u16) -> impl Iterator<Item = &Hosts> {
        self.0.iter().filter_map(move |pattern| match pattern {
            Pattern::Port {
                transport,
                hosts,
                ports,
            } if *transport == wanted && ports.contains(port) => Some(hosts),
            _ => None,
        })
    }

    /// True if a pattern of addresses contains this one.
    pub fn allows_address(&self, transport: Transport, address: SocketAddr) -> bool {
        let ip = canonical(address.ip());
        let range = special_range(ip);
        self.hosts(transport, address.port()).any(|hosts| {
            let Hosts::Network(network) = hosts else {
                return false;
            };
            network.contains(ip) && range.is_none_or(|range| range.contains_network(network))
        })
    }

    /// True if a name that was resolved to this address may be used: the address is in the targets, or the name is and the
    /// address is not special. The address that was checked is the one to connect to: a second resolution could give another.
    pub fn allows_named(&self, transport: Transport, name: &str, address: SocketAddr) -> bool {
        if self.allows_address(transport, address) {
            return true;
        }
        let Some(name) = normal_name(name) else {
            return false;
        };
        special_range(canonical(address.ip())).is_none()
            && self
                .hosts(transport, address.port())
                .any(|hosts| hosts.has_name(&name))
    }

    /// True if some address could make this name allowed, so that resolving it is worth while.
    pub fn may_allow_named(&self, transport: Transport, name: &str, port: u16) -> bool {
        let Some(name) = normal_name(name) else {
            return false;
        };
        let may = |hosts: &Hosts| matches!(hosts, Hosts::Network(_)) || hosts.has_name(&name);
        self.hosts(transport, port).any(may)
    }

    /// True if this Unix socket is among them.
    pub fn allows_path(&self, path: &Path) -> bool {
        let is_it = |pattern: &Pattern| matches!(pattern, Pattern::Unix(known) if known.as_os_str() == path.as_os_str());
        self.0.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests;

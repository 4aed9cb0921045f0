//! Addresses of a peer: of the Internet Protocol, or names of hosts that are resolved whenever the peer is dialled.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::SocketAddr,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::text;

/// Time limit of a resolution.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Addresses of one name that are used.
const ADDRESSES_PER_NAME: usize = 8;
/// Names whose last addresses are kept.
const NAMES_MAX: usize = 256;
/// Longest name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Name of a host with a port, such as `studio.example:4433`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress {
    name: String,
    port: u16,
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// The addresses of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes {
    /// Addresses.
    pub addresses: Vec<SocketAddr>,
    /// Names, resolved for each session, and again while it has no path.
    pub hosts: Vec<HostAddress>,
}

/// The text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not an address; give IP:PORT or HOST:PORT, such as 192.0.2.1:4433, [2001:db8::1]:4433 or studio.example:4433", text::printable(.0, 100))]
pub struct ParseAddressError(pub String);

/// A name cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("the host name {host} cannot be resolved: {source}")]
pub struct LookupError {
    host: HostAddress,
    source: io::Error,
}

impl FromStr for HostAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseAddressError(text.to_owned());
        let (name, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port: u16 = port.parse().map_err(|_| error())?;
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let labels = name.strip_suffix('.').unwrap_or(name);
        let is_name = labels.split('.').all(is_label) && name.len() <= NAME_BYTES_MAX;
        // A mistyped IPv4 address is no name.
        let is_number = labels
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if port == 0 || !is_name || is_number {
            return Err(error());
        }
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }
}

impl Remotes {
    /// Adds an address from its text.
    ///
    /// # Errors
    /// The text is neither `IP:PORT` nor `HOST:PORT`.
    pub fn add(&mut self, text: &str) -> Result<(), ParseAddressError> {
        match text.parse() {
            Ok(address) => self.addresses.push(address),
            Err(_) => self.hosts.push(text.parse()?),
        }
        Ok(())
    }

    /// True if there is no address at all.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.hosts.is_empty()
    }

    /// Number of addresses and names.
    pub fn len(&self) -> usize {
        self.addresses.len() + self.hosts.len()
    }

    /// The addresses, and those of the names that can be resolved.
    ///
    /// # Errors
    /// There is no address, and a name cannot be resolved.
    pub async fn resolve(&self) -> Result<Vec<SocketAddr>, LookupError> {
        let mut all = self.addresses.clone();
        let mut failure = None;
        for host in &self.hosts {
            match lookup(host).await {
                Ok(found) => all.extend(found.into_iter().take(ADDRESSES_PER_NAME)),
                Err(source) => {
                    let host = host.clone();
                    let error = LookupError { host, source };
                    crate::limited!(warn, "{error}");
                    failure = Some(error);
                }
            }
        }
        let mut known = std::collections::BTreeSet::new();
        all.retain(|address| known.insert(*address));
        match failure {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }
}

/// Addresses that names had last. Servers of names may be unreachable exactly when a peer is: through a tunnel that it serves, for example.
static LAST: Mutex<BTreeMap<HostAddress, Vec<SocketAddr>>> = Mutex::new(BTreeMap::new());

/// The addresses of a name, or those that it had last.
async fn lookup(host: &HostAddress) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(answer) = tests::answer(host) {
        return Ok(answer);
    }
    let asking = tokio::net::lookup_host((host.name.as_str(), host.port));
    let found = tokio::time::timeout(LOOKUP_MAX, asking).await;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in 5 s");
    let found = found.unwrap_or_else(|_| Err(late()));
    remember(host, found.map(Iterator::collect))
}

fn remember(host: &HostAddress, found: io::Result<Vec<SocketAddr>>) -> io::Result<Vec<SocketAddr>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match found {
        Ok(found) => {
            if last.len() < NAMES_MAX || last.contains_key(host) {
                last.insert(host.clone(), found.clone());
            }
            Ok(found)
        }
        Err(error) => match last.get(host) {
            Some(known) => {
                crate::limited!(
                    warn,
                    "{host} cannot be resolved now ({error}); its last addresses are used"
                );
                Ok(known.clone())
            }
            None => Err(error),
        },
    }
}

impl From<Vec<SocketAddr>> for Remotes {
    fn from(addresses: Vec<SocketAddr>) -> Self {
        Self {
            addresses,
            hosts: Vec::new(),
        }
    }
}

impl From<&[SocketAddr]> for Remotes {
    fn from(addresses: &[SocketAddr]) -> Self {
        addresses.to_vec().into()
    }
}

impl From<&Vec<SocketAddr>> for Remotes {
    fn from(addresses: &Vec<SocketAddr>) -> Self {
        addresses.clone().into()
    }
}

impl<const N: usize> From<&[SocketAddr; N]> for Remotes {
    fn from(addresses: &[SocketAddr; N]) -> Self {
        addresses.to_vec().into()
    }
}

impl From<&Self> for Remotes {
    fn from(remotes: &Self) -> Self {
        remotes.clone()
    }
}

#[cfg(test)]
pub(crate) use tests::answer_with;

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers in place of those of the system.
    static ANSWERS: Mutex<BTreeMap<HostAddress, Vec<SocketAddr>>> = Mutex::new(BTreeMap::new());

    /// Lets a name have these addresses from now on.
    pub(crate) fn answer_with(host: &HostAddress, addresses: &[SocketAddr]) {
        let mut answers = ANSWERS.lock().unwrap();
        answers.insert(host.clone(), addresses.to_vec());
    }

    pub(super) fn answer(host: &HostAddress) -> Option<Vec<SocketAddr>> {
        ANSWERS.lock().unwrap().get(host).cloned()
    }

    fn parse(text: &str) -> Result<String, ParseAddressError> {
        text.parse::<HostAddress>().map(|host| host.to_string())
    }

    #[test]
    fn a_name_that_cannot_be_resolved_any_more_has_its_last_addresses() {
        let host: HostAddress = "remembered.example:4433".parse().unwrap();
        let gone = || Err(io::Error::other("no server answers"));
        assert!(remember(&host, gone()).is_err());
        let there: SocketAddr = "192.0.2.7:4433".parse().unwrap();
        assert_eq!(remember(&host, Ok(vec![there])).unwrap(), [there]);
        assert_eq!(remember(&host, gone()).unwrap(), [there]);
    }

    #[test]
    fn names_have_a_port_and_are_no_mistyped_addresses() {
        for good in [
            "studio.example:4433",
            "localhost:1",
            "a-b_c.d.:65535",
            "xn--bcher-kva.example:9",
        ] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        for bad in [
            "studio.example",
            "studio.example:0",
            "studio.example:99999",
            ":4433",
            "a..b:1",
            "192.0.2:1",
            "192.0.2.256:4433",
            "a b:1",
            "a/b:1",
            "[::1:4433",
            "a,b:1",
            "",
        ] {
            assert_eq!(parse(bad), Err(ParseAddressError(bad.to_owned())), "{bad}");
        }
        assert!(parse(&format!("{}:1", "a".repeat(254))).is_err());
    }

    #[test]
    fn addresses_and_names_are_told_apart() {
        let mut remotes = Remotes::default();
        for text in [
            "192.0.2.1:4433",
            "[2001:db8::1]:4433",
            "studio.example:4433",
        ] {
            remotes.add(text).unwrap();
        }
        assert_eq!((remotes.addresses.len(), remotes.hosts.len()), (2, 1));
        assert_eq!(remotes.len(), 3);
        assert!(remotes.add("studio").is_err());
    }

    #[tokio::test]
    async fn a_name_is_resolved_and_one_that_does_not_exist_is_named() {
        let mut remotes = Remotes::default();
        remotes.add("localhost:4433").unwrap();
        remotes.add("127.0.0.1:4433").unwrap();
        let found = remotes.resolve().await.unwrap();
        let here: SocketAddr = "127.0.0.1:4433".parse().unwrap();
        assert_eq!(found.iter().filter(|address| **address == here).count(), 1);
        // RFC 6761 §6.4: it does not exist.
        let mut none = Remotes::default();
        none.add("nobody.invalid:4433").unwrap();
        let error = none.resolve().await.unwrap_err().to_string();
        assert!(error.contains("nobody.invalid:4433"), "{error}");
        // Another address is enough.
        none.add("127.0.0.1:4433").unwrap();
        assert_eq!(none.resolve().await.unwrap(), [here]);
    }
}

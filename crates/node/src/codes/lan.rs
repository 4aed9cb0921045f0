//! Codes on the local network: an issuer announces its place by mDNS, and a holder looks for it.
//!
//! Public is the place (the first word of the code), the node's id and its addresses; neither the password nor what is sent.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
};

use anabranch_base::NodeId;
use anabranch_net::Host;
use mdns_sd::{IfKind, Receiver, ServiceDaemon, ServiceEvent, ServiceInfo};

use super::code::Place;

/// Type of the service.
const SERVICE: &str = "_anabranch._udp.local.";
/// Addresses that are announced, as many as fit into one record.
const ADDRESSES_MAX: usize = 5;
/// Interval at which mDNS looks for interfaces that have come up, in seconds. One that comes up while a code is waited for is used so much later.
const INTERFACES_EVERY_S: u32 = 1;
/// Bytes of a TXT record.
const TXT_BYTES_MAX: usize = 255;

/// The local network cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LanError {
    /// mDNS does not start.
    #[error("cannot announce or look for codes on the local network (mDNS): {0}")]
    Mdns(#[from] mdns_sd::Error),
    /// No randomness for the name of the announcement.
    #[error("the operating system provides no random numbers: {0}")]
    Entropy(String),
}

/// An issuer that may have the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its node, as it says.
    pub node: NodeId,
    /// Its addresses, as it states them.
    pub addresses: Vec<SocketAddr>,
}

/// mDNS on the interfaces of the host only.
fn daemon(host: &Host) -> Result<(Daemon, Vec<SocketAddr>), LanError> {
    let addresses = host.addresses();
    let daemon = Daemon(ServiceDaemon::new()?);
    daemon.0.set_ip_check_interval(INTERFACES_EVERY_S)?;
    daemon.0.disable_interface(IfKind::All)?;
    let mut ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    ips.sort_unstable();
    ips.dedup();
    for ip in ips {
        daemon.0.enable_interface(IfKind::Addr(ip))?;
    }
    Ok((daemon, addresses))
}

/// The thread that speaks mDNS; ends when it is dropped.
struct Daemon(ServiceDaemon);

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Daemon")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that is gone need not be ended.
        let _ = self.0.shutdown();
    }
}

/// Announcement of a code's place; ends when it is dropped.
#[derive(Debug)]
pub struct Announcement {
    daemon: Daemon,
    name: String,
}

impl Announcement {
    /// Announces that this host has a code with this place.
    ///
    /// # Errors
    /// The host's interfaces cannot be used for mDNS.
    pub fn start(host: &Host, place: Place) -> Result<Self, LanError> {
        let (daemon, addresses) = daemon(host)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| LanError::Entropy(error.to_string()))?;
        let name = format!("{:016x}", u64::from_be_bytes(random));
        let port = addresses.first().map_or(0, SocketAddr::port);
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let text = HashMap::from([
            ("place".to_owned(), place.number().to_string()),
            ("node".to_owned(), host.node_id().to_string()),
            ("at".to_owned(), joined(&addresses)),
        ]);
        let host_name = format!("anabranch-{name}.local.");
        let info = ServiceInfo::new(SERVICE, &name, &host_name, &ips[..], port, text)?;
        let name = info.get_fullname().to_owned();
        daemon.0.register(info)?;
        Ok(Self { daemon, name })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // One that is gone announces nothing.
        let _ = self.daemon.0.unregister(&self.name);
    }
}

/// As many addresses as fit into one record.
fn joined(addresses: &[SocketAddr]) -> String {
    let mut text = String::new();
    for address in addresses.iter().take(ADDRESSES_MAX) {
        let more = address.to_string();
        if text.len() + more.len() + "at=,".len() > TXT_BYTES_MAX {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&more);
    }
    text
}

/// Search for the issuers at a place; ends when it is dropped.
#[derive(Debug)]
pub struct Search {
    _daemon: Daemon,
    events: Receiver<ServiceEvent>,
    place: Place,
}

impl Search {
    /// Starts a search on the host's interfaces.
    ///
    /// # Errors
    /// They cannot be used for mDNS.
    pub fn start(host: &Host, place: Place) -> Result<Self, LanError> {
        let (daemon, _) = daemon(host)?;
        let events = daemon.0.browse(SERVICE)?;
        Ok(Self {
            _daemon: daemon,
            events,
            place,
        })
    }

    /// Waits for the next issuer at the place. The same one may be found again.
    pub async fn next(&self) -> Found {
        while let Ok(event) = self.events.recv_async().await {
            let ServiceEvent::ServiceResolved(service) = event else {
                continue;
            };
            let value = |key| service.get_property_val_str(key);
            let found = found(self.place, value("place"), value("node"), value("at"));
            if let Some(found) = found {
                return found;
            }
        }
        // The daemon has ended; nothing more will be found.
        std::future::pending().await
    }
}

/// Reads an announcement, which anybody on the network may have made.
fn found(
    place: Place,
    at: Option<&str>,
    node: Option<&str>,
    addresses: Option<&str>,
) -> Option<Found> {
    if at?.parse::<u16>().ok()? != place.number() {
        return None;
    }
    let addresses = addresses?.split(',').take(ADDRESSES_MAX);
    let addresses: Vec<SocketAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
    (!addresses.is_empty()).then_some(Found {
        node: node?.parse().ok()?,
        addresses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_read_with_care() {
        let place = Place::new(7).unwrap();
        let node = NodeId::from_public_key([1; 32]);
        let id = node.to_string();
        let read = |at, node, addresses| found(place, Some(at), Some(node), Some(addresses));
        let addresses = vec![
            "192.0.2.1:1".parse().unwrap(),
            "[2001:db8::1]:2".parse().unwrap(),
        ];
        let expected = Found { node, addresses };
        let text = joined(&expected.addresses);
        assert_eq!(read("7", &id, &text), Some(expected));
        assert_eq!(read("8", &id, "192.0.2.1:1"), None);
        assert_eq!(read("x", &id, "192.0.2.1:1"), None);
        assert_eq!(read("7", "nobody", "192.0.2.1:1"), None);
        assert_eq!(read("7", &id, "nowhere"), None);
        let many = "192.0.2.1:1,".repeat(1000);
        assert_eq!(
            read("7", &id, &many).unwrap().addresses.len(),
            ADDRESSES_MAX
        );
        assert_eq!(found(place, None, None, None), None);
    }

    #[test]
    fn addresses_fit_into_one_record() {
        let long = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"
            .parse()
            .unwrap();
        let text = joined(&[long; 20]);
        assert!(text.len() + "at=".len() <= TXT_BYTES_MAX, "{}", text.len());
        assert!(
            text.split(',')
                .all(|part| part.parse::<SocketAddr>().is_ok())
        );
    }
}

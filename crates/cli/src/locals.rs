//! Local addresses from which a peer is reached.

use std::net::SocketAddr;

use anabranch::Remotes;

/// The addresses `given`, or the loopback addresses for a peer on this machine; none: those of every interface.
pub(crate) async fn binds(given: &[SocketAddr], remotes: &Remotes) -> Vec<SocketAddr> {
    if !given.is_empty() {
        return given.to_vec();
    }
    // A name that cannot be resolved is reported when the peer is dialled.
    let there = remotes.resolve().await.unwrap_or_default();
    if !there.iter().all(|address| address.ip().is_loopback()) {
        return Vec::new();
    }
    let mut here: Vec<SocketAddr> = there
        .iter()
        .map(|address| SocketAddr::new(address.ip(), 0))
        .collect();
    here.sort_unstable();
    here.dedup();
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_on_this_machine_is_reached_from_its_loopback_address() {
        let there: SocketAddr = "127.0.0.1:4433".parse().unwrap();
        let far: SocketAddr = "192.0.2.1:4433".parse().unwrap();
        let given: SocketAddr = "192.0.2.9:1".parse().unwrap();
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        assert_eq!(binds(&[], &Remotes::from(&[there])).await, [loopback]);
        assert_eq!(binds(&[], &Remotes::from(&[there, far])).await, []);
        assert_eq!(binds(&[given], &Remotes::from(&[there])).await, [given]);
        let mut named = Remotes::default();
        named.add("localhost:4433").unwrap();
        assert!(binds(&[], &named).await.contains(&loopback));
    }
}

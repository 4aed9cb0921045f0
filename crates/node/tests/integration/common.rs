//! Common parts of the tests.

use std::{
    future::Future,
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anabranch::{AllowList, Host, HostConfig, SecretKey, base::NodeId};

/// Fails a test that hangs. A process that gets a hundredth of a processor is slow, and does not hang.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work)
        .await
        .expect("the test hangs")
}

/// Waits until the condition holds.
pub(crate) async fn wait_for(mut is_so: impl AsyncFnMut() -> bool) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Loopback addresses that are free now, with ports below those that the system assigns by itself: another test could be
/// assigned one of these before the node takes it.
pub(crate) fn addresses(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() % 100 * 100;
    let next = || 20_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
    std::iter::repeat_with(|| SocketAddr::from(([127, 0, 0, 1], next() as u16)))
        .take(10_000)
        .filter(|at| std::net::UdpSocket::bind(at).is_ok())
        .take(count)
        .collect()
}

pub(crate) fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

pub(crate) fn id(seed: u8) -> NodeId {
    key(seed).node_id()
}

/// A host on loopback that accepts everyone.
pub(crate) fn host(seed: u8) -> Host {
    let config = HostConfig::new(key(seed), AllowList::everyone());
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Host::start(config.bind([loopback])).unwrap()
}

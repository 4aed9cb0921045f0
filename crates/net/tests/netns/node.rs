//! Node in a namespace: a thread that never leaves the namespace runs all of the node.

use std::{future::Future, pin::Pin, thread::JoinHandle, time::Duration};

use anabranch_net::{
    Host, HostConfig,
    session::{AllowList, SecretKey},
};

use crate::namespace::Namespace;

/// Longest life of a node in these tests; one that hangs is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the node with this key on all interfaces of `namespace`, admitting `peer`, and lets `work`
/// use it on a thread in the namespace.
pub(crate) fn start<T: Send + 'static>(
    namespace: &Namespace,
    (own, peer): (u8, u8),
    work: impl FnOnce(Host) -> Pin<Box<dyn Future<Output = T>>> + Send + 'static,
) -> JoinHandle<T> {
    start_for(LIMIT, namespace, (own, peer), work)
}

/// The same, for this long at most.
pub(crate) fn start_for<T: Send + 'static>(
    limit: Duration,
    namespace: &Namespace,
    (own, peer): (u8, u8),
    work: impl FnOnce(Host) -> Pin<Box<dyn Future<Output = T>>> + Send + 'static,
) -> JoinHandle<T> {
    // Entered by a thread started here, so that it and its children stay inside.
    namespace.run(move || {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let allowed = AllowList::of([key(peer).node_id()]);
                let host = Host::start(HostConfig::new(key(own), allowed)).unwrap();
                tokio::time::timeout(limit, work(host))
                    .await
                    .expect("the test hangs")
            })
        })
    })
}

pub(crate) fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

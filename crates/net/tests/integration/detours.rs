//! Detours: addresses that come while a session is under way, or has just failed.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anabranch_net::{
    Detour, Host, HostConfig,
    session::{AllowList, SecretKey},
};

fn host(seed: u8) -> Host {
    let config = HostConfig::new(SecretKey::from_seed([seed; 32]), AllowList::everyone());
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Host::start(config.bind([loopback])).unwrap()
}

/// A detour that opens in the moment in which the last session of its host has failed.
#[derive(Debug)]
struct Late {
    address: SocketAddr,
    host: OnceLock<Host>,
}

impl Detour for Late {
    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>> {
        let (address, host) = (self.address, self.host.get().unwrap().clone());
        Box::pin(async move {
            while !host.sessions().is_empty() {
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
            Some(address)
        })
    }
}

/// The address was given to the session that had failed, and nothing was tried any more.
#[tokio::test]
async fn an_address_that_comes_when_the_others_are_refused_is_tried() {
    let (near, far) = (host(1), host(2));
    let detour = Late {
        address: far.addresses()[0],
        host: OnceLock::from(near.clone()),
    };
    near.set_detour(far.node_id(), Some(Arc::new(detour)));
    let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
    for _ in 0..8 {
        let session = near.connect(far.node_id(), &[nowhere][..]).await.unwrap();
        let accepted = far.accept().await.unwrap();
        session.close(0, "done");
        accepted.closed().await;
    }
}

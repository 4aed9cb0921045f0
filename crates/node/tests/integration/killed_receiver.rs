//! A receiver that dies while the sender waits for it.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Ticket,
    transfer::{Manner, Progress, Step, TransferError, send_with_retries},
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::common::{key, within};

/// Time after which a new session sends nothing by itself.
const QUIET: Duration = Duration::from_secs(12);

/// Passes packets on between a sender and a receiver, until it is cut.
struct Wire {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    async fn to(receiver: SocketAddr) -> Self {
        let [near, far] = [
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        ];
        let (address, is_cut) = (near.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let cut = is_cut.clone();
        tokio::spawn(async move {
            let (mut there, mut back) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            let mut sender = None;
            loop {
                tokio::select! {
                    Ok((bytes, from)) = near.recv_from(&mut there) => {
                        sender = Some(from);
                        if !cut.load(Ordering::Relaxed) {
                            let _ = far.send_to(&there[..bytes], receiver).await;
                        }
                    }
                    Ok(bytes) = far.recv(&mut back) => {
                        if let Some(sender) = sender.filter(|_| !cut.load(Ordering::Relaxed)) {
                            let _ = near.send_to(&back[..bytes], sender).await;
                        }
                    }
                }
            }
        });
        Self { address, is_cut }
    }
}

/// A receiver that is killed while the sender waits for its last word, and has nothing to send.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_killed_while_it_is_waited_for_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film");
    fs::write(&path, vec![7; 100_000]).unwrap();
    // Without the probes, silence would end nothing for an hour.
    let patient = |seed| {
        let mut config = HostConfig::new(key(seed), AllowList::everyone());
        config.engine.channel.idle_timeout = Duration::from_secs(3600);
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(config.bind([loopback])).unwrap()
    };
    let (a, b) = (patient(1), patient(2));
    let wire = Wire::to(b.addresses()[0]).await;
    let ticket = Ticket {
        node: b.node_id(),
        secret: None,
        addresses: vec![wire.address],
        hosts: Vec::new(),
        via: None,
    };
    // It takes everything, and dies.
    let receiving = async {
        let session = b.accept().await.unwrap();
        let control = session.accept_stream().await.unwrap();
        session.end_probation().unwrap();
        let say = |reply: Value| {
            let control = control.clone();
            async move { control.send(Bytes::from(reply.to_string())).await.unwrap() }
        };
        say(json!({"type": "welcome", "revision": 0})).await;
        say(json!({"type": "go"})).await;
        let data = session.accept_stream().await.unwrap();
        while data.recv().await.unwrap().is_some() {}
        // What a new path sends by itself is over by then.
        tokio::time::sleep(QUIET).await;
        wire.is_cut.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    };
    let (manner, progress) = (Manner::default(), Progress::default());
    let mut is_silent = false;
    let report = |step: Step<'_>| is_silent |= matches!(step, Step::Silent);
    let sending = send_with_retries(&a, &ticket, path, manner, &progress, report);
    let result = within(async {
        tokio::select! {
            result = sending => result,
            () = receiving => unreachable!("it waits"),
        }
    })
    .await;
    assert!(
        matches!(result, Err(TransferError::Silent(_))),
        "{result:?}"
    );
    assert!(is_silent);
}

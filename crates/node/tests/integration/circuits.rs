//! Circuits of a relay between two nodes: limits that its configuration has, and a relay that is restarted.

use std::{
    fs,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anabranch::{
    StreamSpec,
    codes::Place,
    config::Layer,
    daemon::Daemon,
    net::Detour,
    rendezvous::{Attendance, Call, Pairing, Via, Waiter},
    transfer::{Manner, Progress, Receiver, Step, send_with_retries},
};

use crate::{
    common::{addresses, host, key, wait_for, within},
    rendezvous::relay_at,
};

/// Bytes of one ADU.
const ADU_BYTES: usize = 10_000;

/// A node that is a relay with this section, and how it is named.
async fn relay(folder: &std::path::Path, section: &str) -> (Daemon, Via) {
    let file = folder.join("key");
    fs::write(&file, key(100).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&file, owner_only).unwrap();
    let control = folder.join("control.sock");
    let text = format!(
        "key = {file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {control:?}\nlocal = \"\"\n\
         [rendezvous]\nstrangers = true\n{section}"
    );
    let config = Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap();
    let daemon = Daemon::start(config).await.unwrap();
    let host = daemon.host();
    let via = format!("{}@{}", host.node_id(), host.addresses()[0]);
    (daemon, via.parse().unwrap())
}

/// One node sends to another over a circuit for as long as the relay lets it.
#[tokio::test(flavor = "multi_thread")]
async fn the_rate_and_the_bytes_of_a_day_in_the_configuration_bound_a_circuit() {
    let folder = tempfile::tempdir().unwrap();
    let section = "rate = \"4 Mbit/s\"\nper_day = \"2 MB\"\n";
    let (relay, via) = relay(folder.path(), section).await;
    let work = async {
        let (near, far) = (host(1), host(2));
        let place = Place::new(7).unwrap();
        let mut waiter = Waiter::start(&far, &via, place).await.unwrap();
        let pairing = Arc::new(Pairing::reach(&near, &via, place).await.unwrap());
        let _other = waiter.next().await.unwrap();
        near.set_detour(far.node_id(), Some(pairing.clone()));
        let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let session = near.connect(far.node_id(), &[nowhere]).await.unwrap();
        let accepted = far.accept().await.unwrap();
        let received = AtomicUsize::new(0);
        let sending = async {
            let stream = session.open_stream(StreamSpec::bulk("much")).unwrap();
            while stream.send(vec![7; ADU_BYTES].into()).await.is_ok() {}
        };
        let receiving = async {
            let stream = accepted.accept_stream().await.unwrap();
            accepted.end_probation().unwrap();
            while let Ok(Some(adu)) = stream.recv().await {
                received.fetch_add(adu.data.len(), Ordering::Relaxed);
            }
        };
        let watching = async {
            let begun = Instant::now();
            let has = async |bytes| received.load(Ordering::Relaxed) >= bytes;
            wait_for(async || has(1_000_000).await).await;
            // Two seconds, less what may pass at once.
            let taken = begun.elapsed();
            assert!(taken > Duration::from_secs(1), "{taken:?}");
            let is_alone = async || session.stats().unwrap().channels_active == 0;
            wait_for(is_alone).await;
            let arrived = received.load(Ordering::Relaxed);
            assert!((1_000_000..2_000_000).contains(&arrived), "{arrived}");
            assert_eq!(pairing.open().await, None, "no other circuit on this day");
        };
        tokio::select! {
            () = sending => unreachable!("there is no end"),
            () = receiving => unreachable!("there is no end"),
            () = watching => {}
        }
    };
    within(async {
        tokio::select! {
            () = relay.run() => unreachable!("it runs until dropped"),
            () = work => {}
        }
    })
    .await;
}

/// The circuit to a node that is called, without the addresses at which the relay sees it: on one machine, those would answer.
#[derive(Debug)]
struct Circuit(Call);

impl Detour for Circuit {
    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>> {
        self.0.open()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_goes_on_over_another_circuit_when_the_relay_was_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("film"), folder.path().join("to"));
    let content: Vec<u8> = (0..4_000_000u32).map(|n| (n * 31 + n / 7) as u8).collect();
    fs::write(&from, &content).unwrap();
    fs::create_dir(&to).unwrap();
    within(async {
        let (relay, via) = relay_at(addresses(1)[0], None);
        let (near, far) = (host(1), host(2));
        let _attendance = Attendance::start(&far, &via, |_| true).await;
        let receiver = Receiver::new(to.clone(), &key(2), []).unwrap();
        let mut ticket = receiver.issue(&far).unwrap();
        let call = Call::new(&near, &via, far.node_id(), ticket.addresses[0].port());
        near.set_detour(far.node_id(), Some(Arc::new(Circuit(call))));
        ticket.addresses = vec!["127.0.0.1:9".parse().unwrap()];
        let manner = Manner {
            retry_for: Duration::from_secs(240),
            limit: Some("4 Mbit/s".parse().unwrap()),
            ..Manner::default()
        };
        let (sent, received) = (Progress::default(), Progress::default());
        let mut steps = Vec::new();
        let sending = async {
            let report = |step: Step<'_>| {
                if !matches!(step, Step::Connected(_)) {
                    steps.push(format!("{step:?}"));
                }
            };
            send_with_retries(&near, &ticket, from.clone(), manner, &sent, report).await
        };
        let receiving = async {
            loop {
                let session = far.accept().await.unwrap();
                if let Ok(done) = receiver.receive(&session, &received).await {
                    return done;
                }
            }
        };
        let restarting = async {
            let has_some = async || received.snapshot().bytes_done > 1_000_000;
            wait_for(has_some).await;
            assert!(!to.join("film").exists(), "it is in the middle");
            relay.shutdown().await;
            drop(relay);
            let (relay, again) = relay_at(via.remotes.addresses[0], None);
            assert_eq!(again, via);
            relay
        };
        let (done, received, _relay) = tokio::join!(sending, receiving, restarting);
        assert_eq!(
            (done.unwrap().bytes, received.bytes),
            (4_000_000, 4_000_000)
        );
        // The session itself went on.
        let last: Vec<&str> = steps.iter().rev().take(2).map(String::as_str).collect();
        assert_eq!(last, ["Resumed", "Silent"], "{steps:?}");
    })
    .await;
    assert!(fs::read(to.join("film")).unwrap() == content);
}

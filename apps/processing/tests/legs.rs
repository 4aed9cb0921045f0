//! Promises over both legs, between three nodes on loopback with an emulated link for each leg: each leg fails in turn.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    Client, SecretKey, StreamSpec,
    base::{NodeId, Seed},
    config::Layer,
    daemon::Daemon,
    net::emulate::{
        Emulator, PathSpec,
        link::describe::{no_traces, parse_both},
    },
};
use anabranch_processing::{
    offer,
    process::{Fields, Pipeline},
    service::Service,
    subscribe::{self, Part, Received, Subscriber},
    wire::message::{Demand, Pace},
};
use bytes::Bytes;
use tokio::sync::mpsc;

/// A link with more than is needed.
const WIDE: &str = "rate=20 Mbit/s, delay=5 ms, queue=300 ms";
/// A link with half of it.
const NARROW: &str = "rate=1 Mbit/s, delay=5 ms, queue=300 ms";
/// Bytes of an ADU, 20 of which are made in a second: 1.6 Mbit/s.
const BYTES: usize = 10_000;
const PERIOD: Duration = Duration::from_millis(50);
/// Demand: three windows of four, with a deadline that load of the machine does not reach.
const DEMAND: Demand = Demand {
    rate_bps: 1_500_000,
    share_ppm: 750_000,
    deadline_ms: Some(2_000),
};
/// Limit on a test; nothing is asserted of the time within it.
const LIMIT: Duration = Duration::from_secs(240);

fn id(own: u8) -> NodeId {
    SecretKey::from_seed([own; 32]).node_id()
}

/// A node with these peers, by number and the rest of their entries.
async fn node(folder: &Path, own: u8, peers: &[(u8, String)]) -> (Daemon, PathBuf) {
    let folder = folder.join(own.to_string());
    fs::create_dir(&folder).unwrap();
    let key = folder.join("key");
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let control = folder.join("control.sock");
    let mut text = format!(
        "key = {key:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {control:?}\nevidence = \"\"\n"
    );
    for (peer, rest) in peers {
        let node = id(*peer);
        text += &format!("[[peer]]\nname = \"peer-{peer}\"\nnode = \"{node}\"\n{rest}\n");
    }
    let config = Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap();
    let daemon = Daemon::start(config).await.unwrap();
    (daemon, folder.join("control-local.sock"))
}

fn link(target: SocketAddr, seed: u64) -> Emulator {
    let links = parse_both(WIDE, &mut no_traces).unwrap();
    let path = PathSpec {
        name: "leg".to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        target,
        links,
    };
    Emulator::start(vec![path], Seed(seed)).unwrap()
}

fn narrow(leg: &Emulator) {
    let links = parse_both(NARROW, &mut no_traces).unwrap();
    leg.paths()[0].set(&links).unwrap();
}

/// Waits until everything is promised over both legs, has one of them fail, and expects that it is named.
async fn fails(narrowed: usize, part: Part) {
    let folder = tempfile::tempdir().unwrap();
    let may = "may = [\"call\", { right = \"use-service\", services = [\"process/1/*\"] }]";
    let guests = [1, 3].map(|peer| (peer, may.to_owned()));
    let (hub, at_hub) = node(folder.path(), 2, &guests).await;
    let target = hub.host().addresses()[0];
    let legs = [link(target, 1), link(target, 2)];
    let peer = |leg: &Emulator| {
        let rest = format!("may = []\naddresses = [\"{}\"]", leg.addresses()[0]);
        [(2, rest)]
    };
    let (lab, at_lab) = node(folder.path(), 1, &peer(&legs[0])).await;
    let (desk, at_desk) = node(folder.path(), 3, &peer(&legs[1])).await;

    let work = async {
        let hub = Client::attach(at_hub, "test").await.unwrap();
        let service = Service::new(
            anabranch_processing::service::Settings::default(),
            mpsc::channel(1).0,
        );
        let registration = service.register(&hub).await.unwrap();
        let serving = tokio::spawn(async move { service.serve(&registration).await });
        let lab = Client::attach(at_lab, "test").await.unwrap();
        let desk = Client::attach(at_desk, "test").await.unwrap();
        let at = id(2).to_string();
        let sessions = (
            lab.connect(&at).await.unwrap(),
            desk.connect(&at).await.unwrap(),
        );
        let source = Arc::new(offer::Source::new(offer::Settings {
            name: "x".to_owned(),
            run: 1,
            subscribers: vec![id(3).to_string()],
            pace: Pace::Slowest,
            patience: None,
            spec: StreamSpec::default(),
        }));
        let offering = source.clone();
        let offering = tokio::spawn(async move { offering.run(&sessions.0).await });
        while !source.has_begun() {
            tokio::time::sleep(PERIOD).await;
        }
        let making = tokio::spawn(async move {
            loop {
                source
                    .put(Fields::default(), Bytes::from(vec![7; BYTES]))
                    .await;
                tokio::time::sleep(PERIOD).await;
            }
        });
        let settings = subscribe::Settings {
            name: "x".to_owned(),
            run: 2,
            source: None,
            demand: Some(DEMAND),
            patience: None,
            spec: StreamSpec::default(),
        };
        let (sender, mut received) = mpsc::channel(16);
        let subscriber = Subscriber::new(settings, &Pipeline::default(), sender);
        let subscribing = tokio::spawn(async move { subscriber.run(&sessions.1).await });
        let mut next = async || loop {
            let one = received.recv().await.expect("the subscription goes on");
            if !matches!(one, Received::Adu { .. }) {
                return one;
            }
        };
        // Nothing is known at first, then everything is promised.
        loop {
            match next().await {
                Received::Promise {
                    rate_bps: Some(rate),
                    share,
                    ..
                } => {
                    assert_eq!(rate, DEMAND.rate_bps);
                    assert_eq!(share, Some(0.75));
                    break;
                }
                Received::Promise { rate_bps, why, .. } => {
                    assert_eq!(rate_bps, None);
                    assert!(!why.is_empty());
                }
                _ => {}
            }
        }
        narrow(&legs[narrowed]);
        let (mut is_late, mut is_withdrawn) = (false, false);
        while !(is_late && is_withdrawn) {
            match next().await {
                Received::Late { part: late, .. } => {
                    assert_eq!(late, part);
                    is_late = true;
                }
                Received::Promise {
                    rate_bps: None,
                    part: Some(named),
                    why,
                    ..
                } if named == part => {
                    assert!(why.contains(&part.to_string()), "{why}");
                    is_withdrawn = true;
                }
                _ => {}
            }
        }
        making.abort();
        offering.abort();
        subscribing.abort();
        serving.abort();
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.run() => unreachable!("it runs until dropped"),
        () = lab.run() => unreachable!("it runs until dropped"),
        () = desk.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_leg_that_fails_is_named() {
    fails(0, Part::SourceLeg).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_leg_that_fails_is_named() {
    fails(1, Part::LastLeg).await;
}

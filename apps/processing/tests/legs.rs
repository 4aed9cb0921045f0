//! Promises over both legs, between three nodes on loopback with an emulated link for each leg: each leg fails in turn.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch::{
    Client, StreamSpec,
    net::emulate::{
        Emulator,
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

use nodes::{LIMIT, id, link, node};

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
/// Windows that must be late because of the leg that fails.
const LATE_MIN: usize = 3;

fn narrow(leg: &Emulator) {
    let links = parse_both(NARROW, &mut no_traces).unwrap();
    leg.paths()[0].set(&links).unwrap();
}

/// Waits until everything is promised over both legs, has one of them fail, and expects that it is named.
async fn fails(narrowed: usize, part: Part) {
    let folder = tempfile::tempdir().unwrap();
    let may = "may = [\"call\", { right = \"use-service\", services = [\"process/1/*\"] }]";
    let guests = [1, 3].map(|peer| (peer, may.to_owned()));
    let hub = node(folder.path(), 2, &guests).await;
    let target = hub.daemon.host().addresses()[0];
    let legs = [link(target, 1), link(target, 2)];
    let peer = |leg: &Emulator| {
        let rest = format!("may = []\naddresses = [\"{}\"]", leg.addresses()[0]);
        [(2, rest)]
    };
    let lab = node(folder.path(), 1, &peer(&legs[0])).await;
    let desk = node(folder.path(), 3, &peer(&legs[1])).await;

    let work = async {
        let at_hub = Client::attach(&hub.local, "test").await.unwrap();
        let service = Service::new(
            anabranch_processing::service::Settings::default(),
            mpsc::channel(1).0,
        );
        let registration = service.register(&at_hub).await.unwrap();
        let serving = tokio::spawn(async move { service.serve(&registration).await });
        let at_lab = Client::attach(&lab.local, "test").await.unwrap();
        let at_desk = Client::attach(&desk.local, "test").await.unwrap();
        let at = id(2).to_string();
        let sessions = (
            at_lab.connect(&at).await.unwrap(),
            at_desk.connect(&at).await.unwrap(),
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
            modules: BTreeMap::new(),
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
        // Where a machine that is busy holds up a node, the other leg may be late once.
        let (mut late, mut others, mut is_withdrawn) = (0, 0, false);
        while late < LATE_MIN || !is_withdrawn {
            match next().await {
                Received::Late { part: named, .. } if named == part => late += 1,
                Received::Late { .. } => others += 1,
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
        assert!(others < late, "{others} of {late}");
        making.abort();
        offering.abort();
        subscribing.abort();
        serving.abort();
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = lab.daemon.run() => unreachable!("it runs until dropped"),
        () = desk.daemon.run() => unreachable!("it runs until dropped"),
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

//! Promises over both legs, between nodes on loopback with an emulated link for each leg: each leg fails in turn, and two subscribers have
//! promises of their own.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Client, StreamSpec,
    net::emulate::{
        Emulator,
        link::describe::{no_traces, parse_both},
    },
};
use anabranch_processing::{
    process::{Fields, Pipeline},
    subscribe::{self, Part, Received, Subscriber},
    wire::message::{Demand, Pace},
};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::{sync::mpsc, task::JoinSet};

use nodes::{LIMIT, MAY_ALL, Node, beyond, id, link, node, service, source, wants};

/// A link that loses a part of most ADUs, and delays none.
const LOSSY: &str = "rate=1 Mbit/s, delay=5 ms, queue=300 ms, loss=20%";
/// A link with half of what is made.
const HALF: &str = "rate=1 Mbit/s, delay=5 ms, queue=300 ms";
/// Bytes of an ADU, 20 of which are made in a second: 1.6 Mbit/s.
const BYTES: usize = 10_000;
const PERIOD: Duration = Duration::from_millis(50);
/// Demand: three windows of four, with a deadline that load of the machine does not reach.
const DEMAND: Demand = Demand {
    rate_bps: 1_500_000,
    share_ppm: 750_000,
    deadline_ms: Some(2_000),
};
/// The same of two thirds of it: what a path has is only known as far as it was used.
const MOST: Demand = Demand {
    rate_bps: 1_000_000,
    ..DEMAND
};
/// The same of half of every fourth ADU.
const QUARTER: Demand = Demand {
    rate_bps: 200_000,
    ..DEMAND
};
/// Windows that must be late because of the leg that fails.
const LATE_MIN: usize = 3;

/// A hub, a source, and subscribers, each behind a link of its own to the hub: first the source's.
struct Network {
    hub: Node,
    lab: Node,
    desks: [Node; 2],
    legs: [Emulator; 3],
    _folder: TempDir,
}

impl Network {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let guests = [1, 3, 4].map(|peer| (peer, MAY_ALL.to_owned()));
        let hub = node(folder.path(), 2, &guests).await;
        let target = hub.daemon.host().addresses()[0];
        let legs = [1, 2, 3].map(|seed| link(target, seed));
        let calls = async |own, leg: usize| {
            let hub = [(2, beyond(&legs[leg]))];
            node(folder.path(), own, &hub).await
        };
        let lab = calls(1, 0).await;
        let desks = [calls(3, 1).await, calls(4, 2).await];
        Self {
            hub,
            lab,
            desks,
            legs,
            _folder: folder,
        }
    }

    /// Leaves a leg so much.
    fn narrow(&self, leg: usize, to: &str) {
        let links = parse_both(to, &mut no_traces).unwrap();
        self.legs[leg].paths()[0].set(&links).unwrap();
    }

    /// Does the work while the nodes run.
    async fn during(&self, work: impl Future<Output = ()>) {
        let limited = tokio::time::timeout(LIMIT, work);
        tokio::select! {
            () = self.hub.daemon.run() => unreachable!("it runs until dropped"),
            () = self.lab.daemon.run() => unreachable!("it runs until dropped"),
            () = self.desks[0].daemon.run() => unreachable!("it runs until dropped"),
            () = self.desks[1].daemon.run() => unreachable!("it runs until dropped"),
            done = limited => done.expect("the test ends in time"),
        }
    }

    /// Serves the stream 'x', and has the source make it, by tasks of `tasks`.
    async fn serve(&self, pace: Pace, tasks: &mut JoinSet<()>) {
        tasks.spawn(service(&self.hub).await);
        let at_lab = Client::attach(&self.lab.local, "test").await.unwrap();
        let session = at_lab.connect(&id(2).to_string()).await.unwrap();
        let source = source(&[3, 4], pace);
        let offering = source.clone();
        tasks.spawn(async move {
            let _ = offering.run(&session).await;
        });
        while !source.has_begun() {
            tokio::time::sleep(PERIOD).await;
        }
        tasks.spawn(async move {
            loop {
                let body = Bytes::from(vec![7; BYTES]);
                source.put(Fields::default(), body).await;
                tokio::time::sleep(PERIOD).await;
            }
        });
    }

    /// Subscribes at a desk, with a task of `tasks` that reads.
    async fn subscribe(
        &self,
        desk: usize,
        (pipeline, demand, is_reliable): (&str, Demand, bool),
        tasks: &mut JoinSet<()>,
    ) -> Subscription {
        let client = Client::attach(&self.desks[desk].local, "test")
            .await
            .unwrap();
        let session = client.connect(&id(2).to_string()).await.unwrap();
        let settings = subscribe::Settings {
            demand: Some(demand),
            spec: StreamSpec {
                reliable: is_reliable,
                ..StreamSpec::default()
            },
            ..wants(2 + desk as u64)
        };
        let pipeline: Pipeline = pipeline.parse().unwrap();
        let (sender, mut received) = mpsc::channel(16);
        let subscriber = Subscriber::new(settings, &pipeline, sender);
        tasks.spawn(async move {
            let _ = subscriber.run(&session).await;
        });
        let (events, rest) = mpsc::unbounded_channel();
        let adus = Arc::new(AtomicU64::new(0));
        let counted = adus.clone();
        tasks.spawn(async move {
            while let Some(one) = received.recv().await {
                match one {
                    Received::Adu { .. } => drop(counted.fetch_add(1, Ordering::Relaxed)),
                    other => drop(events.send(other)),
                }
            }
        });
        Subscription {
            demand,
            events: rest,
            adus,
        }
    }
}

/// A subscription: what is reported of it, and the ADUs that came.
struct Subscription {
    demand: Demand,
    events: mpsc::UnboundedReceiver<Received>,
    adus: Arc<AtomicU64>,
}

impl Subscription {
    async fn next(&mut self) -> Received {
        self.events.recv().await.expect("the subscription goes on")
    }

    /// Nothing is known at first, then all that it wants is promised.
    async fn is_promised(&mut self) {
        loop {
            match self.next().await {
                Received::Promise {
                    rate_bps: Some(rate),
                    share,
                    ..
                } => {
                    assert_eq!(rate, self.demand.rate_bps);
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
    }

    /// Waits until windows are late because of this part, and the promise is withdrawn for it.
    async fn loses_it_because_of(&mut self, part: Part) {
        // Where a machine that is busy holds up a node, the other leg may be late once.
        let (mut late, mut others, mut is_withdrawn) = (0, 0, false);
        while late < LATE_MIN || !is_withdrawn {
            match self.next().await {
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
    }
}

/// Waits until everything is promised over both legs, has one of them fail, and expects that it is named.
async fn fails(narrowed: usize, part: Part) {
    let network = Network::start().await;
    let work = async {
        let mut tasks = JoinSet::new();
        network.serve(Pace::Slowest, &mut tasks).await;
        let all = ("", DEMAND, true);
        let mut desk = network.subscribe(0, all, &mut tasks).await;
        desk.is_promised().await;
        network.narrow(narrowed, HALF);
        desk.loses_it_because_of(part).await;
    };
    network.during(work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_leg_that_fails_is_named() {
    fails(0, Part::SourceLeg).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_leg_that_fails_is_named() {
    fails(1, Part::LastLeg).await;
}

/// Two subscribers of a stream are each promised what they want of it, over links of different width. When the link of the unreliable one loses
/// packets, so that what comes is in time and most does not come, it loses its promise, and the other keeps its own.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_two_subscribers_has_a_promise_of_its_own() {
    let network = Network::start().await;
    let work = async {
        let mut tasks = JoinSet::new();
        network.narrow(2, HALF);
        network.serve(Pace::Live, &mut tasks).await;
        let (all, quarter) = (("", MOST, true), ("every 4", QUARTER, false));
        let mut desk = network.subscribe(0, all, &mut tasks).await;
        let mut tablet = network.subscribe(1, quarter, &mut tasks).await;
        tokio::join!(desk.is_promised(), tablet.is_promised());
        network.narrow(2, LOSSY);
        tablet.loses_it_because_of(Part::LastLeg).await;
        let before = desk.adus.load(Ordering::Relaxed);
        while desk.adus.load(Ordering::Relaxed) < before + 20 {
            tokio::time::sleep(PERIOD).await;
        }
        while let Ok(event) = desk.events.try_recv() {
            let is_withdrawn = matches!(event, Received::Promise { rate_bps: None, .. });
            assert!(!is_withdrawn, "{event:?}");
        }
    };
    network.during(work).await;
}

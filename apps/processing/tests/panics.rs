//! An operator that panics at a running node: it costs what its derivation makes of that ADU, and nothing else.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{collections::BTreeMap, sync::Arc};

use anabranch::{Client, StreamSpec, local::client::Session};
use anabranch_processing::{
    offer,
    process::{Fields, Pipeline},
    service::{self, Service},
    subscribe::{self, Received, Subscriber},
    wire::message::Pace,
};
use bytes::Bytes;
use tokio::sync::mpsc;

use nodes::{LIMIT, id, link, node};

const ADUS: u64 = 100;

/// Subscribes; what is received comes out of the channel.
fn subscribe(run: u64, pipeline: &str, session: Arc<Session>) -> mpsc::Receiver<Received> {
    let settings = subscribe::Settings {
        name: "x".to_owned(),
        run,
        source: None,
        demand: None,
        modules: BTreeMap::new(),
        patience: None,
        spec: StreamSpec::default(),
    };
    let (sender, received) = mpsc::channel(16);
    let pipeline: Pipeline = pipeline.parse().unwrap();
    let subscriber = Subscriber::new(settings, &pipeline, sender);
    tokio::spawn(async move { subscriber.run(&*session).await.unwrap() });
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_costs_its_derivation_only() {
    let folder = tempfile::tempdir().unwrap();
    let may = "may = [\"call\", { right = \"use-service\", services = [\"process/1/*\"] }]";
    let hub = node(folder.path(), 2, &[(1, may.to_owned())]).await;
    let leg = link(hub.daemon.host().addresses()[0], 1);
    let rest = format!("may = []\naddresses = [\"{}\"]", leg.addresses()[0]);
    let near = node(folder.path(), 1, &[(2, rest)]).await;
    let work = async {
        let at_hub = Client::attach(&hub.local, "test").await.unwrap();
        let service = Service::new(service::Settings::default(), mpsc::channel(1).0);
        let registration = service.register(&at_hub).await.unwrap();
        let serving = tokio::spawn(async move { service.serve(&registration).await });
        let client = Client::attach(&near.local, "test").await.unwrap();
        let session = Arc::new(client.connect(&id(2).to_string()).await.unwrap());
        let source = Arc::new(offer::Source::new(offer::Settings {
            name: "x".to_owned(),
            run: 1,
            subscribers: vec![id(1).to_string()],
            pace: Pace::Slowest,
            patience: None,
            spec: StreamSpec::default(),
        }));
        let (offering, at) = (source.clone(), session.clone());
        let offered = tokio::spawn(async move { offering.run(&*at).await });
        source.taken().wait_for(|taken| *taken > 0).await.unwrap();
        let mut panicking = subscribe(2, "every 1 then panic 4", session.clone());
        let mut whole = subscribe(3, "", session.clone());
        source
            .subscribers()
            .wait_for(|there| *there == 2)
            .await
            .unwrap();
        for number in 0..ADUS {
            source
                .put(Fields::default(), Bytes::from(format!("m{number}")))
                .await;
        }
        source.finish();
        let mut next = 0;
        while let Some(received) = whole.recv().await {
            match received {
                Received::Adu { adu, .. } => {
                    assert_eq!(adu.sequence, next);
                    next += 1;
                }
                Received::Dropped { failed, .. } => assert_eq!(failed, 0),
                _ => {}
            }
        }
        assert_eq!(next, ADUS);
        let (mut got, mut why_last) = (Vec::new(), String::new());
        while let Some(received) = panicking.recv().await {
            match received {
                Received::Adu { adu, .. } => got.push(adu.sequence),
                Received::Dropped { why, .. } => why_last = why,
                _ => {}
            }
        }
        let rest: Vec<u64> = (0..ADUS).filter(|number| number % 4 != 0).collect();
        assert_eq!(got, rest);
        // The message of an early look may be the only one.
        if !why_last.is_empty() {
            let named = "step 2, \"panic\", cannot process ADU ";
            assert!(why_last.starts_with(named), "{why_last}");
            assert!(why_last.contains("it panicked (ADU "), "{why_last}");
        }
        offered.await.unwrap().unwrap();
        assert!(!serving.is_finished(), "the service goes on");
        serving.abort();
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = near.daemon.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}

//! Modules that a subscriber brings to a running node: they go where it may bring them, and no further.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::sync::Arc;

use anabranch::{Client, local::client::Session};
use anabranch_processing::{
    ProcessingError,
    process::{Fields, ModuleHash, Modules, Pipeline},
    service::{self, Report, Service},
    subscribe::{self, Received, Subscriber},
    wire::message::Pace,
};
use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle};

use nodes::{LIMIT, beyond, id, link, node, source, wants};

/// A module that emits one word for each ADU.
fn module(word: &str) -> (ModuleHash, Bytes) {
    let bytes = wat::parse_str(format!(
        r#"(module
            (import "anabranch1" "emit" (func $emit (param i32 i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "{word}")
            (func (export "process") (result i32)
                (call $emit (i32.const 0) (i32.const {}))
                (i32.const 0)))"#,
        word.len()
    ));
    let bytes = bytes.unwrap();
    (Modules::default().add(&bytes).unwrap(), bytes.into())
}

struct Watching {
    subscriber: Arc<Subscriber>,
    received: mpsc::Receiver<Received>,
    running: JoinHandle<Result<String, ProcessingError>>,
}

/// Subscribes with modules to bring.
fn subscribe(
    run: u64,
    pipeline: &str,
    brings: &[(ModuleHash, Bytes)],
    at: &Arc<Session>,
) -> Watching {
    let settings = subscribe::Settings {
        modules: brings.iter().cloned().collect(),
        ..wants(run)
    };
    let (sender, received) = mpsc::channel(16);
    let pipeline: Pipeline = pipeline.parse().unwrap();
    let subscriber = Arc::new(Subscriber::new(settings, &pipeline, sender));
    let (own, at) = (subscriber.clone(), at.clone());
    let running = tokio::spawn(async move { own.run(&*at).await });
    Watching {
        subscriber,
        received,
        running,
    }
}

impl Watching {
    async fn begun(&mut self) {
        while !matches!(self.received.recv().await.unwrap(), Received::Begun { .. }) {}
    }

    async fn adu(&mut self) -> String {
        loop {
            if let Received::Adu { adu, .. } = self.received.recv().await.unwrap() {
                return String::from_utf8(adu.body.to_vec()).unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_are_brought_where_the_right_is_and_named_by_those_who_brought_them() {
    let folder = tempfile::tempdir().unwrap();
    let may = |services: &str| {
        format!("may = [\"call\", {{ right = \"use-service\", services = [{services}] }}]")
    };
    let streams = "\"process/1/offer/x/*\", \"process/1/subscribe/x/*\"";
    let all = may(&format!("{streams}, \"process/1/module/x/*\""));
    let peers = [(1, all), (3, may(streams))];
    let hub = node(folder.path(), 2, &peers).await;
    let legs = [1, 2].map(|seed| link(hub.daemon.host().addresses()[0], seed));
    let to_hub = |leg: usize| [(2, beyond(&legs[leg]))];
    let near = node(folder.path(), 1, &to_hub(0)).await;
    let other = node(folder.path(), 3, &to_hub(1)).await;
    let work = async {
        let at_hub = Client::attach(&hub.local, "test").await.unwrap();
        let (reports, mut reported) = mpsc::channel(100);
        let service = Service::new(service::Settings::default(), reports);
        let registration = service.register(&at_hub).await.unwrap();
        let serving = tokio::spawn(async move { service.serve(&registration).await });
        let client = Client::attach(&near.local, "test").await.unwrap();
        let session = Arc::new(client.connect(&id(2).to_string()).await.unwrap());
        let client = Client::attach(&other.local, "test").await.unwrap();
        let of_other = Arc::new(client.connect(&id(2).to_string()).await.unwrap());
        let source = source(&[1, 3], Pace::Slowest);
        let (offering, at) = (source.clone(), session.clone());
        tokio::spawn(async move { offering.run(&*at).await });
        source.taken().wait_for(|taken| *taken > 0).await.unwrap();

        let [first, second, absent] = ["first", "second", "absent"].map(module);
        let step = |(hash, _): &(ModuleHash, Bytes)| format!("wasm {hash}");
        let brings = [first.clone(), second.clone()];
        let mut watching = subscribe(2, &step(&first), &brings, &session);
        watching.begun().await;
        source
            .put(Fields::default(), Bytes::from_static(b"m"))
            .await;
        assert_eq!(watching.adu().await, "first");

        // Another one, while it runs; one that there is not is refused in words.
        let number = watching.subscriber.change(&step(&second).parse().unwrap());
        loop {
            if let Received::Changed { number: changed } = watching.received.recv().await.unwrap() {
                assert_eq!(changed, number);
                break;
            }
        }
        source
            .put(Fields::default(), Bytes::from_static(b"m"))
            .await;
        assert_eq!(watching.adu().await, "second");
        watching.subscriber.change(&step(&absent).parse().unwrap());
        loop {
            if let Received::NotChanged { why, .. } = watching.received.recv().await.unwrap() {
                assert!(why.contains("process/1/module/x/*"), "{why}");
                break;
            }
        }

        // Who may not bring modules may not name those of others, known as they are.
        let refused = subscribe(3, &step(&second), &brings, &of_other);
        let why = refused.running.await.unwrap().unwrap_err().to_string();
        assert!(why.contains("is not known here"), "{why}");

        // One that is another than its hash says, or none, is refused; the node goes on.
        let wrong = [(absent.0, first.1.clone())];
        let refused = subscribe(4, &step(&absent), &wrong, &session);
        let why = refused.running.await.unwrap().unwrap_err().to_string();
        assert!(why.contains("another hash"), "{why}");
        let rubbish = Bytes::from_static(b"\0asm rubbish");
        let hash = ModuleHash(*blake3::hash(&rubbish).as_bytes());
        let refused = subscribe(5, &format!("wasm {hash}"), &[(hash, rubbish)], &session);
        let why = refused.running.await.unwrap().unwrap_err().to_string();
        assert!(why.contains("the module cannot be used"), "{why}");
        source
            .put(Fields::default(), Bytes::from_static(b"m"))
            .await;
        assert_eq!(watching.adu().await, "second");

        let mut brought = Vec::new();
        while let Ok(report) = reported.try_recv() {
            if let Report::Module { peer, hash, .. } = report {
                assert_eq!(peer, id(1));
                brought.push(hash);
            }
        }
        assert_eq!(brought, [first.0, second.0]);
        serving.abort();
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = near.daemon.run() => unreachable!("it runs until dropped"),
        () = other.daemon.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}

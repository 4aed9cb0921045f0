//! An operator that panics at a running node, which costs what its derivation makes of that ADU, and nothing else; and one that there is not, from
//! a peer that does not check its pipelines itself.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{collections::BTreeMap, sync::Arc};

use anabranch::{
    Client, StreamSpec,
    local::client::{Session, Stream},
};
use anabranch_processing::{
    offer,
    process::{Fields, Pipeline},
    service::{self, Service},
    subscribe::{self, Received, Subscriber},
    wire::{
        Item, Label, Notice, Purpose, Request, decode, encode,
        message::{self, Pace, Position},
    },
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

/// Offers `x` in a session with a node that has a service, and runs `work` with both. The service goes on until then.
async fn with_source(work: impl AsyncFnOnce(&Arc<offer::Source>, &Arc<Session>)) {
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
        work(&source, &session).await;
        source.finish();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_costs_its_derivation_only() {
    with_source(async |source, session| {
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
    })
    .await;
}

/// A stream to the service, with or without a number.
async fn open(session: &Session, number: u64, first: Bytes) -> Stream {
    let label = Label {
        purpose: Purpose::Subscribe,
        name: "x".to_owned(),
        number,
    };
    let spec = StreamSpec {
        duplex: true,
        label: label.to_string(),
        ..StreamSpec::default()
    };
    let stream = session.open_stream(spec).await.unwrap();
    stream.send(first).await.unwrap();
    stream
}

async fn answer(control: &Stream) -> Notice {
    let answer = control.recv().await.unwrap().unwrap();
    decode(&answer.data).unwrap()
}

/// The words of a refusal that is not to be tried again, of the change with this number.
async fn refusal(control: &Stream, change: Option<u32>) -> String {
    loop {
        match answer(control).await {
            Notice::Refused {
                number,
                may_retry,
                why,
            } => {
                assert_eq!((number, may_retry), (change, false), "{why}");
                return why;
            }
            Notice::Dropped { .. } | Notice::Away { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Bytes of a subscription with any text as its pipeline, as a subscriber that does not read it would send them.
fn subscription(run: u64, pipeline: &str) -> Bytes {
    encode(&Request::Subscribe(message::Subscribe {
        run,
        source: None,
        pipeline: pipeline.to_owned(),
        is_reliable: false,
        change: 0,
        of: None,
        position: None,
        demand: None,
        wait_ms: 0,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_refuses_what_is_no_pipeline_itself() {
    with_source(async |source, session| {
        let wrong = ["evry 2", "every 5 then", "every 5 then evry 2"];
        for (run, text) in (2..).zip(wrong) {
            assert!(text.parse::<Pipeline>().is_err());
            let control = open(session, 0, subscription(run, text)).await;
            let why = refusal(&control, None).await;
            assert!(why.starts_with("the pipeline: column "), "{why}");
        }
        // Nor as a change, after which the pipeline before goes on.
        let control = open(session, 0, subscription(9, "every 2")).await;
        let Notice::Subscribed { stream, .. } = answer(&control).await else {
            panic!("it is not subscribed")
        };
        let begin = Item::Mark(Position {
            next: 0,
            phases: None,
        });
        let adus = open(session, stream, begin.to_bytes()).await;
        let change = Request::Change {
            number: 1,
            pipeline: "evry 2".to_owned(),
        };
        control.send(encode(&change)).await.unwrap();
        let why = refusal(&control, Some(1)).await;
        assert!(why.starts_with("the pipeline: column 1"), "{why}");
        for _ in 0..3 {
            source
                .put(Fields::default(), Bytes::from_static(b"m"))
                .await;
        }
        let mut derived = Vec::new();
        while derived.len() < 2 {
            let adu = adus.recv().await.unwrap().unwrap();
            if let Item::Adu(carried) = Item::read(adu.data).unwrap() {
                derived.push((carried.adu.sequence, carried.change));
            }
        }
        assert_eq!(derived, [(0, 0), (2, 0)]);
        control.reset(0).unwrap();
    })
    .await;
}

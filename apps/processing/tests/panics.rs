//! An operator that panics at a running node, which costs what its derivation makes of that ADU, and nothing else.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::sync::Arc;

use anabranch::local::client::Session;
use anabranch_processing::{
    process::{Fields, Pipeline},
    subscribe::{Received, Subscriber},
};
use bytes::Bytes;
use tokio::sync::mpsc;

use nodes::{wants, with_source};

const ADUS: u64 = 100;

/// Subscribes; what is received comes out of the channel.
fn subscribe(run: u64, pipeline: &str, session: Arc<Session>) -> mpsc::Receiver<Received> {
    let (sender, received) = mpsc::channel(16);
    let pipeline: Pipeline = pipeline.parse().unwrap();
    let subscriber = Subscriber::new(wants(run), &pipeline, sender);
    tokio::spawn(async move { subscriber.run(&*session).await.unwrap() });
    received
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

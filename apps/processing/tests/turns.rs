//! A viewer behind a narrow link turns: what waits of the former view is given up at the node that processes the stream.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{sync::Arc, time::Duration};

use anabranch::{
    Client, StreamSpec,
    net::emulate::link::describe::{no_traces, parse_both},
};
use anabranch_processing::{
    process::{Fields, Pipeline},
    subscribe::{self, Received, Subscriber},
    wire::message::Pace,
};
use bytes::Bytes;
use tokio::sync::mpsc;

use nodes::{LIMIT, MAY_ALL, beyond, id, link, node, serve, source, wants};

/// A link with a quarter of what is made, and a short queue.
const NARROW: &str = "rate=1 Mbit/s, delay=5 ms, queue=100 ms";
/// Bytes of an ADU, and ADUs made in 20 ms: 4 Mbit/s.
const BYTES: usize = 2_000;
const AT_ONCE: usize = 5;
const PERIOD: Duration = Duration::from_millis(20);
/// ADUs that have come when the viewer turns. What is made by then fills the stream to it: with the credit of an application, 130 ADUs.
const BEFORE: usize = 250;
/// Most ADUs of the former view that come afterwards: those in the link, with time to spare for a machine that is busy.
const STALE_MAX: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_of_the_former_view_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let guests = [1, 3].map(|peer| (peer, MAY_ALL.to_owned()));
    let hub = node(folder.path(), 2, &guests).await;
    let target = hub.daemon.host().addresses()[0];
    let legs = [link(target, 1), link(target, 2)];
    let narrow = parse_both(NARROW, &mut no_traces).unwrap();
    legs[1].paths()[0].set(&narrow).unwrap();
    let to_hub = |leg: usize| [(2, beyond(&legs[leg]))];
    let lab = node(folder.path(), 1, &to_hub(0)).await;
    let desk = node(folder.path(), 3, &to_hub(1)).await;

    let work = async {
        let serving = serve(&hub).await;
        let at_lab = Client::attach(&lab.local, "test").await.unwrap();
        let at_desk = Client::attach(&desk.local, "test").await.unwrap();
        let at = id(2).to_string();
        let of_lab = at_lab.connect(&at).await.unwrap();
        let of_desk = at_desk.connect(&at).await.unwrap();
        let source = source(&[3], Pace::Live);
        let offering = source.clone();
        let offering = tokio::spawn(async move { offering.run(&of_lab).await });
        while !source.has_begun() {
            tokio::time::sleep(PERIOD).await;
        }
        let making = tokio::spawn(async move {
            loop {
                for _ in 0..AT_ONCE {
                    let body = Bytes::from(vec![7; BYTES]);
                    source.put(Fields::default(), body).await;
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        let settings = subscribe::Settings {
            spec: StreamSpec {
                reliable: false,
                ..StreamSpec::default()
            },
            ..wants(2)
        };
        let (sender, mut received) = mpsc::channel(16);
        let subscriber = Arc::new(Subscriber::new(settings, &Pipeline::default(), sender));
        let own = subscriber.clone();
        let subscribing = tokio::spawn(async move { own.run(&of_desk).await });
        let mut next = async || received.recv().await.expect("the subscription goes on");
        let mut came = 0;
        while came < BEFORE {
            came += usize::from(matches!(next().await, Received::Adu { .. }));
        }
        let number = subscriber.change(&"every 2".parse().unwrap());
        while !matches!(next().await, Received::Changed { number: changed } if changed == number) {}
        let mut stale = 0;
        loop {
            match next().await {
                Received::Adu { change, .. } if change == number => break,
                Received::Adu { .. } => stale += 1,
                _ => {}
            }
        }
        assert!(stale <= STALE_MAX, "{stale} ADUs");
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

//! A source that leaves one processing node for another, over emulated links: subscribers follow, and nothing is lost or repeated.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use std::{sync::Arc, time::Duration};

use anabranch::{Client, local::client::Session};
use anabranch_processing::{
    ProcessingError, offer,
    process::{Fields, Pipeline},
    status,
    subscribe::{Received, Subscriber},
    wire::{Notice, message::Pace},
};
use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle, time::sleep};

use nodes::{LIMIT, MAY_ALL, beyond, id, link, node, serve, source, wants};

/// Pause of a subscriber before the next node.
const PAUSE: Duration = Duration::from_millis(50);
/// ADUs of the stream, and after which of them the source leaves.
const ADUS: u64 = 600;
const LEAVES: [u64; 3] = [100, 250, 400];
/// Number of an ADU after the last of these.
const SHOWN: u64 = 540;

/// Sessions of a client with both processing nodes.
async fn sessions(client: &Client) -> [Session; 2] {
    let at = [id(2), id(4)].map(|id| id.to_string());
    [
        client.connect(&at[0]).await.unwrap(),
        client.connect(&at[1]).await.unwrap(),
    ]
}

/// Offers at one node after the other, as often as it leaves.
async fn offer(source: Arc<offer::Source>, sessions: [Session; 2]) {
    for turn in 0.. {
        match source.run(&sessions[turn % 2]).await {
            Ok(()) => return,
            Err(ProcessingError::Moved) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Subscribes at the node that has the stream, one after the other.
async fn subscribe(subscriber: Subscriber, sessions: [Session; 2]) {
    for turn in 0.. {
        match subscriber.run(&sessions[turn % 2]).await {
            Ok(_) => return,
            Err(ProcessingError::NotYet(_)) => sleep(PAUSE).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_leaves_takes_its_subscribers_along() {
    let folder = tempfile::tempdir().unwrap();
    let guests = [1, 3].map(|peer| (peer, MAY_ALL.to_owned()));
    let hub = node(folder.path(), 2, &guests).await;
    let spare = node(folder.path(), 4, &guests).await;
    let mut legs = Vec::new();
    let mut peers = |seed: u64| {
        let own = [(2, &hub), (4, &spare)].map(|(peer, at)| {
            legs.push(link(at.daemon.host().addresses()[0], seed + peer));
            (peer as u8, beyond(legs.last().unwrap()))
        });
        own.to_vec()
    };
    let (of_lab, of_desk) = (peers(10), peers(20));
    let lab = node(folder.path(), 1, &of_lab).await;
    let desk = node(folder.path(), 3, &of_desk).await;

    let work = async {
        let serving = [serve(&hub).await, serve(&spare).await];
        let at_lab = Client::attach(&lab.local, "test").await.unwrap();
        let at_desk = Client::attach(&desk.local, "test").await.unwrap();
        let asking = sessions(&at_lab).await;
        let source = source(&[3], Pace::Slowest);
        source.measure();
        let offering = tokio::spawn(offer(source.clone(), sessions(&at_lab).await));
        let pipeline: Pipeline = "every 3".parse().unwrap();
        let (sender, mut received) = mpsc::channel(16);
        let subscriber = Subscriber::new(wants(2), &pipeline, sender);
        let subscribing = tokio::spawn(subscribe(subscriber, sessions(&at_desk).await));
        let mut subscribers = source.subscribers();
        subscribers.wait_for(|count| *count > 0).await.unwrap();
        let putting = source.clone();
        let making = tokio::spawn(async move {
            for number in 0..ADUS {
                let body = Bytes::from(format!("m{number}"));
                putting.put(Fields::default(), body).await;
                sleep(Duration::from_millis(5)).await;
            }
            putting.finish();
        });
        for number in (0..ADUS).step_by(3) {
            let adu = loop {
                match received.recv().await.expect("the subscription goes on") {
                    Received::Adu { adu, .. } => break adu,
                    _ => continue,
                }
            };
            assert_eq!(
                (adu.sequence, adu.body),
                (number, format!("m{number}").into())
            );
            let left = LEAVES.iter().position(|at| *at / 3 * 3 == number);
            if let Some(turn) = left {
                source.leave(&format!("reason {turn}"));
            }
            if number == SHOWN {
                // The last place has the reason, and knows what it has done.
                let states = status::ask(&asking[LEAVES.len() % 2]).await.unwrap();
                let chosen = states.iter().find_map(|row| match row {
                    Notice::Source(state) => state.chosen.clone(),
                    _ => None,
                });
                assert_eq!(chosen.as_deref(), Some("reason 2"));
            }
        }
        making.await.unwrap();
        offering.await.unwrap();
        subscribing.await.unwrap();
        while let Some(more) = received.recv().await {
            assert!(!matches!(more, Received::Adu { .. }), "{more:?}");
        }
        let totals = source.totals().unwrap();
        assert_eq!((totals.made, totals.derived.len() <= 1), (ADUS, true));
        serving.iter().for_each(JoinHandle::abort);
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = spare.daemon.run() => unreachable!("it runs until dropped"),
        () = lab.daemon.run() => unreachable!("it runs until dropped"),
        () = desk.daemon.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}

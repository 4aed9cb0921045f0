//! Promises over real sockets of this machine: the API, from refusal to explanation.

use std::{net::SocketAddr, time::Duration};

use anabranch_net::{
    Host, HostConfig, PromiseEvent, Session, StreamFailure,
    session::{
        AllowList, Controller, Guarantee, Reason, Refusal, SecretKey, StreamError, StreamSpec, Term,
    },
};
use bytes::Bytes;

/// Time-out of a test that hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

fn node(own: u8, peer: u8) -> Host {
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let allowed = AllowList::of([key(peer).node_id()]);
    let mut config = HostConfig::new(key(own), allowed).bind([loopback]);
    // A rate that fills the path without keeping the machine busy.
    config.engine.channel.controller = "fixed 4 Mbit/s".parse::<Controller>().unwrap();
    Host::start(config).unwrap()
}

async fn pair() -> (Host, Host, Session, Session) {
    let (a, b) = (node(1, 2), node(2, 1));
    let addresses = b.addresses();
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
    (a, b, outgoing.unwrap(), incoming.unwrap())
}

fn rate(text: &str, probability: f64) -> Guarantee {
    Guarantee::rate(text.parse().unwrap(), probability)
}

fn asking(guarantee: Guarantee) -> StreamSpec {
    StreamSpec::messages("asking").with_guarantee(guarantee)
}

#[track_caller]
fn refused<T>(result: Result<T, StreamFailure>) -> Refusal {
    let error = result.err().expect("a refusal");
    let refusal = error.refusal().cloned();
    refusal.unwrap_or_else(|| panic!("not a refusal: {error}"))
}

#[tokio::test]
async fn nothing_is_promised_before_the_path_is_known_and_the_stream_explains_it() {
    let (_a, _b, session, _incoming) = pair().await;
    let wanted = rate("1 Mbit/s", 0.9);
    for refusal in [
        refused(session.admit(&asking(wanted))),
        refused(session.open_stream(asking(wanted))),
        refused(session.admit(&asking(wanted.waiting()))),
    ] {
        assert!(
            matches!(refusal.reason, Reason::TooLittleKnown { .. }),
            "{refusal}"
        );
    }
    let nothing = refused(session.admit(&StreamSpec::default()));
    assert_eq!(nothing.reason, Reason::NoGuarantee);
    assert!(matches!(
        session.admit(&asking(rate("1 Mbit/s", 1.5))),
        Err(StreamFailure::Stream(StreamError::Spec(_)))
    ));

    let stream = session.open_stream(asking(wanted.waiting())).unwrap();
    let explained = stream.explain().unwrap();
    assert_eq!(explained.term, None);
    assert!(
        explained.notes[0].text.starts_with("waits"),
        "{explained:?}"
    );
    assert_eq!(session.explain(stream.id()), Some(explained));
    assert_eq!(stream.try_next_promise(), None);
    // Refused, and nothing changes.
    refused(stream.change_guarantee(Some(rate("2 Mbit/s", 0.9))));
    assert_eq!(stream.explain().unwrap().guarantee, wanted.waiting());
    stream.change_guarantee(None).unwrap();
    assert_eq!(stream.explain(), None);

    session.close(0, "over");
    assert!(matches!(
        session.admit(&asking(wanted)),
        Err(StreamFailure::Closed(_))
    ));
    assert!(matches!(
        stream.next_promise().await,
        Err(StreamFailure::Closed(_))
    ));
}

#[tokio::test]
async fn a_waiting_stream_is_notified_when_it_is_promised() {
    let work = async {
        let (a, _b, session, incoming) = pair().await;
        let reading = tokio::spawn(async move {
            while let Ok(stream) = incoming.accept_stream().await {
                tokio::spawn(async move { while let Ok(Some(_)) = stream.recv().await {} });
            }
        });
        let filler = session.open_stream(StreamSpec::bulk("filler")).unwrap();
        let filling = tokio::spawn(async move {
            let chunk = Bytes::from(vec![7; 50_000]);
            while filler.send(chunk.clone()).await.is_ok() {}
        });
        // Even on a busy machine, half of all seconds reach this rate.
        let wanted = rate("200 kbit/s", 0.5);
        let stream = session.open_stream(asking(wanted.waiting())).unwrap();
        let event = stream.next_promise().await.unwrap();
        let PromiseEvent::Promised(grant) = event else {
            panic!("{event}");
        };
        assert_eq!(
            (grant.guarantee, grant.term),
            (wanted.waiting(), Term::Renewable)
        );
        assert!(grant.until.unwrap() > a.clock().now());
        assert_eq!(grant.shares.len(), 1);
        let explained = stream.explain().unwrap();
        assert_eq!(explained.term, Some(Term::Renewable));
        // More than the path ever carried.
        let refusal = refused(session.admit(&asking(rate("100 Gbit/s", 0.5))));
        match refusal.reason {
            Reason::TooLittle { .. } => assert!(refusal.offer.rate.is_some(), "{refusal}"),
            // On a very busy machine the promise in force is in danger already.
            Reason::Displaces(other) => assert_eq!(other, stream.id(), "{refusal}"),
            _ => panic!("{refusal}"),
        }
        let reports = a.sessions();
        assert_eq!(reports[0].promises.len(), 1);
        assert!(
            a.admit(session.id(), &asking(rate("100 Gbit/s", 0.5)))
                .is_err()
        );
        filling.abort();
        reading.abort();
    };
    tokio::time::timeout(LIMIT, work)
        .await
        .expect("the test hangs");
}

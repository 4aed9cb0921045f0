//! Peers that speak the protocol of a processing node themselves: streams that come before their requests, pipelines that are none, and a
//! service of the release before.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use anabranch::{
    Client, Failure, StreamSpec,
    local::client::{Session, Stream},
};
use anabranch_processing::{
    offer,
    process::{Adu, Fields, Pipeline},
    subscribe::{Received, Subscriber},
    wire::{
        CODE_MALFORMED, CODE_UNUSED, Carried, Item, Label, Notice, Purpose, Request, decode,
        encode,
        label::chosen,
        message::{self, Pace, Position},
    },
};
use bytes::Bytes;
use tokio::sync::mpsc;

use nodes::{LIMIT, MAY_ALL, beyond, id, link, node, source, wants, with_source};

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

/// The first ADU of a stream for ADUs.
fn begin() -> Bytes {
    let begin = Item::Mark(Position {
        next: 0,
        phases: None,
    });
    begin.to_bytes()
}

/// Number of the next derived ADU, and of the pipeline.
async fn next(adus: &Stream) -> (u64, u32) {
    loop {
        let adu = adus.recv().await.unwrap().unwrap();
        if let Item::Adu(carried) = Item::read(adu.data).unwrap() {
            return (carried.adu.sequence, carried.change);
        }
    }
}

/// Code with which the service refuses a stream.
async fn refused(stream: &Stream) -> Option<u32> {
    loop {
        match stream.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return error.reset_code().or(error.stop_code()),
        }
    }
}

async fn answer(control: &Stream) -> Notice {
    let answer = control.recv().await.unwrap().unwrap();
    decode(&answer.data).unwrap()
}

/// The number of the stream with ADUs, from the answer to a subscription.
async fn subscribed(control: &Stream) -> u64 {
    match answer(control).await {
        Notice::Subscribed { stream, .. } => stream,
        other => panic!("{other:?}"),
    }
}

/// Of three ADUs of the source, the first and the last come by the first pipeline of a subscriber, `every 2`.
async fn every_second_comes(source: &offer::Source, adus: &Stream) {
    for _ in 0..3 {
        source
            .put(Fields::default(), Bytes::from_static(b"m"))
            .await;
    }
    assert_eq!([next(adus).await, next(adus).await], [(0, 0), (2, 0)]);
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
fn subscription(run: u64, pipeline: &str, opens: Option<u64>) -> Bytes {
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
        opens,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_refuses_what_is_no_pipeline_itself() {
    with_source(async |source, session| {
        let wrong = ["evry 2", "every 5 then", "every 5 then evry 2"];
        for (run, text) in (2..).zip(wrong) {
            assert!(text.parse::<Pipeline>().is_err());
            let control = open(session, 0, subscription(run, text, None)).await;
            let why = refusal(&control, None).await;
            assert!(why.starts_with("the pipeline: column "), "{why}");
        }
        // Nor as a change, after which the pipeline before goes on.
        let control = open(session, 0, subscription(9, "every 2", None)).await;
        let stream = subscribed(&control).await;
        let adus = open(session, stream, begin()).await;
        let change = Request::Change {
            number: 1,
            pipeline: "evry 2".to_owned(),
        };
        control.send(encode(&change)).await.unwrap();
        let why = refusal(&control, Some(1)).await;
        assert!(why.starts_with("the pipeline: column 1"), "{why}");
        every_second_comes(source, &adus).await;
        control.reset(0).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_for_adus_may_come_before_its_request() {
    with_source(async |source, session| {
        let number = chosen(7);
        let [one, other] = [
            open(session, number, begin()).await,
            open(session, number, begin()).await,
        ];
        // The service has the first that it sees, and refuses the other one.
        let (code, adus) = tokio::select! {
            code = refused(&one) => (code, other),
            code = refused(&other) => (code, one),
        };
        assert_eq!(code, Some(CODE_UNUSED));
        let control = open(session, 0, subscription(2, "every 2", Some(number))).await;
        assert_eq!(subscribed(&control).await, number);
        // The answer comes on this stream, too, before all else.
        let first = adus.recv().await.unwrap().unwrap();
        let again = decode::<Notice>(&first.data).unwrap();
        assert!(
            matches!(again, Notice::Subscribed { stream, .. } if stream == number),
            "{again:?}"
        );
        every_second_comes(source, &adus).await;
        control.reset(0).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_for_adus_is_refused_with_its_request_and_without_one() {
    with_source(async |_, session| {
        let number = chosen(8);
        let adus = open(session, number, begin()).await;
        let control = open(session, 0, subscription(2, "evry 2", Some(number))).await;
        let why = refusal(&control, None).await;
        assert!(why.starts_with("the pipeline: column "), "{why}");
        assert_eq!(refused(&adus).await, Some(CODE_UNUSED));
        // Numbers of the service are given once, and expected.
        let none = open(session, 1_000, begin()).await;
        assert_eq!(refused(&none).await, Some(CODE_MALFORMED));
        // A number that is none to choose is disregarded.
        let control = open(session, 0, subscription(3, "every 2", Some(5))).await;
        let stream = subscribed(&control).await;
        assert_ne!(stream, 5);
        control.reset(0).unwrap();
    })
    .await;
}

/// Takes streams as a service of the release before does: it chooses the numbers, and refuses streams with others. Of what is offered it takes two
/// ADUs, whose numbers are returned with the streams, and a subscriber gets one.
async fn serve_as_before(client: &Client) -> (Vec<u64>, Vec<Stream>) {
    let registration = client.register("process/1/*").await.unwrap();
    let (mut taken, mut streams, mut is_sent) = (Vec::new(), Vec::new(), false);
    while taken.len() < 2 || !is_sent {
        let (_, stream) = registration.accept().await.unwrap();
        let label: Label = stream.spec().label.parse().unwrap();
        if label.is_chosen() {
            // This side sends on a subscriber's only.
            let _ = (stream.reset(CODE_MALFORMED), stream.stop(CODE_MALFORMED));
            continue;
        }
        let first = stream.recv().await.unwrap().unwrap();
        match (label.purpose, label.number) {
            (purpose, 0) => {
                let answer = match purpose {
                    Purpose::Offer => Notice::Offered { stream: 1, next: 0 },
                    Purpose::Subscribe => Notice::Subscribed {
                        stream: 2,
                        source: "somebody".to_owned(),
                        run: 1,
                        position: Position {
                            next: 0,
                            phases: None,
                        },
                    },
                };
                stream.send(encode(&answer)).await.unwrap();
            }
            (Purpose::Offer, number) => {
                assert_eq!(number, 1);
                assert_eq!(first.data, begin());
                taken.extend([next(&stream).await.0, next(&stream).await.0]);
            }
            (Purpose::Subscribe, number) => {
                assert_eq!(number, 2);
                let carried = Carried {
                    adu: Adu::new(7, Bytes::from_static(b"derived")),
                    change: 0,
                    is_last: true,
                };
                stream.send(carried.to_bytes()).await.unwrap();
                is_sent = true;
            }
        }
        streams.push(stream);
    }
    (taken, streams)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_the_release_before_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let hub = node(folder.path(), 2, &[(1, MAY_ALL.to_owned())]).await;
    let leg = link(hub.daemon.host().addresses()[0], 1);
    let near = node(folder.path(), 1, &[(2, beyond(&leg))]).await;
    let work = async {
        let at_hub = Client::attach(&hub.local, "test").await.unwrap();
        let at_near = Client::attach(&near.local, "test").await.unwrap();
        let session = at_near.connect(&id(2).to_string()).await.unwrap();
        let source = source(&[1], Pace::Slowest);
        for _ in 0..2 {
            source
                .put(Fields::default(), Bytes::from_static(b"m"))
                .await;
        }
        let (sender, mut received) = mpsc::channel(16);
        let subscriber = Subscriber::new(wants(2), &Pipeline::default(), sender);
        let derived = async {
            loop {
                if let Received::Adu { adu, .. } = received.recv().await.unwrap() {
                    return adu.sequence;
                }
            }
        };
        let served = async { tokio::join!(serve_as_before(&at_hub), derived) };
        tokio::select! {
            ((taken, _streams), derived) = served => assert_eq!((taken, derived), (vec![0, 1], 7)),
            ended = source.run(&session) => panic!("{ended:?}"),
            ended = subscriber.run(&session) => panic!("{ended:?}"),
        }
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = near.daemon.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}

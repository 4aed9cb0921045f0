//! Peers that speak the protocol of a processing node themselves: streams that come before their requests, and pipelines that are none.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "nodes read their keys from files"
)]

mod nodes;

use anabranch::{
    Failure, StreamSpec,
    local::client::{Session, Stream},
};
use anabranch_processing::{
    process::{Fields, Pipeline},
    wire::{
        CODE_MALFORMED, CODE_UNUSED, Item, Label, Notice, Purpose, Request, decode, encode,
        label::chosen,
        message::{self, Position},
    },
};
use bytes::Bytes;

use nodes::with_source;

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
        let Notice::Subscribed { stream, .. } = answer(&control).await else {
            panic!("it is not subscribed")
        };
        let adus = open(session, stream, begin()).await;
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
        assert_eq!([next(&adus).await, next(&adus).await], [(0, 0), (2, 0)]);
        control.reset(0).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_for_adus_may_come_before_its_request() {
    with_source(async |source, session| {
        let number = chosen(7);
        let adus = open(session, number, begin()).await;
        // It is there by now: another one is refused, since a stream with this number is there already.
        let twice = open(session, number, begin()).await;
        assert_eq!(refused(&twice).await, Some(CODE_UNUSED));
        let control = open(session, 0, subscription(2, "every 2", Some(number))).await;
        let Notice::Subscribed { stream, .. } = answer(&control).await else {
            panic!("it is not subscribed")
        };
        assert_eq!(stream, number);
        // The answer comes on this stream, too, before all else.
        let first = adus.recv().await.unwrap().unwrap();
        let again = decode::<Notice>(&first.data).unwrap();
        assert!(
            matches!(again, Notice::Subscribed { stream, .. } if stream == number),
            "{again:?}"
        );
        for _ in 0..3 {
            source
                .put(Fields::default(), Bytes::from_static(b"m"))
                .await;
        }
        assert_eq!([next(&adus).await, next(&adus).await], [(0, 0), (2, 0)]);
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
        let Notice::Subscribed { stream, .. } = answer(&control).await else {
            panic!("it is not subscribed")
        };
        assert_ne!(stream, 5);
        control.reset(0).unwrap();
    })
    .await;
}

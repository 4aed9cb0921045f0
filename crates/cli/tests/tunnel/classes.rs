//! Streams of classes of a client of the test's own, which asks for what it likes.

use std::time::Duration;

use anabranch::{
    Guarantee, Order, Session, Stream, StreamFailure, StreamSpec, base::Rate, daemon::PromiseState,
};
use anabranch_tunnel::wire::{
    Ask, CODE_BUSY, CODE_PROTOCOL, HEADER_BYTES, HELLO, LABEL_SERVICE, Message, PacketHeader,
    ServiceMessage,
};
use bytes::Bytes;

use crate::{
    hostile::{join, udp4, within},
    programs::serve,
    stage::Stage,
};

/// Port of the programs that answer datagrams.
const PORT: u16 = 7001;

fn open(session: &Session) -> Stream {
    let spec = StreamSpec {
        order: Order::Unordered,
        lifetime: Some(Duration::from_secs(2)),
        duplex: true,
        label: LABEL_SERVICE.to_owned(),
        ..StreamSpec::default()
    };
    session.open_stream(spec).unwrap()
}

fn ask(guarantee: Option<Guarantee>) -> Bytes {
    let rate_max = None;
    ServiceMessage::Ask(Ask {
        rate_max,
        guarantee,
    })
    .encode()
}

/// The answer of the server, or the code with which it ends the stream.
async fn answer(stream: &Stream) -> Result<ServiceMessage, u32> {
    match stream.recv().await {
        Ok(adu) => Ok(ServiceMessage::decode(&adu.expect("it does not finish").data).unwrap()),
        Err(StreamFailure::Reset(code) | StreamFailure::Stopped(code)) => Err(code),
        Err(error) => panic!("{error}"),
    }
}

async fn ended(stream: &Stream) -> u32 {
    loop {
        match stream.recv().await {
            Ok(_) => {}
            Err(StreamFailure::Reset(code) | StreamFailure::Stopped(code)) => return code,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Joins; returns the control stream and the streams of packets, once the server knows them.
async fn enter(session: &Session) -> (Stream, Stream, Stream) {
    let (control, rest, urgent) = join(session).await;
    rest.send(Bytes::from_static(HELLO)).await.unwrap();
    let ready = control.recv().await.unwrap().unwrap();
    assert_eq!(Message::decode(&ready.data), Ok(Message::Ready));
    (control, rest, urgent)
}

#[test]
fn classes_are_bounded_and_end_by_themselves() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&[]);
    within(&stage, &ticket, async |_host, session| {
        let early = open(&session);
        early.send(ask(None)).await.unwrap();
        assert_eq!(ended(&early).await, CODE_PROTOCOL, "no membership");
        let (control, _rest, _urgent) = enter(&session).await;
        let mut classes = Vec::new();
        for _ in 0..16 {
            let class = open(&session);
            class.send(ask(None)).await.unwrap();
            assert_eq!(answer(&class).await, Ok(ServiceMessage::Answer(None)));
            classes.push(class);
        }
        let further = open(&session);
        further.send(ask(None)).await.unwrap();
        assert_eq!(answer(&further).await, Err(CODE_BUSY));
        // One that breaks the rules ends alone, and leaves its place.
        let wrong = classes.pop().unwrap();
        wrong.send(Bytes::from_static(&[0x02, 7])).await.unwrap();
        assert_eq!(ended(&wrong).await, CODE_PROTOCOL);
        let again = open(&session);
        again.send(ask(None)).await.unwrap();
        assert_eq!(answer(&again).await, Ok(ServiceMessage::Answer(None)));
        // A packet out of form ends the membership.
        again.send(Bytes::from_static(&[0, 1])).await.unwrap();
        assert_eq!(ended(&control).await, CODE_PROTOCOL);
    });
}

#[test]
fn answers_come_in_the_class_and_in_its_range_of_buckets() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    within(&stage, &ticket, async |_host, session| {
        let (_control, rest, _urgent) = enter(&session).await;
        let class = open(&session);
        let guarantee = Guarantee::rate(Rate::from_kbps(64), 0.9);
        class.send(ask(Some(guarantee))).await.unwrap();
        let first = answer(&class).await.unwrap();
        let ServiceMessage::Answer(Some(state)) = first else {
            panic!("{first:?}");
        };
        assert_ne!(state, PromiseState::OverLimit);
        let bucket = 3 * 1024 + 5;
        let send = async |stream: &Stream, sequence: u32| {
            let mut data = vec![0; HEADER_BYTES];
            PacketHeader { bucket, sequence }.write(&mut data);
            data.extend(udp4([10, 77, 0, 2], PORT));
            stream.send(data.into()).await.unwrap();
        };
        let next = async |stream: &Stream| loop {
            let adu = stream.recv().await.unwrap().unwrap();
            if let Ok(header) = PacketHeader::read(&adu.data) {
                return header;
            }
        };
        send(&class, 0).await;
        let header = next(&class).await;
        assert_eq!((header.bucket / 1024, header.sequence), (3, 0));
        // The answer follows the flow, and its numbers go on.
        send(&rest, 1).await;
        let after = next(&rest).await;
        assert_eq!((after.bucket, after.sequence), (header.bucket, 1));
        send(&class, 2).await;
        assert_eq!(next(&class).await.sequence, 2);
    });
}

#[test]
fn a_server_may_promise_nothing() {
    let Some(stage) = Stage::new() else { return };
    let (_, ticket) = stage.serve(&[]);
    let id = stage.id("client.key");
    let config = format!(
        "listen = [\"10.95.0.2:4433\", \"10.95.1.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"client\"\nnode = \"{id}\"\nmay = [\"call\", \"tunnel\"]\n\
         [tunnel.server]\npools = [\"10.77.0.0/24\"]\npromised_share_max = \"none\"\n"
    );
    std::fs::write(stage.path("node.toml"), config).unwrap();
    let _node = stage.node("node.toml");
    within(&stage, &ticket, async |_host, session| {
        let (_control, _rest, _urgent) = enter(&session).await;
        let class = open(&session);
        let guarantee = Guarantee::rate(Rate::from_kbps(64), 0.9);
        class.send(ask(Some(guarantee))).await.unwrap();
        let none = ServiceMessage::Answer(Some(PromiseState::OverLimit));
        assert_eq!(answer(&class).await, Ok(none));
    });
}

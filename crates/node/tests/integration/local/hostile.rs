//! Applications that lie, stall, or die: they are let go with the reason, and nobody else notices.

use std::{path::Path, time::Duration};

use anabranch::{
    Client, StreamSpec,
    local::{
        CODE_DETACHED, STREAMS_MAX,
        client::Service,
        frame::{Decoder, End, Frame, SendFrame, Side, encode},
        message::{self, Answer, Bye, Hello, PROTOCOL, Versions},
    },
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{Pair, duplex, echo};

/// An application that sends arbitrary frames.
pub(super) struct Raw {
    pub(super) socket: UnixStream,
    decoder: Decoder,
    next: u64,
}

impl Raw {
    pub(super) async fn connect(path: &Path) -> Self {
        Self {
            socket: UnixStream::connect(path).await.unwrap(),
            decoder: Decoder::new(Side::Application),
            next: 0,
        }
    }

    pub(super) async fn greeted(path: &Path) -> Self {
        let mut raw = Self::connect(path).await;
        let hello = Hello {
            protocol: PROTOCOL.to_owned(),
            versions: Versions::OURS,
            program: "liar".to_owned(),
            token: None,
        };
        raw.write(&Frame::Hello(message::json(&hello))).await;
        assert!(matches!(raw.read().await, Some(Frame::Welcome(_))));
        raw
    }

    pub(super) async fn write(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        let payload = encode(frame, &mut bytes);
        bytes.extend_from_slice(&payload);
        // The node may have closed the connection already.
        let _ = self.socket.write_all(&bytes).await;
    }

    /// The next frame; `None` at the end of the connection.
    pub(super) async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            match self.socket.read_buf(self.decoder.space()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(super) async fn ask(&mut self, mut request: Value) -> Answer {
        request["id"] = json!(self.next);
        self.next += 1;
        self.write(&Frame::Request(message::json(&request))).await;
        loop {
            if let Some(Frame::Answer(body)) = self.read().await {
                return serde_json::from_slice(&body).unwrap();
            }
        }
    }

    /// A stream to the other node: its handle and its credit.
    pub(super) async fn open(&mut self, pair: &Pair, label: &str) -> (u32, u32) {
        let addresses = pair.far.daemon.host().addresses();
        let connect = json!({ "do": "connect", "peer": "other", "addresses": addresses });
        let session = self.ask(connect).await.ok.unwrap()["session"].clone();
        let open = json!({ "do": "open", "session": session, "spec": { "label": label } });
        let opened = self.ask(open).await.ok.unwrap();
        let number = |name: &str| opened[name].as_u64().unwrap() as u32;
        (number("stream"), number("credit"))
    }

    /// Reason of the node's last frame.
    pub(super) async fn bye(&mut self) -> Bye {
        let mut last = None;
        while let Some(frame) = self.read().await {
            last = Some(frame);
        }
        match last {
            Some(Frame::Bye(body)) => serde_json::from_slice(&body).unwrap(),
            other => panic!("no last message: {other:?}"),
        }
    }
}

pub(super) fn send(stream: u32, data: impl Into<Bytes>) -> Frame {
    Frame::Send(SendFrame {
        stream,
        confirm: false,
        importance: 0,
        fields: Bytes::new(),
        data: data.into(),
        cost: 0,
    })
}

/// Everything works for the others.
pub(super) async fn is_well(client: &Client, pair: &Pair) {
    let session = pair.session(client).await;
    let stream = session.open_stream(duplex("echo")).await.unwrap();
    stream.send("?").await.unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap().data, "?");
}

pub(super) async fn others(pair: &Pair) -> (Client, tokio::task::JoinHandle<()>) {
    let far = pair.far.attach().await;
    let service: Service = far.register("echo").await.unwrap();
    (pair.near.attach().await, tokio::spawn(echo(service)))
}

#[tokio::test]
async fn an_application_that_lies_is_let_go_with_the_reason() {
    let pair = Pair::start().await;
    pair.run(async {
        let (honest, echoing) = others(&pair).await;
        let socket = pair.near.socket();
        // Data without end, which the far node does not want: beyond the credit of the stream.
        let far = pair.far.attach().await;
        let _unread = far.register("unread").await.unwrap();
        let mut raw = Raw::greeted(&socket).await;
        let (stream, credit) = raw.open(&pair, "unread").await;
        let reading = async {
            let mut bytes = 0_usize;
            while bytes < 200 << 20 {
                raw.write(&send(stream, vec![0; credit as usize])).await;
                bytes += credit as usize;
            }
            raw.bye().await
        };
        let bye = reading.await;
        assert_eq!(bye.code, "violation");
        assert!(bye.reason.contains("credit"), "{}", bye.reason);

        type Lie = (Frame, &'static str);
        let finished = [
            Frame::End {
                stream: 2,
                end: End::Finish,
            },
            send(2, "more"),
        ];
        let with_fields = |fields: &'static str| {
            Frame::Send(SendFrame {
                stream: 2,
                confirm: false,
                importance: 0,
                fields: fields.into(),
                data: "x".into(),
                cost: 0,
            })
        };
        let lies: [Lie; 5] = [
            (send(77, "x"), "77"),
            (
                Frame::Credit {
                    stream: 99,
                    bytes: 1,
                },
                "99",
            ),
            (Frame::Request("[]".into()), "without a number"),
            (with_fields("{\"a\":[1]}"), "fields"),
            (Frame::Answer("{}".into()), "0x11"),
        ];
        for (lie, word) in lies {
            let mut raw = Raw::greeted(&socket).await;
            assert_eq!(raw.open(&pair, "unread").await.0, 2);
            raw.write(&lie).await;
            let bye = raw.bye().await;
            assert!(bye.reason.contains(word), "{bye:?} should say {word}");
        }
        let mut raw = Raw::greeted(&socket).await;
        raw.open(&pair, "unread").await;
        for frame in &finished {
            raw.write(frame).await;
        }
        assert!(raw.bye().await.reason.contains("after the end"));
        // Credit that no memory is behind.
        let mut raw = Raw::greeted(&socket).await;
        raw.open(&pair, "unread").await;
        for _ in 0..3 {
            let bytes = u32::MAX;
            raw.write(&Frame::Credit { stream: 2, bytes }).await;
        }
        // The task of the stream may have taken the first before the second came; then nothing was exceeded.
        is_well(&honest, &pair).await;
        // Garbage, and a frame that is too long.
        for bytes in [
            &[0xff_u8; 64][..],
            &[0x00, 0x00, 0x20, 0x00, 0x01][..],
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut raw = Raw::connect(&socket).await;
            raw.socket.write_all(bytes).await.unwrap();
            assert_eq!(raw.bye().await.code, "violation");
        }
        is_well(&honest, &pair).await;
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn requests_that_cannot_be_met_are_answered_and_the_connection_goes_on() {
    let pair = Pair::start().await;
    pair.run(async {
        let mut raw = Raw::greeted(&pair.near.socket()).await;
        let (stream, _) = raw.open(&pair, "x").await;
        for (request, kind) in [
            (json!({ "do": "fly" }), "request"),
            (json!({ "do": "open", "session": 1 }), "request"),
            (json!({ "do": "open", "session": 9, "spec": {} }), "handle"),
            (json!({ "do": "explain", "stream": 9 }), "handle"),
            (json!({ "do": "unregister", "service": stream }), "handle"),
            (
                json!({ "do": "open", "session": 1, "spec": { "taste": 1 } }),
                "request",
            ),
            (
                json!({ "do": "open", "session": 1, "spec": { "weight": 0 } }),
                "spec",
            ),
            (
                json!({ "do": "open", "session": 1, "spec": { "label": "anabranch-overlay" } }),
                "spec",
            ),
            (json!({ "do": "register", "label": "anabranch-x" }), "spec"),
            (
                json!({ "do": "adjust", "stream": stream, "cap": "fast" }),
                "spec",
            ),
            (json!({ "do": "connect", "peer": "nobody" }), "peer"),
            (
                json!({ "do": "inject", "session": 1, "text": "objective {" }),
                "objectives",
            ),
        ] {
            let error = raw.ask(request.clone()).await.error.unwrap();
            assert_eq!(error.kind, kind, "{request}: {error:?}");
        }
        // Frames that are for later versions are ignored.
        raw.write(&Frame::Ignored(0x90)).await;
        let explain = json!({ "do": "explain", "stream": stream, "colour": "blue" });
        assert!(raw.ask(explain).await.error.is_none());
    })
    .await;
}

#[tokio::test]
async fn handles_are_bounded_and_come_back_when_they_are_closed() {
    let pair = Pair::start().await;
    pair.run(async {
        let mut raw = Raw::greeted(&pair.near.socket()).await;
        let (first, wide) = raw.open(&pair, "x").await;
        let open = json!({ "do": "open", "session": 1, "spec": { "label": "x" } });
        let mut narrow = wide;
        for _ in 1..STREAMS_MAX {
            let opened = raw.ask(open.clone()).await.ok.unwrap();
            narrow = opened["credit"].as_u64().unwrap() as u32;
        }
        assert!(narrow < wide);
        let error = raw.ask(open.clone()).await.error.unwrap();
        assert_eq!(error.kind, "limit");
        raw.write(&Frame::End {
            stream: first,
            end: End::Close,
        })
        .await;
        let opened = raw.ask(open).await.ok.unwrap();
        assert_eq!(opened["credit"], json!(wide));
        // Data for a stream that was closed is in order: it may have been on its way.
        raw.write(&send(first, "late")).await;
        let objectives = json!({ "do": "objectives", "session": 1 });
        assert!(raw.ask(objectives).await.ok.is_some());
    })
    .await;
}

#[tokio::test]
async fn an_application_that_does_not_greet_is_let_go() {
    let pair = Pair::start().await;
    pair.run(async {
        let silent = Raw::connect(&pair.near.socket()).await;
        let mut slow = Raw::connect(&pair.near.socket()).await;
        // Half a greeting is none.
        slow.socket.write_all(&[0, 0, 0, 40, 1]).await.unwrap();
        for mut raw in [silent, slow] {
            let bye = raw.bye().await;
            assert_eq!(bye.code, "violation");
            assert!(
                bye.reason.contains("no greeting within 10s"),
                "{}",
                bye.reason
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_adu_half_written_is_never_sent() {
    let pair = Pair::start().await;
    pair.run(async {
        let (honest, echoing) = others(&pair).await;
        let far = pair.far.attach().await;
        let service = far.register("half").await.unwrap();
        let mut raw = Raw::greeted(&pair.near.socket()).await;
        let (stream, _) = raw.open(&pair, "half").await;
        raw.write(&send(stream, "whole")).await;
        let mut half = Vec::new();
        let payload = encode(&send(stream, vec![1; 50_000]), &mut half);
        half.extend_from_slice(&payload[..40_000]);
        raw.socket.write_all(&half).await.unwrap();
        let (_, incoming) = service.accept().await.unwrap();
        assert_eq!(incoming.recv().await.unwrap().unwrap().data, "whole");
        drop(raw);
        let failure = incoming.recv().await.unwrap_err();
        assert_eq!(
            anabranch::Failure::reset_code(&failure),
            Some(CODE_DETACHED)
        );
        is_well(&honest, &pair).await;
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn an_application_that_does_not_read_holds_up_itself_only() {
    let pair = Pair::start().await;
    pair.run(async {
        let (honest, echoing) = others(&pair).await;
        let mut deaf = Raw::greeted(&pair.far.socket()).await;
        let registered = deaf.ask(json!({ "do": "register", "label": "deaf" })).await;
        assert!(registered.ok.is_some());
        let session = pair.session(&honest).await;
        let stream = session.open_stream(StreamSpec::bulk("deaf")).await.unwrap();
        stream.send("first").await.unwrap();
        // It gives credit for everything, and reads nothing more.
        let handle = loop {
            if let Some(Frame::Event(body)) = deaf.read().await {
                let event: Value = serde_json::from_slice(&body).unwrap();
                break event["opened"]["stream"].as_u64().unwrap() as u32;
            }
        };
        let bytes = 1 << 30;
        deaf.write(&Frame::Credit {
            stream: handle,
            bytes,
        })
        .await;
        let mut sent = 0;
        let flood = async {
            loop {
                stream.send(vec![0; 1 << 20]).await.unwrap();
                sent += 1;
                is_well(&honest, &pair).await;
            }
        };
        // As much as all windows hold is taken, and then no more.
        let _ = tokio::time::timeout(Duration::from_secs(10), flood).await;
        assert!(sent < 70, "{sent} MiB were taken");
        is_well(&honest, &pair).await;
        echoing.abort();
    })
    .await;
}

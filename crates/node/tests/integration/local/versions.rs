//! Old and new programs: test doubles of the greeting of other versions.

use anabranch::{
    Client,
    local::{
        frame::{Decoder, Frame, Side, encode},
        message::{self, Versions},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
};

use super::{Pair, hostile::Raw, id, within};

#[tokio::test]
async fn applications_of_other_versions_are_served_or_refused_with_a_reason() {
    let pair = Pair::start().await;
    pair.run(async {
        // One that supports this version and later ones, and sends fields that this node does not know.
        let newer = json!({
            "protocol": "anabranch-local", "versions": { "min": 1, "max": 7 }, "program": "new", "wishes": ["x"],
        });
        let mut raw = Raw::connect(&pair.near.socket()).await;
        raw.write(&Frame::Hello(message::json(&newer))).await;
        let Some(Frame::Welcome(body)) = raw.read().await else {
            panic!("it is not welcome");
        };
        let welcome: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(welcome["version"], json!(1));
        assert_eq!(welcome["node"], json!(id(1).to_string()));
        // One that does not support it.
        for (min, max) in [(2, 3), (0, 0)] {
            let other = json!({ "protocol": "anabranch-local", "versions": { "min": min, "max": max } });
            let mut raw = Raw::connect(&pair.near.socket()).await;
            raw.write(&Frame::Hello(message::json(&other))).await;
            let bye = raw.bye().await;
            assert_eq!((bye.code.as_str(), bye.versions), ("version", Some(Versions::OURS)));
            assert!(bye.reason.contains("update"), "{}", bye.reason);
        }
        let foreign = json!({ "protocol": "x", "versions": { "min": 1, "max": 1 } });
        let mut raw = Raw::connect(&pair.near.socket()).await;
        raw.write(&Frame::Hello(message::json(&foreign))).await;
        assert!(raw.bye().await.reason.contains("protocol"));
    })
    .await;
}

/// A node of another version: answers one greeting with this frame.
async fn answered(answer: Frame) -> Result<Client, anabranch::ClientError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let listener = UnixListener::bind(&path).unwrap();
    let node = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut decoder = Decoder::new(Side::Node);
        while decoder.next_frame().unwrap().is_none() {
            assert!(socket.read_buf(decoder.space()).await.unwrap() > 0);
        }
        let mut bytes = Vec::new();
        let body = encode(&answer, &mut bytes);
        bytes.extend_from_slice(&body);
        socket.write_all(&bytes).await.unwrap();
        socket
    };
    let (attached, _socket) =
        within(async { tokio::join!(Client::attach(&path, "test"), node) }).await;
    attached
}

#[tokio::test]
async fn nodes_of_other_versions_are_understood_or_reported() {
    let newer = json!({ "version": 1, "node": id(9).to_string(), "credit": 5, "moon": "full" });
    let client = answered(Frame::Welcome(message::json(&newer)))
        .await
        .unwrap();
    assert_eq!(client.node(), id(9));
    let beyond = json!({ "version": 2, "node": id(9).to_string(), "credit": 5 });
    let error = answered(Frame::Welcome(message::json(&beyond)))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
    let bye = json!({ "code": "version", "reason": "it supports versions 1 to 1, this node 2 to 3; update the older one" });
    let error = answered(Frame::Bye(message::json(&bye))).await.unwrap_err();
    assert!(
        error.to_string().contains("update the older one"),
        "{error}"
    );
}

/// An application and a node of which one does not know the events of sessions.
#[tokio::test]
async fn events_of_sessions_come_to_those_that_ask_for_them_and_an_older_node_is_named() {
    let pair = Pair::start().await;
    pair.run(async {
        let near = pair.near.attach().await;
        let _session = pair.session(&near).await;
        // One that does not ask is answered as before, and gets none.
        let mut old = Raw::greeted(&pair.near.socket()).await;
        let connect = json!({ "do": "connect", "peer": "other" });
        let answer = old.ask(connect.clone()).await.ok.unwrap();
        assert_eq!(answer, json!({ "session": 1, "peer": id(2).to_string() }));
        let objectives = json!({ "do": "objectives", "session": 1 });
        for _ in 0..20 {
            let request = serde_json::to_vec(&{
                let mut request = objectives.clone();
                request["id"] = json!(7);
                request
            });
            old.write(&Frame::Request(request.unwrap().into())).await;
            let Some(Frame::Answer(_)) = old.read().await else {
                panic!("an event that was not asked for");
            };
        }
        let mut new = Raw::greeted(&pair.near.socket()).await;
        let mut asking = connect;
        asking["events"] = json!(true);
        assert_eq!(new.ask(asking).await.ok.unwrap()["events"], json!(true));
        let Some(Frame::Event(body)) = new.read().await else {
            panic!("no event");
        };
        let event: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&event["event"], &event["session"]),
            (&json!("channel_up"), &json!(1))
        );
        // After the release there are no more.
        assert!(
            new.ask(json!({ "do": "release", "session": 1 }))
                .await
                .ok
                .is_some()
        );
    })
    .await;

    // A node that does not know them answers without `events`.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let listener = UnixListener::bind(&path).unwrap();
    let node = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut decoder = Decoder::new(Side::Node);
        loop {
            let answer = match decoder.next_frame().unwrap() {
                Some(Frame::Hello(_)) => {
                    let welcome = json!({ "version": 1, "node": id(9).to_string(), "credit": 5 });
                    Frame::Welcome(message::json(&welcome))
                }
                Some(Frame::Request(body)) => {
                    let request: Value = serde_json::from_slice(&body).unwrap();
                    let ok = json!({ "session": 1, "peer": id(2).to_string() });
                    Frame::Answer(message::json(&json!({ "id": request["id"], "ok": ok })))
                }
                Some(_) => continue,
                None => {
                    if socket.read_buf(decoder.space()).await.unwrap() == 0 {
                        return;
                    }
                    continue;
                }
            };
            let mut bytes = Vec::new();
            let body = encode(&answer, &mut bytes);
            bytes.extend_from_slice(&body);
            socket.write_all(&bytes).await.unwrap();
        }
    };
    let work = async {
        let client = Client::attach(&path, "test").await.unwrap();
        let session = client.connect("other").await.unwrap();
        assert_eq!(session.peer(), id(2));
        for error in [
            session.next_event().await.err(),
            session.closed().await.err(),
        ] {
            let error = error.unwrap().to_string();
            assert!(error.contains("older release"), "{error}");
        }
    };
    within(async { tokio::join!(node, work) }).await;
}

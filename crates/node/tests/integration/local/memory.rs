//! Memory of all applications together: hostile ones that hold it, and the others, which go on.

use anabranch::{
    StreamSpec,
    local::frame::{Frame, encode},
};
use serde_json::json;
use tokio::{io::AsyncWriteExt, task::JoinSet};

use super::{
    Pair, echo,
    hostile::{Raw, is_well, others, send},
};

/// Memory of the node under test; each connection may have a 256th of it at any time.
const MEMORY: u64 = 8 << 20;

/// An application that begins a long ADU and does not finish it.
async fn half(pair: &Pair, bytes: usize) -> Raw {
    let mut raw = Raw::greeted(&pair.near.socket()).await;
    let (stream, _) = raw.open(pair, "echo").await;
    let mut head = Vec::new();
    let payload = encode(&send(stream, vec![1; 8 << 20]), &mut head);
    raw.socket.write_all(&head).await.unwrap();
    raw.socket.write_all(&payload[..bytes]).await.unwrap();
    raw
}

/// An application that asks for long answers and reads none.
async fn deaf(pair: &Pair) -> Raw {
    let mut raw = Raw::greeted(&pair.near.socket()).await;
    raw.open(pair, "echo").await;
    let label = "x".repeat(100_000);
    for id in 100..104 {
        let open = json!({ "id": id, "do": "open", "session": 1, "spec": { "label": label } });
        raw.write(&Frame::Request(serde_json::to_vec(&open).unwrap().into()))
            .await;
    }
    raw
}

#[tokio::test]
async fn applications_that_hold_memory_and_stall_are_let_go_for_one_that_needs_it() {
    let pair = Pair::with_near(|config| {
        config.local.as_mut().unwrap().memory_bytes = MEMORY;
    })
    .await;
    pair.run(async {
        let (honest, echoing) = others(&pair).await;
        let held = || pair.near.daemon.local().unwrap().held_bytes();
        let mut hostile = JoinSet::new();
        let mut stalled = Vec::new();
        for _ in 0..6 {
            let mut raw = half(&pair, 500_000).await;
            hostile.spawn(async move { raw.bye().await });
            stalled.push(deaf(&pair).await);
        }
        // Those above have all that they sent in the node; these have more to send than fits.
        for _ in 0..2 {
            let mut raw = half(&pair, 0).await;
            hostile.spawn(async move {
                let _ = raw.socket.write_all(&vec![2; 1 << 20]).await;
                raw.bye().await
            });
        }
        while held() < MEMORY / 2 {
            tokio::task::yield_now().await;
            assert!(held() <= MEMORY);
        }
        // Small messages need no more than everyone has.
        for _ in 0..10 {
            is_well(&honest, &pair).await;
        }
        // A large one does.
        let session = pair.session(&honest).await;
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::bulk("echo")
        };
        let stream = session.open_stream(spec).await.unwrap();
        let large = vec![7; 1 << 20];
        stream.send(large.clone()).await.unwrap();
        assert!(stream.recv().await.unwrap().unwrap().data == large);
        let bye = hostile.join_next().await.unwrap().unwrap();
        assert_eq!(bye.code, "limit");
        assert!(bye.reason.contains("memory"), "{}", bye.reason);
        assert!(held() <= MEMORY);
        is_well(&honest, &pair).await;
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn what_applications_leave_behind_is_given_back() {
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let _unread = far.register("unread").await.unwrap();
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        let held = || pair.near.daemon.local().unwrap().held_bytes();
        let mut raw = half(&pair, 200_000).await;
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let stream = session.open_stream(StreamSpec::bulk("unread")).await;
        let stream = stream.unwrap();
        // More than the session takes before the peer's application reads.
        let flood = async { while stream.send(vec![0; 1 << 20]).await.is_ok() {} };
        tokio::select! {
            () = flood => panic!("the stream ended"),
            () = async { while held() < 1 << 20 { tokio::task::yield_now().await } } => {}
        }
        raw.socket.shutdown().await.unwrap();
        drop((raw, stream, session, near));
        while held() > 0 {
            tokio::task::yield_now().await;
        }
        echoing.abort();
    })
    .await;
}

//! Rights of peers to the services of applications.

use anabranch::{
    Failure, StreamSpec,
    config::NodeConfig,
    daemon::{CODE_BUSY, CODE_NO_RIGHT},
    rights::Right,
};

use super::{ALL_SERVICES, Node, Pair, config, duplex, id};

/// The code with which the far node refuses a stream.
async fn refusal(pair: &Pair, label: &str) -> Option<u32> {
    let near = pair.near.attach().await;
    let session = pair.session(&near).await;
    let stream = session.open_stream(duplex(label)).await.unwrap();
    stream.send("?").await.unwrap();
    stream.recv().await.unwrap_err().reset_code()
}

#[tokio::test]
async fn a_peer_reaches_the_services_that_its_right_names() {
    let may = r#"may = ["call", { right = "use-service", services = ["telemetry", "video/*"] }]"#;
    let pair = Pair::with(may).await;
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("*").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        for label in ["telemetry", "video/1"] {
            let stream = session.open_stream(duplex(label)).await.unwrap();
            stream.send("?").await.unwrap();
            let (peer, incoming) = service.accept().await.unwrap();
            assert_eq!((peer, incoming.spec().label.as_str()), (id(1), label));
        }
        for label in ["telemetry/1", "video", "x"] {
            assert_eq!(refusal(&pair, label).await, Some(CODE_NO_RIGHT), "{label}");
        }
        let rights = pair.far.daemon.rights().refused();
        let counted: Vec<_> = rights.filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Right::UseService, 3)]);
        // Nobody takes it any more.
        drop(service);
        assert_eq!(refusal(&pair, "telemetry").await, Some(CODE_NO_RIGHT));
    })
    .await;
}

#[tokio::test]
async fn without_the_right_a_caller_reaches_no_service() {
    let pair = Pair::with("may = [\"call\"]").await;
    pair.run(async {
        let far = pair.far.attach().await;
        let _service = far.register("x").await.unwrap();
        assert_eq!(refusal(&pair, "x").await, Some(CODE_NO_RIGHT));
    })
    .await;
}

#[tokio::test]
async fn streams_end_when_the_right_is_withdrawn() {
    let mut pair = Pair::start().await;
    let folder = pair.far.folder.clone();
    let without =
        move || -> Result<NodeConfig, String> { Ok(config(&folder, 1, "may = [\"call\"]")) };
    let Node { daemon, folder } = pair.far;
    pair.far = Node {
        daemon: daemon.with_source(Box::new(without)),
        folder,
    };
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("x").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let stream = session.open_stream(duplex("x")).await.unwrap();
        stream.send("?").await.unwrap();
        let (_, incoming) = service.accept().await.unwrap();
        assert_eq!(incoming.recv().await.unwrap().unwrap().data, "?");
        pair.far.daemon.reload().await.unwrap();
        let error = incoming.recv().await.unwrap_err();
        assert!(error.to_string().contains("withdrawn"), "{error}");
        assert_eq!(
            stream.recv().await.unwrap_err().reset_code(),
            Some(CODE_NO_RIGHT)
        );
        // The session itself is still there.
        assert_eq!(refusal(&pair, "x").await, Some(CODE_NO_RIGHT));
    })
    .await;
    assert_ne!(ALL_SERVICES, "");
}

#[tokio::test]
async fn streams_that_nobody_accepts_are_refused_beyond_the_backlog() {
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("x").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let mut streams = Vec::new();
        for _ in 0..257 {
            let stream = session
                .open_stream(StreamSpec::messages("x"))
                .await
                .unwrap();
            stream.send("?").await.unwrap();
            streams.push(stream);
        }
        // One of them is one too many.
        let mut waiting = tokio::task::JoinSet::new();
        for stream in &streams {
            let stream = stream.clone();
            waiting.spawn(async move {
                // On a busy machine there may be events about the rate.
                loop {
                    if let Err(error) = stream.next_event().await {
                        return error;
                    }
                }
            });
        }
        let refused = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(refused.stop_code(), Some(CODE_BUSY), "{refused}");
        assert_eq!(waiting.len(), 256);
        // Each stream that is accepted leaves the queue.
        let (_, incoming) = service.accept().await.unwrap();
        assert_eq!(incoming.recv().await.unwrap().unwrap().data, "?");
        let one_more = session.open_stream(duplex("x")).await.unwrap();
        one_more.send("?").await.unwrap();
        for _ in 0..256 {
            let (_, incoming) = service.accept().await.unwrap();
            assert_eq!(incoming.recv().await.unwrap().unwrap().data, "?");
        }
    })
    .await;
}

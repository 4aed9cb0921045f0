//! Outcomes: what the opener learns of an application that took or refused a stream after all of it had arrived.

use anabranch::{
    StreamSpec,
    base::StreamId,
    daemon::CODE_NO_RIGHT,
    local::{CODE_DETACHED, client::Session},
    outcome::{Outcome, ask},
};

use super::{Pair, duplex, id};

/// Opens a stream with some data, and returns its number when everything has arrived at the other node.
async fn delivered(session: &Session, label: &str) -> StreamId {
    let stream = session.open_stream(StreamSpec::messages(label)).await;
    let stream = stream.unwrap();
    for _ in 0..3 {
        stream.send("some words").await.unwrap();
    }
    stream.finish().unwrap();
    stream.delivered().await.unwrap();
    stream.id()
}

#[tokio::test]
async fn what_an_application_makes_of_the_data_reaches_the_opener() {
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("log").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        // Read to its end.
        let stream = delivered(&session, "log").await;
        let (found, ()) = tokio::join!(ask(&session, stream), async {
            let (_, taken) = service.accept().await.unwrap();
            while taken.recv().await.unwrap().is_some() {}
        });
        assert_eq!(found.unwrap(), Some(Outcome::Taken));
        // The answer is known for a while.
        assert_eq!(ask(&session, stream).await.unwrap(), Some(Outcome::Taken));
        // Refused, when the application may have all of it already.
        let stream = delivered(&session, "log").await;
        let (_, refused) = service.accept().await.unwrap();
        refused.stop(7).unwrap();
        let found = ask(&session, stream).await.unwrap();
        assert_eq!(found, Some(Outcome::Refused(7)));
        // Closed after a part.
        let stream = delivered(&session, "log").await;
        let (_, half) = service.accept().await.unwrap();
        half.recv().await.unwrap().unwrap();
        drop(half);
        let found = ask(&session, stream).await.unwrap();
        assert_eq!(found, Some(Outcome::Refused(anabranch::net::CODE_DROPPED)));
        // The application ends before it has accepted, or before it was even notified.
        let stream = delivered(&session, "log").await;
        let asking = tokio::spawn({
            let session = session.clone();
            async move { ask(&session, stream).await }
        });
        drop((service, far));
        let found = asking.await.unwrap().unwrap();
        let is_one = matches!(found, Some(Outcome::Refused(CODE_DETACHED | CODE_NO_RIGHT)));
        assert!(is_one, "{found:?}");
        // It was not a stream of a service.
        let other = StreamId::new(4_711, true);
        assert_eq!(ask(&session, other).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn what_the_node_refuses_is_an_outcome() {
    let may = r#"may = ["call", { right = "use-service", services = ["log"] }]"#;
    let pair = Pair::with(may).await;
    pair.run(async {
        let far = pair.far.attach().await;
        let _service = far.register("secret").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        for label in ["log", "secret"] {
            // Nobody accepts the one, and there is no right to the other. The refusal may come before the data has arrived.
            let stream = session.open_stream(duplex(label)).await.unwrap();
            let _ = stream.send("some words").await;
            let _ = stream.finish();
            let _ = stream.delivered().await;
            let found = ask(&session, stream.id()).await.unwrap();
            let expected = Outcome::Refused(CODE_NO_RIGHT);
            assert_eq!(found, Some(expected), "{label}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_that_ends_leaves_the_outcome_open() {
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let _service = far.register("log").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let stream = delivered(&session, "log").await;
        let asking = tokio::spawn({
            let session = session.clone();
            async move { ask(&session, stream).await }
        });
        // Nobody accepts the stream, so that there is no answer.
        tokio::task::yield_now().await;
        let handle = pair.near.daemon.handle();
        let open = handle.session_with(id(2), &[]).await.unwrap();
        open.close(0, "the test ends it");
        assert!(asking.await.unwrap().is_err());
    })
    .await;
}

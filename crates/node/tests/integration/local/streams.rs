//! Data, credit, events and ends of streams through two nodes.

use std::{num::NonZeroU32, time::Duration};

use anabranch::{
    Client, ClientError, Outgoing, StreamEvent, StreamParameters, StreamSpec, base::Rate, local,
};

use super::{Pair, duplex, echo, id, within};

#[tokio::test]
async fn applications_of_two_nodes_talk_both_ways() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        assert_eq!((near.node(), far.node()), (id(1), id(2)));
        let service = far.register("echo").await.unwrap();
        let echoing = tokio::spawn(echo(service));
        let session = pair.session(&near).await;
        assert_eq!(session.peer(), id(2));
        let stream = session.open_stream(duplex("echo")).await.unwrap();
        for size in [1, 100, 70_000, 3_000_000] {
            let data = vec![size as u8; size];
            stream.send(data.clone()).await.unwrap();
            let back = stream.recv().await.unwrap().unwrap();
            assert!(back.data == data && back.missing.is_nothing());
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
        assert_eq!(stream.recv().await.unwrap(), None);
        // The node finds it by id, too, and by ticket.
        for name in [id(2).to_string(), pair.far.daemon.ticket().to_string()] {
            let again = near.connect(&name).await.unwrap();
            assert_eq!(again.peer(), id(2));
        }
        assert_eq!(pair.near.daemon.host().sessions().len(), 1);
        let unknown = near.connect("nobody").await.unwrap_err();
        assert!(unknown.to_string().contains("'nobody'"), "{unknown}");
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn paths_have_the_bytes_that_they_carried() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("echo").await.unwrap();
        let echoing = tokio::spawn(echo(service));
        let session = pair.session(&near).await;
        let stream = session.open_stream(duplex("echo")).await.unwrap();
        stream.send(vec![1; 200_000]).await.unwrap();
        assert_eq!(stream.recv().await.unwrap().unwrap().data.len(), 200_000);
        let paths = session.paths().await.unwrap();
        let sum = |of: fn(&local::message::PathBody) -> u64| paths.iter().map(of).sum::<u64>();
        assert!(sum(|path| path.sent_bytes) >= 200_000, "{paths:?}");
        assert!(sum(|path| path.received_bytes) >= 200_000, "{paths:?}");
        let is_whole = |path: &local::message::PathBody| path.path.contains("127.0.0.1:");
        assert!(!paths.is_empty() && paths.iter().all(is_whole), "{paths:?}");
        echoing.abort();
    })
    .await;
}

/// Of what an application has handed over, little is in a session that takes no more; what waits before it is discarded, too.
#[tokio::test]
async fn what_waits_before_the_session_is_discarded_too() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("views").await.unwrap();
        let session = pair.session(&near).await;
        // Data for twenty seconds.
        let spec = StreamSpec {
            reliable: false,
            cap: Some(Rate::from_kbps(100)),
            label: "views".to_owned(),
            ..StreamSpec::default()
        };
        let stream = session.open_stream(spec).await.unwrap();
        let short = StreamParameters {
            unsent_max: Some(NonZeroU32::new(16 << 10)),
            ..StreamParameters::default()
        };
        stream.adjust(short).await.unwrap();
        for number in 0..25 {
            stream.send(vec![number; 10_000]).await.unwrap();
        }
        let sessions = pair.near.daemon.host().sessions();
        let queued: u64 = (sessions[0].streams.iter())
            .map(|stream| stream.backlog_bytes)
            .sum();
        assert!(queued < 30_000, "{queued} bytes");
        // What is sent before the answer has come is not discarded.
        let discarding = stream.discard();
        let sending = stream.send("newer");
        let (discarded, sent) = tokio::join!(biased; discarding, sending);
        let discarded = discarded.unwrap();
        assert!((20..=25).contains(&discarded.adus), "{discarded:?}");
        assert_eq!(sent.unwrap(), 25);
        stream.finish().unwrap();
        let (_, incoming) = service.accept().await.unwrap();
        let mut arrived = Vec::new();
        while let Some(adu) = incoming.recv().await.unwrap() {
            arrived.push(adu.sequence);
        }
        assert_eq!(arrived.last(), Some(&25), "{arrived:?}");
        assert!(arrived.len() as u64 <= 26 - discarded.adus, "{arrived:?}");
    })
    .await;
}

/// The stop of a stream that this side has finished already may reach the node with any of its events.
#[tokio::test]
async fn a_stop_of_a_finished_stream_is_always_reported() {
    let pair = Pair::start().await;
    pair.run(async {
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        for number in 0..100 {
            // Nobody takes it.
            let stream = session.open_stream(StreamSpec::messages("echo")).await;
            let stream = stream.unwrap();
            let sent = stream.send("x").await;
            let ended = async {
                sent?;
                stream.finish()?;
                stream.delivered().await
            };
            let ended = within(ended).await;
            // The peer's node may have received it before it refused.
            let is_known = matches!(ended, Ok(()) | Err(ClientError::Stopped(_)));
            assert!(is_known, "{number}: {ended:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_holds_back_its_own_stream_and_no_other() {
    const ADU: usize = 100_000;
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let bulk = far.register("bulk").await.unwrap();
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        let session = pair.session(&near).await;
        let stream = session.open_stream(StreamSpec::bulk("bulk")).await.unwrap();
        let sending = {
            let stream = stream.clone();
            tokio::spawn(async move {
                for number in 0..1_000 {
                    let data = vec![number as u8; ADU];
                    assert_eq!(stream.send(data).await.unwrap(), number);
                }
                stream.finish().unwrap();
                stream.delivered().await.unwrap();
            })
        };
        let (peer, incoming) = bulk.accept().await.unwrap();
        assert_eq!((peer, incoming.spec().label.as_str()), (id(1), "bulk"));
        // 100 MB are on their way and nobody reads: what is handed over stops growing, below what all buffers hold together, and
        // other streams go on.
        let other = session.open_stream(duplex("echo")).await.unwrap();
        let mut before = u64::MAX;
        loop {
            other.send("?").await.unwrap();
            assert_eq!(other.recv().await.unwrap().unwrap().data, "?");
            tokio::time::sleep(Duration::from_millis(500)).await;
            let streams = pair.near.daemon.host().sessions().remove(0).streams;
            let bulk = streams.iter().find(|stats| stats.spec.label == "bulk");
            let sent = bulk.unwrap().sent_bytes;
            // Windows of 32 MiB at the receiver, 8 MiB at the sender, and credit of 1 MiB and less.
            assert!(sent < 60 << 20, "{sent}");
            if sent == before {
                break;
            }
            before = sent;
        }
        assert!(!sending.is_finished());
        let mut next = 0;
        while let Some(adu) = incoming.recv().await.unwrap() {
            assert_eq!(adu.sequence, next);
            assert!(adu.data.len() == ADU && adu.data[0] == next as u8);
            next += 1;
        }
        assert_eq!(next, 1_000);
        sending.await.unwrap();
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn two_hundred_streams_share_a_connection() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let echoing = tokio::spawn(echo(far.register("echo/*").await.unwrap()));
        let session = pair.session(&near).await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..200_u32 {
            let session = session.clone();
            tasks.spawn(async move {
                let label = format!("echo/{number}");
                let spec = StreamSpec {
                    duplex: true,
                    ..StreamSpec::bulk(&label)
                };
                let stream = session.open_stream(spec).await.unwrap();
                for round in 0..20_u32 {
                    let data = [number, round].map(u32::to_be_bytes).concat();
                    let data = data.repeat(1 + 300 * (round as usize % 5));
                    stream.send(data.clone()).await.unwrap();
                    assert!(stream.recv().await.unwrap().unwrap().data == data);
                }
                stream.finish().unwrap();
                assert_eq!(stream.recv().await.unwrap(), None);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn events_report_the_outcome_of_adus_by_the_numbers_that_the_application_knows() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("m").await.unwrap();
        let session = pair.session(&near).await;
        let spec = StreamSpec {
            notify: true,
            ..StreamSpec::messages("m")
        };
        let stream = session.open_stream(spec).await.unwrap();
        let with = |value: anabranch::Field| Outgoing {
            fields: vec![("kind".to_owned(), value)],
            ..Outgoing::from("x")
        };
        use anabranch::Field::{Number, Text};
        assert_eq!(stream.send(with(Text("I".to_owned()))).await.unwrap(), 0);
        // A field keeps the type of its first use; the number of an ADU that was refused is not used again.
        let refused = stream.send(with(Number(1.0))).await.unwrap_err();
        assert!(refused.to_string().contains("kind"), "{refused}");
        assert_eq!(stream.try_send(with(Number(2.0))).unwrap(), 2);
        assert_eq!(stream.send("last").await.unwrap(), 3);
        let mut acked = Vec::new();
        while acked.len() < 2 {
            if let StreamEvent::Acked { adu, .. } = stream.next_event().await.unwrap() {
                acked.push(adu);
            }
        }
        acked.sort_unstable();
        assert_eq!(acked, [0, 3]);
        assert_eq!(stream.try_next_refused().map(|(adu, _)| adu), Some(2));
        assert!(!stream.update_fields(0, &[]).await.unwrap());
        // The peer counts those that were sent.
        let (_, incoming) = service.accept().await.unwrap();
        let mut numbers = [0, 0];
        for number in &mut numbers {
            *number = incoming.recv().await.unwrap().unwrap().sequence;
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
    })
    .await;
}

#[tokio::test]
async fn what_an_application_finished_arrives_after_it_has_left_and_the_rest_is_reset() {
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("*").await.unwrap();
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let finished = session
            .open_stream(StreamSpec::bulk("finished"))
            .await
            .unwrap();
        let open = session.open_stream(StreamSpec::bulk("open")).await.unwrap();
        for stream in [&finished, &open] {
            stream.send("first").await.unwrap();
        }
        let mut incoming = [
            service.accept().await.unwrap().1,
            service.accept().await.unwrap().1,
        ];
        incoming.sort_by_key(|stream| stream.spec().label.clone());
        for stream in &incoming {
            assert_eq!(stream.recv().await.unwrap().unwrap().data, "first");
        }
        for _ in 0..10 {
            finished.send(vec![7; 200_000]).await.unwrap();
        }
        finished.finish().unwrap();
        drop((finished, open, session, near));
        let [finished, open] = incoming;
        for _ in 0..10 {
            assert_eq!(finished.recv().await.unwrap().unwrap().data.len(), 200_000);
        }
        assert_eq!(finished.recv().await.unwrap(), None);
        let reset = open.recv().await.unwrap_err();
        let code = anabranch::Failure::reset_code(&reset).unwrap();
        assert!(
            [anabranch::net::CODE_DROPPED, local::CODE_DETACHED].contains(&code),
            "{code}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_node_that_stops_is_a_clear_error() {
    let pair = Pair::start().await;
    let mut attached = None;
    pair.run(async {
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let stream = session.open_stream(duplex("x")).await.unwrap();
        attached = Some((near, session, stream));
    })
    .await;
    let (near, session, stream) = attached.unwrap();
    within(async {
        let error = stream.recv().await.unwrap_err();
        assert!(
            error.to_string().contains("is it still running?"),
            "{error}"
        );
        assert!(anabranch::Failure::is_session_over(&error));
        let again = stream.send("x").await.unwrap_err();
        assert!(anabranch::Failure::is_session_over(&again), "{again}");
        assert!(session.open_stream(duplex("y")).await.is_err());
        assert!(near.closed().await.contains("closed"));
    })
    .await;
    let socket = pair.near.socket();
    drop(pair);
    let error = Client::attach(&socket, "test").await.unwrap_err();
    assert!(error.to_string().contains("anabranch up"), "{error}");
}

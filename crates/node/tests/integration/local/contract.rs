//! One contract of streams, two drivers: in the process of the node, and attached to a running one.

use std::{collections::VecDeque, future::Future, time::Duration};

use anabranch::{
    AduListener, AduSession, AduStream, Failure, Outgoing, PromiseEvent, SessionCloseReason,
    SessionEvent, StreamEvent, StreamSpec, api::Listener, base::Rate,
};
use anabranch::{AllowList, Guarantee, Host, HostConfig, Policy, SecretKey, StreamParameters};

use super::{Pair, duplex, id};

/// Contract of every driver. `near` opens streams labelled `contract`, which `far` accepts.
async fn contract<S: AduSession, L: AduListener>(near: &S, far: &L) {
    assert_eq!(near.peer(), id(2));
    let first = near.next_event().await.unwrap();
    assert!(matches!(first, SessionEvent::ChannelUp { .. }), "{first:?}");
    near.probe().await.unwrap();
    both_ways(near, far).await;
    ends(near, far).await;
    many(near, far).await;
    discarding(near, far).await;
    promises(near, far).await;
    objectives(near).await;
}

async fn opened<S: AduSession, L: AduListener>(
    near: &S,
    far: &L,
    spec: StreamSpec,
) -> (S::Stream, L::Stream) {
    let stream = near.open_stream(spec).await.unwrap();
    assert_eq!(stream.send("first").await.unwrap(), 0);
    let (peer, incoming) = far.accept().await.unwrap();
    assert_eq!((peer, incoming.id()), (id(1), stream.id()));
    let first = incoming.recv().await.unwrap().unwrap();
    assert_eq!((first.sequence, &first.data[..]), (0, &b"first"[..]));
    (stream, incoming)
}

async fn both_ways<S: AduSession, L: AduListener>(near: &S, far: &L) {
    let (stream, incoming) = opened(near, far, duplex("contract")).await;
    assert!(stream.can_receive() && incoming.can_send());
    assert_eq!(incoming.send("answer").await.unwrap(), 0);
    assert_eq!(stream.recv().await.unwrap().unwrap().data, "answer");
    incoming.finish().unwrap();
    assert_eq!(stream.recv().await.unwrap(), None);
    incoming.delivered().await.unwrap();
    stream.finish().unwrap();
    stream.delivered().await.unwrap();
    assert_eq!(incoming.recv().await.unwrap(), None);
    assert!(
        stream
            .send("more")
            .await
            .unwrap_err()
            .send_error()
            .is_some()
    );
}

async fn ends<S: AduSession, L: AduListener>(near: &S, far: &L) {
    let (stream, incoming) = opened(near, far, duplex("contract")).await;
    stream.reset(7).unwrap();
    let failure = incoming.recv().await.unwrap_err();
    assert_eq!(failure.reset_code(), Some(7), "{failure}");
    stream.stop(8).unwrap();
    loop {
        match incoming.send("unwanted").await {
            Ok(_) => tokio::task::yield_now().await,
            Err(failure) => {
                assert_eq!(failure.stop_code(), Some(8), "{failure}");
                break;
            }
        }
    }
    // A direction that does not exist, and ADUs that cannot be.
    let (stream, incoming) = opened(near, far, StreamSpec::messages("contract")).await;
    assert!(incoming.send("back").await.is_err());
    let known = stream.on_time(1_000, Duration::from_secs(1)).await.unwrap();
    assert!(known.is_none_or(|probability| (0.0..=1.0).contains(&probability)));
    for data in [Vec::new(), vec![0; (16 << 20) + 1]] {
        let failure = stream.send(data).await.unwrap_err();
        assert!(failure.send_error().is_some(), "{failure}");
    }
    drop(stream);
    let dropped = incoming.recv().await.unwrap_err().reset_code();
    assert_eq!(dropped, Some(anabranch::net::CODE_DROPPED));
}

async fn many<S: AduSession, L: AduListener>(near: &S, far: &L) {
    let spec = StreamSpec {
        notify: true,
        ..StreamSpec::bulk("contract")
    };
    let (stream, incoming) = opened(near, far, spec).await;
    let total = 3_000;
    let sending = async {
        let adus = (0..total).map(|n: u32| Outgoing::from(n.to_be_bytes().repeat(500)));
        let mut adus: VecDeque<Outgoing> = adus.collect();
        let mut next = 1;
        while !adus.is_empty() {
            let numbers = stream.send_many(&mut adus).await.unwrap();
            assert_eq!(numbers.start, next);
            next = numbers.end;
        }
        assert_eq!(stream.send_many(&mut adus).await.unwrap(), 0..0);
        assert_eq!(next, u64::from(total) + 1);
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
    };
    let receiving = async {
        for n in 0..total {
            let adu = incoming.recv().await.unwrap().unwrap();
            assert_eq!(adu.sequence, u64::from(n) + 1);
            assert!(adu.data == n.to_be_bytes().repeat(500));
        }
        assert_eq!(incoming.recv().await.unwrap(), None);
    };
    tokio::join!(sending, receiving);
    let mut acked = 0;
    while acked <= total {
        if let StreamEvent::Acked { .. } = stream.next_event().await.unwrap() {
            acked += 1;
        }
    }
}

async fn discarding<S: AduSession, L: AduListener>(near: &S, far: &L) {
    const BYTES: usize = 10_000;
    let (stream, incoming) = opened(near, far, StreamSpec::messages("contract")).await;
    assert!(stream.discard().await.is_err(), "it is reliable");
    assert!(incoming.discard().await.is_err(), "only the peer sends");
    // Data for four seconds; attached to a node, most of it waits before the session.
    let spec = StreamSpec {
        reliable: false,
        cap: Some(Rate::from_kbps(400)),
        ..StreamSpec::messages("contract")
    };
    let (stream, incoming) = opened(near, far, spec).await;
    for number in 1..=20 {
        assert_eq!(
            stream.send(vec![number; BYTES]).await.unwrap(),
            u64::from(number)
        );
    }
    let discarded = stream.discard().await.unwrap();
    assert!((10..=20).contains(&discarded.adus), "{discarded:?}");
    assert_eq!(discarded.bytes, discarded.adus * BYTES as u64);
    // Numbers go on as if everything had been sent.
    assert_eq!(stream.send("newer").await.unwrap(), 21);
    assert_eq!(stream.discard().await.unwrap().adus & !1, 0);
    assert_eq!(stream.send("newest").await.unwrap(), 22);
    stream.finish().unwrap();
    let mut arrived = Vec::new();
    while let Some(adu) = incoming.recv().await.unwrap() {
        arrived.push(adu.sequence);
        let first = u8::try_from(adu.sequence).unwrap();
        assert!(adu.sequence > 20 || adu.data[..] == vec![first; BYTES]);
    }
    stream.delivered().await.unwrap();
    let mut dropped = Vec::new();
    while (dropped.len() as u64) < discarded.adus {
        if let StreamEvent::Dropped { adu } = stream.next_event().await.unwrap() {
            dropped.push(adu);
        }
    }
    let sent = 21 - discarded.adus;
    assert_eq!(dropped, (sent..=20).collect::<Vec<_>>());
    assert!(arrived.iter().all(|number| !dropped.contains(number)));
    assert!(arrived.contains(&22), "{arrived:?}");
}

async fn promises<S: AduSession, L: AduListener>(near: &S, far: &L) {
    // More than can be promised so soon.
    let wanted = Guarantee::rate(Rate::from_mbps(900_000), 0.95);
    let spec = StreamSpec::messages("contract").with_guarantee(wanted);
    let refused = near.admit(&spec).await.unwrap_err();
    assert!(refused.refusal().is_some(), "{refused}");
    assert!(near.open_stream(spec).await.is_err());
    let waiting = StreamSpec::messages("contract").with_guarantee(wanted.waiting());
    let (stream, _incoming) = opened(near, far, waiting).await;
    let explained = stream.explain().await.unwrap().unwrap();
    assert_eq!((explained.stream, explained.term), (stream.id(), None));
    assert_eq!(explained.guarantee, wanted.waiting());
    let changes = StreamParameters {
        weight: Some(3),
        cap: Some(Some(Rate::from_mbps(2))),
        ..StreamParameters::default()
    };
    stream.change_guarantee(None).await.unwrap();
    stream.adjust(changes).await.unwrap();
    let wrong = StreamParameters {
        weight: Some(0),
        ..changes
    };
    assert!(stream.adjust(wrong).await.is_err());
    let none: Result<PromiseEvent, _> = tokio::select! {
        biased;
        event = stream.next_promise() => event,
        () = std::future::ready(()) => return,
    };
    panic!("nothing was promised: {:?}", none.ok());
}

async fn objectives<S: AduSession>(near: &S) {
    let text = "hose 2\nobjective last { context { adu:a { stream_id == 0 } } goal { a::channel::id == 0 } utility { a { -1 } } }";
    let ids = near.inject_objectives(text).await.unwrap();
    let listed = near.objectives().await.unwrap();
    assert_eq!((ids.len(), listed.len()), (1, 1));
    assert_eq!(
        (listed[0].id, listed[0].name.as_deref()),
        (ids[0], Some("last"))
    );
    assert!(near.remove_objective(ids[0]).await.unwrap());
    assert!(!near.remove_objective(ids[0]).await.unwrap());
    let named = near
        .inject_objectives("low_latency(voice, 150); avoid_metered")
        .await
        .unwrap();
    let listed = near.objectives().await.unwrap();
    let names = listed.iter().filter_map(|one| one.name.as_deref());
    assert!(names.eq(["low_latency", "avoid_metered"]), "{listed:?}");
    for id in named {
        assert!(near.remove_objective(id).await.unwrap());
    }
    let unknown = near.inject_objectives("low_latncy(voice, 150)").await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains("low_latency(label, ms)"), "{unknown}");
    let wrong = near.inject_objectives("objective {").await.unwrap_err();
    assert!(wrong.to_string().contains("1:"), "{wrong}");
}

/// Contract of every driver whose node plans by objectives: what was sent counts in their tallies.
async fn tallies<S: AduSession, L: AduListener>(near: &S, far: &L) {
    assert_eq!(near.tallies().await.unwrap(), []);
    let text = "hose 2
        objective here { context { adu:a { label == \"contract\" } } goal { a::channel::id >= 0 } utility { a { 2 } } }
        objective blue { context { adu:a { label == \"contract\" } } goal { a::channel::colour == 3 } utility { a { 1 } } }
        rate least { context { stream:s { label == \"contract\" } } at_least { 8000 } probability { 50 } }";
    let ids = near.inject_objectives(text).await.unwrap();
    let (stream, incoming) = opened(near, far, StreamSpec::messages("contract")).await;
    let (here, blue) = loop {
        let counted = near.tallies().await.unwrap();
        // The rate has none.
        let [(first, here), (second, blue)] = counted[..] else {
            panic!("{counted:?}");
        };
        assert_eq!([first, second], ids[..2]);
        if here.contexts >= 3 {
            break (here, blue);
        }
        stream.send("more").await.unwrap();
        incoming.recv().await.unwrap().expect("a message");
    };
    assert_eq!(
        (here.contexts_met, here.utility, here.contexts_faulty),
        (here.contexts, 2.0 * here.contexts as f64, 0)
    );
    assert_eq!(
        (blue.contexts, blue.contexts_met, blue.contexts_faulty),
        (here.contexts, 0, here.contexts)
    );
}

/// Contract of every driver when the other node closes the session.
async fn closing<S: AduSession>(near: &S, close: impl Future<Output = ()>) {
    let stream = near.open_stream(duplex("contract")).await.unwrap();
    let (closed, (), failure) = tokio::join!(near.closed(), close, stream.recv());
    let closed = closed.unwrap();
    assert!(
        matches!(closed, SessionCloseReason::Peer { .. }),
        "{closed}"
    );
    assert!(failure.unwrap_err().is_session_over());
    let over = loop {
        if let Err(over) = near.next_event().await {
            break over;
        }
    };
    assert!(over.is_session_over(), "{over}");
    assert!(over.to_string().contains("the peer disconnected"), "{over}");
}

/// Two nodes in this process that know each other.
fn hosts(policy: Policy) -> (Host, Host) {
    let host = |own: u8, other: u8| {
        let key = SecretKey::from_seed([own; 32]);
        let mut config = HostConfig::new(key, AllowList::of([id(other)]));
        config.engine.policy = policy;
        let bind: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(config.bind([bind])).unwrap()
    };
    (host(1, 2), host(2, 1))
}

#[tokio::test]
async fn streams_in_this_process_keep_the_contract() {
    let (one, other) = hosts(Policy::default());
    super::within(async {
        let addresses = other.addresses();
        let (near, far) = tokio::join!(one.connect(id(2), &addresses), other.accept());
        let (near, session) = (near.unwrap(), far.unwrap());
        let far = Listener::new(session, "contract");
        contract(&near, &far).await;
        closing(&near, other.shutdown()).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_sent_counts_in_tallies_in_this_process() {
    let (one, other) = hosts(Policy::Assign);
    super::within(async {
        let addresses = other.addresses();
        let (near, far) = tokio::join!(one.connect(id(2), &addresses), other.accept());
        let far = Listener::new(far.unwrap(), "contract");
        tallies(&near.unwrap(), &far).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_sent_counts_in_tallies_of_a_running_node() {
    let pair = Pair::with_near(|config| config.engine.policy = Policy::Assign).await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("contract").await.unwrap();
        tallies(&pair.session(&near).await, &service).await;
    })
    .await;
}

#[tokio::test]
async fn streams_of_a_running_node_keep_the_contract() {
    let pair = Pair::start().await;
    pair.run(async {
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("contract").await.unwrap();
        let session = pair.session(&near).await;
        contract(&session, &service).await;
        // Another application gets the same events.
        let again = pair.near.attach().await;
        let again = pair.session(&again).await;
        let up = again.next_event().await.unwrap();
        assert!(matches!(up, SessionEvent::ChannelUp { .. }), "{up:?}");
        tokio::join!(
            closing(&session, pair.far.daemon.host().shutdown()),
            async { assert!(again.closed().await.is_ok()) },
        );
    })
    .await;
}

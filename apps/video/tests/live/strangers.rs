//! Sessions at an origin that show no ticket, or one that is no longer valid.

use std::time::Duration;

use anabranch::{AllowList, Host, HostConfig, StreamSpec, Ticket, keys};
use anabranch_video::{
    origin::{self, tickets},
    proxy::{Config, Prefix},
    wire::{CONTROL_LABEL, Request},
};
use serde_json::Value;

use super::{
    film::film,
    setting::{RunningOrigin, RunningProxy, TIMEOUT, get, ready, until},
};

fn host() -> Host {
    let loopback: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let config = HostConfig::new(keys::generate().unwrap(), AllowList::default());
    Host::start(config.bind([loopback])).unwrap()
}

struct World {
    folder: tempfile::TempDir,
    origin: RunningOrigin,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library");
        std::fs::create_dir(&library).unwrap();
        std::fs::copy(film(20), library.join("film.mp4")).unwrap();
        let key = keys::generate().unwrap();
        let origin = RunningOrigin::with_tickets(&library, &key, &folder.path().join("state"));
        Self { folder, origin }
    }

    async fn proxy(&self, name: &str, ticket: &Ticket) -> RunningProxy {
        let mut config = Config::new(self.folder.path().join(name));
        config.prefix = Prefix::Fixed(Duration::ZERO);
        RunningProxy::start(config, ticket).await
    }
}

/// However many silent sessions come, few have a place, none for long, and a proxy gets in meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_sessions_keep_no_proxy_out() {
    let world = World::new();
    let ticket = &world.origin.ticket;
    let strangers = [host(), host(), host()];
    let mut silent = Vec::new();
    for n in 0..45 {
        let calling = strangers[n % 3].connect(ticket.node, &ticket.addresses);
        let called = tokio::time::timeout(TIMEOUT, calling).await.unwrap();
        silent.extend(called.ok());
    }
    let proxy = world.proxy("cache", ticket).await;
    ready(&proxy).await;
    let open = silent
        .iter()
        .filter(|session| session.close_reason().is_none());
    let open = open.count();
    assert!(open <= 8, "{open} of one address");
    for session in &silent {
        let closed = tokio::time::timeout(TIMEOUT, session.closed()).await;
        assert!(closed.is_ok(), "a silent session is left alone");
    }
    assert_eq!(get(proxy.address, "/v/film/0/0.m4s", "").await.status, 200);
    proxy.stop().await;
    for stranger in strangers {
        stranger.shutdown().await;
    }
    world.origin.stop().await;
}

/// A peer without a ticket gets no answer to anything else, and a guess is only answered as wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_ticket_nothing_is_answered() {
    let world = World::new();
    let ticket = &world.origin.ticket;
    let stranger = host();
    let requests = [
        Request::List {
            id: 1,
            after: String::new(),
        },
        Request::Hello {
            secret: "aaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
        },
    ];
    for (request, is_answered) in requests.into_iter().zip([false, true]) {
        let session = stranger
            .connect(ticket.node, &ticket.addresses)
            .await
            .unwrap();
        let control = StreamSpec {
            duplex: true,
            label: CONTROL_LABEL.to_owned(),
            ..StreamSpec::default()
        };
        let control = session.open_stream(control).unwrap();
        control.send(request.encode()).await.unwrap();
        let mut answers = Vec::new();
        while let Ok(Ok(Some(answer))) = tokio::time::timeout(TIMEOUT, control.recv()).await {
            answers.push(String::from_utf8_lossy(&answer.data).into_owned());
        }
        assert_eq!(answers.len(), usize::from(is_answered), "{answers:?}");
        assert!(answers.iter().all(|answer| answer.contains("\"ticket\"")));
        let closed = tokio::time::timeout(TIMEOUT, session.closed()).await;
        assert!(closed.is_ok(), "it is disconnected");
    }
    stranger.shutdown().await;
    world.origin.stop().await;
}

/// A ticket that is made while the origin runs is valid, and its revocation ends the sessions that use it; others continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_ticket_ends_its_sessions() {
    let world = World::new();
    let state = world.folder.path().join("state");
    let file = origin::tickets_file(&state);
    let secret = tickets::fresh().unwrap();
    tickets::issue(&file, "near", &secret).unwrap();
    let near = Ticket {
        secret: Some(secret),
        ..origin::reach(&state).unwrap()
    };
    let one = world.proxy("one", &near).await;
    let other = world.proxy("other", &world.origin.ticket).await;
    ready(&one).await;
    ready(&other).await;
    let sessions = other.stats().await["origin"]["sessions"].clone();
    tickets::revoke(&file, "near").unwrap();
    until(&one, "the ticket is no longer valid", |stats| {
        let trouble = stats["origin"]["trouble"].as_str();
        trouble.is_some_and(|words| words.contains("ticket"))
    })
    .await;
    let stats = other.stats().await;
    assert_eq!(
        stats["origin"]["is_connected"],
        Value::Bool(true),
        "{stats}"
    );
    assert_eq!(stats["origin"]["sessions"], sessions, "{stats}");
    one.stop().await;
    other.stop().await;
    world.origin.stop().await;
}

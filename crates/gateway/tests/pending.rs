//! Memory of a diverted connection whose target has not answered yet, at the node that asks for it and at the one that makes it: there may
//! be 16,384 of them, and each opening of a flood is one.
//!
//! This file has a single test, because the allocator counts for the whole process.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{alloc::System, net::SocketAddr, sync::Arc, time::Duration};

use anabranch::{
    AllowList, Host, HostConfig, Locals, SecretKey, Session,
    base::NodeId,
    rights::{Rights, Table},
};
use anabranch_gateway::{
    Connections, Diverter, Notices, Refusal, Server,
    uplink::{Uplink, Waiting},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, timeout},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LABEL: &str = "test";
const WARM_UP: usize = 50;
/// So few that all are there long before the first is given up.
const CONNECTIONS: usize = 300;
/// Target, for both ends together.
const MOST_BYTES: i64 = 8_700;

/// Bytes allocated and not freed.
fn held() -> i64 {
    let stats = ALLOCATOR.stats();
    // Bytes by which blocks grow and shrink in place are in both.
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

#[derive(Debug)]
struct Only(Session);

impl Uplink for Only {
    fn peer(&self) -> NodeId {
        self.0.peer()
    }

    fn session(&self, _: Instant) -> Waiting<'_> {
        Box::pin(std::future::ready(Ok::<_, Refusal>(self.0.clone())))
    }
}

fn host(seed: u8, allowed: AllowList) -> Host {
    let mut config = HostConfig::new(SecretKey::from_seed([seed; 32]), allowed);
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    config.locals = Locals::Fixed(vec![any.into()]);
    Host::start(config).unwrap()
}

/// A listener that answers no more openings, because as many connections wait there as it lets wait; and these.
async fn silent() -> (SocketAddr, (TcpListener, Vec<TcpStream>)) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let at = listener.local_addr().unwrap();
    let moment = Duration::from_millis(500);
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(moment, TcpStream::connect(at)).await {
        waiting.push(connected.unwrap());
    }
    assert!(!waiting.is_empty());
    (at, (listener, waiting))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_waits_for_its_target_takes_little() {
    let near_id = SecretKey::from_seed([1; 32]).node_id();
    let far = host(2, AllowList::of([near_id]));
    let near = host(1, AllowList::default());
    let addresses = far.addresses();
    let calling = near.connect(far.node_id(), &addresses);
    let (session, accepted) = tokio::join!(calling, far.accept());
    let (session, accepted) = (session.unwrap(), accepted.unwrap());
    let connections = Connections::new(Notices::to_log());
    let diverter = Diverter::new(&connections, Arc::new(Only(session)), LABEL);
    let server = Arc::new(Server::new(Rights::new(Table::default())));
    let (target, _full) = silent().await;
    let mut before = 0;
    for number in 0..WARM_UP + CONNECTIONS {
        if number == WARM_UP {
            before = held();
        }
        let client = SocketAddr::from(([10, 77, 0, 2], 1024 + number as u16));
        let asking = diverter.clone();
        assert!(diverter.spawn(async move {
            let made = asking.ask(client, target).await;
            drop(made);
        }));
        let stream = accepted.accept_stream().await.unwrap();
        let (server, accepted) = (server.clone(), accepted.clone());
        tokio::spawn(async move {
            let withdrawn = |_| std::future::pending::<()>();
            let making = server.connect_by(&accepted, &stream, |_| true, withdrawn);
            making.await;
        });
    }
    let all_wait = async {
        while server.count(&near_id) < WARM_UP + CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), all_wait)
        .await
        .expect("the test hangs");
    let each = (held() - before) / CONNECTIONS as i64;
    assert_eq!(
        connections.count(),
        WARM_UP + CONNECTIONS,
        "all of them wait"
    );
    eprintln!(
        "{each} bytes for each of {CONNECTIONS} connections that wait, at both ends together"
    );
    assert!(each <= MOST_BYTES, "{each} bytes");
}

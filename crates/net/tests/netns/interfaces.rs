//! Interfaces that go down and addresses that are removed during a session: it continues over the other
//! path, and the channel joins again when they are back.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anabranch_net::{
    Host, Session,
    session::{ChannelStatus, StreamSpec},
};

use crate::{
    namespace::{Namespace, namespaces},
    node::{key, start},
};

/// Longest wait for something that takes well under a second on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(20);
const ADU_BYTES: usize = 8000;

/// State of the two nodes, observed by the test.
#[derive(Clone, Default)]
struct Watched {
    /// ADUs that arrived, each the successor of the one before.
    arrived: Arc<AtomicU64>,
    /// Local addresses of the sender's channels that carry data, as the last octet of their subnet.
    active: Arc<AtomicU64>,
    /// Sockets that the sender has or remembers.
    sockets: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    /// The receiver has read everything to the end.
    is_read: Arc<AtomicBool>,
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Watched {
    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Waits until exactly these paths carry data.
    #[track_caller]
    fn paths(&self, paths: &[u64], what: &str) {
        let bits = paths.iter().fold(0, |bits, path| bits | 1 << path);
        until(what, || self.active.load(Ordering::Relaxed) == bits);
    }

    /// Waits until more of the stream has arrived.
    #[track_caller]
    fn goes_on(&self, what: &str) {
        let before = self.arrived();
        until(what, || self.arrived() > before + 20);
    }
}

/// Creates two namespaces with two cables: path 1 and path 2.
fn two_cables() -> Option<[Namespace; 2]> {
    let [a, b] = namespaces()?;
    a.join(("eth1", "10.91.1.1/24"), &b, ("eth1", "10.91.1.2/24"));
    a.join(("eth2", "10.91.2.1/24"), &b, ("eth2", "10.91.2.2/24"));
    Some([a, b])
}

/// Runs a session from `a` to `b` with a stream that continues until the test ends.
fn session(a: &Namespace, b: &Namespace, test: impl FnOnce(&Watched)) {
    let watched = Watched::default();
    let (report, reported) = mpsc::channel();
    let receiver = {
        let watched = watched.clone();
        start(b, (2, 1), move |host| {
            Box::pin(async move {
                report.send(host.addresses()).unwrap();
                let session = host.accept().await.unwrap();
                let stream = session.accept_stream().await.unwrap();
                let mut next = 0u64;
                while let Some(adu) = stream.recv().await.unwrap() {
                    assert_eq!(adu.data[..8], next.to_be_bytes(), "out of order");
                    assert_eq!(adu.data.len(), ADU_BYTES);
                    next += 1;
                    watched.arrived.store(next, Ordering::Relaxed);
                }
                watched.is_read.store(true, Ordering::Relaxed);
                session.closed().await;
                next
            })
        })
    };
    let addresses = reported.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    let sender = {
        let watched = watched.clone();
        start(a, (1, 2), move |host| {
            Box::pin(send_until_over(host, addresses, watched))
        })
    };
    // A failed test must not leave the nodes running.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&watched)));
    watched.is_over.store(true, Ordering::Relaxed);
    let (sent, received) = (sender.join().unwrap(), receiver.join().unwrap());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(sent, received, "all arrived, in order, once");
}

async fn send_until_over(host: Host, addresses: Vec<SocketAddr>, watched: Watched) -> u64 {
    let session = host.connect(key(2).node_id(), &addresses).await.unwrap();
    let stream = session.open_stream(StreamSpec::bulk("counting")).unwrap();
    let mut sent = 0u64;
    while !watched.is_over.load(Ordering::Relaxed) {
        let mut adu = vec![0; ADU_BYTES];
        adu[..8].copy_from_slice(&sent.to_be_bytes());
        stream.send(adu.into()).await.unwrap();
        sent += 1;
        watched
            .active
            .store(active_paths(&host, &session), Ordering::Relaxed);
        let sockets = host.sockets().len() as u64;
        watched.sockets.store(sockets, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stream.finish().unwrap();
    stream.delivered().await.unwrap();
    // Data that is delivered but not read is lost with the session.
    while !watched.is_read.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    host.shutdown().await;
    sent
}

/// The paths that carry data, as bits by the third octet of their addresses.
fn active_paths(host: &Host, session: &Session) -> u64 {
    let sockets = host.sockets();
    let mut bits = 0;
    for channel in session.channels() {
        let socket = sockets.iter().find(|socket| socket.id == channel.socket);
        if channel.state == ChannelStatus::Active
            && let Some(IpAddr::V4(local)) = socket.map(|socket| socket.local.ip())
        {
            bits |= 1 << local.octets()[2];
        }
    }
    bits
}

#[test]
fn a_channel_follows_its_interface_down_and_up() {
    let Some([a, b]) = two_cables() else { return };
    session(&a, &b, |watched| {
        watched.paths(&[1, 2], "both paths at the start");
        watched.goes_on("data at the start");
        // The interface of the node that connects.
        a.ip("link set eth1 down");
        watched.paths(&[2], "path 1 left after its interface went down");
        watched.goes_on("data over path 2");
        a.ip("link set eth1 up");
        watched.paths(&[1, 2], "path 1 again after its interface came up");
        // That of the other side, which here also removes the carrier.
        b.ip("link set eth2 down");
        watched.paths(&[1], "path 2 left after the peer's interface went down");
        watched.goes_on("data over path 1");
        b.ip("link set eth2 up");
        watched.paths(&[1, 2], "path 2 again after the peer's interface came up");
        watched.goes_on("data at the end");
    });
}

#[test]
fn a_channel_follows_its_address_away_and_back() {
    let Some([a, b]) = two_cables() else { return };
    session(&a, &b, |watched| {
        watched.paths(&[1, 2], "both paths at the start");
        a.ip("address del 10.91.2.1/24 dev eth2");
        watched.paths(&[1], "path 2 left after its address was taken away");
        watched.goes_on("data over path 1");
        a.ip("address add 10.91.2.1/24 dev eth2");
        watched.paths(&[1, 2], "path 2 again after its address came back");
        b.ip("address del 10.91.1.2/24 dev eth1");
        watched.paths(&[2], "path 1 left after the peer's address was taken away");
        watched.goes_on("data over path 2");
        b.ip("address add 10.91.1.2/24 dev eth1");
        watched.paths(&[1, 2], "path 1 again after the peer's address came back");
    });
}

/// A modem that gets another address each time that it connects: no address is new for ever.
#[test]
fn an_interface_whose_address_changes_keeps_its_socket() {
    let Some([a, b]) = two_cables() else { return };
    session(&a, &b, |watched| {
        let mut address = "10.91.2.1/24".to_owned();
        for number in 0..40 {
            watched.paths(&[1, 2], &format!("both paths before change {number}"));
            a.ip(&format!("address del {address} dev eth2"));
            watched.paths(&[1], &format!("path 1 alone in change {number}"));
            address = format!("10.91.2.{}/24", 10 + number);
            a.ip(&format!("address add {address} dev eth2"));
        }
        watched.paths(&[1, 2], "both paths after all changes");
        watched.goes_on("data over both");
        assert_eq!(watched.sockets.load(Ordering::Relaxed), 2);
    });
}

/// An address that did not exist when the session began, as after plugging in a modem.
#[test]
fn a_new_interface_gets_a_channel() {
    let Some([a, b]) = namespaces() else { return };
    a.join(("eth1", "10.91.1.1/24"), &b, ("eth1", "10.91.1.2/24"));
    a.join(("eth2", "10.91.2.1/24"), &b, ("eth2", "10.91.2.2/24"));
    a.ip("address del 10.91.2.1/24 dev eth2");
    session(&a, &b, |watched| {
        watched.paths(&[1], "the only path at the start");
        a.ip("address add 10.91.2.1/24 dev eth2");
        watched.paths(&[1, 2], "the new path");
        watched.goes_on("data over both");
    });
}

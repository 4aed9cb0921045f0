//! Other local addresses for a running host.

use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use anabranch_net::{
    Bind, Host, HostConfig, Locals, Place, Session, SessionEvent, StartError, Tariff,
    session::{AllowList, CloseReason, SecretKey, StreamSpec},
};
use tokio::sync::watch;

/// Fails a test that hangs; none needs a tenth of the time-out.
const LIMIT: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    let limited = tokio::time::timeout(LIMIT, work);
    limited.await.expect("the test hangs")
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

fn config(own: u8, peer: u8) -> HostConfig {
    let allowed = AllowList::of([key(peer).node_id()]);
    HostConfig::new(key(own), allowed).bind([at("127.0.0.1:0")])
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn fixed(addresses: &[SocketAddr]) -> Locals {
    Locals::Fixed(addresses.iter().copied().map(Bind::from).collect())
}

/// An address with a port that nobody uses.
fn unused(text: &str) -> SocketAddr {
    UdpSocket::bind(text).unwrap().local_addr().unwrap()
}

fn is_free(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_ok()
}

async fn connected() -> (Host, Host, Session, Session) {
    let a = Host::start(config(1, 2)).unwrap();
    let b = Host::start(config(2, 1)).unwrap();
    let there = b.addresses();
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &there), b.accept());
    (a, b, outgoing.unwrap(), incoming.unwrap())
}

async fn rebind(host: &Host, locals: Locals) {
    host.prepare_locals(locals).await.unwrap().commit();
}

/// Waits until a former address of the host can be bound again.
async fn closed(host: &Host, former: SocketAddr) {
    while host.sockets().iter().any(|socket| socket.is_retired) || !is_free(former) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends numbered ADUs until `is_over`, while the other side checks that none is missing.
async fn flow(from: &Session, to: &Session, mut is_over: watch::Receiver<bool>) {
    let sending = async {
        let stream = from.open_stream(StreamSpec::bulk("numbers")).unwrap();
        let mut sent = 0_u32;
        while !*is_over.borrow_and_update() {
            let mut adu = vec![0; 20_000];
            adu[..4].copy_from_slice(&sent.to_be_bytes());
            stream.send(adu.into()).await.unwrap();
            sent += 1;
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
        sent
    };
    let receiving = async {
        let stream = to.accept_stream().await.unwrap();
        let mut next = 0_u32;
        while let Some(adu) = stream.recv().await.unwrap() {
            assert_eq!(adu.data[..4], next.to_be_bytes());
            next += 1;
        }
        next
    };
    let (sent, received) = tokio::join!(sending, receiving);
    assert_eq!(sent, received);
}

#[tokio::test]
async fn a_stream_moves_with_its_host_from_address_to_address() {
    within(async {
        let (a, _b, outgoing, incoming) = connected().await;
        let (over, is_over) = watch::channel(false);
        let moving = async {
            for next in [&["127.0.0.1:0"][..], &["127.0.0.2:0", "127.0.0.3:0"]] {
                let former = a.addresses()[0];
                // For port 0, the socket on the same address would stay.
                let next: Vec<SocketAddr> = next.iter().map(|text| unused(text)).collect();
                rebind(&a, fixed(&next)).await;
                assert_eq!(a.addresses(), next);
                closed(&a, former).await;
                assert_eq!(a.sockets().len(), next.len());
            }
            over.send(true).unwrap();
        };
        tokio::join!(flow(&outgoing, &incoming, is_over), moving);
        assert!(outgoing.close_reason().is_none());
        assert!(incoming.close_reason().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_peer_is_notified_of_a_channel_that_is_left() {
    within(async {
        let (a, _b, _outgoing, incoming) = connected().await;
        rebind(&a, fixed(&[at("127.0.0.2:0")])).await;
        let reason = loop {
            if let SessionEvent::ChannelClosed { reason, .. } = incoming.next_event().await.unwrap()
            {
                break reason;
            }
        };
        assert!(matches!(reason, CloseReason::Peer { .. }), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_address_keeps_its_socket_and_its_channels() {
    within(async {
        let (a, _b, outgoing, _incoming) = connected().await;
        let before = a.sockets()[0].clone();
        let channel = outgoing.channels()[0].channel;
        let further = at("127.0.0.2:0");
        rebind(&a, fixed(&[further, before.local])).await;
        assert_eq!(a.sockets()[0].id, before.id);
        rebind(&a, fixed(&[before.local])).await;
        let further = a.sockets()[1].local;
        closed(&a, further).await;
        assert_eq!(a.addresses(), [before.local]);
        assert_eq!(outgoing.channels()[0].channel, channel);
    })
    .await;
}

#[tokio::test]
async fn a_session_that_a_peer_opened_stays_on_the_former_address_until_it_ends() {
    within(async {
        let (a, b, outgoing, incoming) = connected().await;
        let former = b.addresses()[0];
        rebind(&b, fixed(&[at("127.0.0.2:0")])).await;
        assert!(!b.addresses().contains(&former));
        let (over, is_over) = watch::channel(false);
        let other = async {
            // The new address takes calls, the former one does not.
            let (called, accepted) =
                tokio::join!(a.connect(b.node_id(), b.addresses()), b.accept());
            drop((called.unwrap(), accepted));
            let call = a.connect(b.node_id(), vec![former]);
            let answer = tokio::time::timeout(Duration::from_millis(1500), call);
            assert!(answer.await.is_err(), "a retired address took a call");
            over.send(true).unwrap();
        };
        tokio::join!(flow(&outgoing, &incoming, is_over), other);
        assert!(b.sockets().iter().any(|socket| socket.is_retired));
        outgoing.close(0, "done");
        closed(&b, former).await;
    })
    .await;
}

#[tokio::test]
async fn a_former_address_is_used_again_when_it_is_asked_for_again() {
    within(async {
        let (_a, b, outgoing, incoming) = connected().await;
        let former = b.sockets()[0].clone();
        rebind(&b, fixed(&[at("127.0.0.2:0")])).await;
        let between = b.addresses()[0];
        rebind(&b, fixed(&[former.local])).await;
        assert_eq!(b.addresses(), [former.local]);
        assert_eq!(b.sockets()[0].id, former.id);
        closed(&b, between).await;
        assert!(outgoing.close_reason().is_none());
        assert!(incoming.close_reason().is_none());
    })
    .await;
}

#[tokio::test]
async fn addresses_that_cannot_be_bound_change_nothing_and_leave_nothing_open() {
    within(async {
        let (a, _b, outgoing, incoming) = connected().await;
        let before = a.addresses();
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
        let free = unused("127.0.0.2:0");
        let refused = a.prepare_locals(fixed(&[free, taken.1])).await.unwrap_err();
        assert!(matches!(refused, StartError::Bind(_)), "{refused}");
        assert!(is_free(free));
        let wide = SocketAddr::new([0, 0, 0, 0].into(), before[0].port());
        let refused = a.prepare_locals(fixed(&[wide])).await.unwrap_err();
        assert!(matches!(refused, StartError::Overlap { .. }), "{refused}");
        let refused = a.prepare_locals(fixed(&[])).await.unwrap_err();
        assert!(matches!(refused, StartError::NoAddress), "{refused}");
        // What was prepared and is not wanted after all.
        let prepared = a.prepare_locals(fixed(&[free])).await.unwrap();
        assert!(!is_free(free));
        drop(prepared);
        assert!(is_free(free));
        assert_eq!(a.addresses(), before);
        assert_eq!(a.sockets().len(), 1);
        let (over, is_over) = watch::channel(false);
        over.send(true).unwrap();
        flow(&outgoing, &incoming, is_over).await;
    })
    .await;
}

#[tokio::test]
async fn a_place_with_a_tariff_keeps_an_address() {
    within(async {
        let place: Place = "127.0.0.1".parse().unwrap();
        let mut config = config(1, 2);
        config.tariffs = vec![Tariff::new(place, "0.01/MB".parse().unwrap())];
        let host = Host::start(config).unwrap();
        let refused = host.prepare_locals(fixed(&[at("127.0.0.2:0")])).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StartError::Place(_)), "{refused}");
        let another = unused("127.0.0.1:0");
        rebind(&host, fixed(&[another])).await;
        assert_eq!(host.addresses(), [another]);
        assert!(host.budgets()[0].locals.contains(&another));
    })
    .await;
}

#[tokio::test]
async fn interfaces_are_followed_and_no_longer() {
    within(async {
        let host = Host::start(config(1, 2)).unwrap();
        let former = host.addresses()[0];
        let none = Locals::Interfaces {
            port: 0,
            only: vec!["no-such-interface".to_owned()],
        };
        rebind(&host, none).await;
        assert!(matches!(host.locals(), Locals::Interfaces { .. }));
        closed(&host, former).await;
        assert!(host.sockets().is_empty());
        rebind(&host, fixed(&[former])).await;
        assert_eq!(host.addresses(), [former]);
    })
    .await;
}

#[tokio::test]
async fn addresses_are_free_once_a_host_has_shut_down() {
    let address = unused("127.0.0.1:0");
    within(async {
        for _ in 0..200 {
            let host = Host::start(config(1, 2).bind([address])).unwrap();
            host.shutdown().await;
            assert!(UdpSocket::bind(address).is_ok());
        }
    })
    .await;
}

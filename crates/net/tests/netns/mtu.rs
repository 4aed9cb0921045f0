//! A path whose middle carries 1280-byte packets only (the least that IPv6 demands, RFC 8200 §5).

use std::{sync::mpsc, time::Duration};

use anabranch_net::session::StreamSpec;

use crate::{
    namespace::{Namespace, namespaces},
    node::{key, start},
};

const PATH_MTU_BYTES: usize = 1280;
const IP_UDP_BYTES: usize = 28;
const ADUS: usize = 60;

/// Sends 6 MB from `a` to `b`. Returns the largest UDP payload of a full packet.
fn transfer(a: &Namespace, b: &Namespace) -> usize {
    let (report, reported) = mpsc::channel();
    let (all_read, read) = tokio::sync::oneshot::channel();
    let receiver = start(b, (2, 1), move |host| {
        Box::pin(async move {
            report.send(host.addresses()).unwrap();
            let session = host.accept().await.unwrap();
            let stream = session.accept_stream().await.unwrap();
            let mut count = 0;
            while let Some(adu) = stream.recv().await.unwrap() {
                assert_eq!(adu.data[..], vec![count; 100_000][..]);
                count += 1;
            }
            all_read.send(()).unwrap();
            session.closed().await;
            usize::from(count)
        })
    });
    let addresses = reported.recv_timeout(Duration::from_secs(20)).unwrap();
    let sender = start(a, (1, 2), move |host| {
        Box::pin(async move {
            let session = host.connect(key(2).node_id(), &addresses).await.unwrap();
            let stream = session.open_stream(StreamSpec::bulk("bulk")).unwrap();
            for n in 0..ADUS {
                stream.send(vec![n as u8; 100_000].into()).await.unwrap();
            }
            stream.finish().unwrap();
            let mut most = 0;
            let watching = async {
                loop {
                    for channel in session.channels() {
                        most = most.max(channel.stats.mtu_bytes);
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                delivered = stream.delivered() => delivered.unwrap(),
                () = watching => unreachable!("watching goes on until it is dropped"),
            }
            // Data that is delivered but not read is lost with the session.
            read.await.unwrap();
            host.shutdown().await;
            most
        })
    });
    let mtu = sender.join().unwrap();
    assert_eq!(receiver.join().unwrap(), ADUS);
    mtu
}

fn check(mtu: usize) {
    let most = PATH_MTU_BYTES - IP_UDP_BYTES;
    assert!((1200..=most).contains(&mtu), "{mtu} of at most {most}");
}

#[test]
fn a_narrow_interface() {
    let Some([a, b]) = namespaces() else { return };
    a.join(("eth1", "10.92.1.1/24"), &b, ("eth1", "10.92.1.2/24"));
    a.ip("link set eth1 mtu 1280");
    b.ip("link set eth1 mtu 1280");
    check(transfer(&a, &b));
}

/// The ends have an MTU of 1500 bytes; packets that exceed that of the middle are lost there. (The router
/// reports it by ICMP, which QUIC's sockets ignore.)
#[test]
fn a_narrow_middle() {
    let Some([a, router, b]) = namespaces() else {
        return;
    };
    a.join(("eth1", "10.92.1.1/24"), &router, ("eth1", "10.92.1.9/24"));
    router.join(("eth2", "10.92.2.9/24"), &b, ("eth2", "10.92.2.2/24"));
    router.ip("link set eth2 mtu 1280");
    a.ip("route add 10.92.2.0/24 via 10.92.1.9");
    b.ip("route add 10.92.1.0/24 via 10.92.2.9");
    router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    check(transfer(&a, &b));
}

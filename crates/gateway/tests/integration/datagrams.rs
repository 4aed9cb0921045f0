//! UDP: flows by client, large datagrams, refusals.

use std::{collections::BTreeMap, net::SocketAddr};

use anabranch_gateway::Code;
use tokio::net::UdpSocket;

use crate::harness::{FAR, NEAR, Node, Pair, answered, bytes, forwards, id, rights, within};

/// A server that sends each datagram back, with the address that it came from in front.
async fn mirror() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let back = [&from.port().to_be_bytes()[..], &buffer[..count]].concat();
            let _ = socket.send_to(&back[..back.len().min(65_507)], from).await;
        }
    });
    address
}

async fn pair_to(target: SocketAddr) -> Pair {
    let may = format!("{{ right = \"forward\", to = [\"udp:{target}\"] }}");
    Pair::start(
        &may,
        &[("127.0.0.1:0", &target.to_string(), "protocol = \"udp\"")],
    )
    .await
}

async fn client(pair: &Pair) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(pair.near.listening()[0]).await.unwrap();
    socket
}

/// The port at the far side, and the datagram, that come back for a datagram.
async fn exchanged(socket: &UdpSocket, datagram: &[u8]) -> (u16, Vec<u8>) {
    let answer = answered(socket, datagram).await;
    let (port, back) = answer.split_first_chunk().unwrap();
    (u16::from_be_bytes(*port), back.to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_go_to_the_client_that_asked() {
    within(async {
        let pair = pair_to(mirror().await).await;
        let mut ports = BTreeMap::new();
        let mut clients = Vec::new();
        for number in 0..20_u8 {
            let socket = client(&pair).await;
            let (port, back) = exchanged(&socket, &[number; 3]).await;
            assert_eq!(back, [number; 3]);
            assert_eq!(
                ports.insert(port, number),
                None,
                "each has a flow of its own"
            );
            clients.push((socket, port));
        }
        // The flow stays the client's.
        for (number, (socket, port)) in clients.iter().enumerate() {
            let (again, back) = exchanged(socket, &[number as u8, 0xff]).await;
            assert_eq!((again, back), (*port, vec![number as u8, 0xff]));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_of_every_size_arrive_whole() {
    within(async {
        let pair = pair_to(mirror().await).await;
        let socket = client(&pair).await;
        for count in [0, 1, 1_472, 9_000, 65_505] {
            let datagram = bytes(count as u64, count);
            let (_, back) = exchanged(&socket, &datagram).await;
            assert!(back == datagram, "{count} bytes, {} back", back.len());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_is_not_allowed_is_a_notice() {
    within(async {
        let target = mirror().await;
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let forward = ("127.0.0.1:0", &*target.to_string(), "protocol = \"udp\"");
        let pair = Pair::start(&may, &[forward]).await;
        let socket = client(&pair).await;
        socket.send(b"x").await.unwrap();
        assert_eq!(pair.near.refusal().await.code, Code::NotAllowed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_is_idle_ends_at_both_sides_and_the_next_datagram_begins_another() {
    within(async {
        let target = mirror().await;
        let folder = tempfile::tempdir().unwrap();
        let short = "[gateway]\nflow_timeout = \"1 s\"\n";
        let may = format!("{{ right = \"forward\", to = [\"udp:{target}\"] }}");
        let far = format!("{}{short}", rights(&may));
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &far).await;
        let target = target.to_string();
        let forward = ("127.0.0.1:0", &*target, "protocol = \"udp\"");
        let near = format!("{}{short}", forwards(far.address(), &[forward]));
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &near).await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(near.listening()[0]).await.unwrap();
        let (first, _) = exchanged(&socket, b"one").await;
        // Both ends of it are gone after the time that was set, not after a minute.
        let begun = std::time::Instant::now();
        while near.gateway.connections().count() > 0 || far.gateway.server().count(&id(NEAR)) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(50));
        let (second, back) = exchanged(&socket, b"two").await;
        assert_eq!(back, b"two");
        assert_ne!(first, second, "a new socket at the far side");
    })
    .await;
}

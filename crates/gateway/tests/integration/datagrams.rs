//! UDP: flows by client, large datagrams, refusals.

use std::{collections::BTreeMap, net::SocketAddr};

use anabranch_gateway::Code;
use tokio::net::UdpSocket;

use crate::harness::{Pair, answered, bytes, within};

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

//! Reverse forwards: connections accepted by the peer.

use std::sync::{Arc, Mutex};

use anabranch::{AllowList, Host, HostConfig, SecretKey, Session};
use anabranch_gateway::{Code, Connections, Endpoint, Mapping, Notice, Notices, Reverse, Service};
use tokio::net::{TcpStream, UdpSocket};

use crate::{
    harness::{FAR, NEAR, Node, answered, echo, echoed, forwards, id, rights, within},
    reload::sends,
};

/// A host of its own, as that of a command.
async fn session(far: &Node) -> (Host, Session) {
    let key = SecretKey::from_seed([NEAR; 32]);
    let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let host = Host::start(HostConfig::new(key, AllowList::default()).bind([loopback])).unwrap();
    let session = host.connect(id(FAR), &[far.address()]).await.unwrap();
    (host, session)
}

struct Asking {
    reverse: Reverse,
    notices: Arc<Mutex<Vec<Notice>>>,
}

fn ask(mappings: &[String]) -> Asking {
    let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let seen = notices.clone();
    let show = Notices::new(move |notice| seen.lock().unwrap().push(notice.clone()));
    let mappings = mappings.iter().map(|text| {
        let mapping: Mapping = text.parse().unwrap();
        let service = Service::of(&mapping.to);
        (mapping, service)
    });
    let reverse = Reverse::new(mappings.collect(), Connections::new(show));
    Asking { reverse, notices }
}

impl Asking {
    /// Waits for the endpoints at the peer.
    async fn endpoints(&self, count: usize) -> Vec<Endpoint> {
        loop {
            let notices = self.notices.lock().unwrap().clone();
            let all: Vec<Endpoint> = notices
                .iter()
                .filter_map(|notice| match notice {
                    Notice::Listening {
                        at,
                        is_remote: true,
                        ..
                    } => Some(at.clone()),
                    _ => None,
                })
                .collect();
            if all.len() == count {
                return all;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn address(endpoint: &Endpoint) -> String {
    endpoint.to_string().trim_start_matches("udp:").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_at_the_peer_are_made_here() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let may = "{ right = \"forward\", listen = [\"127.0.0.1:*\", \"udp:127.0.0.1:*\"] }";
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &rights(may)).await;
        let (_host, session) = session(&far).await;
        let answering = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let asking = ask(&[
            format!("0:{}", echo().await),
            format!("udp:0:{}", answering.local_addr().unwrap()),
        ]);
        let test = async {
            let at = asking.endpoints(2).await;
            let stream = TcpStream::connect(address(&at[0])).await.unwrap();
            assert_eq!(echoed(stream, b"hello").await, b"hello");
            // A datagram there, and its answer.
            let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            client.connect(address(&at[1])).await.unwrap();
            let server = async {
                let mut buffer = [0; 16];
                loop {
                    let (count, from) = answering.recv_from(&mut buffer).await.unwrap();
                    assert_eq!(&buffer[..count], b"ping");
                    answering.send_to(b"pong", from).await.unwrap();
                }
            };
            tokio::select! {
                () = server => {}
                answer = answered(&client, b"ping") => assert_eq!(answer, b"pong"),
            }
            address(&at[0])
        };
        let at = tokio::select! {
            result = asking.reverse.serve(&session) => panic!("{result:?}"),
            at = test => at,
        };
        // The control streams are gone, and so are the listeners.
        while TcpStream::connect(&at).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_allowed_one_by_one_and_end_with_the_right() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let may = "{ right = \"forward\", listen = [\"127.0.0.1:*\"] }";
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &rights(may)).await;
        let (_host, session) = session(&far).await;
        for other in ["0.0.0.0:0", "[::1]:0", "unix:/tmp/never.sock"] {
            let asking = ask(&[format!("{other}:127.0.0.1:9")]);
            let refusal = asking.reverse.serve(&session).await.unwrap_err();
            assert_eq!(refusal.code, Code::NotAllowed, "{other}");
        }
        // A port that is taken.
        let taken = echo().await;
        let asking = ask(&[format!("{}:127.0.0.1:9", taken.port())]);
        let refusal = asking.reverse.serve(&session).await.unwrap_err();
        assert_eq!(refusal.code, Code::AddressTaken, "{refusal}");

        let asking = ask(&["0:127.0.0.1:9".to_owned()]);
        let withdrawing = async {
            asking.endpoints(1).await;
            let other = "{ right = \"forward\", listen = [\"127.0.0.1:1\"] }";
            far.reload(&rights(other)).await.unwrap();
            std::future::pending::<()>().await;
        };
        let refusal = tokio::select! {
            result = asking.reverse.serve(&session) => result.unwrap_err(),
            () = withdrawing => unreachable!(),
        };
        assert_eq!(refusal.code, Code::NotAllowed);
    })
    .await;
}

/// Addresses at which the peer listens for the reverse forwards of a node, in the order of the notices.
async fn listening_there(near: &Node, count: usize) -> Vec<Endpoint> {
    let mut all = Vec::new();
    while all.len() < count {
        let is_remote = |notice: &Notice| {
            matches!(
                notice,
                Notice::Listening {
                    is_remote: true,
                    ..
                }
            )
        };
        if let Notice::Listening { at, .. } = near.notice(is_remote).await {
            all.push(at);
        }
    }
    all
}

async fn first_byte(at: &Endpoint) -> Option<u8> {
    use tokio::io::AsyncReadExt;
    let mut stream = TcpStream::connect(address(at)).await.ok()?;
    stream.read_u8().await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reverse_forwards_of_a_node_follow_its_configuration_and_the_return_of_the_peer() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let may =
            rights("{ right = \"forward\", listen = [\"127.0.0.1:*\", \"udp:127.0.0.1:*\"] }");
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &may).await;
        let (one, other) = (sends(1).await, sends(2).await);
        let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let base = forwards(far.address(), &[]);
        let remote = |at: &str, to: &str, more: &str| {
            format!("[[forward]]\nremote = \"{at}\"\npeer = \"far\"\nto = \"{to}\"\n{more}\n")
        };
        let udp = datagrams.local_addr().unwrap().to_string();
        let text = format!(
            "{base}{}{}",
            remote("127.0.0.1:0", &one, ""),
            remote("127.0.0.1:0", &udp, "protocol = \"udp\"").replace("127.0.0.1:0", "0.0.0.0:0"),
        );
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &text).await;
        // The second one is not within the peer's right.
        let refused = near
            .notice(|notice| matches!(notice, Notice::NotListening { .. }))
            .await;
        let text = refused.to_string();
        assert!(
            text.contains("not allowed") && text.contains("udp:0.0.0.0:0"),
            "{text}"
        );
        let at = listening_there(&near, 1).await.remove(0);
        assert_eq!(first_byte(&at).await, Some(1));

        // Another target, on the same listener; a further listener, for datagrams.
        let text = format!(
            "{base}{}{}",
            remote("127.0.0.1:0", &other, ""),
            remote("127.0.0.2:0", &udp, "protocol = \"udp\"").replace("127.0.0.2", "127.0.0.1"),
        );
        near.reload(&text).await.unwrap();
        assert_eq!(first_byte(&at).await, Some(2));
        let there = listening_there(&near, 1).await.remove(0);
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(address(&there)).await.unwrap();
        let answering = async {
            let mut buffer = [0; 16];
            while let Ok((count, from)) = datagrams.recv_from(&mut buffer).await {
                datagrams.send_to(&buffer[..count], from).await.unwrap();
            }
        };
        tokio::select! {
            answer = answered(&client, b"there") => assert_eq!(answer, b"there"),
            () = answering => panic!("the socket has failed"),
        }

        // The peer is gone, and comes back: it is asked again.
        let listen = far.address().to_string();
        far.stop().await;
        let far = Node::start(folder.path(), FAR, &listen, &may).await;
        let again = listening_there(&near, 2).await;
        let tcp = again.iter().find(|at| !at.is_udp()).unwrap();
        assert_eq!(first_byte(tcp).await, Some(2));

        // Removed, it ends.
        near.reload(&base).await.unwrap();
        while TcpStream::connect(address(tcp)).await.is_ok() {
            tokio::task::yield_now().await;
        }
        drop(far);
    })
    .await;
}

/// Connections that were not asked for are not made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_cannot_have_connections_made_that_were_not_asked_for() {
    use anabranch_gateway::wire::{Action, Message};
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let far = Node::start(
            folder.path(),
            FAR,
            "127.0.0.1:0",
            &rights("{ right = \"forward\", to = [\"127.0.0.1:1\"] }"),
        )
        .await;
        let (_host, session) = session(&far).await;
        let stream = session
            .open_stream(Service::bytes().spec().clone())
            .unwrap();
        let arrived = Action::Arrived {
            listener: 0,
            is_udp: false,
        };
        stream
            .send(Message::request(arrived).encode())
            .await
            .unwrap();
        let answer = stream.recv().await.unwrap().unwrap();
        match Message::decode(answer.data) {
            Ok(Message::Answer(Err(refusal))) => assert_eq!(refusal.code, Code::NotAllowed),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

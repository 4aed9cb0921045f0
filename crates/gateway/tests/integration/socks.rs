//! SOCKS5: connections, replies, logins, datagrams.

use std::{net::SocketAddr, sync::Arc};

use anabranch_gateway::{
    Chooser, Connections, Endpoint, Host, Notices,
    socks::{Login, Settings, Socks, StartError},
    uplink::{NodeUplink, OnlyExit},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::harness::{FAR, Pair, answered, echo, echoed, id, within};

struct Proxy {
    pair: Pair,
    at: SocketAddr,
    _connections: Connections,
}

async fn proxy(may: &str, login: Option<Login>) -> Proxy {
    let pair = Pair::start(may, &[]).await;
    let connections = Connections::new(Notices::new(|_| ()));
    let uplink = Arc::new(NodeUplink::new(pair.near.daemon.handle(), id(FAR)));
    let at: Endpoint = "127.0.0.1:0".parse().unwrap();
    let chooser = Chooser::new(None, Arc::new(OnlyExit(uplink)));
    let settings = Settings { login, chooser };
    let socks = Socks::open(&at, settings, connections.clone()).unwrap();
    let Endpoint::Port {
        host: Host::Ip(ip),
        port,
        ..
    } = socks.local().clone()
    else {
        panic!("an address");
    };
    tokio::spawn(socks.run());
    Proxy {
        pair,
        at: (ip, port).into(),
        _connections: connections,
    }
}

/// A connection through the proxy, or the code of its reply.
pub(crate) async fn through(at: SocketAddr, target: &[u8], port: u16) -> Result<TcpStream, u8> {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.unwrap();
    assert_eq!(chosen, [5, 0]);
    let request = [&[5, 1, 0][..], target, &port.to_be_bytes()].concat();
    stream.write_all(&request).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    match reply[1] {
        0 => Ok(stream),
        code => {
            // The refusal is an orderly end, so that clients read the reply.
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
            Err(code)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_are_named_by_the_client_and_refusals_are_replies() {
    within(async {
        let target = echo().await;
        let may = format!(
            "{{ right = \"forward\", to = [\"127.0.0.1:{}\", \"10.0.0.0/8:*\", \"127.0.0.1:1\"] }}",
            target.port()
        );
        let proxy = proxy(&may, None).await;
        let localhost = b"\x03\x09localhost";
        for address in [&[1, 127, 0, 0, 1][..], localhost] {
            let stream = through(proxy.at, address, target.port()).await.unwrap();
            assert_eq!(echoed(stream, b"hello").await, b"hello");
        }
        let refused = |address: &'static [u8], port| through(proxy.at, address, port);
        assert_eq!(refused(&[1, 192, 0, 2, 1], 80).await.unwrap_err(), 2);
        assert_eq!(refused(&[1, 127, 0, 0, 1], 1).await.unwrap_err(), 5);
        assert_eq!(refused(b"\x03\x0cname.invalid", 80).await.unwrap_err(), 4);
        drop(proxy.pair);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_other_machines_needs_a_login_and_checks_it() {
    within(async {
        let target = echo().await;
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let proxy = proxy(&may, Some(Login::new("ada", "secret").unwrap())).await;
        let uplink = Arc::new(NodeUplink::new(proxy.pair.near.daemon.handle(), id(FAR)));
        let connections = Connections::new(Notices::new(|_| ()));
        let open: Endpoint = "0.0.0.0:0".parse().unwrap();
        let settings = Settings {
            login: None,
            chooser: Chooser::new(None, Arc::new(OnlyExit(uplink))),
        };
        let exposed = Socks::open(&open, settings, connections);
        assert!(
            matches!(exposed, Err(StartError::Exposed(_))),
            "{exposed:?}"
        );

        // Without a login: no method.
        let mut stream = TcpStream::connect(proxy.at).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [5, 0xff]);
        for (password, expected) in [("secret", 0), ("wrong", 1)] {
            let mut stream = TcpStream::connect(proxy.at).await.unwrap();
            stream.write_all(&[5, 2, 0, 2]).await.unwrap();
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, [5, 2]);
            let length = u8::try_from(password.len()).unwrap();
            let login = [&b"\x01\x03ada"[..], &[length], password.as_bytes()].concat();
            stream.write_all(&login).await.unwrap();
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, [1, expected]);
            if expected == 1 {
                assert!(stream.read(&mut [0; 8]).await.unwrap_or(0) == 0);
                continue;
            }
            let port = target.port().to_be_bytes();
            let request = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &port].concat();
            stream.write_all(&request).await.unwrap();
            let mut reply = [0; 10];
            stream.read_exact(&mut reply).await.unwrap();
            assert_eq!(reply[1], 0);
            assert_eq!(echoed(stream, b"hello").await, b"hello");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_are_carried_while_the_connection_is_open() {
    within(async {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        let may = format!("{{ right = \"forward\", to = [\"udp:{target}\"] }}");
        let proxy = proxy(&may, None).await;
        let mut control = TcpStream::connect(proxy.at).await.unwrap();
        control
            .write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        let mut answer = [0; 12];
        control.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[..8], [5, 0, 5, 0, 0, 1, 127, 0]);
        let relay =
            SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let head = [
            &[0, 0, 0, 1, 127, 0, 0, 1][..],
            &target.port().to_be_bytes(),
        ]
        .concat();
        client.connect(relay).await.unwrap();
        let serving = async {
            let mut buffer = [0; 64];
            loop {
                let (count, from) = server.recv_from(&mut buffer).await.unwrap();
                assert_eq!(&buffer[..count], b"ping");
                server.send_to(b"pong", from).await.unwrap();
            }
        };
        let question = [&head, &b"ping"[..]].concat();
        tokio::select! {
            () = serving => {}
            answer = answered(&client, &question) => {
                assert_eq!(answer, [&head, &b"pong"[..]].concat());
            }
        }
        // The relay ends with the connection.
        drop(control);
        while UdpSocket::bind(relay).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_are_turned_away() {
    within(async {
        let proxy = proxy("", None).await;
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[4, 1, 0, 80, 1, 2, 3, 4, 0]] {
            let mut stream = TcpStream::connect(proxy.at).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            assert!(stream.read(&mut [0; 8]).await.unwrap_or(0) == 0);
        }
        // BIND is not supported.
        let mut stream = TcpStream::connect(proxy.at).await.unwrap();
        stream
            .write_all(&[5, 1, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[3], 7);
    })
    .await;
}

/// A server that answers every request with `body`.
async fn http(body: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = Arc::new(body);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&body).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read(&mut [0; 8]).await;
            });
        }
    });
    address
}

/// The recipe of `docs/gateway.md`, with a real program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_downloads_through_a_forward_and_through_socks() {
    let is_there = tokio::process::Command::new("curl")
        .arg("--version")
        .output()
        .await;
    if is_there.is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    within(async {
        let body = crate::harness::bytes(5, 3_000_000);
        let target = http(body.clone()).await;
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let curl = async |arguments: &[&str]| {
            let mut command = tokio::process::Command::new("curl");
            command.args(["--silent", "--show-error", "--fail", "--noproxy", ""]);
            let output = command
                .args(arguments)
                .kill_on_drop(true)
                .output()
                .await
                .unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words}");
            output.stdout
        };
        let pair = Pair::to(target).await;
        let url = format!("http://{}/", pair.near.listening()[0]);
        assert!(curl(&[&url]).await == body);
        let proxy = proxy(&may, None).await;
        let (socks, url) = (
            format!("socks5h://{}", proxy.at),
            format!("http://localhost:{}/", target.port()),
        );
        assert!(curl(&["--proxy", &socks, &url]).await == body);
    })
    .await;
}

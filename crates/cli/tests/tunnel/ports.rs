//! Split TCP with programs that use a port again at once, or send data with their opening; and what follows a kill, or other addresses.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use socket2::{Domain, SockRef, Socket, Type};

use crate::{
    namespace::Namespace,
    programs::{peer, serve},
    stage::{CLIENT, HOST, Stage, TIMEOUT, until},
};

const SPLIT: [&str; 2] = ["--default-route", "--split-tcp"];
const ANY: [&str; 2] = ["--to", "any"];
/// Port at which the target listens, and that of the program.
const PORT: u16 = 7020;
const OWN_PORT: u16 = 40_000;
/// Connections in a row from one port.
const TIMES: u8 = 100;

/// Listens at the target; sends each connection its first byte back, and then ends it if it is odd, or waits for its end.
fn echo(stage: &Stage) {
    let any: std::net::Ipv6Addr = "::".parse().unwrap();
    let listener = stage.server.run(|| TcpListener::bind((any, PORT)).unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut byte = [0];
                let _ = stream.read_exact(&mut byte);
                let _ = stream.write_all(&byte);
                if byte[0].is_multiple_of(2) {
                    let _ = stream.read(&mut byte);
                }
            });
        }
    });
}

/// A connection from the port of the program.
fn connect_from_port(namespace: &Namespace, port: u16) -> std::io::Result<TcpStream> {
    namespace.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        let own: SocketAddr = ([10, 77, 0, 2], port).into();
        socket.bind(&own.into())?;
        let to: SocketAddr = format!("{HOST}:{PORT}").parse().unwrap();
        socket.connect_timeout(&to.into(), TIMEOUT)?;
        let stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    })
}

/// As [`connect_from_port`], as soon as the kernel lets the program have the port: a socket lasts until a program that another test
/// starts meanwhile has closed its copy of the file.
#[track_caller]
fn connect(stage: &Stage, port: u16) -> TcpStream {
    let mut made = None;
    until("the port is free", || {
        made = match connect_from_port(&stage.client, port) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::AddrNotAvailable, "{error}");
                None
            }
            made => made.ok(),
        };
        made.is_some()
    });
    made.unwrap()
}

/// Sends a byte, and reads it back.
#[track_caller]
fn exchange(stream: &mut TcpStream, byte: u8) {
    stream.write_all(&[byte]).unwrap();
    let mut back = [0];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, [byte]);
}

#[test]
fn a_port_is_used_again_at_once_after_a_reset() {
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    for number in 0..TIMES {
        let mut stream = connect(&stage, OWN_PORT);
        exchange(&mut stream, number);
        SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}

#[test]
fn a_port_is_used_again_at_once_after_an_end() {
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    // The program's kernel lets a port out of TIME-WAIT after a second.
    let reuse = "/proc/sys/net/ipv4/tcp_tw_reuse";
    stage.client.run(|| std::fs::write(reuse, "1").unwrap());
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    // The target ends first.
    for number in (1..TIMES).step_by(2) {
        let mut stream = connect(&stage, OWN_PORT);
        exchange(&mut stream, number);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    // The program does, and its port waits.
    for number in [2, 4, 6] {
        exchange(&mut connect(&stage, OWN_PORT + 1), number);
    }
}

/// TCP Fast Open without a cookie: the data may be lost with the opening, and arrives all the same, once.
#[test]
fn data_in_an_opening_arrives_once() {
    const FAST_OPEN: i32 = 0x2000_0000;
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    let settings = "/proc/sys/net/ipv4/tcp_fastopen";
    stage.client.run(|| std::fs::write(settings, "5").unwrap());
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    let open = |port: u16| {
        let to: SocketAddr = format!("{HOST}:{port}").parse().unwrap();
        stage.client.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            let sent = socket.send_to_with_flags(&[9, 9, 9], &to.into(), FAST_OPEN);
            (TcpStream::from(socket), sent)
        })
    };
    for _ in 0..10 {
        let (mut stream, sent) = open(PORT);
        // The target has read one byte of three, and resets the rest; on a busy machine before the connection is returned here.
        match sent {
            Ok(count) => assert_eq!(count, 3),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        assert!(matches!(back[..], [] | [9]), "{back:?}");
    }
    let (mut stream, sent) = open(9);
    let error = match sent {
        Ok(_) => stream.read(&mut [0]).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// A connection that is open, with whatever has been exchanged on it.
fn opened(stage: &Stage) -> TcpStream {
    let to: SocketAddr = format!("{HOST}:{PORT}").parse().unwrap();
    let connect = move || TcpStream::connect_timeout(&to, TIMEOUT).unwrap();
    let mut stream = stage.client.run(connect);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    exchange(&mut stream, 2);
    stream
}

/// The session lasts, and so would the streams: it is the ends of the connections that are gone.
#[test]
fn connections_end_when_a_server_renumbers_at_once() {
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    serve(&stage.server);
    let id = stage.id("client.key");
    let configure = |pools: &str| {
        let config = format!(
            "listen = [\"10.95.0.2:4433\", \"10.95.1.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
             [[peer]]\nname = \"client\"\nnode = \"{id}\"\nmay = [\"call\", \"tunnel\"]\n\
             [tunnel.server]\npools = [{pools}]\ndestinations = [\"any\"]\n"
        );
        std::fs::write(stage.path("node.toml"), config).unwrap();
    };
    let (server, ticket) = stage.serve(&ANY);
    drop(server);
    configure("\"10.77.0.0/24\", \"fd77:616e::/64\"");
    let _node = stage.node("node.toml");
    let mut client = stage.join(&ticket, &SPLIT);
    let mut streams: Vec<TcpStream> = (0..20).map(|_| opened(&stage)).collect();
    configure("\"10.78.0.0/24\", \"fd77:616e::/64\"");
    crate::destinations::reload(&stage).unwrap();
    let up = client.wait("up", 2);
    assert_eq!(up["v4"], "10.78.0.2");
    for stream in &mut streams {
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    drop(opened(&stage));
    assert_eq!(peer(&stage.client, HOST), HOST, "made by the server");
    assert!(client.events("warning").is_empty());
}

/// As after an update of the server: it is another process, with other networks.
#[test]
fn connections_end_with_a_server_that_comes_back_with_other_addresses() {
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    let (server, ticket) = stage.serve(&ANY);
    let mut client = stage.join(&ticket, &SPLIT);
    let mut stream = opened(&stage);
    server.process.signal("KILL");
    server.process.ended();
    let (_server, _) = stage.serve(&[&ANY[..], &["--pool", "10.78.0.0/24"]].concat());
    assert_eq!(client.wait("up", 2)["v4"], "10.78.0.2");
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    drop(opened(&stage));
}

/// A killed client takes its knowledge of connections with it: they are reset by their targets when the program next sends.
#[test]
fn connections_of_a_killed_client_are_reset_and_new_ones_work() {
    let Some(stage) = Stage::new() else { return };
    echo(&stage);
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &SPLIT);
    let mut stream = opened(&stage);
    client.process.signal("KILL");
    client.process.ended();
    let client = stage.join(&ticket, &SPLIT);
    assert_eq!(client.events("up")[0]["v4"], CLIENT);
    // Written before the kernel knows: the error is that of the next call.
    until("the connection is reset", || {
        let written = stream.write_all(b"x").and_then(|()| stream.read(&mut [0]));
        written.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    });
    drop(opened(&stage));
    assert_eq!(peer(&stage.client, HOST), HOST);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
}

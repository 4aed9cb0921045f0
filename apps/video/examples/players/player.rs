//! A player that records the arrival of data, and decodes no picture.
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use super::Outcome;

/// Pictures per second of the films that are made here.
const PICTURES_PER_S: f64 = 25.0;
/// Size of one read.
const PORTION_BYTES: usize = 32 << 10;

/// Task of a player.
pub(crate) struct Watching {
    pub(crate) http: SocketAddr,
    pub(crate) name: String,
    pub(crate) begin: Instant,
    pub(crate) lasts: Duration,
    /// Lead of reading over what it shows.
    pub(crate) ahead: Duration,
    /// Start of each chunk of the film, and the end.
    pub(crate) chunks: Vec<Duration>,
}

/// Results of a player.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) first_byte: Duration,
    /// Time until the first chunk was there, and playback began.
    pub(crate) begun: Duration,
    pub(crate) frames: u64,
    pub(crate) late_frames: u64,
    /// Late chunks by number, with their delays.
    pub(crate) late: Vec<(usize, Duration)>,
    pub(crate) bytes: u64,
}

/// Sends one request. Returns the head of the response, the part of its body that was read with it, and the connection.
async fn ask(http: SocketAddr, path: &str, agent: &str) -> Outcome<(String, Vec<u8>, TcpStream)> {
    let mut connection = TcpStream::connect(http).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut all = Vec::new();
    loop {
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = all.split_off(end + 4);
            let head = String::from_utf8(all)?;
            let status = head.split(' ').nth(1).unwrap_or_default();
            if status != "200" {
                return Err(format!("{path}: HTTP {status}").into());
            }
            return Ok((head, body, connection));
        }
        if connection.read_buf(&mut all).await? == 0 {
            return Err(format!("{path}: no answer").into());
        }
    }
}

async fn text(http: SocketAddr, path: &str) -> Outcome<String> {
    let (_, mut body, mut connection) = ask(http, path, "preparing").await?;
    connection.read_to_end(&mut body).await?;
    Ok(String::from_utf8(body)?)
}

pub(crate) async fn json(http: SocketAddr, path: &str) -> Outcome<Value> {
    Ok(serde_json::from_str(&text(http, path).await?)?)
}

/// Start of each chunk of a film, and the end, from its playlist.
pub(crate) async fn chunks(http: SocketAddr, name: &str) -> Outcome<Vec<Duration>> {
    let list = text(http, &format!("/v/{name}/0/index.m3u8")).await?;
    let mut at = 0.0;
    let mut starts = vec![Duration::ZERO];
    for line in list.lines() {
        if let Some(length) = line.strip_prefix("#EXTINF:") {
            at += length.trim_end_matches(',').parse::<f64>()?;
            starts.push(Duration::from_secs_f64(at));
        }
    }
    Ok(starts)
}

impl Watching {
    pub(crate) async fn watch(self) -> Outcome<Seen> {
        tokio::time::sleep_until(self.begin).await;
        let asked = Instant::now();
        let path = format!("/v/{}.mp4", self.name);
        let (_, first, mut connection) = ask(self.http, &path, &self.name).await?;
        let mut seen = Seen {
            first_byte: asked.elapsed(),
            ..Seen::default()
        };
        let mut boxes = Boxes::default();
        let mut portion = first;
        let mut begun: Option<Instant> = None;
        let mut next = 0;
        loop {
            seen.bytes += portion.len() as u64;
            for _ in 0..boxes.take(&portion) {
                let now = Instant::now();
                let play = *begun.get_or_insert_with(|| {
                    seen.begun = asked.elapsed();
                    now
                });
                let Some(&[from, to]) = self
                    .chunks
                    .get(next..next + 2)
                    .map(|two| <&[Duration; 2]>::try_from(two).expect("two of them"))
                else {
                    return Err("more chunks than the playlist has".into());
                };
                next += 1;
                let frames = ((to - from).as_secs_f64() * PICTURES_PER_S).round();
                seen.frames += frames as u64;
                let late = now.saturating_duration_since(play + from);
                if !late.is_zero() && next > 1 {
                    seen.late.push((next - 1, late));
                    let missed = (late.as_secs_f64() * PICTURES_PER_S).ceil().min(frames);
                    seen.late_frames += missed as u64;
                }
            }
            if let Some(play) = begun {
                let there = self.chunks[next];
                if there >= self.lasts {
                    return Ok(seen);
                }
                // The buffer is full: reads on when some of it was shown.
                tokio::time::sleep_until(play + there.saturating_sub(self.ahead)).await;
            }
            portion.resize(PORTION_BYTES, 0);
            let count = connection.read(&mut portion).await?;
            portion.truncate(count);
            if count == 0 {
                return Err("the film ends too early".into());
            }
        }
    }
}

/// Parser of the boxes of a fragmented MP4 file.
#[derive(Default)]
struct Boxes {
    header: Vec<u8>,
    /// Data left of the box.
    left: u64,
    is_data: bool,
}

impl Boxes {
    /// Takes further bytes of the file. Returns the number of fragments that ended in them.
    fn take(&mut self, mut bytes: &[u8]) -> usize {
        let mut ended = 0;
        loop {
            let skipped = self.left.min(bytes.len() as u64);
            bytes = &bytes[skipped as usize..];
            self.left -= skipped;
            if self.left == 0 && self.is_data {
                ended += 1;
                self.is_data = false;
            }
            let Some((&first, rest)) = bytes.split_first() else {
                return ended;
            };
            bytes = rest;
            self.header.push(first);
            if self.header.len() == 8 {
                let size: [u8; 4] = self.header[..4].try_into().expect("four bytes");
                self.left = u64::from(u32::from_be_bytes(size)).saturating_sub(8);
                self.is_data = &self.header[4..] == b"mdat";
                self.header.clear();
            }
        }
    }
}

//! A video as one file: its layout is known before any of it has arrived, so that players can request any part.

use std::{
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch::{
    base::text::{REASON_CHARS, printable},
    net::limited,
};
use anabranch_media::write::{Layout, Options, fragment};
use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;

use super::answer::Answer;
use crate::{proxy::cached_video::CachedVideo, wire::Refusal};

/// Size of the portions that are handed to the connection.
const PORTION_BYTES: usize = 64 << 10;

/// Responds with the requested part of the file.
pub(super) async fn respond(
    answer: &Answer,
    cached_video: Arc<CachedVideo>,
    viewer: u64,
) -> Result<Response<Body>, Refusal> {
    let total = cached_video.video.progressive.bytes();
    let Some(range) = answer.range(total) else {
        return Ok(answer.not_satisfiable(total));
    };
    let mut response = answer.begin("video/mp4", total, &range);
    if answer.is_head {
        return Ok(response);
    }
    let mut reader = Reader {
        cached_video,
        viewer,
        range,
    };
    // An error before the start is a refusal; later the response can only be cut off.
    let first = reader.next().await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut next: Result<_, Refusal> = Ok(first);
        loop {
            match next {
                Ok(Some(bytes)) => {
                    for start in (0..bytes.len()).step_by(PORTION_BYTES) {
                        let end = bytes.len().min(start + PORTION_BYTES);
                        if sender.send(Ok(bytes.slice(start..end))).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(None) => return,
                Err(refusal) => {
                    let video = printable(&reader.cached_video.video.name, REASON_CHARS);
                    let error = printable(&refusal.to_string(), REASON_CHARS);
                    limited!(info, %video, %error, "a response is cut off");
                    // The viewer may be gone.
                    let _ = sender.send(Err(refusal)).await;
                    return;
                }
            }
            next = tokio::select! {
                next = reader.next() => next,
                () = sender.closed() => return,
            };
        }
    });
    *response.body_mut() = Body::new(Portions(receiver));
    Ok(response)
}

/// Reader of a file that is assembled while it is read.
struct Reader {
    cached_video: Arc<CachedVideo>,
    viewer: u64,
    /// Data left to be read.
    range: Range<u64>,
}

impl Reader {
    /// The next bytes, up to the end of a fragment; `None` at the end of the range.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let video = self.cached_video.video.clone();
        let layout = &video.progressive;
        let (bytes, begins) = match layout.chunk_at(self.range.start) {
            None => (layout.head().clone(), 0),
            Some(chunk) => {
                let number = u32::try_from(chunk).unwrap_or(u32::MAX);
                let content = self.cached_video.content(number, self.viewer).await?;
                let tracks: Vec<usize> = (0..video.index.tracks.len()).collect();
                let options = Options {
                    layout: Layout::Stable,
                    ..Options::default()
                };
                let place = &video.chunks[chunk];
                let fragment = fragment(&video.index, &tracks, place, &*content, options);
                let stats = &self.cached_video.shared.stats;
                let begins = layout.place(chunk).start;
                if begins == self.range.start {
                    stats.frames.left_out(&fragment.left_out);
                }
                (fragment.bytes, begins)
            }
        };
        let from = self.range.start - begins;
        let to = (self.range.end - begins).min(bytes.len() as u64);
        let part = bytes.slice(from as usize..to as usize);
        self.range.start = begins + to;
        self.cached_video
            .shared
            .stats
            .response_bytes
            .add(part.len() as u64);
        Ok(Some(part))
    }
}

/// A body that comes in portions; the next is requested when the last has left.
struct Portions(mpsc::Receiver<Result<Bytes, Refusal>>);

impl HttpBody for Portions {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let polled = self.0.poll_recv(cx);
        polled.map(|portion| portion.map(|portion| portion.map(Frame::data)))
    }
}

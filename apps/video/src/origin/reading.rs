//! Reading of videos for a session, on threads that may wait, within the memory of its ticket.

use std::sync::Arc;

use anabranch_media::Part;
use bytes::{Bytes, BytesMut};

use super::{library::Opened, memory::MemoryShare};
use crate::wire::{Refusal, RefusalKind};

/// Reads a part of a chunk on a thread that may wait for the disk.
pub(super) async fn read(
    opened: Arc<Opened>,
    chunk: u32,
    part: Part,
    memory_share: &MemoryShare,
) -> Result<Bytes, Refusal> {
    if chunk >= opened.video.count() {
        let words = format!("the video has {} chunks", opened.video.count());
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    let taken = memory_share.take(opened.video.bytes(chunk, part)).await;
    let data = blocking(move || opened.read(chunk, part)).await?;
    Ok(taken.hold(data))
}

/// Single enhanced frames of a chunk, by their numbers, one after the other.
pub(super) async fn read_frames(
    opened: Arc<Opened>,
    chunk: u32,
    frames: Vec<u32>,
    memory_share: &MemoryShare,
) -> Result<Bytes, Refusal> {
    let all = read(opened.clone(), chunk, Part::Enhanced, memory_share).await?;
    let video = &opened.video;
    let mut wanted = frames.into_iter().peekable();
    let mut out = BytesMut::new();
    let mut at = 0;
    for (number, frame) in (0..).zip(video.frames(chunk, Part::Enhanced)) {
        let end = at + video.size(frame) as usize;
        if wanted.next_if_eq(&number).is_some() {
            out.extend_from_slice(&all[at..end]);
        }
        at = end;
    }
    if wanted.next().is_some() {
        let words = "the chunk has no such frame";
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    Ok(out.freeze())
}

/// Does work that may wait for the disk or an object store on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

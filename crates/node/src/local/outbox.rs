//! Queue of bytes that wait to be written to the socket of a connection, and the task that writes them.
//!
//! Small frames are gathered in one buffer; the payload of a large ADU is written from where it is.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use super::{
    frame::{self, Frame},
    memory::{Part, Share},
};

/// Bytes that may wait before [`Outbox::has_capacity`] is false.
const HIGH_WATER_BYTES: usize = 1 << 20;
/// Bytes at which a receiver that does not read is given up.
const BYTES_MAX: usize = 64 << 20;
/// A payload shorter than this is copied to the other frames.
const COPIED_BYTES: usize = 4 << 10;
/// Slices of one write.
const SLICES: usize = 64;

/// Queue of bytes toward a socket. At most [`BYTES_MAX`] wait; beyond, the connection is over.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    /// Memory that the bytes are counted in.
    share: Option<Arc<Share>>,
    filled: Notify,
    drained: Notify,
    overflowed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    slices: VecDeque<Bytes>,
    /// Frames after `slices`.
    gathered: BytesMut,
    /// Bytes in the queue and in the write that is under way.
    bytes: usize,
    is_closed: bool,
}

impl Outbox {
    /// A queue whose bytes are counted in this memory.
    pub(super) fn charged_to(share: Arc<Share>) -> Self {
        Self {
            share: Some(share),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a frame. After [`Outbox::close`] it is dropped.
    pub(super) fn push(&self, frame: &Frame) {
        self.push_all(std::slice::from_ref(frame));
    }

    /// Appends frames.
    pub(super) fn push_all(&self, frames: &[Frame]) {
        let mut queue = self.lock();
        if queue.is_closed {
            return;
        }
        let before = queue.bytes;
        for frame in frames {
            queue.append(frame);
        }
        if let Some(share) = &self.share {
            share.add(Part::Output, queue.bytes - before);
        }
        if queue.bytes > BYTES_MAX {
            queue.is_closed = true;
            self.overflowed.notify_one();
        }
        drop(queue);
        if before == 0 {
            self.filled.notify_one();
        }
    }

    /// True if data may be appended; answers and credit may be at any time.
    pub(super) fn has_capacity(&self) -> bool {
        self.lock().bytes < HIGH_WATER_BYTES
    }

    /// Waits until data may be appended.
    pub(super) async fn capacity(&self) {
        loop {
            let drained = self.drained.notified();
            if self.has_capacity() {
                return;
            }
            drained.await;
        }
    }

    /// Ends the queue, and drops what was not written. The writer must have ended.
    pub(super) fn discard(&self) {
        let mut queue = self.lock();
        let bytes = queue.bytes;
        *queue = Queue {
            is_closed: true,
            ..Queue::default()
        };
        if let Some(share) = &self.share {
            share.remove(Part::Output, bytes);
        }
    }

    /// Ends the queue: what is in it is still written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Writes what is appended, until the queue is closed and empty.
    ///
    /// # Errors
    /// The socket is closed, or the receiver does not read.
    pub(super) async fn write_to(&self, mut socket: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut writing = VecDeque::new();
        loop {
            let filled = self.filled.notified();
            {
                let mut queue = self.lock();
                queue.take(&mut writing);
                if writing.is_empty() && queue.is_closed {
                    break;
                }
            }
            if writing.is_empty() {
                filled.await;
                continue;
            }
            while !writing.is_empty() {
                let written = {
                    let slices: Vec<_> = (writing.iter().take(SLICES))
                        .map(|slice: &Bytes| IoSlice::new(slice))
                        .collect();
                    tokio::select! {
                        written = socket.write_vectored(&slices) => written?,
                        () = self.overflowed.notified() => {
                            return Err(io::Error::other("it does not read what it is sent"));
                        }
                    }
                };
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                advance(&mut writing, written);
                self.written(written);
            }
        }
        socket.shutdown().await
    }

    fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        let was_full = queue.bytes >= HIGH_WATER_BYTES;
        queue.bytes -= bytes;
        if let Some(share) = &self.share {
            share.remove(Part::Output, bytes);
        }
        let has_capacity = queue.bytes < HIGH_WATER_BYTES;
        drop(queue);
        if was_full && has_capacity {
            self.drained.notify_waiters();
        }
    }
}

impl Queue {
    fn append(&mut self, frame: &Frame) {
        let before = self.gathered.len();
        let payload = frame::encode(frame, &mut self.gathered);
        self.bytes += self.gathered.len() - before + payload.len();
        if payload.len() < COPIED_BYTES {
            self.gathered.extend_from_slice(&payload);
        } else {
            self.slices.push_back(self.gathered.split().freeze());
            self.slices.push_back(payload);
        }
    }

    fn take(&mut self, into: &mut VecDeque<Bytes>) {
        into.append(&mut self.slices);
        if !self.gathered.is_empty() {
            into.push_back(self.gathered.split().freeze());
        }
    }
}

/// Removes what was written.
fn advance(slices: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = slices.front_mut() {
        if written < first.len() {
            first.advance(written);
            return;
        }
        written -= first.len();
        slices.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::UnixStream};

    use super::*;

    fn event(bytes: usize) -> Frame {
        Frame::Event(vec![b'x'; bytes].into())
    }

    #[tokio::test]
    async fn what_is_appended_is_written_in_order_small_or_large() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let outbox = Outbox::default();
        let frames = [event(3), event(100_000), event(7), event(5_000), event(0)];
        let mut expected = Vec::new();
        for frame in &frames {
            let payload = frame::encode(frame, &mut expected);
            expected.extend_from_slice(&payload);
            outbox.push(frame);
        }
        outbox.close();
        outbox.push(&event(9));
        let (_reading, writing) = near.into_split();
        let mut read = Vec::new();
        let (written, _) = tokio::join!(outbox.write_to(writing), far.read_to_end(&mut read));
        written.unwrap();
        assert!(read == expected);
    }

    #[tokio::test]
    async fn capacity_returns_when_the_receiver_reads_and_a_deaf_one_is_given_up() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let outbox = Outbox::default();
        outbox.push(&event(HIGH_WATER_BYTES));
        assert!(!outbox.has_capacity());
        let (_reading, writing) = near.into_split();
        let mut buffer = vec![0; HIGH_WATER_BYTES];
        let reading = async {
            far.read_exact(&mut buffer).await.unwrap();
            outbox.capacity().await;
            assert!(outbox.has_capacity());
            for _ in 0..BYTES_MAX / HIGH_WATER_BYTES + 1 {
                outbox.push(&event(HIGH_WATER_BYTES));
            }
            far.read_exact(&mut buffer).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            written = outbox.write_to(writing) => assert!(written.is_err()),
            () = reading => unreachable!(),
        }
    }
}

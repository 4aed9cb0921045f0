//! Byte stream over a stream of ADUs.
//!
//! Writes are gathered into ADUs, whose boundaries have no meaning. The stream must be reliable and
//! ordered, and have no lifetime.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{StreamFailure, session::Order, stream::Stream};

/// Bytes gathered into one ADU: small enough that the reader starts early, large enough that the cost
/// of an ADU is negligible.
const ADU_BYTES: usize = 64 << 10;

/// Error: the spec of the stream does not deliver all bytes in order.
#[derive(Debug, thiserror::Error)]
#[error(
    "a byte stream needs a stream that is reliable, ordered and without lifetime; open it with StreamSpec::default() or StreamSpec::bulk()"
)]
pub struct NotBytes;

/// `AsyncRead` and `AsyncWrite` over a [`Stream`].
///
/// `shutdown` finishes the stream; `flush` hands gathered bytes to the engine. Dropping the value
/// without `shutdown` resets the stream, if no clone of it is left.
#[derive(Debug)]
pub struct ByteStream {
    stream: Stream,
    reading: Bytes,
    gathered: BytesMut,
    /// ADU that waits for space in the stream's buffer.
    pending: Option<Bytes>,
    is_shut: bool,
}

impl ByteStream {
    /// Wraps a stream.
    ///
    /// # Errors
    /// Its spec does not deliver all bytes in order.
    pub fn new(stream: Stream) -> Result<Self, NotBytes> {
        let spec = stream.spec();
        if !spec.reliable || spec.order != Order::Ordered || spec.lifetime.is_some() {
            return Err(NotBytes);
        }
        Ok(Self {
            stream,
            reading: Bytes::new(),
            gathered: BytesMut::new(),
            pending: None,
            is_shut: false,
        })
    }

    /// The stream itself.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Hands the gathered bytes to the engine; ready when none are left here.
    fn poll_hand_over(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.pending.is_some() {
                ready!(self.stream.poll_send(cx, &mut self.pending))?;
            }
            if self.gathered.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.pending = Some(self.gathered.split().freeze());
        }
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reading.is_empty() {
            match ready!(self.stream.poll_recv(cx)) {
                Ok(Some(adu)) => self.reading = adu.data,
                Ok(None) => return Poll::Ready(Ok(())),
                Err(failure) => return Poll::Ready(Err(failure.into())),
            }
        }
        let count = buffer.remaining().min(self.reading.len());
        buffer.put_slice(&self.reading[..count]);
        self.reading.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.gathered.len() >= ADU_BYTES {
            ready!(self.poll_hand_over(cx))?;
        }
        let count = data.len().min(ADU_BYTES - self.gathered.len());
        self.gathered.extend_from_slice(&data[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_hand_over(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hand_over(cx))?;
        if !self.is_shut {
            self.is_shut = true;
            self.stream
                .finish()
                .map_err(|failure: StreamFailure| io::Error::from(failure))?;
        }
        Poll::Ready(Ok(()))
    }
}

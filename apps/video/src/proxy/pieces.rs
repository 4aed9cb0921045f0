//! Assembly of an answer that comes in pieces, and of its announcement on another stream, in any order.

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::wire::{Piece, Refusal, Reply, WireError};

/// Maximum size of an index: a film of a thousand hours has less.
pub(super) const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Complete answer: the reply to a request to open a video, and the bytes.
pub(super) type Whole = (Option<Reply>, Bytes);

/// An answer that is awaited.
#[derive(Debug)]
pub(super) struct Pieces {
    /// True if a reply on the control stream is needed as well; it contains the length.
    is_opening: bool,
    /// Maximum size of the answer.
    bytes_max: u64,
    opened: Option<Reply>,
    data: BytesMut,
    /// Size according to the last piece.
    total: Option<u64>,
    done: oneshot::Sender<Result<Whole, Refusal>>,
}

impl Pieces {
    /// `bytes_max`: known limit on the size of the answer.
    pub(super) fn new(
        is_opening: bool,
        bytes_max: u64,
        done: oneshot::Sender<Result<Whole, Refusal>>,
    ) -> Self {
        Self {
            is_opening,
            bytes_max,
            opened: None,
            data: BytesMut::new(),
            total: None,
            done,
        }
    }

    /// Takes the reply of the control stream.
    pub(super) fn opened(&mut self, reply: Reply) {
        self.opened = Some(reply);
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// It does not follow the one before, or exceeds the size.
    pub(super) fn take(&mut self, piece: &Piece) -> Result<(), WireError> {
        if piece.total > self.bytes_max || piece.end() > self.bytes_max {
            return Err(WireError(format!("{} bytes at once", piece.total)));
        }
        if self.data.len() as u64 != piece.offset {
            return Err(WireError("pieces out of order".to_owned()));
        }
        self.data.extend_from_slice(&piece.data);
        self.total = Some(piece.total);
        Ok(())
    }

    /// True if everything has come.
    pub(super) fn is_whole(&self) -> bool {
        let total = match (&self.opened, self.is_opening) {
            (Some(Reply::Opened { index_bytes, .. }), _) => Some(*index_bytes),
            (_, true) => None,
            (_, false) => self.total,
        };
        total.is_some_and(|total| self.data.len() as u64 >= total)
    }

    /// Hands over the answer.
    pub(super) fn finish(self) {
        // The waiting task may be gone.
        let _ = self.done.send(Ok((self.opened, self.data.freeze())));
    }

    /// Hands over a refusal in place of the answer.
    pub(super) fn refuse(self, refusal: Refusal) {
        // The waiting task may be gone.
        let _ = self.done.send(Err(refusal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, data: &'static [u8]) -> Piece {
        Piece {
            id: 1,
            offset,
            total: 6,
            data: Bytes::from_static(data),
        }
    }

    fn opened() -> Reply {
        Reply::Opened {
            id: 1,
            version: "1".to_owned(),
            policy: "intra".to_owned(),
            chunk_ms: 4_000,
            segment_ms: 4_000,
            index_bytes: 6,
        }
    }

    /// The streams are independent of each other: a short index may arrive before the reply that announces it.
    #[test]
    fn an_index_waits_for_its_announcement_and_the_other_way_round() {
        for is_announced_first in [true, false] {
            let (done, mut answer) = oneshot::channel();
            let mut pieces = Pieces::new(true, 6, done);
            if is_announced_first {
                pieces.opened(opened());
                assert!(!pieces.is_whole());
            }
            pieces.take(&piece(0, b"abc")).unwrap();
            assert!(!pieces.is_whole());
            pieces.take(&piece(3, b"def")).unwrap();
            if !is_announced_first {
                assert!(!pieces.is_whole(), "the version is not known");
                pieces.opened(opened());
            }
            assert!(pieces.is_whole());
            pieces.finish();
            let (reply, data) = answer.try_recv().unwrap().unwrap();
            assert_eq!(data, "abcdef");
            assert_eq!(reply, Some(opened()));
        }
    }

    #[test]
    fn other_answers_need_no_announcement() {
        let (done, mut answer) = oneshot::channel();
        let mut pieces = Pieces::new(false, 6, done);
        pieces.take(&piece(0, b"abc")).unwrap();
        assert!(!pieces.is_whole());
        assert!(pieces.take(&piece(4, b"ef")).is_err());
        pieces.take(&piece(3, b"def")).unwrap();
        assert!(pieces.is_whole());
        pieces.finish();
        assert_eq!(answer.try_recv().unwrap().unwrap().1, "abcdef");
        // A frame without bytes.
        let (done, _answer) = oneshot::channel();
        let mut empty = Pieces::new(false, 6, done);
        let nothing = Piece {
            total: 0,
            ..piece(0, b"")
        };
        empty.take(&nothing).unwrap();
        assert!(empty.is_whole());
    }

    #[test]
    fn an_answer_has_a_maximum_size() {
        let (done, _answer) = oneshot::channel();
        let mut pieces = Pieces::new(false, 6, done);
        let huge = Piece {
            total: 7,
            ..piece(0, b"x")
        };
        assert!(pieces.take(&huge).is_err());
    }
}

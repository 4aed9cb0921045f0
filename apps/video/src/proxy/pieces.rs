//! An answer that comes in pieces, and what is said about it on another stream: in any order.

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::wire::{Piece, Refusal, Reply, WireError};

/// Longest index that is taken: a film of a thousand hours has less.
pub(super) const INDEX_BYTES_MAX: u64 = 256 << 20;

/// What came: the answer to a request to open a video, and the bytes.
pub(super) type Whole = (Option<Reply>, Bytes);

/// What somebody waits for.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The answer on the control stream has to come as well; it tells the length.
    is_opening: bool,
    /// More are not taken.
    bytes_max: u64,
    opened: Option<Reply>,
    data: BytesMut,
    /// As the last piece said it.
    total: Option<u64>,
    done: oneshot::Sender<Result<Whole, Refusal>>,
}

impl Pieces {
    /// `bytes_max`: what is known of how long the answer may be.
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

    /// Takes what the control stream says.
    pub(super) fn opened(&mut self, reply: Reply) {
        self.opened = Some(reply);
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// It does not follow the one before, or belongs to too many.
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

    /// Hands over what came.
    pub(super) fn finish(self) {
        // Nobody may wait for it any more.
        let _ = self.done.send(Ok((self.opened, self.data.freeze())));
    }

    /// It will not come.
    pub(super) fn refuse(self, refusal: Refusal) {
        // Nobody may wait for it any more.
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

    /// The streams know nothing of each other: a short index may be there before the word that announces it.
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
                assert!(!pieces.is_whole(), "nobody said which version it is");
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
        // Of a frame without bytes.
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
    fn nobody_sends_more_than_there_is_room_for() {
        let (done, _answer) = oneshot::channel();
        let mut pieces = Pieces::new(false, 6, done);
        let huge = Piece {
            total: 7,
            ..piece(0, b"x")
        };
        assert!(pieces.take(&huge).is_err());
    }
}

//! ADUs in standard input and output: one per line, one per frame, pieces of one record, or JSON.

use std::io;

use anabranch::{Outgoing, local::frame::ADU_BYTES_MAX};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::message;

/// Bytes of a message of a record, unless others are asked for.
const RECORD_BYTES: usize = 64 << 10;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// Form of ADUs in a sequence of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One ADU per line, without its end. Empty lines are not ADUs.
    Lines,
    /// Each after its length, 32 bits big endian.
    Frames,
    /// The bytes as they come, in ADUs of this size.
    Record(usize),
    /// One JSON object a line, with the ADU as text, and header fields (`message`).
    Json,
}

/// Reads `lines`, `frames`, `record`, `record=N` or `json`.
pub(crate) fn parse(text: &str) -> Result<Framing, String> {
    let size = |text: &str| {
        text.parse()
            .ok()
            .filter(|size| (1..=ADU_BYTES_MAX).contains(size))
    };
    match (text, text.strip_prefix("record=").and_then(size)) {
        ("lines", _) => Ok(Framing::Lines),
        ("frames", _) => Ok(Framing::Frames),
        ("json", _) => Ok(Framing::Json),
        ("record", _) => Ok(Framing::Record(RECORD_BYTES)),
        (_, Some(size)) => Ok(Framing::Record(size)),
        _ => Err(format!(
            "give lines, frames, json, record, or record=N with 1 to {ADU_BYTES_MAX} bytes"
        )),
    }
}

/// Reader of ADUs.
pub(crate) struct Reader<R> {
    input: R,
    framing: Framing,
    buffer: BytesMut,
    /// Bytes at the front of the buffer that hold no end of a line.
    searched: usize,
    is_ended: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(input: R, framing: Framing) -> Self {
        Self {
            input,
            framing,
            buffer: BytesMut::new(),
            searched: 0,
            is_ended: false,
        }
    }

    /// The next ADU; `None` at the end of the input. A future that is dropped has taken none.
    ///
    /// # Errors
    /// Reading failed; an ADU is too large or no JSON, or the input ends within a frame.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Outgoing>> {
        match self.next_bytes().await? {
            None => Ok(None),
            Some(line) if self.framing == Framing::Json => message::from_json(&line).map(Some),
            Some(bytes) => Ok(Some(bytes.into())),
        }
    }

    async fn next_bytes(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(adu) = self.cut()? {
                return Ok(Some(adu));
            }
            if self.is_ended {
                return Ok(None);
            }
            self.buffer.reserve(READ_BYTES);
            self.is_ended = self.input.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// Cuts an ADU from the front of the buffer.
    fn cut(&mut self) -> io::Result<Option<Bytes>> {
        match self.framing {
            Framing::Lines | Framing::Json => self.cut_line(),
            Framing::Frames => self.cut_frame(),
            Framing::Record(size) => {
                // What is there is sent at once: nobody knows when more comes.
                let bytes = self.buffer.len().min(size);
                Ok((bytes > 0).then(|| self.buffer.split_to(bytes).freeze()))
            }
        }
    }

    fn cut_line(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let rest = &self.buffer[self.searched..];
            let end = rest.iter().position(|&byte| byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.buffer.len();
                if self.buffer.len() > ADU_BYTES_MAX {
                    return Err(io::Error::other(format!(
                        "a line of more than {ADU_BYTES_MAX} bytes; the largest message has as many"
                    )));
                }
                let is_last = self.is_ended && !self.buffer.is_empty();
                self.searched = if is_last { 0 } else { self.searched };
                return Ok(is_last.then(|| self.buffer.split().freeze()));
            };
            let line = self.buffer.split_to(end).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    fn cut_frame(&mut self) -> io::Result<Option<Bytes>> {
        let Some(length) = self.buffer.first_chunk().copied() else {
            let is_cut = self.is_ended && !self.buffer.is_empty();
            return if is_cut { Err(cut_off()) } else { Ok(None) };
        };
        let length = u32::from_be_bytes(length) as usize;
        if !(1..=ADU_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!(
                "a frame of {length} bytes; a message has 1 to {ADU_BYTES_MAX}"
            )));
        }
        if self.buffer.len() < 4 + length {
            return if self.is_ended {
                Err(cut_off())
            } else {
                Ok(None)
            };
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn cut_off() -> io::Error {
    io::Error::other("the input ends within a frame")
}

/// Writes an ADU.
///
/// # Errors
/// Writing failed.
pub(super) async fn write(
    output: &mut (impl AsyncWrite + Unpin),
    framing: Framing,
    adu: &[u8],
) -> io::Result<()> {
    let line;
    let adu = if framing == Framing::Json {
        line = message::to_json(adu);
        line.as_bytes()
    } else {
        adu
    };
    let mut bytes = Vec::with_capacity(adu.len() + 4);
    if framing == Framing::Frames {
        bytes.put_u32(adu.len() as u32);
    }
    bytes.put_slice(adu);
    if matches!(framing, Framing::Lines | Framing::Json) {
        bytes.put_u8(b'\n');
    }
    output.write_all(&bytes).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(framing: Framing, input: &[u8]) -> Result<Vec<Bytes>, String> {
        let mut reader = Reader::new(input, framing);
        let mut adus = Vec::new();
        while let Some(adu) = reader.next().await.map_err(|error| error.to_string())? {
            adus.push(adu.data);
        }
        Ok(adus)
    }

    #[tokio::test]
    async fn what_is_written_is_read_back() {
        for framing in [Framing::Lines, Framing::Frames, Framing::Json] {
            let mut bytes = Vec::new();
            for adu in ["a", "two words", "ü"] {
                write(&mut bytes, framing, adu.as_bytes()).await.unwrap();
            }
            assert_eq!(
                read(framing, &bytes).await.unwrap(),
                ["a", "two words", "ü"]
            );
        }
        let long = [7; 150_000];
        let pieces = read(Framing::Record(60_000), &long).await.unwrap();
        assert!(pieces.iter().all(|piece| piece.len() <= 60_000));
        assert_eq!(pieces.concat(), long);
    }

    #[tokio::test]
    async fn lines_may_be_empty_or_without_an_end() {
        let lines = read(Framing::Lines, b"\na\n\nb").await.unwrap();
        assert_eq!(lines, ["a", "b"]);
        assert_eq!(read(Framing::Lines, b"").await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn frames_that_are_cut_off_or_impossible_are_refused() {
        for (bytes, word) in [
            (&[0, 0, 0, 2, 9][..], "within a frame"),
            (&[0, 0], "within a frame"),
            (&[0, 0, 0, 0], "0 bytes"),
            (&[0xff, 0xff, 0xff, 0xff], "4294967295"),
        ] {
            let error = read(Framing::Frames, bytes).await.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn forms_are_read() {
        assert_eq!(parse("record=1200"), Ok(Framing::Record(1_200)));
        assert_eq!(parse("frames"), Ok(Framing::Frames));
        for wrong in ["record=0", "record=99999999", "line", "record="] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Raw pictures in a byte stream (YUV4MPEG2), as ffmpeg writes and reads them: a line for the stream, then a line and samples for each
//! picture.

use std::collections::VecDeque;

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 512;
/// Most bytes of a picture: those of 4096 × 2304.
const PICTURE_BYTES_MAX: usize = 4_096 * 2_304 * 3 / 2;

/// Violation of the format, or of what an encoder here takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Y4mError {
    /// The first line is another one.
    #[error("this is no raw stream (YUV4MPEG2)")]
    NoStream,
    /// Samples of another kind.
    #[error("the raw stream is not in 4:2:0 with 8 bits")]
    Samples,
    /// Pictures without samples, or with too many.
    #[error("the raw stream has pictures of {width} × {height}; up to 4096 × 2304 are encoded")]
    Size {
        /// In samples; 0: not stated.
        width: usize,
        /// See `width`.
        height: usize,
    },
    /// Something else where a picture should begin.
    #[error("a picture of the raw stream has no line of its own")]
    NoPicture,
    /// More than 512 bytes.
    #[error("the raw stream has a line without an end")]
    LongLine,
}

/// Reader of pictures from bytes that come in pieces. Holds one picture at most, and what was pushed last.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    buffer: VecDeque<u8>,
    /// Line of the stream, with its end, and samples of a picture.
    head: Option<(Vec<u8>, usize)>,
}

impl Reader {
    /// Line of the stream, with its end; `None` before it came.
    pub fn head(&self) -> Option<&[u8]> {
        self.head.as_ref().map(|(line, _)| &line[..])
    }

    /// Takes bytes, and returns the pictures that are whole with them, each with its line.
    ///
    /// # Errors
    /// See [`Y4mError`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Y4mError> {
        self.buffer.extend(bytes);
        let mut pictures = Vec::new();
        loop {
            let Some(line_bytes) = self.line()? else {
                return Ok(pictures);
            };
            let Some((_, samples)) = &self.head else {
                let line: Vec<u8> = self.buffer.drain(..line_bytes).collect();
                let samples = samples(&line)?;
                self.head = Some((line, samples));
                continue;
            };
            if !self.buffer.iter().take(5).eq(b"FRAME") {
                return Err(Y4mError::NoPicture);
            }
            let whole = line_bytes + samples;
            if self.buffer.len() < whole {
                return Ok(pictures);
            }
            pictures.push(self.buffer.drain(..whole).collect());
        }
    }

    /// Bytes of the line at the front, with its end.
    fn line(&self) -> Result<Option<usize>, Y4mError> {
        let begin = self.buffer.iter().take(LINE_BYTES_MAX);
        match begin.enumerate().find(|(_, byte)| **byte == b'\n') {
            Some((end, _)) => Ok(Some(end + 1)),
            None if self.buffer.len() < LINE_BYTES_MAX => Ok(None),
            None => Err(Y4mError::LongLine),
        }
    }
}

/// Bytes of the samples of each picture, from the line of a stream.
fn samples(line: &[u8]) -> Result<usize, Y4mError> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some("YUV4MPEG2") {
        return Err(Y4mError::NoStream);
    }
    let (mut width, mut height, mut format) = (0_usize, 0_usize, "420");
    for word in words {
        match word.split_at_checked(1) {
            Some(("W", number)) => width = number.parse().unwrap_or_default(),
            Some(("H", number)) => height = number.parse().unwrap_or_default(),
            Some(("C", name)) => format = name,
            _ => {}
        }
    }
    if !matches!(format, "420" | "420jpeg" | "420mpeg2" | "420paldv") {
        return Err(Y4mError::Samples);
    }
    let chroma = width.div_ceil(2).checked_mul(height.div_ceil(2));
    let luma = width.checked_mul(height);
    let bytes = luma.zip(chroma).and_then(|(luma, chroma)| {
        let chroma = chroma.checked_mul(2)?;
        luma.checked_add(chroma)
    });
    match bytes {
        Some(bytes @ 1..=PICTURE_BYTES_MAX) => Ok(bytes),
        _ => Err(Y4mError::Size { width, height }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const HEAD: &[u8] = b"YUV4MPEG2 W3 H2 F25:1 Ip C420jpeg\n";

    fn stream() -> Vec<u8> {
        // 6 samples of luma, and 2 · 2 of chroma.
        [HEAD, b"FRAME\n0123456789", b"FRAME Ip\nabcdefghij"].concat()
    }

    #[test]
    fn pictures_are_whole_whatever_the_pieces() {
        for size in 1..stream().len() {
            let mut reader = Reader::default();
            let pieces = stream();
            let pieces = pieces.chunks(size).map(|piece| reader.push(piece).unwrap());
            let pictures: Vec<_> = pieces.flatten().collect();
            assert_eq!(
                pictures,
                [&b"FRAME\n0123456789"[..], b"FRAME Ip\nabcdefghij"]
            );
            assert_eq!(reader.head(), Some(HEAD));
        }
    }

    #[test]
    fn other_streams_are_refused() {
        let fails = |bytes: &[u8]| {
            let error = Reader::default().push(bytes).unwrap_err();
            error.to_string()
        };
        assert!(fails(b"RIFF\n").contains("no raw stream"));
        assert!(fails(b"YUV4MPEG2 W2 H2 C422\n").contains("4:2:0"));
        assert!(fails(b"YUV4MPEG2 W0 H2\n").contains("0 × 2"));
        assert!(fails(b"YUV4MPEG2 W99999999999 H9999999999\n").contains("up to"));
        assert!(fails(b"YUV4MPEG2 W18446744073709551615 H2\n").contains("up to"));
        assert!(fails(&[b'x'; 600]).contains("without an end"));
        let wrong = [HEAD, b"PICTURE\n"].concat();
        assert!(fails(&wrong).contains("no line of its own"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_pictures_or_refused(bytes in vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let mut reader = Reader::default();
            let all = [HEAD, b"FRAME", &bytes].concat();
            let (one, other) = all.split_at(cut.min(all.len()));
            if reader.push(one).is_ok() {
                let _ = reader.push(other);
            }
        }
    }
}

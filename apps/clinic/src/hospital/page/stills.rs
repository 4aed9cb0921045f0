//! Pictures among the files of a case, as the page shows them: by what they begin with, never by their names.

use std::path::Path;

use anabranch_console::site::{Body, Bytes, Response, StatusCode, refused, streamed};
use tokio::{fs::File, io::AsyncReadExt as _};

/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Type of a picture that browsers show, by its first bytes; `None`: it is none.
fn kind(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The file, if it is a picture.
pub(super) async fn answer(path: &Path) -> Response<Body> {
    let begun = async {
        let mut file = File::open(path).await?;
        let mut begin = vec![0; PIECE_BYTES];
        let read = file.read(&mut begin).await?;
        begin.truncate(read);
        std::io::Result::Ok((file, begin))
    };
    let (file, begin) = match begun.await {
        Ok(begun) => begun,
        Err(error) => return refused(StatusCode::NOT_FOUND, &error.to_string()),
    };
    let Some(mime) = kind(&begin) else {
        let words = "this file is no picture that browsers show";
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, words);
    };
    streamed(
        mime,
        (file, begin),
        async |(mut file, begin): (File, Vec<u8>)| {
            let piece = match begin.is_empty() {
                false => begin,
                true => {
                    let mut piece = vec![0; PIECE_BYTES];
                    // A file that cannot be read to its end is cut short, and shown as such.
                    let read = file.read(&mut piece).await.unwrap_or_default();
                    piece.truncate(read);
                    piece
                }
            };
            (!piece.is_empty()).then(|| (Bytes::from(piece), (file, Vec::new())))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_are_shown() {
        assert_eq!(kind(&[0xff, 0xd8, 0xff, 0xe0]), Some("image/jpeg"));
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n"), Some("image/png"));
        assert_eq!(kind(b"RIFF1234WEBPVP8 "), Some("image/webp"));
        for other in [
            b"<svg xmlns".as_slice(),
            b"<html>",
            b"RIFF1234WAVE",
            b"",
            &[0xff],
        ] {
            assert_eq!(kind(other), None);
        }
    }
}

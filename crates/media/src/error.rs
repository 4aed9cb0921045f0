//! Errors of files that cannot be served.

use std::io;

/// Reason why no index can be made of a file, or of the bytes of a stored index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The caller's bytes could not be read.
    #[error("the file cannot be read at byte {offset}: {cause}")]
    Io {
        /// Place where the read began.
        offset: u64,
        /// What the reader said.
        #[source]
        cause: io::Error,
    },
    /// No MP4 at all.
    #[error(
        "this is not an MP4 file (no 'moov' or 'moof' box where one must be); convert it with `ffmpeg -i FILE out.mp4`"
    )]
    NotMp4,
    /// The file ends before it should.
    #[error(
        "the file is cut short: {what} ends at byte {end}, the file has {len}; copy it again from its source"
    )]
    Truncated {
        /// What does not fit.
        what: &'static str,
        /// Place where that would end.
        end: u64,
        /// Size of the file in bytes.
        len: u64,
    },
    /// A box contradicts itself, another one, or the file.
    #[error(
        "the file is corrupt: {what} (box '{kind}'); `ffmpeg -i FILE -c copy out.mp4` may repair it"
    )]
    Corrupt {
        /// The box, as four characters.
        kind: String,
        /// The error with it.
        what: &'static str,
    },
    /// More than this room is willing to hold.
    #[error("{what}: {found}, the limit is {limit}; split the file")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// The samples are encrypted.
    #[error(
        "track {track} is encrypted ('{kind}'); frame types cannot be told, serve a clear copy"
    )]
    Encrypted {
        /// Its id.
        track: u32,
        /// Its sample entry, as four characters.
        kind: String,
    },
    /// There is nothing to see.
    #[error("the file has no video track; use plain HTTP for sound alone")]
    NoVideo,
    /// A codec that this room does not know.
    #[error(
        "track {track} has the codec '{kind}'; H.264, H.265, AV1 with AAC, MP3, Opus, FLAC, AC-3 or E-AC-3 are \
         known: `ffmpeg -i FILE -c:v libx264 -c:a aac out.mp4`"
    )]
    UnknownCodec {
        /// Its id.
        track: u32,
        /// Its sample entry, as four characters.
        kind: String,
    },
    /// A valid file that uses what this room does not handle.
    #[error("{what} is not supported; `ffmpeg -i FILE -c copy out.mp4` may help")]
    Unsupported {
        /// The what.
        what: &'static str,
    },
    /// Bytes that are no stored index of this version, or were changed since.
    #[error("the stored index is not usable ({what}); make it again from the video file")]
    Stored {
        /// Reason.
        what: &'static str,
    },
}

/// Four characters, with those that cannot be printed as `?`.
pub(crate) fn name(kind: [u8; 4]) -> String {
    kind.iter()
        .map(|&byte| match byte {
            0x20..=0x7e => char::from(byte),
            0xa9 => '©',
            _ => '?',
        })
        .collect()
}

/// A corrupt box.
pub(crate) fn corrupt(kind: [u8; 4], what: &'static str) -> IndexError {
    IndexError::Corrupt {
        kind: name(kind),
        what,
    }
}

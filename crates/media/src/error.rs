//! Errors of files that cannot be served.

use std::io;

/// Reason for which no index can be made of a file, or of the bytes of a stored index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The caller's bytes could not be read.
    #[error("the file cannot be read at byte {offset}: {cause}")]
    Io {
        /// Offset at which the read began.
        offset: u64,
        /// Error of the reader.
        #[source]
        cause: io::Error,
    },
    /// Not an MP4 file.
    #[error(
        "this is not an MP4 file (no 'moov' or 'moof' box where one must be); convert it with `ffmpeg -i FILE out.mp4`"
    )]
    NotMp4,
    /// The file ends early.
    #[error(
        "the file is cut short: {what} ends at byte {end}, the file has {len}; copy it again from its source"
    )]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// Offset at which that part would end.
        end: u64,
        /// Size of the file in bytes.
        len: u64,
    },
    /// A box contradicts itself, another box, or the file.
    #[error(
        "the file is corrupt: {what} (box '{kind}'); `ffmpeg -i FILE -c copy out.mp4` may repair it"
    )]
    Corrupt {
        /// The box, as four characters.
        kind: String,
        /// The inconsistency.
        what: &'static str,
    },
    /// A limit of this crate is exceeded.
    #[error("{what}: {found}, the limit is {limit}; split the file")]
    TooLarge {
        /// The quantity that exceeds the limit.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The samples are encrypted.
    #[error(
        "track {track} is encrypted ('{kind}'); its frame types cannot be read, serve an unencrypted copy"
    )]
    Encrypted {
        /// Its id.
        track: u32,
        /// Its sample entry, as four characters.
        kind: String,
    },
    /// The file has no video track.
    #[error("the file has no video track; use plain HTTP for audio alone")]
    NoVideo,
    /// A codec that is not supported.
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
    /// A valid file that uses an unsupported feature.
    #[error("{what} is not supported; `ffmpeg -i FILE -c copy out.mp4` may help")]
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// Bytes that are not a stored index of this version, or were changed since.
    #[error("the stored index is not usable ({what}); make it again from the video file")]
    Stored {
        /// Reason.
        what: &'static str,
    },
}

/// A box type as four characters, with unprintable ones as `?`.
pub(crate) fn name(kind: [u8; 4]) -> String {
    kind.iter()
        .map(|&byte| match byte {
            0x20..=0x7e => char::from(byte),
            0xa9 => '©',
            _ => '?',
        })
        .collect()
}

/// Error of a corrupt box.
pub(crate) fn corrupt(kind: [u8; 4], what: &'static str) -> IndexError {
    IndexError::Corrupt {
        kind: name(kind),
        what,
    }
}

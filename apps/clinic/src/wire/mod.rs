//! Protocol between an ambulance and a hospital (`spec/clinic.md`).
//!
//! The ambulance opens every stream of a session. The first one, `case`, has the ticket's secret; the hospital takes the others once it
//! is right.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Purpose`] of streams, limits, messages as ADUs |
//! | `message` | [`Request`] of an ambulance, [`Notice`] of a hospital, [`Origin`] of contents |
//! | `data` | [`Data`]: samples, pictures, pieces of files, packets of speech |

mod data;
mod message;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

pub use data::{Data, PIECE_BYTES_MAX, Picture, Piece, SAMPLES_BYTES_MAX, Samples, Speech};
pub use message::{Contents, Notice, Objective, Origin, Request};

/// Longest message in JSON.
pub const MESSAGE_BYTES_MAX: usize = 512 << 10;
/// Longest name of a still, in bytes.
pub const NAME_BYTES_MAX: usize = 120;
/// Objectives in a message; others are left out.
pub const OBJECTIVES_MAX: usize = 32;
/// Largest file, in bytes.
pub const STILL_BYTES_MAX: u64 = 256 << 20;

/// Code of a stream whose messages are none.
pub const CODE_MALFORMED: u32 = 0x20;

const JSON: u8 = 0;

/// An ADU is none of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent what is no message about a case: {0}")]
pub struct WireError(pub String);

/// Purpose of a stream, which is its label: `clinic/1/PURPOSE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Greeting and clock.
    Case,
    /// Samples of the record.
    Ekg,
    /// Numbers, once a second.
    Vitals,
    /// Pictures of the video.
    Video,
    /// Files.
    Stills,
    /// Speech of the ambulance.
    SpeechUp,
    /// Speech of the hospital.
    SpeechDown,
}

impl Purpose {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Case, "clinic/1/case"),
        (Self::Ekg, "clinic/1/ekg"),
        (Self::Vitals, "clinic/1/vitals"),
        (Self::Video, "clinic/1/video"),
        (Self::Stills, "clinic/1/stills"),
        (Self::SpeechUp, "clinic/1/speech_up"),
        (Self::SpeechDown, "clinic/1/speech_down"),
    ];

    /// The purpose of a stream with this label; `None`: it is none of the protocol.
    pub fn of_label(label: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, other)| *other == label);
        found.map(|(purpose, _)| *purpose)
    }

    /// Label of the stream.
    pub fn label(self) -> &'static str {
        let found = Self::ALL.iter().find(|(purpose, _)| *purpose == self);
        found.map_or("", |(_, label)| label)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label().rsplit('/').next().unwrap_or_default())
    }
}

/// A message as an ADU.
pub fn encode(message: &impl Serialize) -> Bytes {
    let mut adu = vec![JSON];
    serde_json::to_writer(&mut adu, message).expect("messages are maps with text keys");
    adu.into()
}

/// The message in an ADU.
///
/// # Errors
/// It is none, or too long.
pub fn decode<T: DeserializeOwned>(adu: &[u8]) -> Result<T, WireError> {
    let json = match adu.split_first() {
        Some((&JSON, json)) if json.len() <= MESSAGE_BYTES_MAX => json,
        Some((&JSON, json)) => return Err(WireError(format!("a message of {} bytes", json.len()))),
        _ => return Err(WireError("an ADU of another kind".to_owned())),
    };
    serde_json::from_slice(json).map_err(|error| WireError(error.to_string()))
}

/// True for an ADU with a message.
pub(crate) fn is_message(adu: &[u8]) -> bool {
    adu.first() == Some(&JSON)
}

/// True for the name of a still: of a file in a folder, visible, and the same on every system.
pub fn is_name(text: &str) -> bool {
    let is_character = |char: char| !char.is_control() && !"/\\:*?\"<>|".contains(char);
    !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.chars().all(is_character)
        && !text.starts_with(['.', ' '])
        && !text.ends_with(['.', ' '])
}

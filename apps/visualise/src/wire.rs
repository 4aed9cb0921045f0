//! Protocol between a source and a viewer (`spec/visualise.md`).
//!
//! The viewer opens every stream. Its first ADU is a [`Request`]; the source answers on the same stream with [`Notice`]s, and, if
//! it was asked to, with [`Part`]s of sections.

use std::{fmt, str::FromStr};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::imd::{BODY_BYTES_MAX, ByteOrder, Section, Sections, SessionInfo};

/// Longest name of a simulation, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a section in one ADU.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// Longest message in JSON.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;

const BEGINNING: &str = "imd/1/";
const JSON: u8 = 0;
const PART: u8 = 1;
/// Kind, section, number of the frame, part, parts.
const PART_HEADER_BYTES: usize = 1 + 1 + 8 + 2 + 2;

/// An ADU is none of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent what is no message about a simulation: {0}")]
pub struct WireError(pub String);

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Frames.
    Watch,
    /// Commands to the simulation.
    Steer,
}

/// Label of a stream, by which the right to open it is granted: `imd/1/PURPOSE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Purpose.
    pub purpose: Purpose,
    /// Name of the simulation at the source.
    pub name: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = match self.purpose {
            Purpose::Watch => "watch",
            Purpose::Steer => "steer",
        };
        write!(f, "{BEGINNING}{purpose}/{}", self.name)
    }
}

impl FromStr for Label {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(BEGINNING).ok_or(())?;
        let (purpose, name) = rest.split_once('/').ok_or(())?;
        let purpose = match purpose {
            "watch" => Purpose::Watch,
            "steer" => Purpose::Steer,
            _ => return Err(()),
        };
        is_name(name)
            .then(|| Self {
                purpose,
                name: name.to_owned(),
            })
            .ok_or(())
    }
}

/// True for letters, digits, `-`, `_` and `.`, of which there are 1 to 64.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_allowed)
}

/// A message of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// First message of a stream with the label of [`Purpose::Watch`]: these sections of every frame, as [`Sections::bits`].
    Watch {
        /// Bits of the sections.
        sections: u8,
    },
    /// A simulation that waits for a viewer may begin.
    Go,
    /// The simulation pauses until [`Request::Resume`], or the end of the stream.
    Pause,
    /// The simulation goes on, unless another viewer has it paused.
    Resume,
    /// Steps from one frame to the next; less than 1 is the simulation's default.
    Rate {
        /// Steps.
        steps: i32,
    },
    /// The simulation ends.
    Kill,
}

/// A message of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Notice {
    /// There is no simulation at this time; the stream begins when there is one.
    Waiting {
        /// Reason.
        why: String,
    },
    /// Frames follow.
    Begun(Begun),
    /// State of the promise of the stream.
    Promise {
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
    },
    /// No frame follows: the session with the simulation is over.
    Ended {
        /// Reason.
        why: String,
    },
    /// The last request is refused.
    Refused {
        /// Reason and remedy.
        why: String,
    },
}

/// Beginning of the frames of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Number of the session with the simulation: the streams of a viewer belong together if theirs are equal.
    pub session: u64,
    /// Number of the first frame that follows.
    pub next: u64,
    /// Byte order of bodies.
    pub order: ByteOrder,
    /// Sections that the simulation sends, as [`Sections::bits`].
    pub sections: u8,
    /// True if positions are wrapped into the box.
    pub is_wrapped: bool,
}

impl Begun {
    /// The session as the simulation announced it.
    ///
    /// # Errors
    /// The sections are none.
    pub fn info(&self) -> Result<SessionInfo, WireError> {
        let sections = Sections::from_bits(self.sections).filter(|sections| !sections.is_empty());
        Ok(SessionInfo {
            order: self.order,
            sections: sections
                .ok_or_else(|| WireError(format!("sections {:#x}", self.sections)))?,
            is_wrapped: self.is_wrapped,
        })
    }
}

/// A part of a section of a frame.
///
/// ```text
///  0      1         2              10            12            14
///  +------+---------+--------------+-------------+-------------+------
///  | 1    | section | frame (u64)  | part (u16)  | parts (u16) | bytes
///  +------+---------+--------------+-------------+-------------+------
/// ```
/// In network byte order. Parts have [`PART_BYTES_MAX`] bytes, but the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Section.
    pub section: Section,
    /// Number of the frame in its session, from 0.
    pub frame: u64,
    /// Number of the part, from 0.
    pub part: u16,
    /// Parts of the section.
    pub parts: u16,
    /// Its bytes.
    pub data: Bytes,
}

impl Part {
    /// The parts of a section.
    pub fn of(section: Section, frame: u64, body: &Bytes) -> impl Iterator<Item = Self> + use<> {
        let parts = body.len().div_ceil(PART_BYTES_MAX).max(1);
        let body = body.clone();
        (0..parts).map(move |part| {
            let from = part * PART_BYTES_MAX;
            Self {
                section,
                frame,
                part: part as u16,
                parts: parts as u16,
                data: body.slice(from..body.len().min(from + PART_BYTES_MAX)),
            }
        })
    }

    /// The part as an ADU.
    pub fn to_adu(&self) -> Bytes {
        let mut adu = BytesMut::with_capacity(PART_HEADER_BYTES + self.data.len());
        adu.put_u8(PART);
        adu.put_u8(self.section.index() as u8);
        adu.put_u64(self.frame);
        adu.put_u16(self.part);
        adu.put_u16(self.parts);
        adu.put_slice(&self.data);
        adu.freeze()
    }

    fn read(mut adu: Bytes) -> Result<Self, WireError> {
        if adu.len() < PART_HEADER_BYTES {
            return Err(WireError(format!("a part of {} bytes", adu.len())));
        }
        adu.advance(1);
        let section = adu.get_u8();
        let part = Self {
            section: Section::at(usize::from(section))
                .ok_or_else(|| WireError(format!("section {section}")))?,
            frame: adu.get_u64(),
            part: adu.get_u16(),
            parts: adu.get_u16(),
            data: adu,
        };
        let is_last = part.part.checked_add(1) == Some(part.parts);
        let bytes = part.data.len();
        let is_length = match is_last {
            true => bytes <= PART_BYTES_MAX && (bytes > 0 || part.parts == 1),
            false => bytes == PART_BYTES_MAX,
        };
        let most = BODY_BYTES_MAX.div_ceil(PART_BYTES_MAX);
        if part.part >= part.parts || usize::from(part.parts) > most || !is_length {
            let Self { part, parts, .. } = part;
            return Err(WireError(format!("part {part} of {parts}, {bytes} bytes")));
        }
        Ok(part)
    }
}

/// An ADU of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A message.
    Notice(Notice),
    /// Data.
    Part(Part),
}

impl Sent {
    /// Reads an ADU.
    ///
    /// # Errors
    /// It is no message and no part.
    pub fn read(adu: &Bytes) -> Result<Self, WireError> {
        match adu.first() {
            Some(&PART) => Part::read(adu.clone()).map(Self::Part),
            _ => decode(adu).map(Self::Notice),
        }
    }
}

/// A message as an ADU.
pub fn encode(message: &impl Serialize) -> Bytes {
    let mut bytes = vec![JSON];
    serde_json::to_writer(&mut bytes, message).expect("messages have no maps with other keys");
    bytes.into()
}

/// Reads the message of an ADU.
///
/// # Errors
/// It is another kind, or no such message.
pub fn decode<T: DeserializeOwned>(adu: &Bytes) -> Result<T, WireError> {
    match adu.split_first() {
        Some((&JSON, json)) if json.len() <= MESSAGE_BYTES_MAX => {
            serde_json::from_slice(json).map_err(|error| WireError(error.to_string()))
        }
        Some((&JSON, json)) => Err(WireError(format!("{} bytes of JSON", json.len()))),
        kind => Err(WireError(format!("kind {:?}", kind.map(|(kind, _)| kind)))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn labels_are_read_as_they_are_written() {
        for (purpose, text) in [
            (Purpose::Watch, "imd/1/watch/adk"),
            (Purpose::Steer, "imd/1/steer/run-7.b_2"),
        ] {
            let label: Label = text.parse().unwrap();
            assert_eq!(label.purpose, purpose);
            assert_eq!(label.to_string(), text);
        }
        let long = format!("imd/1/watch/{}", "x".repeat(NAME_BYTES_MAX + 1));
        for text in [
            "imd/1/watch/",
            "imd/1/watch",
            "imd/1/see/x",
            "imd/2/watch/x",
            "imd/1/watch/a/b",
            "imd/1/watch/a*",
            &long,
        ] {
            assert!(text.parse::<Label>().is_err(), "{text}");
        }
    }

    #[test]
    fn large_sections_are_divided() {
        for (bytes, parts) in [
            (0, 1),
            (12, 1),
            (PART_BYTES_MAX, 1),
            (PART_BYTES_MAX + 1, 2),
            (3 * PART_BYTES_MAX, 3),
        ] {
            let body = Bytes::from(vec![7; bytes]);
            let all: Vec<Part> = Part::of(Section::Positions, 9, &body).collect();
            assert_eq!(all.len(), parts, "{bytes}");
            let mut joined = Vec::new();
            for part in all {
                let read = Sent::read(&part.to_adu());
                assert_eq!(read, Ok(Sent::Part(part.clone())));
                joined.extend_from_slice(&part.data);
            }
            assert_eq!(joined, body);
        }
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let part = |part: u16, parts: u16, bytes: usize| {
            let section = Section::Forces;
            let data = vec![0; bytes].into();
            Part {
                section,
                frame: 0,
                part,
                parts,
                data,
            }
            .to_adu()
        };
        for adu in [
            part(0, 0, 0),
            part(1, 1, 4),
            part(0, 2, 5),
            part(1, 2, 0),
            part(0, u16::MAX, PART_BYTES_MAX),
            part(0, 1, PART_BYTES_MAX + 1),
            Bytes::from_static(&[1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            Bytes::from_static(&[1, 0]),
            Bytes::from_static(&[2]),
            Bytes::new(),
        ] {
            assert!(Sent::read(&adu).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_adu_is_read_or_refused(bytes in vec(any::<u8>(), 0..60), kind in 0..3_u8) {
            let mut adu = vec![kind];
            adu.extend(bytes);
            let adu = Bytes::from(adu);
            if let Ok(Sent::Part(part)) = Sent::read(&adu) {
                prop_assert_eq!(part.to_adu(), adu.clone());
            }
            let _ = decode::<Request>(&adu);
        }
    }
}

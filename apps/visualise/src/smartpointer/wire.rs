//! Protocol between a source and a viewer (`spec/visualise.md` §5).

use std::{fmt, str::FromStr};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::{
    frame::{ELEMENTS, FRAME, FramePart, Part},
    view::View,
};
use crate::{
    molecule::ATOMS_MAX,
    wire::{WireError, decode, is_name},
};

const BEGINNING: &str = "smartpointer/1/watch/";

/// Label of all streams, by which the right to open them is granted: `smartpointer/1/watch/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name of the molecule at the source.
    pub name: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINNING}{}", self.name)
    }
}

impl FromStr for Label {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let name = text.strip_prefix(BEGINNING).filter(|name| is_name(name));
        name.map(|name| Self {
            name: name.to_owned(),
        })
        .ok_or(())
    }
}

/// A message of a viewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// First message of the first stream, on which the viewer's messages are.
    Look,
    /// First message of a stream with frames, after [`Notice::Begun`].
    Watch {
        /// Number of the viewer, from [`Notice::Begun`].
        viewer: u64,
        /// Part that the stream carries.
        part: Part,
    },
    /// Bonds are divided by this view from the next frame on.
    View {
        /// Its number, which frames carry that are divided by it.
        number: u32,
        /// The view.
        planes: View,
    },
    /// Asks for the source's clock.
    Clock {
        /// Number of the question, such as the time of the viewer.
        at_us: u64,
    },
}

/// A message of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Notice {
    /// Answer to [`Request::Look`]; the elements of the atoms follow.
    Begun(Begun),
    /// Answer to [`Request::Watch`].
    Watched {
        /// Number of the first frame that can follow.
        next: u64,
    },
    /// State of the promise of the stream.
    Promise {
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
    },
    /// Answer to [`Request::Clock`].
    Clock {
        /// Number of the question.
        at_us: u64,
        /// Time of the source since the time of frame 0; 0 before.
        own_us: u64,
    },
    /// No frame follows.
    Ended {
        /// Reason.
        why: String,
    },
}

/// Beginning of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Number of the viewer at the source.
    pub viewer: u64,
    /// Time from one frame to the next, in microseconds.
    pub period_us: u64,
    /// Atoms of each frame.
    pub atoms: u32,
    /// Bonds of each frame, in both parts together.
    pub bonds: u32,
}

/// An ADU of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A message.
    Notice(Notice),
    /// A part of a frame.
    Frame(FramePart),
    /// Atomic numbers of all atoms; 0: unknown.
    Elements(Bytes),
}

impl Sent {
    /// Reads an ADU.
    ///
    /// # Errors
    /// It is none of the protocol.
    pub fn read(adu: &Bytes) -> Result<Self, WireError> {
        match adu.first() {
            Some(&FRAME) => FramePart::read(adu.clone()).map(Self::Frame),
            Some(&ELEMENTS) if adu.len() <= 1 + ATOMS_MAX as usize => {
                Ok(Self::Elements(adu.slice(1..)))
            }
            Some(&ELEMENTS) => Err(WireError(format!("elements of {} atoms", adu.len() - 1))),
            _ => decode(adu).map(Self::Notice),
        }
    }
}

/// The elements of all atoms as an ADU.
pub fn elements(elements: &[u8]) -> Bytes {
    let mut adu = BytesMut::with_capacity(1 + elements.len());
    adu.put_u8(ELEMENTS);
    adu.put_slice(elements);
    adu.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode;

    #[test]
    fn labels_are_read_as_they_are_written() {
        let label: Label = "smartpointer/1/watch/adk".parse().unwrap();
        assert_eq!(label.to_string(), "smartpointer/1/watch/adk");
        for wrong in [
            "smartpointer/1/watch/",
            "smartpointer/1/watch/a/b",
            "imd/1/watch/adk",
            "",
        ] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let json = r#"{"do":"view","number":3,"planes":[[1,0,0,-2.5]]}"#;
        let adu: Bytes = [&[0], json.as_bytes()].concat().into();
        let planes = View::new(vec![[1.0, 0.0, 0.0, -2.5]]).unwrap();
        let request = Request::View { number: 3, planes };
        assert_eq!(decode::<Request>(&adu), Ok(request.clone()));
        assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
        let watch = r#"{"do":"watch","viewer":1,"part":"bond2"}"#;
        let adu: Bytes = [&[0], watch.as_bytes()].concat().into();
        let expected = Request::Watch {
            viewer: 1,
            part: Part::Bond2,
        };
        assert_eq!(decode::<Request>(&adu), Ok(expected));
        let plane = "[1,0,0,0],";
        let many = format!(
            r#"{{"do":"view","number":3,"planes":[{}[1,0,0,0]]}}"#,
            plane.repeat(8)
        );
        let adu: Bytes = [&[0], many.as_bytes()].concat().into();
        let error = decode::<Request>(&adu).unwrap_err().to_string();
        assert!(error.contains("up to 8 planes"), "{error}");
    }

    #[test]
    fn elements_are_bounded() {
        let sent = Sent::read(&elements(&[6, 1]));
        assert_eq!(sent, Ok(Sent::Elements(Bytes::from_static(&[6, 1]))));
        let many = elements(&vec![1; ATOMS_MAX as usize + 1]);
        assert!(Sent::read(&many).is_err());
        assert!(Sent::read(&Bytes::new()).is_err());
    }
}

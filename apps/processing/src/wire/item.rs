//! ADUs with their fields, and marks, on the streams that carry them.
//!
//! ```text
//!  0      1       2              6                 14       15
//!  +------+-------+--------------+-----------------+--------+--------+------
//!  | 1    | flags | change (u32) | sequence (u64)  | fields | field… | body
//!  +------+-------+--------------+-----------------+--------+--------+------
//!  With flag 4, made (u64) stands before the number of fields.
//!  field { name length (u16), name, type, value }
//!  +------+-----------------+--------+-------------+
//!  | 2    | next (u64)      | phases | phase… (u32)|
//!  +------+-----------------+--------+-------------+
//! ```
//! In network byte order. Flags: 1, it needs the ADU before; 2, it is the last that was derived from this ADU of the source; 4, the time at
//! which it was made follows, in microseconds since the source's beginning. Types: 1 a
//! number (64-bit floating point), 2 false, 3 true, 4 a text (u16 length, bytes in UTF-8).

use std::time::Duration;

use anabranch_process::{
    Adu, Fields, Value,
    adu::{FIELD_BYTES_MAX, FIELDS_MAX},
    derive::Derived,
    text::STEPS_MAX,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{ITEM, MARK, WireError, message::Position};

/// Longest header of an ADU: that with the most and the longest fields.
pub const HEADER_BYTES_MAX: usize =
    23 + FIELDS_MAX * (2 + FIELD_BYTES_MAX + 1 + 2 + FIELD_BYTES_MAX);

const NEEDS_PREVIOUS: u8 = 1;
const IS_LAST: u8 = 2;
const HAS_TIME: u8 = 4;

/// An ADU of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// An ADU of the source, or one that was derived.
    Adu(Carried),
    /// Everything before this place was sent.
    Mark(Position),
}

/// An ADU of a source, or one that was derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// The ADU.
    pub adu: Adu,
    /// Number of the pipeline that it was derived by; 0 from a source.
    pub change: u32,
    /// True if no other ADU was derived after it from the same one of the source.
    pub is_last: bool,
}

impl From<Derived> for Carried {
    fn from(derived: Derived) -> Self {
        let Derived {
            adu,
            change,
            is_last,
        } = derived;
        Self {
            adu,
            change,
            is_last,
        }
    }
}

impl Item {
    /// Reads an ADU of a stream.
    ///
    /// # Errors
    /// It is neither, or is not within the bounds.
    pub fn read(mut adu: Bytes) -> Result<Self, WireError> {
        match adu.try_get_u8() {
            Ok(ITEM) => carried(adu).map(Self::Adu),
            Ok(MARK) => mark(adu).map(Self::Mark),
            Ok(kind) => Err(WireError(format!("kind {kind}"))),
            Err(_) => Err(WireError("an empty message".to_owned())),
        }
    }

    /// The bytes.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Adu(carried) => carried.to_bytes(),
            Self::Mark(position) => {
                let phases = position.phases.as_deref().unwrap_or_default();
                let mut bytes = BytesMut::with_capacity(10 + 4 * phases.len());
                bytes.put_u8(MARK);
                bytes.put_u64(position.next);
                bytes.put_u8(phases.len() as u8);
                for &phase in phases {
                    bytes.put_u32(phase);
                }
                bytes.freeze()
            }
        }
    }
}

impl Carried {
    /// The bytes.
    pub fn to_bytes(&self) -> Bytes {
        let adu = &self.adu;
        let mut bytes = BytesMut::with_capacity(64 + adu.body.len());
        bytes.put_u8(ITEM);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let has_time = adu.made.is_some();
        bytes.put_u8(
            flag(adu.needs_previous, NEEDS_PREVIOUS)
                | flag(self.is_last, IS_LAST)
                | flag(has_time, HAS_TIME),
        );
        bytes.put_u32(self.change);
        bytes.put_u64(adu.sequence);
        if let Some(made) = adu.made {
            bytes.put_u64(made.as_micros() as u64);
        }
        bytes.put_u8(adu.fields.iter().count() as u8);
        for (name, value) in adu.fields.iter() {
            put_text(&mut bytes, name);
            match value {
                Value::Number(number) => {
                    bytes.put_u8(1);
                    bytes.put_f64(*number);
                }
                Value::Boolean(truth) => bytes.put_u8(2 + u8::from(*truth)),
                Value::Text(text) => {
                    bytes.put_u8(4);
                    put_text(&mut bytes, text);
                }
            }
        }
        bytes.put_slice(&adu.body);
        bytes.freeze()
    }
}

fn put_text(bytes: &mut BytesMut, text: &str) {
    // Names and texts of fields have 256 bytes at most.
    bytes.put_u16(text.len() as u16);
    bytes.put_slice(text.as_bytes());
}

fn cut() -> WireError {
    WireError("a message that is cut".to_owned())
}

fn carried(mut bytes: Bytes) -> Result<Carried, WireError> {
    if bytes.len() < 14 {
        return Err(cut());
    }
    let flags = bytes.get_u8();
    if flags & !(NEEDS_PREVIOUS | IS_LAST | HAS_TIME) != 0 {
        return Err(WireError(format!("flags {flags:#x}")));
    }
    let change = bytes.get_u32();
    let sequence = bytes.get_u64();
    let made = match flags & HAS_TIME {
        0 => None,
        _ => Some(bytes.try_get_u64().map_err(|_| cut())?),
    };
    let count = usize::from(bytes.try_get_u8().map_err(|_| cut())?);
    let mut fields = Fields::default();
    for number in 0..count {
        let name = text(&mut bytes)?;
        let value = match bytes.try_get_u8().map_err(|_| cut())? {
            1 => Value::Number(bytes.try_get_f64().map_err(|_| cut())?),
            2 => Value::Boolean(false),
            3 => Value::Boolean(true),
            4 => Value::Text(text(&mut bytes)?.into()),
            other => return Err(WireError(format!("a field of type {other}"))),
        };
        let set = fields.set(&name, value);
        set.map_err(|error| WireError(error.to_string()))?;
        // No field is there twice.
        if fields.iter().count() != number + 1 {
            return Err(WireError(format!("the field {name:?} twice")));
        }
    }
    let adu = Adu {
        sequence,
        fields,
        body: bytes,
        made: made.map(Duration::from_micros),
        needs_previous: flags & NEEDS_PREVIOUS != 0,
    };
    Ok(Carried {
        adu,
        change,
        is_last: flags & IS_LAST != 0,
    })
}

fn text(bytes: &mut Bytes) -> Result<String, WireError> {
    let length = usize::from(bytes.try_get_u16().map_err(|_| cut())?);
    if length > FIELD_BYTES_MAX {
        return Err(WireError(format!("a field of {length} bytes")));
    }
    if length > bytes.len() {
        return Err(cut());
    }
    let text = bytes.split_to(length);
    let text = std::str::from_utf8(&text);
    let text = text.map_err(|_| WireError("a field that is no text".to_owned()))?;
    Ok(text.to_owned())
}

fn mark(mut bytes: Bytes) -> Result<Position, WireError> {
    if bytes.len() < 9 {
        return Err(cut());
    }
    let next = bytes.get_u64();
    let count = usize::from(bytes.get_u8());
    if count > STEPS_MAX || bytes.len() != 4 * count {
        return Err(WireError(format!(
            "{count} phases in {} bytes",
            bytes.len()
        )));
    }
    let phases = (0..count).map(|_| bytes.get_u32()).collect();
    Ok(Position {
        next,
        phases: Some(phases),
    })
}

//! Promises in the frames PROMISED and BESIDE: rates that are reserved on a channel, or on the interface at which it ends.
//!
//! ```text
//! Promises {
//!   count      varint   at most 6
//!   Promise    count times:
//!     kind     8 bits   0: durable, 1: renewable
//!     age      varint   time since which it has been in force, in milliseconds
//!     rate     varint   with headers, in bits per second
//! }
//! ```

use std::time::Duration;

use anabranch_base::Rate;
use bytes::Bytes;

use super::{
    DecodeError,
    frame::{read_length, read_u8},
    varint,
};

/// Most promises in a frame. Where there are more, the last stands for the rest.
pub const PROMISED_MAX: usize = 6;
/// Most bytes that a list of them takes.
pub(super) const BYTES_MAX: usize = 1 + PROMISED_MAX * 17;

/// A promise in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// It holds until its stream closes, not only for a term.
    pub is_durable: bool,
    /// Time since which it has been in force, in whole milliseconds.
    pub age: Duration,
    /// Its rate, with headers.
    pub rate: Rate,
}

pub(super) fn write(list: &[Promised], out: &mut Vec<u8>) {
    let list = &list[..list.len().min(PROMISED_MAX)];
    varint::write(out, list.len() as u64);
    for one in list {
        out.push(u8::from(!one.is_durable));
        let age_ms = u64::try_from(one.age.as_millis()).unwrap_or(varint::MAX);
        varint::write(out, age_ms.min(varint::MAX));
        varint::write(out, one.rate.as_bps().min(varint::MAX));
    }
}

pub(super) fn read(input: &mut Bytes) -> Result<Vec<Promised>, DecodeError> {
    let count = read_length(input)?;
    if count > PROMISED_MAX {
        return Err(DecodeError::Range("number of promises"));
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = read_u8(input)?;
        if kind > 1 {
            return Err(DecodeError::Range("kind of a promise"));
        }
        list.push(Promised {
            is_durable: kind == 0,
            age: Duration::from_millis(varint::read(input)?),
            rate: Rate::from_bps(varint::read(input)?),
        });
    }
    Ok(list)
}

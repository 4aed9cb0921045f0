//! `delta`: differences between consecutive arrays, without loss.
//!
//! ```text
//! ADU    { kind 8 bits, number 32 bits big-endian, rest }
//! kind 0: whole; the rest is the array
//! kind 1: difference to the array of number − 1, of the same length; the rest is pieces
//! piece  { zeros varint, bytes varint, that many bytes }
//! varint   7 bits a byte, lowest first, the highest bit set in all but the last
//! ```
//!
//! The difference is the exclusive or of both arrays, so that each number is restored bit by bit, NaN included. Its bytes are
//! transposed: first byte 0 of every element, then byte 1, …, then the bytes after the last whole element. Signs, exponents
//! and leading bits of numbers that change little, and trailing bits that [`precision`](super::precision) cut, are then long
//! runs of zeros. Zeros after the last piece are left out.

use std::num::NonZeroU32;

use bytes::{Buf, Bytes};

use crate::{
    adu::Adu,
    array::Element,
    operator::{Fault, Operator, Output, WORK_OF_ADU},
};

const WHOLE: u8 = 0;
const DIFFERENCE: u8 = 1;
const HEAD_BYTES: usize = 5;
/// Shortest run of zeros that ends the bytes before it: the heads of two pieces.
const RUN_MIN: usize = 3;

/// Encoder.
#[derive(Debug)]
pub struct Encoder {
    element: Element,
    whole: Option<NonZeroU32>,
    /// The array before; `None`: the next is sent whole.
    before: Option<Bytes>,
    /// Number of the next ADU.
    number: u32,
    /// Differences since the last whole array.
    differences: u32,
}

impl Encoder {
    /// An encoder whose first array is whole, and each `whole`-th after it.
    pub fn new(element: Element, whole: Option<NonZeroU32>) -> Self {
        Self {
            element,
            whole,
            before: None,
            number: 0,
            differences: 0,
        }
    }

    /// The array as an ADU's body, and whether that is a difference.
    pub fn encode(&mut self, array: Bytes) -> (Bytes, bool) {
        let is_due = self
            .whole
            .is_some_and(|count| self.differences + 1 >= count.get());
        let before = self
            .before
            .take()
            .filter(|before| before.len() == array.len() && !is_due);
        let difference = before.and_then(|before| self.difference(&before, &array));
        let is_difference = difference.is_some();
        let mut body =
            Vec::with_capacity(HEAD_BYTES + difference.as_ref().map_or(array.len(), Vec::len));
        body.push(if is_difference { DIFFERENCE } else { WHOLE });
        body.extend(self.number.to_be_bytes());
        body.extend_from_slice(difference.as_deref().unwrap_or(&array));
        self.number = self.number.wrapping_add(1);
        self.differences = if is_difference {
            self.differences.saturating_add(1)
        } else {
            0
        };
        self.before = Some(array);
        (body.into(), is_difference)
    }

    /// The pieces of the difference; `None` if they are not shorter than the array.
    fn difference(&self, before: &[u8], array: &[u8]) -> Option<Vec<u8>> {
        let order = Order::new(self.element, array.len());
        let planes: Vec<u8> = (0..array.len())
            .map(|place| {
                let at = order.at(place);
                before[at] ^ array[at]
            })
            .collect();
        let packed = pack(&planes);
        (packed.len() < array.len()).then_some(packed)
    }
}

impl Operator for Encoder {
    fn process(&mut self, mut adu: Adu, output: &mut Output) -> Result<(), Fault> {
        output.add_work(WORK_OF_ADU + 4 * adu.body.len() as u64);
        let (body, is_difference) = self.encode(std::mem::take(&mut adu.body));
        adu.body = body;
        adu.needs_previous = is_difference;
        output.push(adu)
    }

    fn resync(&mut self) {
        self.before = None;
    }

    fn held_bytes(&self) -> usize {
        self.before.as_ref().map_or(0, Bytes::len)
    }
}

/// Error of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The array before is missing.
    #[error("the array before this difference is missing; wait for a whole array")]
    Missing,
    /// The bytes are no ADU of an encoder.
    #[error("this is no delta-coded array; check that sender and receiver apply the same pipeline")]
    Format,
}

/// Decoder: the inverse of the encoder with the same width of elements.
#[derive(Debug)]
pub struct Decoder {
    element: Element,
    before: Option<(u32, Bytes)>,
}

impl Decoder {
    /// A decoder that waits for a whole array.
    pub fn new(element: Element) -> Self {
        Self {
            element,
            before: None,
        }
    }

    /// The array of an ADU's body. Takes memory for the array and its predecessor only.
    ///
    /// # Errors
    /// The array before is missing, or the bytes are wrong; what was decoded before is then kept.
    pub fn decode(&mut self, mut body: Bytes) -> Result<Bytes, DecodeError> {
        if body.len() < HEAD_BYTES {
            return Err(DecodeError::Format);
        }
        let (kind, number) = (body.get_u8(), body.get_u32());
        let array = match kind {
            WHOLE => body,
            DIFFERENCE => {
                let before = self.before.as_ref();
                let before = before.filter(|(before, _)| before.wrapping_add(1) == number);
                let (_, before) = before.ok_or(DecodeError::Missing)?;
                let mut array = before.to_vec();
                let order = Order::new(self.element, array.len());
                unpack(&body, array.len(), |place, byte| {
                    array[order.at(place)] ^= byte;
                })?;
                array.into()
            }
            _ => return Err(DecodeError::Format),
        };
        self.before = Some((number, array.clone()));
        Ok(array)
    }
}

/// Order of the bytes of an array once transposed.
#[derive(Clone, Copy)]
struct Order {
    width: usize,
    elements: usize,
}

impl Order {
    fn new(element: Element, bytes: usize) -> Self {
        let width = element.bytes();
        Self {
            width,
            elements: bytes / width,
        }
    }

    /// Place in the array of a byte of the transposed one.
    fn at(self, place: usize) -> usize {
        if place >= self.width * self.elements {
            return place;
        }
        place % self.elements * self.width + place / self.elements
    }
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut at = 0;
    while let Some(zeros) = bytes[at..].iter().position(|&byte| byte != 0) {
        let start = at + zeros;
        let mut end = start;
        let mut run = 0;
        while end < bytes.len() && run < RUN_MIN {
            run = if bytes[end] == 0 { run + 1 } else { 0 };
            end += 1;
        }
        end -= run;
        write_varint(&mut packed, zeros);
        write_varint(&mut packed, end - start);
        packed.extend_from_slice(&bytes[start..end]);
        at = end;
    }
    packed
}

fn unpack(
    mut packed: &[u8],
    length: usize,
    mut write: impl FnMut(usize, u8),
) -> Result<(), DecodeError> {
    let mut at = 0usize;
    while !packed.is_empty() {
        let zeros = read_varint(&mut packed).ok_or(DecodeError::Format)?;
        let bytes = read_varint(&mut packed).ok_or(DecodeError::Format)?;
        let start = at.checked_add(zeros).ok_or(DecodeError::Format)?;
        let end = start.checked_add(bytes).ok_or(DecodeError::Format)?;
        if end > length || bytes > packed.len() {
            return Err(DecodeError::Format);
        }
        for (offset, &byte) in packed[..bytes].iter().enumerate() {
            write(start + offset, byte);
        }
        packed = &packed[bytes..];
        at = end;
    }
    Ok(())
}

fn write_varint(packed: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        packed.push(value as u8 | 0x80);
        value >>= 7;
    }
    packed.push(value as u8);
}

fn read_varint(packed: &mut &[u8]) -> Option<usize> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = packed.split_first()?;
        *packed = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return usize::try_from(value).ok();
        }
    }
    None
}

//! Records of the feed of a page, in little-endian order, as typed arrays of a browser have it.
//!
//! ```text
//!  0               4      5       6     8            12           20              28             32            36
//!  +---------------+------+-------+-----+------------+------------+---------------+--------------+-------------+------
//!  | bytes (u32)   | 0    | state, in JSON
//!  +---------------+------+-------+-----+------------+------------+---------------+--------------+-------------+------
//!  | bytes (u32)   | 1..3 | flags | 0   | case (u32) | first or   | at, in us     | error, in us | leads (u32) | body
//!  |               |      |       |     |            | number     | (u64)         | (u32)        |             |
//!  +---------------+------+-------+-----+------------+------------+---------------+--------------+-------------+------
//! ```
//!
//! `bytes` counts what follows it. 1: samples, the body of `i16`; 2: a picture, with flag 1 where a decoder can begin; 3: a packet of speech.
//! An error of
//! 0xffffffff means that the ambulance's clock is not known yet.

use bytes::{BufMut, Bytes, BytesMut};

use crate::hospital::live::{Dated, Item};

const STATE: u8 = 0;
const SAMPLES: u8 = 1;
const PICTURE: u8 = 2;
const SPEECH: u8 = 3;
const HEAD_BYTES: usize = 32;

/// A state as a record.
pub(super) fn state(json: &str) -> Bytes {
    let mut record = BytesMut::with_capacity(5 + json.len());
    record.put_u32_le(1 + json.len() as u32);
    record.put_u8(STATE);
    record.put_slice(json.as_bytes());
    record.freeze()
}

/// Samples, a picture or a packet of speech as a record.
pub(super) fn item(item: &Item) -> Bytes {
    match item {
        Item::Samples {
            case,
            first,
            leads,
            dated,
            samples,
        } => {
            let body = samples.iter().flat_map(|sample| sample.to_le_bytes());
            let body: Vec<u8> = body.collect();
            record([SAMPLES, 0], *case, *first, *dated, *leads, &body)
        }
        Item::Picture {
            case,
            number,
            is_key,
            dated,
            bytes,
        } => record(
            [PICTURE, u8::from(*is_key)],
            *case,
            *number,
            *dated,
            0,
            bytes,
        ),
        Item::Speech {
            case,
            number,
            dated,
            bytes,
        } => record([SPEECH, 0], *case, *number, *dated, 0, bytes),
    }
}

fn record(kind: [u8; 2], case: u32, number: u64, dated: Dated, leads: usize, body: &[u8]) -> Bytes {
    let mut record = BytesMut::with_capacity(4 + HEAD_BYTES + body.len());
    record.put_u32_le((HEAD_BYTES + body.len()) as u32);
    record.put_slice(&kind);
    record.put_u16_le(0);
    record.put_u32_le(case);
    record.put_u64_le(number);
    record.put_u64_le(dated.at_us);
    record.put_u32_le(dated.error_us.unwrap_or(u32::MAX));
    record.put_u32_le(leads as u32);
    record.put_slice(body);
    record.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_layout_that_is_documented() {
        let dated = Dated {
            at_us: 0x0102,
            error_us: None,
        };
        let samples = Item::Samples {
            case: 3,
            first: 9,
            leads: 2,
            dated,
            samples: [1, -2].as_slice().into(),
        };
        let record = item(&samples);
        assert_eq!(record.len(), 4 + 32 + 4);
        assert_eq!(record[..6], [36, 0, 0, 0, 1, 0]);
        assert_eq!(record[8..14], [3, 0, 0, 0, 9, 0]);
        assert_eq!(record[20..24], [2, 1, 0, 0]);
        assert_eq!(
            record[28..],
            [255, 255, 255, 255, 2, 0, 0, 0, 1, 0, 254, 255]
        );
        let picture = Item::Picture {
            case: 3,
            number: 4,
            is_key: true,
            dated,
            bytes: Bytes::from_static(b"x"),
        };
        let record = item(&picture);
        assert_eq!((record[4..6].to_vec(), record[36]), (vec![2, 1], b'x'));
        assert_eq!(state("{}")[..], [3, 0, 0, 0, 0, b'{', b'}']);
    }
}

//! Header of a container.

use anabranch_base::Instant;
use bytes::{Buf, Bytes};

use super::DecodeError;

const FLAG_TIMESTAMP: u8 = 0x01;
/// Resolution of the timestamp.
const TICK_NANOS: u64 = 16_000;
/// Bytes of a header with a timestamp.
pub const HEADER_BYTES_MAX: usize = 4;

/// A container's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's clock in ticks of 16 µs, modulo 2^24 (268 s); `None` on most containers, because
    /// a sample of the one-way delay now and then is enough.
    pub timestamp: Option<u32>,
}

/// The timestamp for `now`.
pub fn timestamp(now: Instant) -> u32 {
    (now.as_nanos() / TICK_NANOS) as u32 & 0x00ff_ffff
}

/// Microseconds from the tick `sent` to `now`, offset by the unknown difference of the two clocks:
/// only differences of these values mean anything. In (-134 s, 134 s].
pub fn relative_delay_us(sent: u32, now: Instant) -> i64 {
    let difference = timestamp(now).wrapping_sub(sent) & 0x00ff_ffff;
    let signed = if difference >= 1 << 23 {
        i64::from(difference) - (1 << 24)
    } else {
        i64::from(difference)
    };
    signed * (TICK_NANOS / 1000) as i64
}

/// Starts a container in the empty `out`.
pub fn write_header(out: &mut Vec<u8>, timestamp: Option<u32>) {
    match timestamp {
        None => out.push(0),
        Some(tick) => {
            out.push(FLAG_TIMESTAMP);
            out.extend_from_slice(&tick.to_be_bytes()[1..]);
        }
    }
}

/// Takes the header off a container; the frames remain.
///
/// # Errors
/// The header is truncated or has an unknown flag.
pub fn read_header(container: &mut Bytes) -> Result<Header, DecodeError> {
    if container.is_empty() {
        return Err(DecodeError::Truncated);
    }
    let flags = container.get_u8();
    if flags & !FLAG_TIMESTAMP != 0 {
        return Err(DecodeError::UnknownType(flags));
    }
    if flags & FLAG_TIMESTAMP == 0 {
        return Ok(Header { timestamp: None });
    }
    if container.len() < 3 {
        return Err(DecodeError::Truncated);
    }
    let high = u32::from(container.get_u8());
    let low = u32::from(container.get_u16());
    Ok(Header {
        timestamp: Some(high << 16 | low),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timestamps_survive_the_wrap() {
        let period = Duration::from_nanos(TICK_NANOS << 24);
        let sent_at = Instant::EPOCH + period - Duration::from_millis(5);
        let tick = timestamp(sent_at);
        let delay = relative_delay_us(tick, sent_at + Duration::from_millis(30));
        assert!((29_900..=30_100).contains(&delay), "{delay}");
        assert_eq!(relative_delay_us(timestamp(sent_at), sent_at), 0);
    }

    #[test]
    fn header_round_trips() {
        for timestamp in [None, Some(0), Some(0x00ab_cdef)] {
            let mut out = Vec::new();
            write_header(&mut out, timestamp);
            let mut bytes = Bytes::from(out);
            assert_eq!(read_header(&mut bytes), Ok(Header { timestamp }));
            assert!(bytes.is_empty());
        }
        assert!(read_header(&mut Bytes::from_static(&[0x80])).is_err());
        assert!(read_header(&mut Bytes::from_static(&[0x01, 0, 0])).is_err());
    }
}

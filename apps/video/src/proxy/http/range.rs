//! Byte ranges (RFC 9110 §14).

use std::ops::Range;

/// Range of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// No range, or one that may be ignored.
    Everything,
    /// These bytes; at least one.
    Range(Range<u64>),
    /// Bytes that do not exist.
    Nothing,
}

/// Parses a `Range` header for something of `total` bytes. Several ranges at once are answered with everything, as RFC 9110
/// §14.2 allows.
pub(super) fn asked(header: Option<&str>, total: u64) -> Asked {
    let Some(header) = header else {
        return Asked::Everything;
    };
    let spec = header.trim().strip_prefix("bytes=");
    let Some((first, last)) = spec.and_then(|spec| spec.split_once('-')) else {
        return Asked::Everything;
    };
    let read = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        // A number that does not fit is beyond the end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (read(first), read(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(total),
        (Some(first), None) if last.is_empty() => first..total,
        (None, Some(count)) if first.is_empty() => total.saturating_sub(count)..total,
        _ => return Asked::Everything,
    };
    if range.start >= range.end {
        return Asked::Nothing;
    }
    Asked::Range(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_rfc() {
        let of = |header| asked(Some(header), 100);
        assert_eq!(of("bytes=0-9"), Asked::Range(0..10));
        assert_eq!(of("bytes=90-"), Asked::Range(90..100));
        assert_eq!(of("bytes=90-1000"), Asked::Range(90..100));
        assert_eq!(of("bytes=-5"), Asked::Range(95..100));
        assert_eq!(of("bytes=-500"), Asked::Range(0..100));
        assert_eq!(of("bytes=0-18446744073709551615"), Asked::Range(0..100));
        assert_eq!(of("bytes=0-99999999999999999999999"), Asked::Range(0..100));
        for beyond in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(of(beyond), Asked::Nothing, "{beyond}");
        }
        for odd in [
            "bytes=",
            "bytes=a-b",
            "bytes=9-0",
            "items=0-1",
            "bytes=0-1,3-4",
            "bytes=--1",
        ] {
            assert_eq!(of(odd), Asked::Everything, "{odd}");
        }
        assert_eq!(asked(None, 100), Asked::Everything);
        assert_eq!(asked(Some("bytes=0-"), 0), Asked::Nothing);
    }
}

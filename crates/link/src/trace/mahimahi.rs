//! Mahimahi's packet-delivery file: one time in milliseconds per line.

use std::time::Duration;

use super::{DURATION_MAX, ParseTraceError, ROWS_MAX, lines};

const TIME: &str = "a whole number of milliseconds, not below the line before, at most 3600000000";
const LINE: &str = "whole milliseconds, one per 1500-byte packet, the last above 0";

/// Parses the times.
pub(super) fn parse(text: &str) -> Result<Vec<Duration>, ParseTraceError> {
    let mut times: Vec<Duration> = Vec::new();
    for (line, cell) in lines(text) {
        let error = || ParseTraceError::cell(line, 1, cell, TIME);
        if times.len() == ROWS_MAX {
            let most = ROWS_MAX;
            return Err(ParseTraceError::TooMany { line, most });
        }
        let time_ms: u64 = cell.parse().map_err(|_| error())?;
        let time = Duration::from_millis(time_ms);
        if time > DURATION_MAX || times.last().is_some_and(|&last| time < last) {
            return Err(error());
        }
        times.push(time);
    }
    // A trace that ends at zero has no length after which to repeat.
    if times.last().is_none_or(Duration::is_zero) {
        return Err(ParseTraceError::Empty {
            missing: "delivery opportunity after 0 ms",
            expected: LINE,
        });
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use crate::{Trace, trace::ParseTraceError};
    use anabranch_base::Rate;
    use std::time::Duration;

    #[test]
    fn reads_times_and_sums_them_up() {
        // Four packets in 2 s: 24 kbit/s. Three of them in the first second, one at its end.
        let trace = Trace::from_mahimahi("test", "1\n1\n1000\n2000\n").unwrap();
        assert_eq!(trace.duration(), Duration::from_secs(2));
        assert_eq!(trace.rate_mean(), Rate::from_kbps(24));
        assert_eq!(trace.rate_max(), Rate::from_kbps(36));
        assert_eq!(trace.rate_min(), Rate::from_kbps(12));
        assert_eq!(trace.bits(Duration::from_millis(2001)), 6.0 * 12_000.0);
    }

    #[test]
    fn errors_name_the_place() {
        for (text, place) in [("5\nsix\n", 2), ("5\n4\n", 2), ("-1\n", 1), ("1.5\n", 1)] {
            let error = Trace::from_mahimahi("test", text).unwrap_err();
            assert!(
                matches!(error, ParseTraceError::Cell { line, column: 1, .. } if line == place)
            );
        }
        for text in ["", "0\n0\n"] {
            let error = Trace::from_mahimahi("test", text).unwrap_err();
            assert!(matches!(error, ParseTraceError::Empty { .. }), "{error}");
        }
    }

    #[test]
    fn the_form_is_recognised() {
        assert!(Trace::parse("m", b"# comment\n3\n4\n").is_ok());
        assert!(Trace::parse("c", b"\nt_s,bandwidth_bps\n0,1\n").is_ok());
        let error = Trace::parse("z", b"1\n\x1f\x8b\xff").unwrap_err();
        assert_eq!(error, ParseTraceError::NotText { line: 2 });
    }
}

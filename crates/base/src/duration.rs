//! Durations as people write them: a number and a unit.

use std::time::Duration;

use crate::unit;

/// Reason why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a duration; write a number and a unit, such as \"150 ms\", \"2 s\", \"5 min\" or \"250 us\""
)]
pub struct ParseDurationError {
    text: String,
}

/// Reads a duration such as `150 ms`, `1.5s`, `250 us` or `5 min`.
///
/// # Errors
/// The text has no number, no unit or an unknown one, or exceeds 1,000 hours.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let error = || ParseDurationError {
        text: text.to_owned(),
    };
    let (number, unit) = unit::split(text);
    let number: f64 = number.parse().map_err(|_| error())?;
    let seconds = number
        * match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(error()),
        };
    if !seconds.is_finite() || seconds > 3_600_000.0 {
        return Err(error());
    }
    Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Writes a duration with three significant digits, e.g. `12.3 ms`.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = if seconds == 0.0 {
        (0.0, "s")
    } else if seconds < 1e-6 {
        (seconds * 1e9, "ns")
    } else if seconds < 1e-3 {
        (seconds * 1e6, "us")
    } else if seconds < 1.0 {
        (seconds * 1e3, "ms")
    } else {
        (seconds, "s")
    };
    let digits = if value >= 100.0 || value == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Writes a duration in whole seconds, e.g. `30 s`; fractions are rounded.
pub fn format_seconds(duration: Duration) -> String {
    format!("{:.0} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("150 ms"), Ok(Duration::from_millis(150)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("250 us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse("2 min"), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "ms", "5 parsecs", "-1 s", "1e9 h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn writes_three_digits() {
        assert_eq!(format(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(format(Duration::from_secs(75)), "75.0 s");
        assert_eq!(format(Duration::ZERO), "0 s");
    }
}

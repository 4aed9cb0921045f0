//! Single values, read and written exactly: a written value parses to the same value.

use std::time::Duration;

use anabranch_base::{Rate, duration, size, unit};

/// `250 kB`, `1500 B`, `1 MB`, `64 KiB`; whole bytes only.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = number(text)?;
    let scale = size::bytes_of(unit)? as f64;
    let bytes = (number * scale).round();
    let is_whole = (bytes - number * scale).abs() < 1e-6;
    (is_whole && bytes < 1e15).then_some(bytes as u64)
}

/// `1 %` or `0.01`. The range is checked with the config.
pub(super) fn probability(text: &str) -> Option<f64> {
    match text.trim().strip_suffix('%') {
        Some(percent) => from_percent(plain(percent)?),
        None => plain(text),
    }
}

/// A hundredth, rounded once: the decimal point is moved in the text. Division by 100 would make 0.65 % a different
/// number from 0.0065.
fn from_percent(percent: f64) -> Option<f64> {
    format!("{percent}e-2").parse().ok()
}

/// A plain number.
pub(super) fn plain(text: &str) -> Option<f64> {
    number(text)
        .filter(|(_, unit)| unit.is_empty())
        .map(|(number, _)| number)
}

/// `30 ms`.
pub(super) fn time(text: &str) -> Option<Duration> {
    duration::parse(text).ok()
}

/// `50 Mbit/s`.
pub(super) fn rate(text: &str) -> Option<Rate> {
    text.parse().ok()
}

/// Splits a non-negative number from its unit.
fn number(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = unit::split(text);
    Some((number.parse().ok()?, unit))
}

pub(super) fn write_bytes(bytes: u64) -> String {
    in_largest(
        bytes,
        &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")],
        "B",
    )
}

pub(super) fn write_time(time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    in_largest(
        nanos,
        &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")],
        "ns",
    )
}

pub(super) fn write_rate(rate: Rate) -> String {
    let units = [
        (1_000_000_000, "Gbit/s"),
        (1_000_000, "Mbit/s"),
        (1_000, "kbit/s"),
    ];
    in_largest(rate.as_bps(), &units, "bit/s")
}

/// In percent, unless only the plain number parses to the same value.
pub(super) fn write_probability(probability: f64) -> String {
    let percent = (probability * 100.0 * 1e9).round() / 1e9;
    if from_percent(percent) == Some(probability) {
        format!("{percent} %")
    } else {
        format!("{probability}")
    }
}

/// In the largest unit that gives a whole number.
fn in_largest(value: u64, units: &[(u64, &str)], smallest: &str) -> String {
    let fits = |&&(scale, _): &&(u64, &str)| value >= scale && value.is_multiple_of(scale);
    match units.iter().find(fits) {
        Some((scale, unit)) => format!("{} {unit}", value / scale),
        None => format!("{value} {smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_whole() {
        assert_eq!(bytes("250 kB"), Some(250_000));
        assert_eq!(bytes("1.5kB"), Some(1_500));
        assert_eq!(bytes("64 KiB"), Some(65_536));
        for bad in [
            "",
            "250",
            "0.5 B",
            "1 kb",
            "-1 B",
            "1e3 B",
            "9999999 GB",
            ".",
        ] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn probabilities_are_written_in_percent() {
        assert_eq!(write_probability(0.01), "1 %");
        assert_eq!(write_probability(0.0065), "0.65 %");
        assert_eq!(probability("0.65 %"), Some(0.0065));
        assert_eq!(probability("0.5"), Some(0.5));
        assert_eq!(probability("5 parts"), None);
    }

    #[test]
    fn units_are_as_large_as_exactness_allows() {
        assert_eq!(write_bytes(1_500), "1500 B");
        assert_eq!(write_bytes(250_000), "250 kB");
        assert_eq!(write_time(Duration::from_micros(1_500)), "1500 us");
        assert_eq!(write_time(Duration::ZERO), "0 ns");
        assert_eq!(write_rate(Rate::from_mbps(1_500)), "1500 Mbit/s");
    }
}

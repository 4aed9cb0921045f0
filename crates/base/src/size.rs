//! Sizes in bytes as people write them: a number and a unit.

use crate::unit;

/// Units of sizes, the largest first, and their bytes.
pub const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Reason why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a size; write a number and its unit, B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"
)]
pub struct ParseSizeError {
    text: String,
}

/// Bytes of a unit such as `MB`; `None`: there is no such unit.
pub fn bytes_of(name: &str) -> Option<u64> {
    let found = UNITS.iter().find(|(known, _)| *known == name);
    found.map(|(_, bytes)| *bytes)
}

/// Reads a size such as `2 GB`, `1.5MiB` or `0 B`.
///
/// # Errors
/// The text has no number, no unit or an unknown one, or exceeds 10¹⁸ bytes.
pub fn parse(text: &str) -> Result<u64, ParseSizeError> {
    let error = || ParseSizeError {
        text: text.to_owned(),
    };
    let (number, name) = unit::split(text);
    let number: f64 = number.parse().map_err(|_| error())?;
    let bytes = number * bytes_of(name).ok_or_else(error)? as f64;
    if !(0.0..=1e18).contains(&bytes) {
        return Err(error());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("2 GB"), Ok(2_000_000_000));
        assert_eq!(parse(" 1.5MiB"), Ok(1_572_864));
        assert_eq!(parse("0 B"), Ok(0));
        for bad in ["", "2", "GB", "-1 MB", "1e9 GB", "2 Gb", "99999999999 TB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

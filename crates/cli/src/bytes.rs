//! Numbers of bytes as text.

use serde_json::Value;

/// Number of bytes of a field; 0 if it is not there.
pub(crate) fn of(row: &Value, key: &str) -> String {
    text(row[key].as_u64().unwrap_or_default())
}

/// A number of bytes with three digits, such as `1.23 MB`.
pub(crate) fn text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "kB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // Rounded, 999.5 has four digits.
    while value >= 999.5
        && let Some(next) = units.next()
    {
        value /= 1e3;
        unit = next;
    }
    let decimals = match value {
        _ if unit == "B" => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_three_digits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (9_996, "10.0 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (12_345_678, "12.3 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(text(bytes), expected);
        }
    }
}

//! Words for the fields of rows.

use std::time::Duration;

use anabranch::base::text::printable;
use serde_json::Value;

/// Characters of a node's id that tell it from others.
const ID_CHARS: usize = 8;
/// Length of a node's id.
const ID_CHARS_ALL: usize = 52;

/// Peer of a row: its name in the configuration, or the beginning of its id.
pub(crate) fn peer(row: &Value) -> String {
    peer_named(row["peer"].as_str(), row["peer_name"].as_str())
}

/// A peer by its name, or by the beginning of its id.
pub(crate) fn peer_named(id: Option<&str>, name: Option<&str>) -> String {
    let id = id.unwrap_or("-");
    let name = name.unwrap_or(id);
    match name == id && id.len() >= ID_CHARS_ALL && id.is_ascii() {
        true => format!("{}…", &id[..ID_CHARS]),
        false => printable(name, usize::MAX),
    }
}

/// An age or a time that is left, with its largest units: `12 s`, `3 min`, `2 h 5 min`, `4 d 3 h`.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min"),
        3600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Duration of a field in seconds.
pub(crate) fn seconds(row: &Value, key: &str) -> Option<Duration> {
    let seconds = row[key].as_f64()?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// A field in milliseconds as text; `-` if it is not known.
pub(crate) fn millis(row: &Value, key: &str) -> String {
    match row[key].as_f64() {
        Some(value) if value > 0.0 => {
            let decimals = if value < 10.0 { 1 } else { 0 };
            format!("{value:.decimals$} ms")
        }
        _ => "-".to_owned(),
    }
}

/// Milliseconds as text, with three digits.
pub(crate) fn round_trip(ms: f64) -> String {
    let decimals = match ms {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$} ms")
}

/// A fraction as a percentage; `-` if it is not known.
pub(crate) fn percent(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0 %".to_owned(),
        Some(value) if value < 0.001 => "< 0.1 %".to_owned(),
        Some(value) if value < 0.1 => format!("{:.1} %", 100.0 * value),
        Some(value) => format!("{:.0} %", 100.0 * value),
    }
}

/// State of a path with its age, such as `not responding, 12 s`; that of an active one without.
pub(crate) fn state(row: &Value) -> String {
    let words = match row["state"].as_str().unwrap_or("-") {
        // Of nodes of earlier versions.
        "suspected" => "not responding",
        words => words,
    };
    match seconds(row, "silent_s") {
        Some(since) if words != "active" => format!("{words}, {}", age(since)),
        _ => printable(words, usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn peers_have_names_or_short_ids() {
        let id = "a".repeat(ID_CHARS_ALL);
        assert_eq!(
            peer(&json!({"peer": id, "peer_name": "hospital"})),
            "hospital"
        );
        assert_eq!(peer(&json!({"peer": id, "peer_name": id})), "aaaaaaaa…");
        assert_eq!(peer(&json!({"peer": id})), "aaaaaaaa…");
        assert_eq!(peer(&json!({})), "-");
    }

    #[test]
    fn ages_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h 0 min"),
            (90_061, "1 d 1 h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_path_that_does_not_respond_says_for_how_long() {
        let row = json!({"state": "suspected", "silent_s": 12.4});
        assert_eq!(state(&row), "not responding, 12 s");
        assert_eq!(
            state(&json!({"state": "active", "silent_s": null})),
            "active"
        );
    }

    #[test]
    fn small_fractions_are_not_zero() {
        assert_eq!(percent(Some(0.0)), "0 %");
        assert_eq!(percent(Some(0.0004)), "< 0.1 %");
        assert_eq!(percent(Some(0.012)), "1.2 %");
        assert_eq!(percent(Some(0.64)), "64 %");
        assert_eq!(percent(None), "-");
    }
}

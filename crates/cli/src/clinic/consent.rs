//! Time for which a case is kept: what the hospital offers, and what the patient consents to.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    time::Duration,
};

use anabranch::base::duration;
use anabranch_clinic::hospital::KEPT_MAX;

use crate::exit::Failure;

const DAY_S: u64 = 86_400;
/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// Reads a time such as `30 days` or `12 h`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let number = text
        .strip_suffix("days")
        .or_else(|| text.strip_suffix("day"))
        .map(str::trim);
    let time = match number.map(str::parse::<u64>) {
        Some(Ok(days)) => Duration::from_secs(days.saturating_mul(DAY_S)),
        Some(Err(_)) => {
            return Err(format!("'{text}' has no whole number of days, such as '30 days'"));
        }
        None => duration::parse(text).map_err(|_| {
            format!("'{text}' is not a time; give a number and a unit, such as '30 days', '12 h' or '30 min'")
        })?,
    };
    match time <= KEPT_MAX {
        true => Ok(time),
        false => Err(format!("at most {} days", KEPT_MAX.as_secs() / DAY_S)),
    }
}

/// Writes a time in its largest unit of which it has a whole number: days, hours, minutes or seconds.
pub(super) fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [
        (DAY_S, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    match seconds / unit {
        1 => format!("1 {name}"),
        number => format!("{number} {name}s"),
    }
}

/// Reads an answer of the patient: `yes`, `no`, or the longest time.
pub(super) fn parse_consent(text: &str) -> Result<Duration, String> {
    match text.trim().to_lowercase().as_str() {
        "yes" | "y" => Ok(KEPT_MAX),
        "no" | "n" => Ok(Duration::ZERO),
        time => parse_time(time).map_err(|error| format!("{error}; or yes, or no")),
    }
}

/// Asks at the terminal.
///
/// # Errors
/// There is none, or nobody answers.
pub(super) fn ask() -> Result<Duration, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(
            "say with --consent for how long the patient lets the hospital keep the case after its end: yes (as long as it keeps cases), no, or a time \
             such as '7 days'",
        ));
    }
    loop {
        // If standard error is closed, there is no other place to ask.
        let _ = write!(
            io::stderr(),
            "May the hospital keep what is sent after the end of the case? yes, no, or for how long at most, such as 7 days: "
        );
        let mut line = String::new();
        let read = io::stdin()
            .lock()
            .take(ANSWER_BYTES_MAX)
            .read_line(&mut line);
        if read.map_err(Failure::other)? == 0 {
            return Err(Failure::usage("nobody has answered; see --consent"));
        }
        match parse_consent(&line) {
            Ok(time) => return Ok(time),
            Err(error) => {
                let _ = writeln!(io::stderr(), "{error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds, written) in [
            ("30 days", 30 * DAY_S, "30 days"),
            ("1day", DAY_S, "1 day"),
            ("36 h", 36 * 3_600, "36 hours"),
            ("90 min", 5_400, "90 minutes"),
            ("0 s", 0, "0 days"),
            ("61s", 61, "61 seconds"),
        ] {
            let time = parse_time(text).unwrap();
            assert_eq!(time, Duration::from_secs(seconds), "{text}");
            assert_eq!(words(time), written);
        }
        for (text, expected) in [
            ("", "is not a time"),
            ("30", "is not a time"),
            ("1.5 days", "whole number"),
            ("-1 days", "whole number"),
            ("36501 days", "at most 36500 days"),
            ("99999999999999999999 days", "whole number"),
            ("18446744073709551615 days", "at most"),
        ] {
            let error = parse_time(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn only_consent_is_consent() {
        assert_eq!(parse_consent("Yes\n"), Ok(KEPT_MAX));
        assert_eq!(parse_consent("no"), Ok(Duration::ZERO));
        assert_eq!(
            parse_consent("7 days\n"),
            Ok(Duration::from_secs(7 * DAY_S))
        );
        for text in ["", "\n", "ja", "maybe", "7"] {
            assert!(parse_consent(text).is_err(), "{text}");
        }
    }
}

//! Data rates.

use std::{
    fmt,
    ops::{Add, Mul},
    str::FromStr,
    time::Duration,
};

use crate::unit;

/// A data rate in whole bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// Reason why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a rate; {}", advice(text))]
pub struct ParseRateError {
    text: String,
}

/// Text of the rate that was probably meant: in both readings if the text states the thousands of something, but not of what.
fn advice(text: &str) -> String {
    let (number, unit) = unit::split(text);
    let unit = unit.to_ascii_lowercase();
    let (thousands, rest) = match unit.strip_prefix(['k', 'm', 'g']) {
        Some(rest) => (unit.chars().next(), rest.trim_start_matches('i')),
        None => (None, &*unit),
    };
    let prefix = match thousands {
        Some('k') => "k",
        Some('m') => "M",
        Some(_) => "G",
        None => "",
    };
    let is_ambiguous = thousands.is_some() && matches!(rest, "" | "b" | "b/s" | "/s");
    let is_bytes = matches!(rest, "byte/s" | "bytes/s");
    match number.parse::<f64>() {
        Ok(number) if is_ambiguous || is_bytes => {
            let bits = format!("\"{} {prefix}bit/s\"", 8.0 * number);
            match is_bytes {
                true => format!("rates are in bits: write {bits}"),
                false => format!(
                    "rates are in bits: write \"{number} {prefix}bit/s\", or {bits} if bytes are meant"
                ),
            }
        }
        _ => "write a number and a unit, such as \"10 Mbit/s\", \"256 kbit/s\" or \"1.5 Gbit/s\""
            .to_owned(),
    }
}

impl Rate {
    /// No data at all.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `kbps` thousand bits per second.
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps * 1_000)
    }

    /// A rate of `mbps` million bits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// The rate that carries `bytes` in `time`; zero when `time` is zero.
    pub fn from_bytes_per(bytes: u64, time: Duration) -> Self {
        if time.is_zero() {
            return Self::ZERO;
        }
        Self((bytes as f64 * 8.0 / time.as_secs_f64()) as u64)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bytes per second.
    pub fn as_bytes_per_s(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Time to send `bytes` at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_to_send(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.0);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Bytes that fit into `time` at this rate; at most [`u64::MAX`].
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.0).saturating_mul(time.as_nanos());
        let bytes = bits / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Mul<f64> for Rate {
    type Output = Self;
    fn mul(self, rhs: f64) -> Self {
        Self((self.0 as f64 * rhs) as u64)
    }
}

impl std::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Rate {
    /// Three significant digits and a decimal unit, e.g. `12.5 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => (self.0 as f64, "bit/s"),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "kbit/s"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "Mbit/s"),
            _ => (self.0 as f64 / 1e9, "Gbit/s"),
        };
        let digits = if value >= 100.0 || self.0 < 1_000 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl FromStr for Rate {
    type Err = ParseRateError;

    /// Accepts a non-negative number and one of the units `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s`
    /// (case is ignored, the space is optional). A number without a unit is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseRateError {
            text: text.to_owned(),
        };
        let (number, unit) = unit::split(text);
        let number: f64 = number.parse().map_err(|_| error())?;
        let scale = match unit.to_ascii_lowercase().as_str() {
            "bit/s" | "bps" => 1.0,
            "kbit/s" | "kbps" => 1e3,
            "mbit/s" | "mbps" => 1e6,
            "gbit/s" | "gbps" => 1e9,
            _ => return Err(error()),
        };
        let bps = number * scale;
        if !bps.is_finite() || bps > 1e15 {
            return Err(error());
        }
        Ok(Self(bps.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rate_and_time_do_not_overflow() {
        let most = Rate::from_bps(u64::MAX);
        assert_eq!(most.bytes_in(Duration::MAX), u64::MAX);
        assert_eq!(most.time_to_send(u64::MAX), Duration::from_secs(8));
        assert_eq!(Rate::from_bps(1).time_to_send(u64::MAX), Duration::MAX);
    }

    #[test]
    fn parses_units() {
        assert_eq!("10 Mbit/s".parse(), Ok(Rate::from_mbps(10)));
        assert_eq!("1.5Gbit/s".parse(), Ok(Rate::from_mbps(1500)));
        assert_eq!("64 kbit/s".parse(), Ok(Rate::from_kbps(64)));
        for bad in ["", "10", "fast", "10 MB", "-1 Mbit/s", "1e99 Gbit/s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn converts_between_bytes_and_time() {
        let rate = Rate::from_mbps(12);
        assert_eq!(rate.time_to_send(1500), Duration::from_millis(1));
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), 1500);
        assert_eq!(Rate::ZERO.time_to_send(1), Duration::MAX);
        assert_eq!(Rate::from_bytes_per(1500, Duration::from_millis(1)), rate);
    }

    #[test]
    fn prints_three_digits() {
        assert_eq!(Rate::from_bps(12_500_000).to_string(), "12.5 Mbit/s");
        assert_eq!(Rate::from_bps(999).to_string(), "999 bit/s");
        assert_eq!(Rate::from_bps(1_234_000).to_string(), "1.23 Mbit/s");
    }

    #[test]
    fn a_rate_without_its_unit_is_refused_with_what_could_be_meant() {
        let refused = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        for (text, bits, bytes) in [
            ("20M", "\"20 Mbit/s\"", "\"160 Mbit/s\""),
            ("20 MB/s", "\"20 Mbit/s\"", "\"160 Mbit/s\""),
            ("1.5g", "\"1.5 Gbit/s\"", "\"12 Gbit/s\""),
            ("300 KiB/s", "\"300 kbit/s\"", "\"2400 kbit/s\""),
        ] {
            let message = refused(text);
            assert!(
                message.contains(bits) && message.contains(bytes),
                "{message}"
            );
            for rate in [bits, bytes] {
                assert!(rate.trim_matches('"').parse::<Rate>().is_ok(), "{rate}");
            }
        }
        for text in ["20", "M", "", "fast", "20 furlongs"] {
            assert!(refused(text).contains("such as"), "{text}");
        }
    }
}

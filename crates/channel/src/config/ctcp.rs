//! Parameters of `ctcp`.

use std::{fmt, time::Duration};

use anabranch_base::{Rate, duration};

use super::ParseControllerError;

/// Shortest and longest adjustment interval.
const INTERVAL: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(600)];

/// Parameters of a window with a ceiling that follows from a target rate [Two-flow §4.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctcp {
    /// Rate that the channel does not exceed, and holds while the inner controller allows it: UDP payload, above zero.
    /// It can be changed while the channel runs: [`Channel::set_rate`](crate::Channel::set_rate).
    pub target: Rate,
    /// The inner controller.
    pub inner: Inner,
    /// Interval at which the target window is computed anew from round trips and losses, 100 ms to 10 min.
    pub interval: Duration,
}

/// The inner controller, which alone responds to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Inner {
    /// Tolerates random loss.
    #[default]
    Auto,
    /// As published.
    NewReno,
}

impl Ctcp {
    /// The published interval.
    pub const INTERVAL: Duration = Duration::from_secs(8);

    /// This target rate, with the defaults otherwise.
    pub const fn at(target: Rate) -> Self {
        Self {
            target,
            inner: Inner::Auto,
            interval: Self::INTERVAL,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, ParseControllerError> {
        let bad = |part: &str| ParseControllerError::Parameters {
            name: "ctcp",
            text: part.to_owned(),
            expected: "write ctcp with the target rate and, unless auto and 8 s are wanted, the inner controller (auto or newreno) and the adjustment interval, as in ctcp:1.5 Mbit/s,newreno,8 s",
        };
        let mut parts = text.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let mut ctcp = Self::at(first.parse::<Rate>().map_err(|_| bad(first))?);
        for part in parts {
            match part {
                "auto" => ctcp.inner = Inner::Auto,
                "newreno" => ctcp.inner = Inner::NewReno,
                _ => ctcp.interval = duration::parse(part).map_err(|_| bad(part))?,
            }
        }
        let range = |parameter, value: String, range| ParseControllerError::Range {
            name: "ctcp",
            parameter,
            value,
            range,
        };
        if ctcp.target == Rate::ZERO {
            let value = "0 bit/s".to_owned();
            return Err(range("target", value, "a rate above zero"));
        }
        let [least, most] = INTERVAL;
        if !(least..=most).contains(&ctcp.interval) {
            let value = duration::format(ctcp.interval);
            return Err(range("interval", value, "100 ms to 10 min"));
        }
        Ok(ctcp)
    }
}

impl fmt::Display for Ctcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ctcp:{} bit/s", self.target.as_bps())?;
        if self.inner == Inner::NewReno {
            f.write_str(",newreno")?;
        }
        if self.interval != Self::INTERVAL {
            write!(f, ",{} ms", self.interval.as_millis())?;
        }
        Ok(())
    }
}

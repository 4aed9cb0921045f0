//! What an operator chooses for a channel.

use std::{fmt, str::FromStr, time::Duration};

use anabranch_base::{Rate, rate::ParseRateError};

/// A congestion controller, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Controller {
    /// Ours: holds the bottleneck's queue short and tolerates random loss; yields to flows that fill
    /// the queue. See `docs/congestion.md`.
    #[default]
    Auto,
    /// CUBIC (RFC 9438), as most of the Internet.
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
    /// BBR version 3 (draft-ietf-ccwg-bbr), ours; where it differs from the draft stands in
    /// `spec/deviations.toml`.
    Bbr3,
    /// A constant rate without any response to congestion; only for a pipe that is provisioned for
    /// it [Two-flow §4.2].
    Fixed(Rate),
}

/// The text names no controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseControllerError {
    /// Unknown name.
    #[error(
        "'{0}' is not a congestion controller; choose auto, cubic, newreno, bbr3, or fixed with a rate such as \"fixed 10 Mbit/s\""
    )]
    Unknown(String),
    /// `fixed` with a rate that cannot be read.
    #[error("controller 'fixed' needs a rate: {0}")]
    Rate(#[from] ParseRateError),
    /// `fixed` at rate zero would never send.
    #[error("controller 'fixed' needs a rate above zero")]
    ZeroRate,
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cubic => f.write_str("cubic"),
            Self::NewReno => f.write_str("newreno"),
            Self::Bbr3 => f.write_str("bbr3"),
            Self::Fixed(rate) => write!(f, "fixed {} bit/s", rate.as_bps()),
        }
    }
}

impl FromStr for Controller {
    type Err = ParseControllerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "cubic" => Ok(Self::Cubic),
            "newreno" => Ok(Self::NewReno),
            "bbr3" => Ok(Self::Bbr3),
            other => match other.strip_prefix("fixed") {
                Some(rate) => match rate.trim_start_matches([' ', ':', '=']).parse::<Rate>()? {
                    Rate::ZERO => Err(ParseControllerError::ZeroRate),
                    rate => Ok(Self::Fixed(rate)),
                },
                None => Err(ParseControllerError::Unknown(other.to_owned())),
            },
        }
    }
}

/// Settings of a channel; the defaults suit Internet paths from 1 Mbit/s to 10 Gbit/s and 1 ms to
/// 1 s of round trip.
#[derive(Clone, Debug)]
pub struct Config {
    /// The congestion controller.
    pub controller: Controller,
    /// Congestion window of a new channel, in packets, paced over a quarter of a round trip. 48 makes
    /// the ramp two round trips shorter than RFC 6928's 10; lower it for paths below 1 Mbit/s.
    pub initial_window_packets: u32,
    /// Largest UDP payload that path MTU discovery tries, in bytes; 1472 fills an Ethernet frame
    /// over IPv4, 1452 over IPv6. At least 1200.
    pub mtu_max_bytes: u16,
    /// Acknowledge at the latest after this many packets; fewer acknowledgements cost less CPU and
    /// less of a thin return path.
    pub ack_every_packets: u32,
    /// Acknowledge at the latest after this time.
    pub ack_delay_max: Duration,
    /// Close the connection after this long without a packet from the peer. The session outlives
    /// its channels and opens a new one when the path returns.
    pub idle_timeout: Duration,
    /// Queueing delay that [`Controller::Auto`] aims for at the bottleneck.
    pub queue_target: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller: Controller::default(),
            initial_window_packets: 48,
            mtu_max_bytes: 1472,
            ack_every_packets: 8,
            ack_delay_max: Duration::from_millis(4),
            idle_timeout: Duration::from_secs(30),
            queue_target: Duration::from_millis(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_round_trip_as_text() {
        for text in ["auto", "cubic", "newreno", "bbr3", "fixed 1000000 bit/s"] {
            let controller: Controller = text.parse().expect("a known name");
            assert_eq!(controller.to_string(), text);
        }
        assert_eq!(
            "fixed 8 Mbit/s".parse(),
            Ok(Controller::Fixed(Rate::from_mbps(8)))
        );
        assert!("vegas".parse::<Controller>().is_err());
        assert!("fixed".parse::<Controller>().is_err());
        assert_eq!(
            "fixed 0 bit/s".parse::<Controller>(),
            Err(ParseControllerError::ZeroRate)
        );
    }
}

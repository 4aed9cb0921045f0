//! Source of a link's rate.

use std::{sync::Arc, time::Duration};

use anabranch_base::Rate;

use crate::{
    Trace,
    limits::{self, ConfigError},
    trace::Shape,
};

/// The lowest constant rate, or base of a walk: slower than any modem still in use.
pub const RATE_MIN: Rate = Rate::from_kbps(1);
/// The shortest step of a walk; it bounds the work for one packet.
pub const EVERY_MIN: Duration = Duration::from_millis(1);
/// The largest factor a trace may be multiplied by.
pub const SCALE_MAX: f64 = 1e6;

/// Rate at which a link puts packets on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum RateSource {
    /// A packet takes no time to send, so nothing ever waits.
    Unlimited,
    /// A constant rate.
    Constant(Rate),
    /// A rate drawn anew at regular times.
    Walk(Walk),
    /// A recorded rate, repeated from its beginning when it ends.
    Trace(Playback),
}

/// A rate drawn uniformly from `base · (1 ± spread)` at regular times.
///
/// The draw of each step depends on the link's seed and the step's number only, not on the traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Walk {
    /// The mean rate.
    pub base: Rate,
    /// The largest deviation from the mean, as a fraction of it, 0 to 1.
    pub spread: f64,
    /// The time a drawn rate holds, at least [`EVERY_MIN`].
    pub every: Duration,
}

/// A trace as played by one link.
#[derive(Debug, Clone, PartialEq)]
pub struct Playback {
    /// The recording; many links may share it.
    pub trace: Arc<Trace>,
    /// Factor on every rate, above 0. With delivery opportunities it scales the bytes of each.
    pub scale: f64,
    /// The position in the trace at the host's epoch (or when the source was set); counted modulo the
    /// trace's duration.
    pub start: Duration,
}

impl RateSource {
    /// Plays `trace` from its beginning at its own rate.
    pub fn trace(trace: impl Into<Arc<Trace>>) -> Self {
        Self::Trace(Playback {
            trace: trace.into(),
            scale: 1.0,
            start: Duration::ZERO,
        })
    }

    /// The rate over a long time; `None` when unlimited.
    pub fn mean(&self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Constant(rate) => Some(*rate),
            Self::Walk(walk) => Some(walk.base),
            Self::Trace(playback) => Some(playback.trace.rate_mean() * playback.scale),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Unlimited => Ok(()),
            Self::Constant(rate) => not_too_low(*rate),
            Self::Walk(walk) => walk.validate(),
            Self::Trace(playback) => playback.validate(),
        }
    }
}

impl Walk {
    fn validate(&self) -> Result<(), ConfigError> {
        not_too_low(self.base)?;
        if !(0.0..=1.0).contains(&self.spread) {
            return Err(ConfigError::Spread { value: self.spread });
        }
        if self.every < EVERY_MIN {
            return Err(ConfigError::Every {
                every: self.every,
                least: EVERY_MIN,
            });
        }
        limits::at_most("the walk's step", self.every, limits::DURATION_MAX)
    }
}

impl Playback {
    fn validate(&self) -> Result<(), ConfigError> {
        if !(self.scale > 0.0 && self.scale <= SCALE_MAX) {
            return Err(ConfigError::Scale {
                value: self.scale,
                most: SCALE_MAX,
            });
        }
        limits::at_most("the trace's start", self.start, limits::OUTAGE_MAX)?;
        let carries = match self.trace.shape() {
            Shape::Steps(steps) => steps.iter().any(|step| self.scaled_bps(step.rate) > 0),
            Shape::Opportunities(_) => self.opportunity_bytes() > 0,
        };
        if !carries {
            return Err(ConfigError::TraceWithoutRate {
                name: self.trace.name().to_owned(),
                scale: self.scale,
            });
        }
        Ok(())
    }

    /// The link's rate while the trace states `rate`, in whole bits per second.
    pub(crate) fn scaled_bps(&self, rate: Rate) -> u64 {
        (rate.as_bps() as f64 * self.scale).round() as u64
    }

    /// The bytes one delivery opportunity carries on this link.
    pub(crate) fn opportunity_bytes(&self) -> u64 {
        (crate::trace::OPPORTUNITY_BYTES as f64 * self.scale).round() as u64
    }
}

fn not_too_low(rate: Rate) -> Result<(), ConfigError> {
    if rate < RATE_MIN {
        return Err(ConfigError::RateTooLow {
            rate_bps: rate.as_bps(),
            lowest_bps: RATE_MIN.as_bps(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_without_rate_is_refused() {
        let trace = Trace::from_csv("dead", "t_s,bandwidth_bps\n0,0\n1,0\n").unwrap();
        let error = RateSource::trace(trace).validate().unwrap_err();
        assert!(matches!(error, ConfigError::TraceWithoutRate { .. }));

        // 100 bit/s times 1/1000 rounds to nothing.
        let trace = Trace::from_csv("slow", "t_s,bandwidth_bps\n0,100\n1,100\n").unwrap();
        let mut playback = Playback {
            trace: Arc::new(trace),
            scale: 0.001,
            start: Duration::ZERO,
        };
        assert!(playback.validate().is_err());
        playback.scale = 1.0;
        assert!(playback.validate().is_ok());
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            playback.scale = scale;
            assert!(matches!(
                playback.validate(),
                Err(ConfigError::Scale { .. })
            ));
        }
    }

    #[test]
    fn a_walk_has_limits() {
        let walk = Walk {
            base: Rate::from_mbps(10),
            spread: 0.5,
            every: Duration::from_millis(500),
        };
        assert!(walk.validate().is_ok());
        assert!(
            Walk {
                spread: 1.5,
                ..walk
            }
            .validate()
            .is_err()
        );
        assert!(
            Walk {
                every: Duration::ZERO,
                ..walk
            }
            .validate()
            .is_err()
        );
        assert!(
            Walk {
                base: Rate::ZERO,
                ..walk
            }
            .validate()
            .is_err()
        );
    }
}

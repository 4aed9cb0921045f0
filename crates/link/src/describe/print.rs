//! Printer of the text form of a config.

use std::{fmt, str::FromStr};

use crate::{
    Config, Jitter, Loss, Queue, RateSource,
    describe::{
        DescribeError, no_traces, parse,
        value::{write_bytes, write_probability, write_rate, write_time},
    },
    jitter,
    loss::GilbertElliott,
    queue::Limit,
    source::Playback,
};

impl FromStr for Config {
    type Err = DescribeError;

    /// As [`parse`], without traces.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &mut no_traces)
    }
}

impl fmt::Display for Config {
    /// In the form that [`parse`] reads: rate and delay, then the values that differ from the default. Parses to an
    /// equal config, given the same traces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        write!(f, "rate={}, delay={}", self.rate, write_time(self.delay))?;
        if self.jitter != default.jitter {
            write!(f, ", jitter={}", self.jitter)?;
        }
        if self.loss != default.loss {
            write!(f, ", loss={}", self.loss)?;
        }
        let Queue {
            limit,
            mark_above_bytes,
        } = self.queue;
        if limit != default.queue.limit {
            write!(f, ", queue={limit}")?;
        }
        if let Some(bytes) = mark_above_bytes {
            write!(f, ", ecn={}", write_bytes(bytes))?;
        }
        if self.mtu_bytes != default.mtu_bytes {
            write!(f, ", mtu={}", write_bytes(self.mtu_bytes as u64))?;
        }
        for outage in &self.outages {
            let (from, to) = (write_time(outage.from), write_time(outage.to));
            write!(f, ", outage={from} to {to}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RateSource {
    /// In the form of the value of `rate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Constant(rate) => f.write_str(&write_rate(*rate)),
            Self::Walk(walk) => {
                let base = write_rate(walk.base);
                let spread = write_probability(walk.spread);
                write!(f, "{base} +- {spread} every {}", write_time(walk.every))
            }
            Self::Trace(playback) => write_playback(f, playback),
        }
    }
}

fn write_playback(f: &mut fmt::Formatter<'_>, playback: &Playback) -> fmt::Result {
    let name = playback.trace.name();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        write!(f, "trace {name}")?;
    } else {
        write!(f, "trace \"{name}\"")?;
    }
    if playback.scale != 1.0 {
        write!(f, " x{}", playback.scale)?;
    }
    if !playback.start.is_zero() {
        write!(f, " from {}", write_time(playback.start))?;
    }
    Ok(())
}

impl fmt::Display for Jitter {
    /// In the form of the value of `jitter`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some { shape, reorders } = self else {
            return f.write_str("none");
        };
        match shape {
            jitter::Shape::Uniform(most) => f.write_str(&write_time(*most))?,
            jitter::Shape::Normal(deviation) => write!(f, "normal {}", write_time(*deviation))?,
            jitter::Shape::Gaussian(deviation) => {
                write!(f, "gaussian {}", write_time(*deviation))?;
            }
        }
        f.write_str(if *reorders { " reordering" } else { "" })
    }
}

impl fmt::Display for Loss {
    /// In the form of the value of `loss`: in bursts, if that parses to the same model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Random { probability } => f.write_str(&write_probability(*probability)),
            Self::GilbertElliott(model) => match as_bursts(self, model) {
                Some((rate, burst)) => {
                    write!(f, "{} in bursts of {burst}", write_probability(rate))
                }
                None => write!(
                    f,
                    "gilbert {}/{}/{}/{}",
                    write_probability(model.good_to_bad),
                    write_probability(model.bad_to_good),
                    write_probability(model.loss_good),
                    write_probability(model.loss_bad),
                ),
            },
            Self::Doubling(model) => write!(
                f,
                "doubling {}/{}/{}",
                write_probability(model.start),
                write_probability(model.decay),
                model.burst_max,
            ),
        }
    }
}

/// The two parameters from which [`Loss::bursts`] makes exactly this model.
fn as_bursts(loss: &Loss, model: &GilbertElliott) -> Option<(f64, f64)> {
    let short = |number: f64| (number * 1e9).round() / 1e9;
    let (rate, burst) = (short(loss.rate_mean()), short(1.0 / model.bad_to_good));
    (Loss::bursts(rate, burst).as_ref() == Ok(loss)).then_some((rate, burst))
}

impl fmt::Display for Limit {
    /// In the form of the value of `queue`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&write_bytes(*bytes)),
            Self::Time(time) => f.write_str(&write_time(*time)),
        }
    }
}

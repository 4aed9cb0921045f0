//! Parameters of `verb`, and presets for several technologies.

use std::{fmt, time::Duration};

use anabranch_base::{Rate, duration};

use super::ParseControllerError;

/// Parameters of the rate-based controller with plateaus [Horde §7.4.1].
///
/// A preset, `cdma2000` by default; for a network that differs, individual parameters can be replaced:
/// `verb:lte,last=40 Mbit/s,rise=80 ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verb {
    /// Rates at which it tries to settle.
    pub plateaus: Plateaus,
    /// Initial rate; doubled until it reaches the channel's rate.
    pub start: Rate,
    /// The coarse timer: goodput is measured over this time (at least two round trips), and the rate is reset to it.
    pub period: Duration,
    /// Growth of the round trip, over the shortest recent one, at which it backs off. Must exceed the variation of the
    /// technology itself, or it backs off without need.
    pub rise: Duration,
    /// Fraction of packets whose loss is not taken for congestion, 0 to 0.5.
    pub loss: f64,
}

/// Rates from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateaus {
    /// The lowest rate; the controller never sends more slowly.
    pub first: Rate,
    /// Highest rate of the technology: probing beyond it is pointless.
    pub last: Rate,
    /// Spacing of the plateaus.
    pub step: Step,
}

/// Distance from one plateau to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Fixed difference.
    By(Rate),
    /// Fixed factor, above 1.
    Times(f64),
}

/// A preset's name and parameters.
const PRESETS: [(&str, Verb); 4] = [
    ("cdma2000", Verb::CDMA2000),
    ("lte", Verb::LTE),
    ("5g", Verb::NR),
    ("satellite", Verb::SATELLITE),
];

impl Verb {
    /// CDMA2000 1xRTT, as published: plateaus 5 kbit/s apart from 5 to 133 [Horde §7.4.1, note 18]. The thesis gives no
    /// other constant; round trips there vary by σ = 221 ms around 850 ms (Figure A-10a) and about 1 % of packets are
    /// lost in bursts (§A.3.7).
    pub const CDMA2000: Self = Self {
        plateaus: Plateaus {
            first: Rate::from_kbps(5),
            last: Rate::from_kbps(133),
            step: Step::By(Rate::from_kbps(5)),
        },
        start: Rate::from_kbps(40),
        period: Duration::from_secs(4),
        rise: Duration::from_millis(600),
        loss: 0.05,
    };
    /// LTE, measured on recordings; see `docs/results/congestion.md`.
    pub const LTE: Self = Self {
        plateaus: Plateaus {
            first: Rate::from_kbps(100),
            last: Rate::from_mbps(150),
            step: Step::Times(1.25),
        },
        start: Rate::from_mbps(2),
        period: Duration::from_millis(150),
        rise: Duration::from_millis(60),
        loss: 0.05,
    };
    /// 5G; as LTE, but up to 2 Gbit/s.
    pub const NR: Self = Self {
        plateaus: Plateaus {
            first: Rate::from_kbps(200),
            last: Rate::from_mbps(2_000),
            step: Step::Times(1.25),
        },
        start: Rate::from_mbps(4),
        ..Self::LTE
    };
    /// Satellites in low Earth orbit; see `docs/results/congestion.md`.
    pub const SATELLITE: Self = Self {
        plateaus: Plateaus {
            first: Rate::from_kbps(200),
            last: Rate::from_mbps(400),
            step: Step::Times(1.25),
        },
        start: Rate::from_mbps(4),
        period: Duration::from_millis(150),
        rise: Duration::from_millis(60),
        loss: 0.08,
    };

    pub(super) fn parse(text: &str) -> Result<Self, ParseControllerError> {
        let mut parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let refused = |text: &str, expected| ParseControllerError::Parameters {
            name: "verb",
            text: text.to_owned(),
            expected,
        };
        let mut verb = Self::CDMA2000;
        let mut rest = parts.clone();
        if let Some(name) = rest.next().filter(|part| !part.contains('=')) {
            parts = rest;
            let preset = PRESETS.iter().find(|(other, _)| *other == name);
            verb = preset
                .ok_or_else(|| refused(name, "begin with one of cdma2000, lte, 5g, satellite"))?
                .1;
        }
        for part in parts {
            let words = "after the preset, write any of first, last, start (rates such as 5 kbit/s), step (a rate, or a factor such as x1.25), period, rise (such as 150 ms), as in verb:lte,last=40 Mbit/s,rise=80 ms";
            let bad = || refused(part, words);
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let value = value.trim();
            let rate = || value.parse::<Rate>().map_err(|_| bad());
            let time = || duration::parse(value).map_err(|_| bad());
            match name.trim() {
                "first" => verb.plateaus.first = rate()?,
                "last" => verb.plateaus.last = rate()?,
                "start" => verb.start = rate()?,
                "step" => {
                    verb.plateaus.step = match value.strip_prefix('x') {
                        Some(factor) => Step::Times(factor.trim().parse().map_err(|_| bad())?),
                        None => Step::By(rate()?),
                    }
                }
                "period" => verb.period = time()?,
                "rise" => verb.rise = time()?,
                _ => return Err(bad()),
            }
        }
        verb.validate()?;
        Ok(verb)
    }

    fn validate(&self) -> Result<(), ParseControllerError> {
        let range = |parameter, value: String, range| {
            Err(ParseControllerError::Range {
                name: "verb",
                parameter,
                value,
                range,
            })
        };
        let Plateaus { first, last, step } = self.plateaus;
        if first < Rate::from_bps(1_000) {
            return range("first", first.to_string(), "at least 1 kbit/s");
        }
        if last < first || last > Rate::from_mbps(100_000) {
            return range("last", last.to_string(), "a rate from first to 100 Gbit/s");
        }
        let steps = match step {
            Step::By(rate) => last.as_bps() as f64 / rate.as_bps() as f64,
            Step::Times(factor) if factor.is_finite() && factor >= 1.01 => 0.0,
            Step::Times(factor) => {
                let words = "a factor of at least 1.01";
                return range("step", format!("x{factor}"), words);
            }
        };
        if steps > 10_000.0 {
            let words = "a rate that gives at most 10000 steps from first to last";
            return range("step", self.plateaus.to_step(), words);
        }
        for (name, time) in [("period", self.period), ("rise", self.rise)] {
            let least = if name == "period" { 50 } else { 1 };
            if time < Duration::from_millis(least) || time > Duration::from_secs(60) {
                let words = "50 ms to 60 s for the period, 1 ms to 60 s for the rise";
                return range(name, duration::format(time), words);
            }
        }
        Ok(())
    }
}

impl Plateaus {
    /// The plateau at `bps` or the next one below; `first` if there is none. Both in bits per second. O(1).
    pub fn at(&self, bps: f64) -> f64 {
        let (first, last) = (self.first.as_bps() as f64, self.last.as_bps() as f64);
        if bps <= first {
            return first;
        }
        // Rates computed from plateaus must match them.
        const SLACK: f64 = 1e-9;
        let plateau = match self.step {
            Step::By(step) => {
                let step = step.as_bps() as f64;
                first + ((bps - first) / step + SLACK).floor() * step
            }
            Step::Times(factor) => {
                first * factor.powf(((bps / first).ln() / factor.ln() + SLACK).floor())
            }
        };
        plateau.min(last)
    }

    /// The next plateau above `bps`; `last` if there is none. O(1).
    pub fn above(&self, bps: f64) -> f64 {
        let (first, last) = (self.first.as_bps() as f64, self.last.as_bps() as f64);
        if bps < first {
            return first;
        }
        let next = match self.step {
            Step::By(step) => self.at(bps) + step.as_bps() as f64,
            Step::Times(factor) => self.at(bps) * factor,
        };
        next.min(last)
    }

    fn to_step(self) -> String {
        match self.step {
            Step::By(rate) => format!("{} bit/s", rate.as_bps()),
            Step::Times(factor) => format!("x{factor}"),
        }
    }
}

impl Default for Verb {
    fn default() -> Self {
        Self::CDMA2000
    }
}

impl fmt::Display for Verb {
    /// Prints the closest preset and the differences from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differences = |preset: &Self| {
            let rate = |name: &str, rate: Rate| format!("{name}={} bit/s", rate.as_bps());
            let time = |name: &str, time: Duration| format!("{name}={} ms", time.as_millis());
            let (ours, its) = (&self.plateaus, &preset.plateaus);
            [
                (ours.first != its.first).then(|| rate("first", ours.first)),
                (ours.last != its.last).then(|| rate("last", ours.last)),
                (self.start != preset.start).then(|| rate("start", self.start)),
                (ours.step != its.step).then(|| format!("step={}", ours.to_step())),
                (self.period != preset.period).then(|| time("period", self.period)),
                (self.rise != preset.rise).then(|| time("rise", self.rise)),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<String>>()
        };
        let (name, differing) = PRESETS
            .iter()
            .filter(|(_, preset)| preset.loss == self.loss)
            .map(|(name, preset)| (*name, differences(preset)))
            .min_by_key(|(_, differing)| differing.len())
            .unwrap_or(("cdma2000", differences(&Self::CDMA2000)));
        write!(f, "verb:{name}")?;
        differing.iter().try_for_each(|words| write!(f, ",{words}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_published_plateaus() {
        let plateaus = Verb::CDMA2000.plateaus;
        assert_eq!(plateaus.at(3_000.0), 5_000.0);
        assert_eq!(plateaus.at(119_999.0), 115_000.0);
        assert_eq!(plateaus.above(120_000.0), 125_000.0);
        assert_eq!(plateaus.above(130_000.0), 133_000.0);
        assert_eq!(plateaus.above(133_000.0), 133_000.0);
    }

    proptest! {
        /// Every step from plateau to plateau leads upwards, and the steps end at the last.
        #[test]
        fn plateaus_lead_from_first_to_last(preset in 0usize..PRESETS.len(), bps in 1.0f64..1e11) {
            let plateaus = PRESETS[preset].1.plateaus;
            let (first, last) = (plateaus.first.as_bps() as f64, plateaus.last.as_bps() as f64);
            let below = plateaus.at(bps);
            prop_assert!((first..=last).contains(&below) && (below <= bps || below == first));
            let above = plateaus.above(bps);
            prop_assert!(above > bps || above == last);
            let mut rate = first;
            for _ in 0..200 {
                let next = plateaus.above(rate);
                prop_assert!(next > rate || next == last);
                rate = next;
            }
            prop_assert_eq!(rate, last);
        }
    }
}
